"""Which files of any folder are the images, and what their label maps will be called."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.datasets import formats
from mixseg.datasets.layouts.images import find_images

RNG = np.random.default_rng(0)


def image(path):
    formats.write(path, RNG.normal(100, 30, (12, 10, 6)).astype(np.float32), affine=np.diag([1, 1, 2, 1]))


def label(path, names=None):
    voxels = np.zeros((12, 10, 6), np.uint8)
    voxels[3:8, 3:8, 1:4] = 1
    formats.write(path, voxels, affine=np.diag([1.0, 1, 2, 1]), names=names)


def found(places, **more):
    said = []
    cases = find_images(places, say=said.append, **more)
    return {case.id: [source.path.name for source in case.image] for case in cases}, said


@pytest.fixture
def study(tmp_path):
    """A folder per patient, as a lab has them: image and labels in each, and an older scan in a folder of its own."""
    root = tmp_path / "T1 study"
    for number in (1, 2, 3):
        image(root / f"Patient 0{number}" / f"Patient 0{number} T1.nii.gz")
    label(root / "Patient 01" / "Segmentation.seg.nrrd", {1: "liver"})
    label(root / "Patient 02" / "Patient 02 T1-label.nii.gz")
    image(root / "Patient 03" / "before" / "Patient 03 T1.nrrd")
    (root / "notes.txt").write_text("2 painted by hand")
    return root


def test_images_of_a_folder_per_patient_keep_their_folders_and_labels_are_left_alone(study):
    cases, said = found(study, channels=1)
    assert cases == {
        "Patient 01/Patient 01 T1": ["Patient 01 T1.nii.gz"],
        "Patient 02/Patient 02 T1": ["Patient 02 T1.nii.gz"],
        "Patient 03/Patient 03 T1": ["Patient 03 T1.nii.gz"],
        "Patient 03/before/Patient 03 T1": ["Patient 03 T1.nrrd"],
    }
    (sentence,) = said
    assert sentence.startswith("2 label maps")
    assert "Segmentation.seg.nrrd" in sentence


def test_images_of_one_folder_have_labels_beside_them(tmp_path):
    for name in ("a", "b"):
        image(tmp_path / f"{name}.nii.gz")
    label(tmp_path / "a_mask.nii.gz")
    label(tmp_path / "b.seg.nrrd", {1: "liver"})
    cases, said = found(tmp_path, channels=1)
    assert cases == {"a": ["a.nii.gz"], "b": ["b.nii.gz"]}
    assert len(said) == 1


def test_images_that_look_like_masks_are_predicted_where_there_is_nothing_else(tmp_path):
    for name in ("a_mask", "sub/b_mask"):
        label(tmp_path / f"{name}.nii.gz")
    cases, said = found(tmp_path, channels=1)
    assert cases == {"a_mask": ["a_mask.nii.gz"], "sub/b_mask": ["b_mask.nii.gz"]}
    assert not said


def test_the_folder_for_label_maps_and_those_of_other_predictions_are_no_images(study):
    image(study / "out" / "Patient 01" / "Patient 01 T1.nii.gz")
    other = study / "predicted by another"
    label(other / "Patient 01" / "Patient 01 T1.nii.gz")
    write_json(other / "Patient 01" / "Patient 01 T1.mixseg.json", {})
    write_json(other / "classes.json", ["background", "liver"])
    (other / "volumes.csv").write_text("scan,liver_ml\n")
    cases, said = found(study, channels=1, without=study / "out")
    assert len(cases) == 4
    assert "2 label maps" in said[0], "the predicted one is not among them"


def test_a_list_of_files_and_folders_is_told_apart_by_as_much_of_the_path_as_is_needed(study, tmp_path):
    shutil.copytree(study / "Patient 01", tmp_path / "again" / "Patient 01")
    first, second = (folder / "Patient 01" / "Patient 01 T1.nii.gz" for folder in (study, tmp_path / "again"))
    one = study / "Patient 02" / "Patient 02 T1.nii.gz"
    assert list(found([first, one, one], channels=1)[0]) == ["Patient 01 T1", "Patient 02 T1"]
    assert list(found([first, second, one], channels=1)[0]) == [
        "T1 study/Patient 01/Patient 01 T1",
        "again/Patient 01/Patient 01 T1",
        "Patient 02 T1",
    ]
    both, _ = found([study, tmp_path / "again"], channels=1)
    assert len(both) == 5
    assert {"T1 study/Patient 01/Patient 01 T1", "again/Patient 01/Patient 01 T1"} < set(both)
    assert not any(Path(name).is_absolute() or ".." in name for name in both)


def test_two_files_of_one_name_in_a_folder_are_refused(study):
    image(study / "Patient 01" / "Patient 01 T1.mha")
    with pytest.raises(MixsegError) as caught:
        find_images(study, channels=1)
    assert caught.value.code == "duplicate-scan"


def test_channels_are_found_by_their_names_in_folders(tmp_path):
    for patient in ("p1", "p2"):
        for channel in ("T1", "T2"):
            image(tmp_path / patient / f"{patient}_{channel}.nii.gz")
    cases, _ = found(tmp_path, channels=2)
    assert cases == {f"p{n}/p{n}_T1": [f"p{n}_T1.nii.gz", f"p{n}_T2.nii.gz"] for n in (1, 2)}
    for path in list(tmp_path.rglob("*.nii.gz")):
        path.rename(tmp_path / path.name)
    cases, _ = found(tmp_path, channels=2)
    assert cases == {f"p{n}_T1": [f"p{n}_T1.nii.gz", f"p{n}_T2.nii.gz"] for n in (1, 2)}


def test_a_folder_of_nothing_is_refused_with_what_is_there(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes.txt").write_text("")
    with pytest.raises(MixsegError) as caught:
        find_images(tmp_path)
    assert caught.value.code == "unknown-layout"
