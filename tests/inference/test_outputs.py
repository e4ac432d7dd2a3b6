"""Label maps in every format: what one program writes another reads, and what lies there is replaced or stays."""

import csv
import json
import shutil

import nibabel as nib
import numpy as np
import pytest
import slicerio

from made_runs import config, data
from mixseg.cli import main
from mixseg.core.errors import MixsegError, UsageError
from mixseg.core.files import write_json
from mixseg.core.types import Source
from mixseg.datasets import formats, load
from mixseg.datasets.formats.label_files import ANY, FORMATS, Segmented, format_like
from mixseg.datasets.labels import LabelFlags
from mixseg.evaluation.evaluate import evaluate
from mixseg.inference.folder import predict_folder
from mixseg.inference.targets import nesting
from mixseg.runs.device import Hardware
from mixseg.training.train import train

CLASSES = ("background", "liver", "lesion", "cyst", "vessel")
OBLIQUE = nib.affines.from_matvec(
    nib.eulerangles.euler2mat(0.2, -0.1, 0.4) @ np.diag([-0.9, 1.1, 3.2]), (-31.5, 12.25, 7.75)
)
VOXEL_ML = 0.9 * 1.1 * 3.2 / 1000


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, and two oblique images of one slice, which every format can hold."""
    folder = tmp_path_factory.mktemp("formats")
    train(config(steps=2), data(val=0), folder / "run", hardware=Hardware("cpu"))
    for name in "ab":
        voxels = np.random.default_rng(ord(name)).normal(size=(16, 16, 1)).astype(np.float32)
        formats.write(folder / "images" / f"{name}.nii.gz", voxels, affine=OBLIQUE)
    predict_folder(folder / "run", folder / "images", folder / "masks", device="cpu")
    return folder


def predict(made, out, images="images", **options):
    return predict_folder(made / "run", made / images, out, device="cpu", **options)


def command(made, out, *more):
    words = ["predict", str(made / "run"), "-i", str(made / "images"), "-o", str(out), "-device", "cpu"]
    return main([*words, *more])


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "dicom-seg"])  # it is for DICOM series alone
def test_every_format_is_written_read_scored_and_replaced_by_itself(made, tmp_path, name):
    out, row = tmp_path / "out", FORMATS[name]
    assert predict(made, out, format=name) == [out / f"a{row.suffix}", out / f"b{row.suffix}"]
    assert json.loads((out / "a.mixseg.json").read_text())["format"] == name
    expected = formats.read(made / "masks" / "a.nii.gz")
    found = formats.read(out / f"a{row.suffix}")
    assert (found.array == expected.array).all()
    if found.spacing_known:
        np.testing.assert_allclose(found.affine, expected.affine, atol=1e-5)
    for predictions, references in ((out, made / "masks"), (made / "masks", out)):
        rows = evaluate(predictions, references).rows
        assert [(row.case, row.label, row.dsc) for row in rows] == [("a", "disc", 1.0), ("b", "disc", 1.0)]
    maps = predict(made, out, format=name, entropy=True)
    assert [path.name for path in maps if path.name.startswith("b_")] == [f"b_entropy{row.values}"]
    assert len(evaluate(out, made / "masks").rows) == 2
    before = everything(out)
    predict(made, out, format=name, entropy=True)
    assert everything(out) == before
    (out / "b.mixseg.json").unlink()
    with pytest.raises(MixsegError) as caught:
        predict(made, out, format=name)
    assert (caught.value.code, caught.value.fields["file"]) == ("would-overwrite", out / f"b{row.suffix}")


def test_each_image_keeps_its_file_type(made, tmp_path):
    image = formats.read(made / "images" / "a.nii.gz")
    kept = {".nii": ".nii", ".nii.gz": ".nii.gz", ".nrrd": ".nrrd", ".mha": ".mha", ".png": ".png"}
    for number, suffix in enumerate(kept):
        voxels = (np.abs(image.array) * 50).astype(np.uint8)
        formats.write(tmp_path / "images" / f"scan{number}{suffix}", voxels, affine=image.affine)
    written = predict_folder(made / "run", tmp_path / "images", tmp_path / "out", device="cpu")
    assert [path.name for path in written] == [f"scan{number}{suffix}" for number, suffix in enumerate(kept.values())]
    assert {formats.read(path).array.max() for path in written} <= {0, 1}


def test_files_of_other_types_become_the_nearest_and_stacks_of_slices_a_volume(tmp_path):
    types = {"x.nhdr": "nrrd", "x.mhd": "mha", "x.jpg": "png", "x.h5": ANY, "x.seg.nrrd": ANY}
    assert {name: format_like(Source((tmp_path / name,))) for name in types} == types
    assert format_like(Source((tmp_path / "1.png", tmp_path / "2.png"))) == ANY


def test_another_format_replaces_a_label_map_on_request_alone(made, tmp_path):
    predict(made, tmp_path, format="nii.gz")
    before = everything(tmp_path)
    with pytest.raises(MixsegError) as caught:
        predict(made, tmp_path, format="mha")
    assert (caught.value.code, caught.value.fields["file"]) == ("would-overwrite", tmp_path / "a.nii.gz")
    assert everything(tmp_path) == before
    predict(made, tmp_path, format="mha", overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{case}{end}" for case in "ab" for end in (".mha", ".mixseg.json")),
        "classes.json",
        "volumes.csv",
    }


def test_an_image_beside_is_never_taken_for_a_label_map_of_another_format(made, tmp_path):
    for name in ("a.nrrd", "a.nii.gz"):
        formats.write(tmp_path / name, np.ones((16, 16, 1), np.float32))
    predict_folder(made / "run", tmp_path / "a.nrrd", tmp_path, format="mha", device="cpu")
    predict_folder(made / "run", tmp_path / "a.nrrd", tmp_path, format="nii", overwrite=True, device="cpu")
    assert {path.name for path in tmp_path.glob("a.*")} == {"a.nrrd", "a.nii.gz", "a.nii", "a.mixseg.json"}


def test_sidecars_of_earlier_versions_speak_for_compressed_nifti(made, tmp_path):
    predict(made, tmp_path)
    path = tmp_path / "a.mixseg.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in content.items() if key not in ("format", "nested")}))
    predict(made, tmp_path)
    assert json.loads(path.read_text()) == content


def test_volumes_of_all_label_maps_in_a_folder_are_one_table(made, tmp_path):
    run, images = made / "run", made / "images"
    for name in "ba":
        predict_folder(run, images / f"{name}.nii.gz", tmp_path, device="cpu")
    head, *rows = csv.reader((tmp_path / "volumes.csv").read_text().splitlines())
    assert head == ["scan", "disc_ml"]
    voxels = [int((formats.read(made / "masks" / f"{name}.nii.gz").array == 1).sum()) for name in "ab"]
    assert [name for name, _ in rows] == ["a", "b"]
    assert [float(ml) for _, ml in rows] == pytest.approx([count * VOXEL_ML for count in voxels], abs=1e-4)
    (tmp_path / "volumes.csv").write_text("patient,volume\n")
    with pytest.raises(MixsegError) as caught:
        predict(made, tmp_path)
    assert caught.value.fields["file"] == tmp_path / "volumes.csv"
    predict(made, tmp_path, overwrite=True)
    assert (tmp_path / "volumes.csv").read_text().startswith("scan,disc_ml")


def test_a_program_gets_one_object_a_scan_and_one_about_the_end(made, tmp_path, capsys):
    shutil.copytree(made / "images", tmp_path / "images")
    (tmp_path / "images" / "b.nii.gz").write_bytes(b"x")
    run, out = str(made / "run"), tmp_path / "out"
    assert main(["predict", run, "-i", str(tmp_path / "images"), "-o", str(out), "-device", "cpu", "--json"]) == 3
    good, bad, end = map(json.loads, capsys.readouterr().out.splitlines())
    voxels = int((formats.read(out / "a.nii.gz").array == 1).sum())
    assert good == {
        "scan": "a",
        "image": str(tmp_path / "images" / "a.nii.gz"),
        "file": str(out / "a.nii.gz"),
        "maps": [],
        "volumes_ml": {"disc": pytest.approx(voxels * VOXEL_ML, abs=1e-4)},
        "warnings": [said] if (said := next(iter(good["warnings"]), None)) else [],
    }
    assert "unlike the images of the training" in said, "it is noise, and the run has learnt discs"
    assert (bad["scan"], bad["error"]["code"]) == ("b", "broken-file")
    assert (end["error"]["code"], end["error"]["failed"], end["error"]["total"]) == ("some-failed", 1, 2)


def test_a_folder_per_patient_is_predicted_into_folders_and_scored_by_its_own_labels(made, tmp_path, capsys):
    study, out = tmp_path / "study", tmp_path / "study" / "out"
    for name, patient in (("a", "Patient 01"), ("b", "Patient 02")):
        image = formats.read(made / "images" / f"{name}.nii.gz")
        formats.write(study / patient / "T1.nrrd", image.array, affine=image.affine)
        mask = formats.read(made / "masks" / f"{name}.nii.gz")
        formats.write(study / patient / "T1-label.nii.gz", mask.array, affine=mask.affine)
    for _ in range(2):  # what was written before is no image of the second time
        predict_folder(made / "run", study, out, device="cpu")
        assert "2 label maps" in capsys.readouterr().out
    maps = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.nrrd"))
    assert maps == ["Patient 01/T1.nrrd", "Patient 02/T1.nrrd"]
    assert [line.split(",")[0] for line in (out / "volumes.csv").read_text().splitlines()] == [
        "scan",
        "Patient 01/T1",
        "Patient 02/T1",
    ]
    flags = LabelFlags(full=("*",))
    assert [row.dsc for row in evaluate(out, load(study, flags=flags)).rows] == [1.0, 1.0]
    (out / "Patient 02" / "T1.nrrd").rename(out / "Patient 02" / "b.nrrd")  # of one name, it could not be known
    assert [row.case for row in evaluate(out, made / "masks").rows] == ["b"]
    (out / "Patient 02" / "b.nrrd").rename(out / "Patient 02" / "T1.nrrd")
    shutil.move(out, tmp_path / "moved")
    (mirrored,) = predict_folder(made / "run", [study / "Patient 01" / "T1.nrrd"], tmp_path / "one", device="cpu")
    assert mirrored == tmp_path / "one" / "T1.nrrd"
    assert len(evaluate(tmp_path / "moved", tmp_path / "moved").rows) == 2


@pytest.fixture
def organs():
    """A liver with two lesions, a cyst in one of them; a vessel that is no part of it."""
    labels = np.zeros((9, 8, 5), np.uint8)
    labels[1:7, 1:7, 1:4] = 1
    labels[2:4, 2:4, 2] = labels[5, 5, 3] = 2
    labels[3, 3, 2] = 3
    labels[8, 0:2, 4] = 4
    return labels


def test_nested_structures_are_layers_that_slicer_shows_whole(organs, tmp_path):
    formats.write(tmp_path / "image.nii.gz", np.zeros(organs.shape, np.int16), affine=OBLIQUE)
    image = Source((tmp_path / "image.nii.gz",))
    FORMATS["seg.nrrd"].write(tmp_path / "a.seg.nrrd", Segmented(organs, CLASSES, image, {2: 1, 3: 2}))
    found = slicerio.read_segmentation(str(tmp_path / "a.seg.nrrd"))
    assert [each["name"] for each in found["segments"]] == list(CLASSES[1:])
    assert [each["layer"] for each in found["segments"]] == [0, 1, 2, 0]
    assert found["segments"][0]["extent"] == [1, 6, 1, 6, 1, 3]
    assert found["voxels"].shape == (3, *organs.shape)
    expected = {"liver": (1, 2, 3), "lesion": (2, 3), "cyst": (3,), "vessel": (4,)}
    for each in found["segments"]:
        voxels = found["voxels"][each["layer"]] == each["labelValue"]
        assert (voxels == np.isin(organs, expected[each["name"]])).all(), each["name"]
    np.testing.assert_allclose(np.diag([-1, -1, 1, 1]) @ found["ijkToLPS"], OBLIQUE, atol=1e-6)
    for name, suffix in (("predictions", ".seg.nrrd"), ("masks", ".nii.gz")):
        write_json(tmp_path / name / "classes.json", list(CLASSES))
        made = Segmented(organs, CLASSES, image, {2: 1, 3: 2} if name == "predictions" else {})
        FORMATS[suffix[1:]].write(tmp_path / name / f"a{suffix}", made)
    assert [row.dsc for row in evaluate(tmp_path / "predictions", tmp_path / "masks").rows] == [1.0] * 4


@pytest.mark.parametrize("name", [name for name, row in FORMATS.items() if not row.overlaps])
def test_a_format_of_one_structure_a_voxel_refuses_nesting_before_any_work(made, tmp_path, name):
    shutil.copytree(made / "run", tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "environment.json").read_text())
    write_json(tmp_path / "run" / "environment.json", facts | {"classes": ["background", "organ", "part"]})
    with pytest.raises(UsageError) as caught:
        predict_folder(
            tmp_path / "run", made / "images", tmp_path / "out", format=name, nested=["part:organ"], device="cpu"
        )
    assert caught.value.code == "format-without-overlap"
    assert not (tmp_path / "out").exists()


def test_the_run_or_a_flag_says_what_is_inside_what():
    assert nesting(None, {"lesion": "liver"}, CLASSES) == {}
    assert nesting([], {"lesion": "liver"}, CLASSES) == {"lesion": "liver"}
    assert nesting(["cyst:lesion", "lesion:liver"], {"vessel": "liver"}, CLASSES) == {
        "cyst": "lesion",
        "lesion": "liver",
    }
    assert nesting(["a:b:c"], {}, ("background", "a", "a:b", "c")) == {"a:b": "c"}
    wrong = {
        "nesting-unknown": [],
        "invalid-value": ["lesion"],
        "nesting-circular": ["lesion:liver", "liver:lesion"],
    }
    for code, asked in wrong.items():
        with pytest.raises(UsageError) as caught:
            nesting(asked, {}, CLASSES)
        assert caught.value.code == code
    for pair in ("lesion:lesion", "lesion:background", "lesion:spleen", ":", "liver"):
        with pytest.raises(UsageError):
            nesting([pair], {}, CLASSES)


def test_an_unknown_format_is_refused_with_a_suggestion(made, tmp_path, capsys):
    assert command(made, tmp_path / "out", "--format", "seg.nrd", "--json") == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "unknown-name"
    assert not (tmp_path / "out").exists()
