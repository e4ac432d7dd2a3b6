"""DICOM segmentations: other readers see in ours what we wrote; theirs are read on the grid of their series."""

import shutil
import subprocess

import numpy as np
import pydicom
import pytest
import SimpleITK as sitk  # noqa: N813

from dicom_files import PATIENT, RAS, noise, oblique, write_enhanced, write_series
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Source
from mixseg.datasets import check, formats, load, read_table
from mixseg.datasets.formats.dicom.writer import write_segmentation
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts.own.description import write as write_description

highdicom = pytest.importorskip("highdicom")

FULL = LabelFlags(full=("*",))
CLASSES = ("background", "RV", "Myo", "LV")


def painted(shape=(7, 6, 5), seed=0):
    """Labels of which the second class is absent, and the slice 1 is empty."""
    rng = np.random.default_rng(seed)
    result = rng.choice([0, 0, 0, 1, 3], shape).astype(np.uint8)
    result[:, :, 1] = 0
    return result


def source(folder):
    return Source(tuple(sorted(path for path in folder.rglob("*") if path.is_file())))


@pytest.fixture(params=["series", "frames"])
def scan(request, tmp_path):
    if request.param == "series":
        write_series(tmp_path / "scan", noise(), oblique(), modality="CT")
    else:
        write_enhanced(tmp_path / "scan" / "x", noise(), oblique())
    return source(tmp_path / "scan")


def highdicom_segmentation(files, pixels, like, segmentation_type="BINARY"):
    """What highdicom makes of pixels in the order of the files, with the segments of another one."""
    return highdicom.seg.Segmentation(
        source_images=[pydicom.dcmread(path) for path in files],
        pixel_array=pixels,
        segmentation_type=segmentation_type,
        segment_descriptions=[highdicom.seg.SegmentDescription.from_dataset(each) for each in like.SegmentSequence],
        series_instance_uid="1.2.3",
        series_number=1,
        sop_instance_uid="1.2.4",
        instance_number=1,
        manufacturer="m",
        manufacturer_model_name="m",
        software_versions="1",
        device_serial_number="1",
        max_fractional_value=200,
    )


def written(path, scan, labels=None, classes=CLASSES, **more):
    write_segmentation(path, painted() if labels is None else labels, classes, scan, **more)
    return path


def test_highdicom_reads_what_we_wrote_voxel_by_voxel(tmp_path, scan):
    path = written(tmp_path / "seg.dcm", scan)
    volume = highdicom.seg.segread(path).get_volume(combine_segments=True, allow_missing_positions=True)
    place = np.linalg.inv(RAS @ formats.read_geometry(scan).affine) @ volume.affine
    found = np.zeros((7, 6, 5), np.uint8)
    for index in np.argwhere(volume.array):  # where its own geometry puts each voxel
        found[tuple(np.rint(place @ [*index, 1])[:3].astype(int))] = volume.array[tuple(index)]
    assert (found == painted()).all()


def test_simpleitk_finds_the_same_bits_in_each_frame(tmp_path, scan):
    path = written(tmp_path / "seg.dcm", scan)
    frames = sitk.GetArrayFromImage(sitk.ReadImage(str(path))) != 0
    header = formats.dicom.read_header(path)
    grid = formats.read_geometry(scan)
    assert len(frames) == len(header.frames) == 8  # two classes in four slices
    for bits, frame in zip(frames, header.frames, strict=True):
        k = round((np.linalg.inv(grid.affine) @ RAS @ [*frame.position, 1])[2])
        assert ((painted()[:, :, k] == frame.segment) == bits.T).all()


def test_ours_come_back_on_the_grid_of_the_series_with_names_and_colours(tmp_path, scan):
    path = written(tmp_path / "seg.dcm", scan, colours={1: "#FF0000"})
    volume = formats.read(Source((path,), grid=scan.files))
    assert (volume.array == painted()).all()
    assert not formats.same_geometry(volume, formats.read(scan))
    assert formats.segment_names(path) == {1: "RV", 2: "Myo", 3: "LV"}
    assert [segment.colour for segment in formats.read_segments(path).values()] == ["#FF0000", "#FF9447", "#2FD3A0"]


def test_what_we_write_refers_to_its_series_and_belongs_to_its_patient(tmp_path, scan):
    data = pydicom.dcmread(written(tmp_path / "seg.dcm", scan))
    image = pydicom.dcmread(scan.path)
    (reference,) = data.ReferencedSeriesSequence
    assert reference.SeriesInstanceUID == image.SeriesInstanceUID
    named = {each.ReferencedSOPInstanceUID for each in reference.ReferencedInstanceSequence}
    assert named == {pydicom.dcmread(path).SOPInstanceUID for path in scan.files}
    assert (data.PatientID, data.StudyInstanceUID) == (image.PatientID, image.StudyInstanceUID)
    assert data.FrameOfReferenceUID == image.FrameOfReferenceUID
    assert data.SeriesInstanceUID != image.SeriesInstanceUID
    assert {str(each.SegmentAlgorithmType) for each in data.SegmentSequence} == {"AUTOMATIC"}


@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dicom3tools are not installed")
@pytest.mark.parametrize("empty", [False, True])
def test_a_validator_finds_no_error(tmp_path, scan, empty):
    path = written(tmp_path / "seg.dcm", scan, painted() * (not empty))
    done = subprocess.run(["dciodvfy", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Error" not in done.stderr


def test_where_nothing_was_found_the_segments_are_there_and_empty(tmp_path, scan):
    path = written(tmp_path / "seg.dcm", scan, np.zeros((7, 6, 5), np.uint8))
    assert not formats.read(Source((path,), grid=scan.files)).array.any()
    assert list(formats.segment_names(path).values()) == ["RV", "Myo", "LV"]


def test_without_the_extra_or_a_series_it_is_one_sentence(tmp_path, scan, monkeypatch):
    formats.write(tmp_path / "image.nii.gz", noise(), affine=np.eye(4))
    with pytest.raises(MixsegError) as caught:
        written(tmp_path / "seg.dcm", Source((tmp_path / "image.nii.gz",)))
    assert caught.value.code == "not-dicom"
    monkeypatch.setattr("mixseg.datasets.formats.dicom.writer.find_spec", lambda _: None)
    with pytest.raises(MixsegError, match="dicom") as caught:
        written(tmp_path / "seg.dcm", scan)
    assert caught.value.code == "not-installed"
    assert not (tmp_path / "seg.dcm").exists()


def folder_of_two(root, *, other=None):
    """Two series of one patient on different grids, and a segmentation of the first."""
    write_series(root / "A" / "axial", noise(), oblique(), study="1.1", number=1)
    write_series(
        root / "A" / "other", noise(), other if other is not None else oblique((1, 1, 4)), study="1.1", number=2
    )
    return source(root / "A" / "axial")


def test_a_segmentation_belongs_to_the_series_that_it_lies_on(tmp_path):
    scan = folder_of_two(tmp_path)
    written(tmp_path / "A" / "seg.dcm", scan)
    found = read_table(tmp_path, flags=FULL)
    assert found.classes == CLASSES
    assert {row.id: row.kind for row in found.rows} == {"A axial": "full", "A other": "unlabeled"}
    labels = formats.read_labels(next(case for case in load(tmp_path, flags=FULL) if case.full).full)
    assert (labels.array == painted()).all()
    assert not found.problems


def test_of_two_series_on_one_grid_the_one_that_is_named_counts(tmp_path):
    scan = folder_of_two(tmp_path, other=oblique())
    path = written(tmp_path / "A" / "seg.dcm", scan)
    assert [row.kind for row in read_table(tmp_path, flags=FULL).rows] == ["full", "unlabeled"]
    data = pydicom.dcmread(path)
    del data.ReferencedSeriesSequence
    data.save_as(path)
    found = read_table(tmp_path)
    assert [row.kind for row in found.rows] == ["unlabeled", "unlabeled"]
    assert [each.file for each in found.unplaced] == [path]


def test_one_that_lies_elsewhere_is_left_out_by_name(tmp_path):
    scan = folder_of_two(tmp_path)
    path = written(tmp_path / "A" / "seg.dcm", scan)
    shutil.rmtree(tmp_path / "A" / "axial")
    (row,) = (found := read_table(tmp_path)).rows
    assert row.kind == "unlabeled"
    assert [each.file for each in found.unplaced] == [path]
    with pytest.raises(MixsegError) as caught:
        formats.read(Source((path,), grid=source(tmp_path / "A" / "other").files))
    assert caught.value.code == "geometry-differs"


def test_a_second_one_of_the_same_structures_is_not_used(tmp_path):
    scan = folder_of_two(tmp_path)
    for name in ("one", "two"):
        written(tmp_path / "A" / name, scan)
    found = read_table(tmp_path, flags=FULL)
    assert [row.kind for row in found.rows] == ["full", "unlabeled"]
    assert [each.file.name for each in found.unplaced] == ["two"]


def test_those_of_different_structures_are_put_together(tmp_path):
    scan = folder_of_two(tmp_path)
    written(tmp_path / "A" / "one", scan, np.uint8(painted() == 1), classes=("", "RV"))
    written(tmp_path / "A" / "two", scan, np.uint8(painted() == 3), classes=("", "LV"))
    case = load(tmp_path, flags=FULL)[0]
    assert set(case.classes) == {"background", "RV", "LV"}
    found = formats.read_labels(case.full).array
    for name, value in (("RV", 1), ("LV", 3)):
        assert ((found == case.classes.index(name)) == (painted() == value)).all()
    assert check(case) == []


def test_of_segments_that_overlap_the_smaller_one_counts(tmp_path):
    scan = folder_of_two(tmp_path)
    i, j, _ = np.indices((7, 6, 5))
    liver, lesion = (np.hypot(i - 3, j - 2.5) < radius for radius in (2.9, 1.2))
    descriptions = pydicom.dcmread(written(tmp_path / "x", scan, np.uint8(liver), ("", "liver", "lesion")))
    (tmp_path / "x").unlink()
    frames = [formats.dicom.read_header(path) for path in scan.files]
    order = {frame.file: n for n, frame in enumerate(formats.dicom.stacked(frames).frames)}
    highdicom_segmentation(
        sorted(scan.files, key=order.get), np.stack([liver.T, lesion.T], -1).astype(np.uint8), descriptions
    ).save_as(tmp_path / "A" / "seg")
    found = read_table(tmp_path, flags=FULL)
    assert found.priority[0] == "lesion"
    case = found.rows[0].case
    labels = formats.read_labels(case.full).array
    assert ((labels == case.classes.index("lesion")) == lesion).all()
    assert ((labels == case.classes.index("liver")) == (liver & ~lesion)).all()


@pytest.mark.parametrize("name", ["Segmentation.seg.nrrd", "liver-label.nii.gz"])
def test_label_maps_of_another_format_lie_beside_a_series(tmp_path, name):
    series = {patient: write_series(tmp_path / patient / "CT", noise(), oblique(), patient=patient) for patient in "AB"}
    assert len(series) == 2
    for patient in "AB":
        scan, labels = source(tmp_path / patient / "CT"), np.uint8(painted() == 1)
        formats.write(tmp_path / patient / name, labels, like=scan, names={1: "liver"})
    found = read_table(tmp_path, flags=FULL)
    assert [(row.id, row.kind) for row in found.rows] == [("A", "full"), ("B", "full")]
    assert found.classes == ("background", "liver")
    case = found.rows[0].case
    assert case.image[0].files == source(tmp_path / "A" / "CT").files
    assert (formats.read_labels(case.full).array == (painted() == 1)).all()


def test_what_inspect_writes_of_a_folder_is_read_again(tmp_path):
    scan = folder_of_two(tmp_path)
    written(tmp_path / "A" / "seg.dcm", scan)
    first = read_table(tmp_path, flags=FULL)
    write_description(first)
    again = read_table(tmp_path)
    assert [row.case for row in again.rows] == [row.case for row in first.rows]


def test_a_segment_called_background_leaves_the_rest_unlabeled(tmp_path):
    scan = folder_of_two(tmp_path)
    labels = np.array([0, 1, 0, 2], np.uint8)[painted()]
    written(tmp_path / "A" / "seg.dcm", scan, labels, classes=("", "LV", "Background"))
    (case, _) = load(tmp_path)
    assert case.classes == ("background", "LV")
    assert case.kind == "partial"
    found = formats.read_labels(case.partial).array
    assert (found == np.array([IGNORE, 1, 0])[labels]).all()


def test_a_class_that_others_have_and_this_one_does_not_name_was_not_looked_for(tmp_path):
    for patient, classes in (("A", ("", "RV", "Myo", "LV")), ("B", ("", "lv", "x", "rv"))):
        write_series(tmp_path / patient / "s", noise(), oblique(), study=f"1.{ord(patient)}", patient=patient)
        written(tmp_path / patient / "seg", source(tmp_path / patient / "s"), classes=classes)
    first, second = (row.case for row in read_table(tmp_path).rows)
    assert set(first.classes) == {"background", "RV", "Myo", "LV", "x"}
    assert set(first.annotated) == {"RV", "Myo", "LV"}
    assert set(second.annotated) == {"LV", "x", "RV"}
    index = np.array([0, *(second.classes.index(name) for name in ("LV", "x", "RV"))])
    assert (formats.read_labels(second.full).array == index[painted()]).all()


def edited(path, change):
    data = pydicom.dcmread(path)
    change(data)
    data.save_as(path)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: setattr(data, "PixelData", data.PixelData[:-2]), "broken-file"),
        (lambda data: setattr(data, "NumberOfFrames", 3), "broken-file"),
        (lambda data: delattr(data, "SegmentSequence"), "broken-file"),
        (lambda data: setattr(data.SegmentSequence[0], "SegmentNumber", 9), "broken-file"),
    ],
)
def test_a_damaged_one_is_refused(tmp_path, scan, change, code):
    path = written(tmp_path / "seg.dcm", scan)
    edited(path, change)
    with pytest.raises(MixsegError) as caught:
        formats.read(Source((path,), grid=scan.files))
    assert caught.value.code == code


def test_segments_that_overlap_are_refused_by_name(tmp_path, scan):
    path = written(tmp_path / "seg.dcm", scan)

    def move(data):
        for group in data.PerFrameFunctionalGroupsSequence:
            group.PlanePositionSequence = data.PerFrameFunctionalGroupsSequence[0].PlanePositionSequence

    edited(path, move)
    data = pydicom.dcmread(path)
    data.PixelData = b"\xff" * len(data.PixelData)
    data.save_as(path)
    with pytest.raises(MixsegError) as caught:
        formats.read(Source((path,), grid=scan.files))
    assert caught.value.code == "segments-overlap"
    assert {caught.value.fields["segment"], caught.value.fields["other"]} == {"RV", "LV"}


@pytest.mark.parametrize("kind", ["FRACTIONAL", "LABELMAP"])
def test_the_other_kinds_of_segmentations_are_read_too(tmp_path, scan, kind):
    images = [pydicom.dcmread(path) for path in scan.files]
    stack = formats.dicom.stacked([formats.dicom.read_header(path) for path in scan.files])
    ours = pydicom.dcmread(written(tmp_path / "seg.dcm", scan))
    order = [frame.number for frame in stack.frames] if len(images) == 1 else list(range(5))
    files = scan.files if len(images) == 1 else [frame.file for frame in stack.frames]
    pixels = painted().T[np.argsort(order)]
    highdicom_segmentation(files, pixels, ours, segmentation_type=kind).save_as(tmp_path / "other.dcm")
    volume = formats.read(Source((tmp_path / "other.dcm",), grid=scan.files))
    assert (volume.array == painted()).all()


def test_names_of_patients_stay_in_the_segmentation(tmp_path):
    write_series(tmp_path / "A", noise(), oblique(), patient="4711")
    found = read_table(tmp_path)
    told = " ".join([*found.meanings, *found.problems, *(f"{row.id} {row.why} {row.case}" for row in found.rows)])
    assert "4711" not in told
    assert PATIENT not in told
