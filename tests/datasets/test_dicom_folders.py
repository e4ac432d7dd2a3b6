"""Folders of DICOM: which series are there, what they are called, which segmentations are theirs, what is refused."""

import json
import shutil

import numpy as np
import pydicom
import pytest

from dicom_files import PATIENT, blank, noise, oblique, write_enhanced, write_series
from mixseg.core.errors import MixsegError
from mixseg.datasets import check, formats, load, load_images, read_table, recognise
from mixseg.datasets.layouts.images import find_images
from mixseg.datasets.layouts.own import series as series_of


def find_series(root):
    files = [path for path in root.rglob("*") if path.is_file() and formats.is_dicom(path) and path.name != "DICOMDIR"]
    return series_of.find_series(root, sorted(files))


def named(root):
    return [(series.id, series.patient, len(series.headers)) for series in find_series(root).series]


def test_series_of_one_folder_are_told_apart_whatever_their_files_are_called(tmp_path):
    study = "1.2.3"
    for number, name in ((3, "{}.dcm"), (4, "IM{}"), (7, "1.2.840.{}")):
        write_series(
            tmp_path / "Patient 01", noise(seed=number), oblique(), name=name + "x" * number, study=study, number=number
        )
    assert named(tmp_path) == [(f"Patient 01 series {n}", "Patient 01", 5) for n in (3, 4, 7)]
    for series, n in zip(find_series(tmp_path).series, (3, 4, 7), strict=True):
        assert series.number == n
        assert series.modality == "MR"
        assert (formats.read(_source(series)).array == noise(seed=n)).all()


def _source(series):
    from mixseg.core.types import Source

    return Source(series.files)


def test_scans_are_called_after_their_folders(tmp_path):
    for patient in ("Patient 01", "Patient 02"):
        write_series(tmp_path / "a" / patient / "T1", noise(), oblique(), patient=patient, study=f"1.{patient[-1]}")
        write_series(tmp_path / "a" / patient / "T2", noise(), oblique(), patient=patient, study=f"1.{patient[-1]}")
    write_series(tmp_path / "b" / "Patient 03" / "1.2.840.113619.2.1" / "x", noise(), oblique(), patient="3")
    assert named(tmp_path) == [
        ("Patient 01 T1", "Patient 01", 5),
        ("Patient 01 T2", "Patient 01", 5),
        ("Patient 02 T1", "Patient 02", 5),
        ("Patient 02 T2", "Patient 02", 5),
        ("b", "b", 5),
    ]


def test_patients_with_one_id_for_all_are_those_of_the_folders(tmp_path):
    for name in ("A", "B", "C"):
        write_series(tmp_path / name, noise(), oblique(), patient="ANON")
    assert named(tmp_path) == [(name, name, 5) for name in "ABC"]


def test_two_visits_of_a_patient_in_two_folders_are_one_patient(tmp_path):
    for name, patient in (("A before", "1"), ("A after", "1"), ("B", "2")):
        write_series(tmp_path / name, noise(), oblique(), patient=patient)
    found = {series.id: series.patient for series in find_series(tmp_path).series}
    assert len(found) == 3
    assert len(set(found.values())) == 2
    assert found["B"] == "B"


def test_neither_ids_nor_uids_become_names(tmp_path):
    for patient in ("7001", "7002"):
        write_series(tmp_path / "all", noise(), oblique(), name=f"1.2.{patient}.{{}}", patient=patient)
    write_series(tmp_path / "1.2.840.113619.2.55.3" / "1.2.840.113619.2.55.4", noise(), oblique(), patient="7003")
    found = load_images(tmp_path)
    assert len({case.patient for case in found}) == 3
    told = json.dumps([(case.id, case.patient, case.frame) for case in found])
    for secret in ("7001", "7002", "7003", "1.2.840", PATIENT):
        assert secret not in told


def test_what_is_no_scan_is_listed_and_the_others_go_on(tmp_path):
    write_series(tmp_path / "A" / "good", noise(), oblique(), patient="1", study="1.1", number=1)
    write_series(
        tmp_path / "A" / "gap", noise(), oblique(), patient="1", study="1.1", number=2, change=lambda _, k: k != 2
    )

    def overview(data, k):
        data.ImageType = ["ORIGINAL", "PRIMARY", "LOCALIZER"]

    write_series(tmp_path / "A" / "scout", noise(), oblique(), patient="1", study="1.1", number=3, change=overview)
    report = blank(tmp_path / "A" / "report", "1.2.840.10008.5.1.4.1.1.88.11", study="1.1", series="1.9", modality="SR")
    report.save_as(tmp_path / "A" / "report")
    (tmp_path / "A" / "LIESMICH").write_text("hello")
    (tmp_path / "DICOMDIR").write_bytes(bytes(128) + b"DICM")
    assert recognise(tmp_path) == "own"
    found = read_table(tmp_path)
    assert [(row.id, row.kind) for row in found.rows] == [("A gap", "bad"), ("A good", "unlabeled")]
    assert "IM" in found.rows[0].problem
    assert sorted(each.file.name for each in found.unplaced if each.file.parent.name != "scout") == ["report"]
    assert len([each for each in found.unplaced if each.file.parent.name == "scout"]) == 5
    said = []
    (case,) = load(tmp_path, say=said.append)
    assert case.id == "A good"
    assert check(case) == []
    assert found.rows[0].problem in said
    assert PATIENT not in " ".join(said)


@pytest.mark.parametrize("length", [0, 60, 150, 400])
def test_a_series_is_not_read_without_its_damaged_last_slice(tmp_path, length):
    write_series(tmp_path / "A", noise(), oblique(), name="{}.dcm")
    last = max((tmp_path / "A").iterdir(), key=lambda path: pydicom.dcmread(path).ImagePositionPatient[2])
    last.write_bytes(last.read_bytes()[:length])
    (row,) = read_table(tmp_path).rows
    assert row.kind == "bad"
    assert last.name in row.problem


def test_images_to_predict_are_series_or_one_file_of_many_frames(tmp_path):
    write_series(tmp_path / "in" / "A", noise(), oblique(), study="1.1", patient="1")
    write_enhanced(tmp_path / "in" / "B" / "whole", noise(seed=3), oblique(), study="1.2", patient="2")
    first, second = find_images(tmp_path / "in")
    assert (first.id, second.id) == ("A", "B")
    assert (formats.read(first.image[0]).array == noise()).all()
    (alone,) = find_images(tmp_path / "in" / "B" / "whole")
    assert (formats.read(alone.image[0]).array == noise(seed=3)).all()
    (folder,) = find_images(tmp_path / "in" / "A")
    assert folder.id == "A"
    shutil.copy(tmp_path / "in" / "A" / "IM0001", tmp_path / "in" / "A" / "again")
    with pytest.raises(MixsegError, match="again") as caught:
        formats.read(find_images(tmp_path / "in" / "A")[0].image[0])
    assert caught.value.code == "doubled-slices"


@pytest.mark.parametrize("place", ["A", "A/CT", "elsewhere"])
def test_labels_beside_a_series_are_not_predicted(tmp_path, place):
    write_series(tmp_path / "A" / "CT", noise(), oblique())
    mask = np.zeros((7, 6, 5), np.uint8)
    mask[2:5, 2:5, 1:4] = 1
    formats.write(tmp_path / place / "Segmentation.seg.nrrd", mask, affine=np.eye(4), names={1: "liver"})
    assert [case.image[0].files for case in find_images(tmp_path)] == [
        find_series(tmp_path / "A" / "CT").series[0].files
    ]
