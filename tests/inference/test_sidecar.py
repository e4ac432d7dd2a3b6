"""What a label map says of its making, and which maps a prediction replaces by that."""

import hashlib
import json
import shutil
from contextlib import contextmanager

import h5py
import numpy as np
import pytest
import torch

from discs import tiny_method
from made_runs import config, data
from mixseg import __version__
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.datasets import formats
from mixseg.datasets.formats import label_files
from mixseg.inference.folder import predict_folder
from mixseg.inference.sidecar import RECORD, Sidecar
from mixseg.runs.checkpoint import weights_hash
from mixseg.runs.device import Hardware
from mixseg.training.train import train

CPU = Hardware("cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs and two images of 2 x 3 x 5 mm."""
    folder = tmp_path_factory.mktemp("slices")
    for seed in range(2):
        train(config(steps=2, seed=seed), data(), folder / f"run-{seed}", hardware=CPU)
    for name in "ab":
        voxels = np.random.default_rng(ord(name)).normal(size=(16, 16, 2)).astype(np.float32)
        formats.write(folder / "images" / f"{name}.nii.gz", voxels, affine=np.diag([2.0, 3.0, 5.0, 1.0]))
    return folder


def predict(made, out, *, run=0, images="images", **options):
    return predict_folder(made / f"run-{run}", made / images, out, device="cpu", **options)


def command(made, out, *more):
    words = ["predict", str(made / "run-0"), "-i", str(made / "images"), "-o", str(out), "-device", "cpu"]
    return main([*words, *more])


def content(path):
    return json.loads(path.read_text())


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_label_map_says_what_it_was_made_from(made, tmp_path):
    predict(made, tmp_path, checkpoint="last", entropy=True)
    found = content(tmp_path / "b.mixseg.json")
    voxels = int((formats.read(tmp_path / "b.nii.gz").array == 1).sum())
    image = hashlib.sha256((made / "images" / "b.nii.gz").read_bytes()).hexdigest()
    model, settings = found.pop("model"), found.pop("config")
    assert found == {
        "checkpoint": "last",
        "step": 2,
        "output": "bottom",
        "image": [image],
        "maps": ["labels", "entropy"],
        "volumes_ml": {"disc": round(voxels * 0.03, 4)},
        "format": "nii.gz",
        "nested": {},
        "provenance": {},
        "mixseg": __version__,
    }
    assert content(tmp_path / "a.mixseg.json")["model"] == model
    predict(made, tmp_path / "other", run=1, checkpoint="last")
    other = content(tmp_path / "other" / "b.mixseg.json")
    assert other["model"] != model
    assert other["config"] != settings, "it has another seed"


def test_it_names_no_scan_and_no_folder_and_no_volume_where_the_size_of_a_voxel_is_lost(made, tmp_path):
    with h5py.File(tmp_path / "MILLER_JANE.h5", "w") as file:
        file["image"] = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)
    predict_folder(made / "run-0", tmp_path / "MILLER_JANE.h5", tmp_path / "out", device="cpu")
    text = (tmp_path / "out" / "MILLER_JANE.mixseg.json").read_text()
    assert json.loads(text)["volumes_ml"] is None
    assert "MILLER" not in text
    assert "/" not in text


@contextmanager
def stopped_at(name):
    """Inside, a prediction ends where it would write this file."""
    write = label_files.write

    def stopped(path, *arguments, **options):
        if path.name == name:
            raise KeyboardInterrupt
        write(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_files, "write", stopped)
        yield


def test_a_prediction_that_was_stopped_between_sidecar_and_map_is_repeated(made, tmp_path):
    predict(made, tmp_path / "whole")
    with stopped_at("b.nii.gz"), pytest.raises(KeyboardInterrupt, match="the same command begins again"):
        predict(made, tmp_path / "out")
    assert sorted(everything(tmp_path / "out")) == ["a.mixseg.json", "a.nii.gz", "b.mixseg.json", "classes.json"]
    assert [path.name for path in predict(made, tmp_path / "out")] == ["a.nii.gz", "b.nii.gz"]
    assert everything(tmp_path / "out") == everything(tmp_path / "whole")


def test_a_sidecar_never_lies_beside_a_map_that_is_not_its_own(made, tmp_path):
    predict(made, tmp_path)
    before = everything(tmp_path)
    with stopped_at("b.nii.gz"), pytest.raises(KeyboardInterrupt):
        predict(made, tmp_path, run=1, overwrite=True)
    assert content(tmp_path / "b.mixseg.json")["model"] != json.loads(before["b.mixseg.json"])["model"]
    assert not (tmp_path / "b.nii.gz").exists()
    predict(made, tmp_path, run=1)  # a is its own by now


@pytest.mark.parametrize("name", ["b", "b_entropy"])
def test_a_file_that_no_prediction_left_is_not_overwritten(made, tmp_path, capsys, name):
    formats.write(tmp_path / f"{name}.nii.gz", np.ones((16, 16, 2), np.uint8))
    before = (tmp_path / f"{name}.nii.gz").read_bytes()
    assert command(made, tmp_path, "--entropy") == 4
    said = f"{tmp_path / name}.nii.gz would be overwritten, and mixseg predict did not write it (no "
    assert capsys.readouterr().err.startswith(said)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.nii.gz"]
    assert (tmp_path / f"{name}.nii.gz").read_bytes() == before
    assert command(made, tmp_path, "--entropy", "--overwrite") == 0
    assert (tmp_path / f"{name}.nii.gz").read_bytes() != before
    assert command(made, tmp_path, "--entropy") == 0


def test_a_prediction_into_a_folder_does_not_make_all_that_lies_in_it_its_own(made, tmp_path):
    run, images = made / "run-0", made / "images"
    predict_folder(run, images / "a.nii.gz", tmp_path, device="cpu")
    (tmp_path / "b.nii.gz").write_text("drawn by hand")
    with pytest.raises(MixsegError, match=r"b\.nii\.gz would be overwritten, and mixseg predict did not write it"):
        predict_folder(run, images, tmp_path, device="cpu")
    assert (tmp_path / "b.nii.gz").read_text() == "drawn by hand"
    predict_folder(run, images / "a.nii.gz", tmp_path, device="cpu")


def test_names_of_classes_that_no_prediction_left_are_not_overwritten(made, tmp_path):
    (tmp_path / "classes.json").write_text('["background", "theirs"]')
    with pytest.raises(MixsegError, match=r"classes\.json would be overwritten"):
        predict(made, tmp_path)
    assert (tmp_path / "classes.json").read_text() == '["background", "theirs"]'
    predict(made, tmp_path, overwrite=True)
    assert content(tmp_path / "classes.json") == ["background", "disc"]


def another_model(made):
    return {"run": 1}


def another_output(made):
    return {"branch": "teacher"}


def another_image(made):
    shutil.copytree(made / "images", made / "changed", dirs_exist_ok=True)
    image = formats.read(made / "images" / "b.nii.gz")
    formats.write(made / "changed" / "b.nii.gz", image.array + 1, affine=image.affine)
    return {"images": "changed"}


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        (another_model, r"a\.nii\.gz was made by another model, the (best|last) checkpoint \(step \d\)"),
        (another_output, r"a\.nii\.gz was made from another output, bottom"),
        (another_image, r"b\.nii\.gz was made from another image"),
    ],
)
def test_what_was_made_otherwise_is_replaced_on_request_alone(made, tmp_path, change, clause):
    predict(made, tmp_path)
    before, options = everything(tmp_path), change(made)
    with pytest.raises(MixsegError, match=rf"{clause}: choose another -o, or replace it with --overwrite\.$"):
        predict(made, tmp_path, **options)
    assert everything(tmp_path) == before, "not even the first map, which would fit"
    predict(made, tmp_path, overwrite=True, **options)
    assert everything(tmp_path)["b.mixseg.json"] != before["b.mixseg.json"]
    predict(made, tmp_path, **options)


def test_weights_have_one_hash_wherever_they_are_and_another_when_one_number_changes():
    method = tiny_method("kl-ent")
    whole = weights_hash(method)
    assert weights_hash(method.to(memory_format=torch.channels_last)) == whole == weights_hash(tiny_method("kl-ent"))
    with torch.no_grad():
        next(method.parameters()).view(-1)[0] += 1e-6
    assert weights_hash(method) != whole


def test_other_windows_make_other_maps(tmp_path):
    train(config(dims=3, steps=2), data(dims=3), tmp_path / "run-0", hardware=CPU)
    formats.write(tmp_path / "images" / "a.nii.gz", np.random.default_rng(0).normal(size=(9, 9, 9)))
    predict(tmp_path, tmp_path / "out")
    with pytest.raises(MixsegError, match="was made with other settings, of its windows for example: choose"):
        predict(tmp_path, tmp_path / "out", overlap=0.75)


def test_best_and_last_are_one_model_where_they_have_the_same_weights(made, tmp_path):
    shutil.copytree(made / "run-0", tmp_path / "run-0")
    shutil.copy(tmp_path / "run-0" / "last.pt", tmp_path / "run-0" / "best.pt")
    for checkpoint in ("best", "last"):
        predict_folder(tmp_path / "run-0", made / "images", tmp_path / "out", checkpoint=checkpoint, device="cpu")
        assert content(tmp_path / "out" / "a.mixseg.json")["checkpoint"] == checkpoint


def test_maps_of_an_earlier_version_are_its_own_as_they_were_then(made, tmp_path):
    predict(made, tmp_path, run=1)
    for sidecar in tmp_path.glob("*.mixseg.json"):
        sidecar.unlink()
    (tmp_path / RECORD).write_text("classes.json\na.nii.gz\nb.nii.gz\n")
    (tmp_path / "b_entropy.nii.gz").write_text("somebody's")
    with pytest.raises(MixsegError, match=r"b_entropy\.nii\.gz would be overwritten, and mixseg predict did not"):
        predict(made, tmp_path, entropy=True)
    predict(made, tmp_path)
    assert Sidecar.read(tmp_path / "a.mixseg.json").maps == ("labels",)
    with pytest.raises(MixsegError, match=r"a\.nii\.gz was made by another model"):
        predict(made, tmp_path, run=1)


def test_a_map_beside_a_damaged_sidecar_is_nobodys(made, tmp_path):
    predict(made, tmp_path)
    for damaged in ("{", "[]", '{"model": "x"}', '"text"'):
        (tmp_path / "a.mixseg.json").write_text(damaged)
        with pytest.raises(MixsegError, match=r"a\.nii\.gz would be overwritten, and mixseg predict did not write it"):
            predict(made, tmp_path)
    (tmp_path / "a.nii.gz").unlink()
    with pytest.raises(MixsegError, match=r"a\.mixseg\.json would be overwritten"):
        predict(made, tmp_path)
    predict(made, tmp_path, overwrite=True)


def test_a_later_version_may_say_more(made, tmp_path):
    predict(made, tmp_path)
    path = tmp_path / "a.mixseg.json"
    path.write_text(json.dumps(content(path) | {"mixseg": "9.9", "drawn": ["disc"]}))
    predict(made, tmp_path)
    assert content(path)["mixseg"] == __version__


def test_maps_beside_the_label_map_stay_its_own(made, tmp_path):
    for options in ({"entropy": True}, {}, {"entropy": True}):
        predict(made, tmp_path, **options)
        assert set(content(tmp_path / "a.mixseg.json")["maps"]) == {"labels", "entropy"}


def test_an_image_that_cannot_be_read_any_more_keeps_its_map(made, tmp_path):
    shutil.copytree(made / "images", tmp_path / "images")
    for run in range(2):
        (tmp_path / f"run-{run}").symlink_to(made / f"run-{run}")
    predict(tmp_path, tmp_path / "out")
    before = everything(tmp_path / "out")
    (tmp_path / "images" / "a.nii.gz").unlink()
    (tmp_path / "images" / "a.nii.gz").symlink_to("nowhere")
    with pytest.raises(MixsegError, match=r"a\.nii\.gz does not exist .*\n1 of 2 images predicted"):
        predict(tmp_path, tmp_path / "out")
    assert everything(tmp_path / "out") == before
