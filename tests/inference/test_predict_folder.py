"""From images to label maps: which files are images, which weights answer, and how volumes are covered."""

import json
import shutil

import h5py
import numpy as np
import pytest
import torch

from made_runs import CLASSES, checkpoint, config, data
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.datasets import formats, load
from mixseg.datasets.layouts.images import find_images
from mixseg.inference import predictor
from mixseg.inference.folder import covered, predict_folder
from mixseg.inference.sliding_window import Windows
from mixseg.runs.device import Hardware
from mixseg.training.train import train


def touch(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"x")


def test_files_are_images_and_numbers_are_channels(tmp_path):
    touch(tmp_path, "b_0001.nii.gz", "b_0000.nii.gz", "a.nii.gz", "patient_12.mha", "notes.txt")
    found = {case.id: [source.path.name for source in case.image] for case in find_images(tmp_path)}
    assert found == {
        "a": ["a.nii.gz"],
        "b": ["b_0000.nii.gz", "b_0001.nii.gz"],
        "patient_12": ["patient_12.mha"],
    }


@pytest.mark.parametrize("twin", ["a.mha", "a_0000.nii.gz"])
def test_two_files_of_one_scan_are_not_two_channels(tmp_path, twin):
    touch(tmp_path, "a.nii.gz", twin)
    with pytest.raises(MixsegError, match=r"a.* and .*a.* are two files for one scan: rename or remove one"):
        find_images(tmp_path)


@pytest.mark.parametrize(("there", "missing"), [((0, 2), 1), ((1, 2), 0), ((1,), 0)])
def test_a_missing_channel_is_named_and_not_replaced_by_the_next(tmp_path, there, missing):
    touch(tmp_path, *(f"a_000{channel}.nii.gz" for channel in there), "b_0000.nii.gz", "b_0001.nii.gz")
    with pytest.raises(MixsegError, match=rf"a_000{missing} is missing, beside a_000[12]\.nii\.gz: add the file"):
        find_images(tmp_path, channels=2)


def test_a_link_to_nothing_is_an_image_that_cannot_be_read(slices, tmp_path, capsys):
    images = tmp_path / "images"
    shutil.copytree(slices / "images", images)
    (images / "c.nii.gz").symlink_to("annex/c.nii.gz")
    with pytest.raises(MixsegError, match=r"c\.nii\.gz does not exist \(or is a link to nothing\).*\n2 of 3 images"):
        predict_folder(slices / "run", images, tmp_path / "out", device="cpu")


def test_one_file_is_a_scan(tmp_path):
    touch(tmp_path, "a_0000.nii.gz", "a_0001.nii.gz", "b.nii.gz", "notes.txt")
    touch(tmp_path, "c_0000.nii.gz")
    for id_, name in (
        ("a_0000", "a_0000.nii.gz"),
        ("a_0001", "a_0001.nii.gz"),
        ("b", "b.nii.gz"),
        ("c", "c_0000.nii.gz"),
    ):
        (case,) = find_images(tmp_path / name, channels=1)
        assert (case.id, [source.path for source in case.image]) == (id_, [tmp_path / name])
    for name in ("notes.txt", "nowhere"):
        with pytest.raises(MixsegError, match=f"{name} is no folder, and no image: give an image, or the folder"):
            find_images(tmp_path / name)


def test_the_folder_above_the_images_will_do_and_names_theirs(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "notes").mkdir()
    with pytest.raises(MixsegError) as caught:
        find_images(tmp_path)
    assert caught.value.code == "unknown-layout"
    touch(tmp_path / "images", "a.nii.gz")
    assert [case.id for case in find_images(tmp_path)] == ["images/a"]
    touch(tmp_path / "notes", "a.nii.gz")
    assert [case.id for case in find_images(tmp_path)] == ["images/a", "notes/a"]


def test_a_dataset_of_one_folder_is_no_folder_above_images(tmp_path):
    formats.write(tmp_path / "imagesTr" / "a_0000.nii.gz", np.zeros((4, 4, 2), np.float32))
    write_json(tmp_path / "dataset.json", {"labels": {"background": 0, "disc": 1}, "channel_names": {"0": "MR"}})
    assert [case.id for case in find_images(tmp_path)] == ["a"]


def test_images_of_another_number_of_channels_are_refused_with_the_remedy(tmp_path):
    train(config(steps=2), data(val=0), tmp_path / "run", hardware=Hardware("cpu"))
    for channel in range(2):
        formats.write(tmp_path / "imagesTr" / f"a_000{channel}.nii.gz", np.zeros((16, 16, 2), np.float32))
    write_json(tmp_path / "dataset.json", {"labels": {"background": 0}, "channel_names": {"0": "T1", "1": "T2"}})
    with pytest.raises(MixsegError, match=r"a_0000\.nii\.gz has 2 channels, and the run was trained on 1: give"):
        predict_folder(tmp_path / "run", tmp_path, tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_bad_images_are_told_one_by_one_when_all_others_are_predicted(tmp_path, capsys):
    run = train(config(steps=2), data(), tmp_path / "run", hardware=Hardware("cpu")).path
    images, out = tmp_path / "images", tmp_path / "out"
    voxels = np.random.default_rng(0).normal(size=(16, 16, 2)).astype(np.float32)
    for name in "abcd":
        formats.write(images / f"{name}.nii.gz", voxels)
    (images / "a.nii.gz").write_bytes((images / "a.nii.gz").read_bytes()[:-200])
    voxels[0, 0, 0] = np.nan
    formats.write(images / "c.nii.gz", voxels)
    assert main(["predict", str(run), "-i", str(images), "-o", str(out), "-device", "cpu"]) == 3
    assert sorted(path.name for path in out.iterdir()) == [
        "b.mixseg.json",
        "b.nii.gz",
        "classes.json",
        "d.mixseg.json",
        "d.nii.gz",
        "volumes.csv",
    ]
    first, second, summary = capsys.readouterr().err.splitlines()[-3:]
    assert "a.nii.gz cannot be read, it is truncated or damaged: copy or export it again" in first
    assert "c.nii.gz holds nan or inf in 1 of its 512 voxels: export" in second
    assert summary.startswith("2 of 4 images predicted: ")


def test_an_image_that_takes_too_much_memory_does_not_keep_the_others_from_being_predicted(tmp_path, capsys):
    run = train(config(steps=2, spacing=[1.0, 1.0]), data(), tmp_path / "run", hardware=Hardware("cpu")).path
    voxels = np.random.default_rng(0).normal(size=(16, 16, 2)).astype(np.float32)
    for name, width in (("a", 1), ("b", 1e13), ("c", 1)):  # b has 160 million million pixels of 1 mm in a row
        formats.write(tmp_path / "images" / f"{name}.nii.gz", voxels, affine=np.diag([1, width, 1, 1]))
    out = tmp_path / "out"
    assert main(["predict", str(run), "-i", str(tmp_path / "images"), "-o", str(out), "-device", "cpu"]) == 3
    assert sorted(path.name for path in out.glob("*.nii.gz")) == ["a.nii.gz", "c.nii.gz"]
    told, summary = capsys.readouterr().err.splitlines()[-2:]
    assert "b.nii.gz takes more memory than there is: check its voxel size" in told
    assert summary.startswith("2 of 3 images predicted: ")


@pytest.mark.parametrize("how", ["CPU", "GPU", "broken"])
def test_torch_without_memory_is_told_and_any_other_error_is_not_hidden(slices, tmp_path, monkeypatch, how):
    def too_large(*_, **__):
        if how == "CPU":
            torch.empty(10**15)
        raise torch.OutOfMemoryError("CUDA out of memory.") if how == "GPU" else RuntimeError("a bug")

    monkeypatch.setattr(predictor.Predictor, "on_source", too_large)
    kind, sentence = (RuntimeError, "a bug") if how == "broken" else (MixsegError, r"0 of 2 images predicted")
    with pytest.raises(kind, match=sentence):
        predict_folder(slices / "run", slices / "images", tmp_path / "out", device="cpu")


def test_names_that_lead_out_of_the_folder_write_nothing(tmp_path):
    run = train(config(steps=2), data(val=0), tmp_path / "run", hardware=Hardware("cpu"))
    formats.write(tmp_path / "images" / "a.nii.gz", np.zeros((16, 16, 2), np.float32))
    listed = {"labels": {"background": 0, "disc": 1}, "dataset": {"../../outside": {"images": ["images/a.nii.gz"]}}}
    write_json(tmp_path / "dataset.json", listed)
    place = tmp_path / "deep" / "out"
    with pytest.raises(MixsegError, match=r"scan '../../outside' in .*dataset.json"):
        predict_folder(tmp_path / "run", tmp_path, place, device="cpu")
    write_json(tmp_path / "run" / "environment.json", run.facts | {"classes": ["background", "/../../../outside"]})
    with pytest.raises(MixsegError, match=r"class '/../../../outside' in .*environment.json"):
        predict_folder(tmp_path / "run", tmp_path / "images", place, probabilities=True, device="cpu")
    assert not (tmp_path / "deep").exists()
    assert not list(tmp_path.rglob("outside*"))


def test_a_folder_that_is_no_run_is_called_so(tmp_path):
    formats.write(tmp_path / "scans" / "imagesTr" / "a_0000.nii.gz", np.zeros((4, 4, 2), np.float32))
    with pytest.raises(MixsegError, match=r"scans is no run folder \(it has no config\.json\): name the --out"):
        predict_folder(tmp_path / "scans", tmp_path / "scans", tmp_path / "out", device="cpu")


def test_a_run_without_validation_scans_predicts_with_its_last_weights(tmp_path):
    train(config(steps=2), data(val=0), tmp_path / "run", hardware=Hardware("cpu"))
    assert not (tmp_path / "run" / "best.pt").exists()
    formats.write(
        tmp_path / "images" / "a.nii.gz", np.random.default_rng(0).normal(size=(16, 16, 2)).astype(np.float32)
    )
    (written,) = predict_folder(tmp_path / "run", tmp_path / "images", tmp_path / "out", device="cpu")
    assert formats.read(written).array.shape == (16, 16, 2)
    with pytest.raises(MixsegError, match=r"best\.pt") as caught:
        predict_folder(tmp_path / "run", tmp_path / "images", tmp_path / "out", checkpoint="best", device="cpu")
    assert caught.value.code == "no-best-checkpoint"


@pytest.mark.parametrize(
    ("method", "branch"), [("kl-ent", "student (bottom)"), ("lower-bound", "network (top)"), ("ssco", "teachers")]
)
def test_it_is_said_which_output_of_which_weights_goes_where(tmp_path, capsys, method, branch):
    run = tmp_path / "run"
    train(config(method=method, steps=6, validate_every=2), data(), run, hardware=Hardware("cpu"))
    formats.write(
        tmp_path / "images" / "a.nii.gz", np.random.default_rng(0).normal(size=(16, 16, 2)).astype(np.float32)
    )
    capsys.readouterr()
    best = checkpoint(run / "best.pt")["step"]
    for asked, weights in ((None, f"best checkpoint (step {best})"), ("last", "last checkpoint (step 6)")):
        out = tmp_path / f"out-{asked}"
        predict_folder(run, tmp_path / "images", out, checkpoint=asked, device="cpu")
        said = f"The {branch} of the {weights} of {run} predicts; label maps go to {out}.\n"
        assert capsys.readouterr().out == said


def test_a_branch_that_is_asked_for_predicts(slices, tmp_path, capsys):
    maps = {}
    for branch, who in ((None, "student"), ("student", "student"), ("teacher", "teacher"), ("both", "mean of both")):
        maps[branch] = predict(slices, tmp_path / str(branch), probabilities=True, branch=branch)["a_probability_disc"]
        assert capsys.readouterr().out.startswith(f"The {who} (")
    np.testing.assert_array_equal(maps["student"], maps[None])
    assert not np.allclose(maps["teacher"], maps["student"])
    np.testing.assert_allclose(maps["both"], (maps["teacher"] + maps["student"]) / 2, atol=1e-6)


@pytest.mark.parametrize("more", [{}, {"probabilities": True}, {"entropy": True}])
def test_the_teacher_is_not_computed_for_an_answer_of_the_student(slices, tmp_path, decoded, more):
    predict(slices, tmp_path / "out", **more)
    assert set(decoded) == {1}


@pytest.mark.parametrize("method", ["single", "glmi", "ua-mt"])
def test_a_branch_of_a_method_with_one_answer_is_refused(tmp_path, method):
    train(config(method=method, steps=2), data(val=0, unlabeled=2), tmp_path / "run", hardware=Hardware("cpu"))
    formats.write(tmp_path / "images" / "a.nii.gz", np.zeros((16, 16, 2), np.float32))
    for branch in ("student", "teacher", "both"):
        with pytest.raises(MixsegError, match=f"was trained by {method}, which has one answer: name no branch"):
            predict(tmp_path, tmp_path / "out", branch=branch)
    with pytest.raises(MixsegError, match="Unknown branch 'studnet': did you mean 'student'"):
        predict(tmp_path, tmp_path / "out", branch="studnet")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    """A run of 8x8x8 patches, and two images, the second smaller than a patch along one axis."""
    folder = tmp_path_factory.mktemp("volumes")
    train(config(dims=3, steps=4), data(dims=3), folder / "run", hardware=Hardware("cpu"))
    rng = np.random.default_rng(0)
    for name, size in (("a", (20, 13, 11)), ("b", (9, 16, 5))):
        formats.write(folder / "images" / f"{name}.nii.gz", rng.normal(100, 20, size).astype(np.float32))
    return folder


def predict(folder, out, **options):
    written = predict_folder(folder / "run", folder / "images", out, device="cpu", **options)
    return {path.name.removesuffix(".nii.gz"): formats.read(path).array for path in written}


def test_an_image_whose_range_a_voxel_takes_up_is_told_before_its_label_map(volumes, tmp_path, capsys):
    voxels = np.random.default_rng(0).normal(100, 20, (24, 24, 16)).astype(np.float32)
    voxels[0, 0, 0] = 30000
    formats.write(tmp_path / "images" / "c.nii.gz", voxels)
    for images, told in ((volumes / "images", False), (tmp_path / "images", True)):
        predict_folder(volumes / "run", images, tmp_path / f"out-{told}", device="cpu")
        assert ("1 scan (c) is nearly of one grey" in capsys.readouterr().err) == told


def test_label_maps_of_volumes_are_the_class_with_the_highest_probability(volumes, tmp_path):
    alone = predict(volumes, tmp_path / "alone")
    more = predict(volumes, tmp_path / "more", probabilities=True, entropy=True)
    assert set(alone) == {"a", "b"}
    for name, labels in alone.items():
        probs = np.stack([more[f"{name}_probability_{label}"] for label in ("background", "disc")])
        clear = np.abs(probs[1] - probs[0]) > 1e-5
        assert clear.mean() > 0.99
        assert np.array_equal(labels[clear], probs.argmax(axis=0)[clear])
        assert np.array_equal(labels, more[name])
        entropy = -(probs * np.log(probs.clip(1e-12))).sum(axis=0)
        np.testing.assert_allclose(more[f"{name}_entropy"], entropy, atol=1e-4)


def test_what_a_volume_takes_is_said_before_it_starts(volumes, tmp_path, capsys):
    predict(volumes, tmp_path / "half")
    said = capsys.readouterr().err
    assert "20 x 13 x 11 voxels: 24 windows of 8 x 8 x 8, 0.0 MB beside the network's own." in said
    assert "9 x 16 x 5 voxels: 6 windows of 8 x 8 x 8" in said
    predict(volumes, tmp_path / "none", overlap=0.0)
    assert "20 x 13 x 11 voxels: 12 windows of 8 x 8 x 8" in capsys.readouterr().err


def test_other_windows_give_other_probabilities(volumes, tmp_path):
    kinds = {"as trained": {}, "uniform": {"window": "uniform"}, "closer": {"overlap": 0.75}}
    found = [predict(volumes, tmp_path / name, probabilities=True, **how) for name, how in kinds.items()]
    values = [each["a_probability_disc"] for each in found]
    assert not np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])
    assert np.abs(values[0] - values[2]).max() < 0.5


def test_an_overlap_is_a_share_of_the_patch():
    asked = config(dims=3, patch=[112, 112, 80], stride=[18, 18, 4], window="uniform")
    assert covered(asked, window=None, overlap=None) == asked
    half = covered(asked, window="gaussian", overlap=0.5)
    assert Windows.of(half) == Windows((112, 112, 80), (56, 56, 40), "gaussian")
    assert covered(asked, window=None, overlap=0.999).inference.stride == (1, 1, 1)
    for wrong in (-0.1, 1.0, 50):
        with pytest.raises(MixsegError, match="give a share from 0 to below 1"):
            covered(asked, window=None, overlap=wrong)


@pytest.mark.parametrize(("flag", "how"), [("--window", {"window": "uniform"}), ("--overlap", {"overlap": 0.5})])
def test_slices_have_no_windows(flag, how):
    with pytest.raises(MixsegError, match=f"without windows: leave {flag} out"):
        covered(config(), **{"window": None, "overlap": None, **how})


def test_a_resampled_volume_is_brought_back_by_its_probabilities_unless_they_are_too_many(tmp_path, monkeypatch):
    settings = {"dims": 3, "steps": 4, "spacing": [1.0, 1.0, 1.0]}
    train(config(**settings), data(dims=3), tmp_path / "run", hardware=Hardware("cpu"))
    image = np.random.default_rng(0).normal(100, 20, (24, 22, 9)).astype(np.float32)
    formats.write(tmp_path / "images" / "a.nii.gz", image, affine=np.diag([0.5, 0.5, 2.0, 1.0]))
    smooth = predict(tmp_path, tmp_path / "smooth", probabilities=True)
    assert np.array_equal(predict(tmp_path, tmp_path / "alone")["a"], smooth["a"])
    monkeypatch.setattr(predictor, "MOST_PROBABILITIES", 1000)
    thrifty = predict(tmp_path, tmp_path / "thrifty")["a"]
    assert thrifty.shape == image.shape
    assert (thrifty == smooth["a"]).mean() > 0.9


def test_a_number_belongs_to_the_name_of_an_image_of_a_run_of_one_channel(tmp_path):
    for name in ("case_0001", "case_0002", "._case_0001"):
        formats.write(tmp_path / f"{name}.nii.gz", np.zeros((4, 4, 1), np.uint8))
    formats.write(tmp_path / "other_0000.nii.gz", np.zeros((4, 4, 1), np.uint8))
    assert [case.id for case in find_images(tmp_path, channels=1)] == ["case_0001", "case_0002", "other"]
    with pytest.raises(MixsegError, match=r"case_0000 is missing, beside case_0001"):
        find_images(tmp_path, channels=2)


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (["heart_0000", "heart_0001", "heart_0002"], []),
        (["heart_0000"], ["heart_0000"]),
        (["heart_0000"], ["heart"]),
        (["heart_0000", "liver_0000", "liver_0003"], []),
    ],
)
def test_images_of_one_channel_are_called_as_the_dataset_calls_them(tmp_path, images, labels):
    for folder, names in (("imagesTr", images), ("labelsTr", labels)):
        for name in names:
            formats.write(tmp_path / folder / f"{name}.nii.gz", np.zeros((4, 4, 1), np.uint8))
    write_json(tmp_path / "dataset.json", {"labels": {"background": 0, "LV": 1}})
    expected = [(case.id, case.image) for case in load(tmp_path)]
    for place in (tmp_path, tmp_path / "imagesTr"):
        assert [(case.id, case.image) for case in find_images(place, channels=1)] == expected
    singles = [find_images(tmp_path / "imagesTr" / f"{name}.nii.gz", channels=1) for name in images]
    assert [(case.id, case.image) for (case,) in singles] == expected


@pytest.mark.parametrize("layout", ["nnunet", "h5"])
def test_a_dataset_is_predicted_whatever_its_labels_mean(tmp_path, layout):
    image, labels = np.zeros((4, 4, 2), np.float32), np.arange(32, dtype=np.uint8).reshape(4, 4, 2) % 3 * 4
    if layout == "nnunet":
        formats.write(tmp_path / "imagesTr" / "a_0000.nii.gz", image)
        formats.write(tmp_path / "labelsTr" / "a.nii.gz", labels)
        write_json(tmp_path / "dataset.json", {"labels": {"strokes": 4, "background": 8}})
    else:
        (tmp_path / "data").mkdir()
        with h5py.File(tmp_path / "data" / "a.h5", "w") as file:
            file["image"], file["label"] = image.T, labels.T
    with pytest.raises(MixsegError, match="Pass --unlabeled ID"):
        load(tmp_path)
    (case,) = find_images(tmp_path, channels=1)
    assert (case.id, formats.read_image(case.image[0]).array.shape) == ("a", (4, 4, 2))


def test_h5_files_in_a_folder_are_read_as_training_would_read_it(tmp_path):
    image = np.random.default_rng(0).random((6, 4, 2)).astype(np.float32)
    for name in ("a", "b"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["image"] = image.T
    every, (one,) = find_images(tmp_path, channels=1), find_images(tmp_path / "b.h5", channels=1)
    assert [case.id for case in every] == ["a", "b"]
    assert one == every[1]
    assert np.array_equal(formats.read_image(one.image[0]).array, image)


def test_h5_files_among_images_are_refused_and_their_suffix_is_known_in_capitals(tmp_path):
    with h5py.File(tmp_path / "a.H5", "w") as file:
        file["image"] = np.zeros((6, 5, 4), np.float32)
    (case,) = find_images(tmp_path, channels=1)
    assert formats.read_image(case.image[0]).array.shape == (4, 5, 6)
    touch(tmp_path, "preview.png")
    with pytest.raises(MixsegError, match=r"a\.H5 lies beside preview\.png, .* put them in folders of their own"):
        find_images(tmp_path, channels=1)


def test_a_label_map_never_takes_the_place_of_its_image(tmp_path):
    run = train(config(steps=2), data(), tmp_path / "run", hardware=Hardware("cpu")).path
    image = tmp_path / "images" / "a.nii.gz"
    formats.write(image, np.zeros((16, 16, 2), np.uint8))
    before = image.read_bytes()
    with pytest.raises(MixsegError, match=r"The label map of .*a.nii.gz would take its place"):
        predict_folder(run, image.parent, image.parent, device="cpu")
    assert image.read_bytes() == before
    predict_folder(run, image.parent, tmp_path / "out", device="cpu")
    assert json.loads((tmp_path / "out" / "classes.json").read_text()) == list(CLASSES)


def test_label_maps_are_not_written_where_they_would_be_taken_for_scans(slices, tmp_path):
    images = tmp_path / "imagesTr"
    images.mkdir()
    for name in "ab":
        (images / f"{name}_0000.nii.gz").symlink_to(slices / "images" / f"{name}.nii.gz")
    with pytest.raises(MixsegError, match=r"imagesTr, beside their images, would be taken for scans: choose another"):
        predict_folder(slices / "run", images, images, device="cpu")
    assert len(list(images.iterdir())) == 2
    predict_folder(slices / "run", images / "a_0000.nii.gz", images, device="cpu")  # one file, by its name
    assert (images / "a.nii.gz").exists()


@pytest.fixture(scope="module")
def slices(tmp_path_factory):
    """A run and two images."""
    folder = tmp_path_factory.mktemp("slices")
    train(config(steps=2), data(), folder / "run", hardware=Hardware("cpu"))
    for name in "ab":
        voxels = np.random.default_rng(ord(name)).normal(size=(16, 16, 2)).astype(np.float32)
        formats.write(folder / "images" / f"{name}.nii.gz", voxels)
    return folder


def test_maps_that_are_not_written_again_are_named(slices, tmp_path, capsys):
    predict(slices, tmp_path, entropy=True, probabilities=True)
    assert "Left over" not in capsys.readouterr().out
    predict(slices, tmp_path, probabilities=True)
    said = f"Left over in {tmp_path} from an earlier prediction (2): a_entropy.nii.gz, b_entropy.nii.gz\n"
    assert said in capsys.readouterr().out
    predict(slices, tmp_path)
    listed = "a_entropy.nii.gz, a_probability_background.nii.gz, a_probability_disc.nii.gz, b_entropy.nii.gz, ..."
    assert f"(6): {listed}\n" in capsys.readouterr().out


def test_a_run_that_is_not_finished_is_called_so(slices, tmp_path, capsys):
    shutil.copytree(slices / "run", tmp_path / "run")
    (tmp_path / "run" / "finished.json").unlink()
    predict_folder(tmp_path / "run", slices / "images" / "a.nii.gz", tmp_path / "out", device="cpu")
    said = f"{tmp_path / 'run'} is not finished: train it to its end, step 2, for a better answer."
    assert capsys.readouterr().out.splitlines()[1:] == [said]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"a.mixseg.json", "a.nii.gz", "classes.json", "volumes.csv"}
