"""nnU-Net's raw layout: supervision found per scan, names as people write them, and writing it."""

import json

import numpy as np
import pytest

from dataset_folders import AFFINE, SHAPE, dataset_json, image, make_nnunet, mask, nifti, strokes
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Source, Volume
from mixseg.datasets import check, formats, load
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts import nnunet


def kinds(root, **options):
    return {case.id: case.kind for case in nnunet.cases(root, **options)}


def test_supervision_is_found_scan_by_scan(tmp_path):
    cases = {case.id: case for case in nnunet.cases(make_nnunet(tmp_path))}
    assert {name: case.kind for name, case in cases.items()} == {
        "a": "full",
        "b": "partial",
        "c": "unlabeled",
        "d": "full",
        "e": "partial",
    }
    assert {name: case.split for name, case in cases.items()} == {"a": "", "b": "", "c": "", "d": "test", "e": ""}
    assert cases["e"].hidden is not None
    assert (formats.read_labels(cases["e"].hidden).array == mask()).all()
    assert all(cases[name].hidden is None for name in "abcd")


def test_a_map_without_one_labelled_voxel_is_no_label(tmp_path):
    make_nnunet(tmp_path)
    nifti(tmp_path / "labelsTr" / "b.nii.gz", np.full(SHAPE, 4, np.uint8))
    assert kinds(tmp_path)["b"] == "unlabeled"


def test_in_a_hidden_reference_0_is_background_even_if_it_is_unpainted_among_the_strokes(tmp_path):
    dataset_json(tmp_path, labels={"LV": 1, "background": 2})
    drawn = np.zeros(SHAPE, np.uint8)
    drawn[0, 0, :2] = 1, 2
    nifti(tmp_path / "imagesTr" / "x.nii.gz", image())
    nifti(tmp_path / "labelsTr" / "x.nii.gz", drawn)
    nifti(tmp_path / "labelsTr_dense" / "x.nii.gz", mask(2))
    (case,) = nnunet.cases(tmp_path)
    assert case.kind == "partial"
    assert (formats.read_labels(case.partial).array != IGNORE).sum() == 2
    assert (formats.read_labels(case.hidden).array == mask(2)).all()


def painted(*, background):
    """Scribbles as viewers save them: 0 is unpainted, and so is the background unless 4 marks it."""
    drawn = np.zeros(SHAPE, np.uint8)
    drawn[2, 2:5, 0] = 1
    drawn[7, :3, 0] = 4 if background else 0
    return drawn


@pytest.mark.parametrize("declared", [True, False])
def test_scribbles_whose_0_is_unpainted_lie_beside_full_masks_whose_0_is_background(tmp_path, declared):
    names = {"background": 0, "RV": 1, "Myo": 2, "LV": 3} | ({"background_scribbles": 4} if declared else {})
    dataset_json(tmp_path, labels=names)
    block = np.zeros(SHAPE, np.uint8)
    block[1:6, 1:6] = 3
    maps = {"a": block, "b": painted(background=True), "c": np.where(block == 0, 4, block).astype(np.uint8)}
    for name, array in maps.items():
        nifti(tmp_path / "imagesTr" / f"{name}.nii.gz", image())
        nifti(tmp_path / "labelsTr" / f"{name}.nii.gz", array)
    said = []
    flags = LabelFlags() if declared else LabelFlags(scribble_background=4)
    a, b, c = nnunet.cases(tmp_path, flags, said.append)
    assert (a.kind, b.kind, c.kind) == ("full", "partial", "full")
    assert (formats.read_labels(a.full).array == block).all()
    assert (formats.read_labels(c.full).array == block).all()
    drawn = maps["b"]
    assert (formats.read_labels(b.partial).array == np.array([IGNORE, 1, 2, 3, 0], np.uint8)[drawn]).all()
    assert said[-1].endswith("1 scribbles (b.nii.gz), 2 full masks (a.nii.gz, c.nii.gz).")
    if not declared:
        nifti(tmp_path / "labelsTr" / "c.nii.gz", painted(background=True))
        with pytest.raises(MixsegError, match=r"which of the label ids 0 .* is unlabeled"):
            kinds(tmp_path)


def test_a_scribble_without_background_among_full_masks_is_refused_by_name(tmp_path):
    dataset_json(tmp_path, labels={"background": 0, "RV": 1, "Myo": 2, "LV": 3, "background_scribbles": 4})
    for name, array in {"a": painted(background=True), "b": painted(background=False)}.items():
        nifti(tmp_path / "imagesTr" / f"{name}.nii.gz", image())
        nifti(tmp_path / "labelsTr" / f"{name}.nii.gz", array)
    with pytest.raises(MixsegError, match=r"nothing in b\.nii\.gz is wider than a line, and no 4 marks the background"):
        nnunet.cases(tmp_path)
    assert kinds(tmp_path, flags=LabelFlags(background=4)) == {"a": "partial", "b": "partial"}


def test_validation_folders_leave_the_training_folder_to_training(tmp_path):
    make_nnunet(tmp_path)
    nifti(tmp_path / "imagesVal" / "v_0000.nii.gz", image())
    nifti(tmp_path / "labelsVal" / "v.nii.gz", mask())
    splits = {case.id: case.split for case in nnunet.cases(tmp_path)}
    assert splits == {"a": "train", "b": "train", "c": "train", "e": "train", "v": "val", "d": "test"}


@pytest.mark.parametrize(
    ("images", "labels", "expected"),
    [
        (["x_0000.nii.gz"], ["x.nii.gz"], {"x": "full"}),
        (["x.nii.gz"], ["x.nii.gz"], {"x": "full"}),
        (["x_0000.nii"], ["x.nii.gz"], {"x": "full"}),
        (["x_0001.nii.gz", "x_0000.nii.gz"], ["x_0001.nii.gz"], {"x_0000": "unlabeled", "x_0001": "full"}),
        (["x_0000.nii.gz"], ["x_0000.nii.gz"], {"x_0000": "full"}),
        (["x.1.nii.gz"], [], {"x.1": "unlabeled"}),
    ],
)
def test_names_with_and_without_the_channel_number(tmp_path, images, labels, expected):
    dataset_json(tmp_path)
    for name in images:
        nifti(tmp_path / "imagesTr" / name, image())
    for name in labels:
        nifti(tmp_path / "labelsTr" / name, mask())
    assert kinds(tmp_path) == expected


def test_channels_are_files_in_order_and_a_missing_one_is_named(tmp_path):
    dataset_json(tmp_path, channel_names={"0": "T1", "1": "T2"})
    for channel in (1, 0):
        nifti(tmp_path / "imagesTr" / f"x_000{channel}.nii.gz", image())
    (case,) = nnunet.cases(tmp_path)
    assert [source.path.name for source in case.image] == ["x_0000.nii.gz", "x_0001.nii.gz"]
    case.image[1].path.unlink()
    with pytest.raises(MixsegError, match=r"x_0001 is missing \(dataset.json declares 2 channels\)"):
        nnunet.cases(tmp_path)


def test_a_channel_more_than_declared_is_named(tmp_path):
    dataset_json(tmp_path, channel_names={"0": "T1", "1": "T2"})
    for channel in range(3):
        nifti(tmp_path / "imagesTr" / f"x_000{channel}.nii.gz", image())
    with pytest.raises(MixsegError, match=r"x_0002\.nii\.gz is one channel more than dataset.json declares \(2\)"):
        nnunet.cases(tmp_path)


def test_label_maps_of_a_part_without_scans_are_named(tmp_path):
    make_nnunet(tmp_path)
    nifti(tmp_path / "labelsVal" / "v.nii.gz", mask())
    with pytest.raises(MixsegError, match=r"labelsVal has no scans, imagesVal is missing: add it"):
        nnunet.cases(tmp_path)


def test_two_scans_with_one_id_and_labels_without_a_scan_are_named(tmp_path):
    make_nnunet(tmp_path)
    stray = nifti(tmp_path / "labelsTr" / "zz.nii.gz", mask())
    with pytest.raises(MixsegError, match=r"zz\.nii\.gz has no scan in .*imagesTr"):
        nnunet.cases(tmp_path)
    stray.unlink()
    twin = nifti(tmp_path / "imagesTr" / "a.nii.gz", image())
    with pytest.raises(MixsegError, match="two files for one scan"):
        nnunet.cases(tmp_path)
    twin.rename(tmp_path / "imagesTs" / "a.nii.gz")
    with pytest.raises(MixsegError, match=r"imagesTr.*imagesTs.* are two scans with one id, a"):
        nnunet.cases(tmp_path)


def test_without_ignore_the_id_above_the_classes_is_found_and_flags_override(tmp_path):
    dataset_json(tmp_path, labels={"background": 0, "RV": 1, "Myo": 2, "LV": 3})
    nifti(tmp_path / "imagesTr" / "x.nii.gz", image())
    nifti(tmp_path / "labelsTr" / "x.nii.gz", strokes(unlabeled=255))
    sentences: list[str] = []
    (case,) = nnunet.cases(tmp_path, say=sentences.append)
    assert case.kind == "partial"
    assert "255 = unlabeled (255 is the one id beyond the declared classes)" in sentences[0]
    nifti(tmp_path / "labelsTr" / "x.nii.gz", mask())
    assert kinds(tmp_path) == {"x": "full"}
    assert kinds(tmp_path, flags=LabelFlags(foreground_only=True)) == {"x": "partial"}
    assert kinds(tmp_path, flags=LabelFlags(unlabeled=3)) == {"x": "partial"}


def test_old_id_to_name_labels_gaps_and_regions_are_read(tmp_path):
    nifti(tmp_path / "imagesTr" / "x.nii.gz", image())
    nifti(tmp_path / "labelsTr" / "x.nii.gz", mask(3) * np.uint8(2))
    dataset_json(tmp_path, labels={"0": "background", "2": "liver", "4": "spleen"})
    (case,) = nnunet.cases(tmp_path)
    assert case.classes == ("background", "liver", "spleen")
    assert case.full.ids == {0: 0, 2: 1, 4: 2}
    assert (formats.read_labels(case.full).array == mask(3)).all()
    regions = {"background": 0, "whole": [2, 4], "core": [4], "ignore": 5}
    dataset_json(tmp_path, labels=regions, regions_class_order=[2, 4])
    (case,) = nnunet.cases(tmp_path)
    assert case.classes == ("background", "whole", "core")
    assert case.full.ids == {0: 0, 2: 1, 4: 2, 5: IGNORE}


def test_patients_come_from_the_names_or_from_dataset_json(tmp_path):
    for name in ("patient007_frame01", "s1_a", "s1_b", "other"):
        nifti(tmp_path / "imagesTr" / f"{name}_0000.nii.gz", image())
    dataset_json(tmp_path, patients={"s1_a": "s1", "s1_b": "s1"}, annotated={"other": ["LV"]})
    cases = {case.id: case for case in nnunet.cases(tmp_path)}
    assert {name: (case.patient, case.frame) for name, case in cases.items()} == {
        "patient007_frame01": ("patient007", "01"),
        "s1_a": ("s1", "a"),
        "s1_b": ("s1", "b"),
        "other": ("other", ""),
    }
    assert cases["other"].annotated == ("LV",)
    assert cases["s1_a"].annotated is None


@pytest.mark.parametrize("entries", [{"patients": {"s1_a": "s1", "s1b": "s1"}}, {"annotated": {"s1b": ["LV"]}}])
def test_an_entry_of_dataset_json_for_no_scan_is_told_with_the_nearest_name(tmp_path, entries):
    for name in ("s1_a", "s1_b", "s2_c"):
        nifti(tmp_path / "imagesTr" / f"{name}_0000.nii.gz", image())
    dataset_json(tmp_path, **entries)
    (key,) = entries
    with pytest.raises(MixsegError, match=rf"'{key}' of .*dataset\.json names 's1b', .* did you mean 's1_b'\?"):
        nnunet.cases(tmp_path)


def test_files_may_be_listed_in_dataset_json(tmp_path):
    nifti(tmp_path / "scans" / "one.nii.gz", image())
    nifti(tmp_path / "masks" / "one.nii.gz", strokes())
    dataset_json(tmp_path, dataset={"x": {"images": ["scans/one.nii.gz"], "label": "masks/one.nii.gz"}})
    assert kinds(tmp_path) == {"x": "partial"}


def test_test_scans_lie_beside_listed_ones_unless_they_are_listed_too(tmp_path):
    for name in "xyz":
        nifti(tmp_path / ("imagesTr" if name == "x" else "imagesTs") / f"{name}_0000.nii.gz", image())
        nifti(tmp_path / ("labelsTr" if name == "x" else "labelsTs") / f"{name}.nii.gz", mask())
    listed = {"x": ("Tr", "x"), "mine": ("Ts", "y")}
    entries = {
        name: {"images": [f"images{part}/{file}_0000.nii.gz"], "label": f"labels{part}/{file}.nii.gz"}
        for name, (part, file) in listed.items()
    }
    dataset_json(tmp_path, dataset=entries)
    assert {case.id: case.split for case in nnunet.cases(tmp_path)} == {"x": "", "mine": "", "z": "test"}


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"labels": {}}, "declares no labels"),
        ({"labels": {"background": 0, "LV": "one"}}, "has the id 'one'"),
        ({"labels": {"background": 0, "LV": 0}}, "gives the id 0 to 'background' and 'LV'"),
        ({"annotated": {"x": ["liver"]}}, "names 'liver'"),
        ({"annotated": ["x"]}, "'annotated' of .* is not an object"),
        ({"dataset": {"x": {}}}, "lists no images for x"),
        ({"dataset": {"../../outside": {"images": ["x.nii.gz"]}}}, "scan '../../outside' in .*: rename it"),
        ({"dataset": {"..": {"images": ["x.nii.gz"]}}}, "scan '..' in .*: rename it"),
        ({"labels": {"background": 0, "GTV/CTV": 1}}, "label 'GTV/CTV' in .*: rename it"),
        ({"labels": {"0": "background", "1": ""}}, "label '' in .*: rename it"),
    ],
)
def test_a_wrong_entry_of_dataset_json_is_one_sentence(tmp_path, entries, sentence):
    dataset_json(tmp_path, **entries)
    with pytest.raises(MixsegError, match=sentence) as caught:
        nnunet.cases(tmp_path)
    assert "dataset.json" in str(caught.value)


def test_segments_are_matched_by_name_whatever_their_values(tmp_path):
    dataset_json(tmp_path)
    array = mask(3)
    for name in ("x", "y"):
        nifti(tmp_path / "imagesTr" / f"{name}.nii.gz", image())
    formats.write(tmp_path / "labelsTr" / "x.seg.nrrd", array, affine=AFFINE, names={1: "LV", 2: "rv"})
    formats.write(tmp_path / "labelsTr" / "y.seg.nrrd", array, affine=AFFINE, names={1: "Ignore", 2: "aorta"})
    x, y = nnunet.cases(tmp_path)
    assert (formats.read_labels(x.full).array == np.array([0, 3, 1], np.uint8)[array]).all()
    assert y.kind == "partial"
    told = check(y)[0]
    assert "undeclared label aorta: give the segment the name of a class, declare it as one in dataset.json, or" in told
    assert "--unlabeled" not in told
    formats.write(tmp_path / "labelsTr" / "y.seg.nrrd", np.zeros((1, 1, 1), np.uint8), affine=AFFINE, names={1: "LV"})
    assert kinds(tmp_path)["y"] == "unlabeled"


def items():
    labels = np.where(strokes() == 4, IGNORE, strokes()).astype(np.uint8)
    volume = Volume(image(), AFFINE)
    yield nnunet.Item("p1_a", (volume,), labels, dense=mask(), patient="p1")
    yield nnunet.Item("p1_b", (volume,), mask(), patient="p1", annotated=("LV",))
    yield nnunet.Item("patient002_frame01", (volume,), patient="patient002")
    yield nnunet.Item("t", (volume,), mask(), split="test")


def test_what_write_dataset_wrote_is_read_back(tmp_path):
    classes = ("background", "RV", "Myo", "LV")
    root = nnunet.write_dataset(tmp_path / "Dataset001_Heart", "Heart", classes, items())
    cases = {case.id: case for case in load(root)}
    assert {name: case.kind for name, case in cases.items()} == {
        "p1_a": "partial",
        "p1_b": "partial",
        "patient002_frame01": "unlabeled",
        "t": "full",
    }
    wanted = {item.id: item for item in items()}
    for name, case in cases.items():
        assert check(case) == []
        assert case.classes == classes
        assert case.patient == (wanted[name].patient or name)
        assert (formats.read(case.image[0]).array == image()).all()
    assert (formats.read_labels(cases["p1_a"].partial).array == wanted["p1_a"].label).all()
    assert (formats.read_labels(cases["p1_a"].hidden).array == mask()).all()
    assert cases["p1_b"].annotated == ("LV",)
    content = json.loads((root / "dataset.json").read_text())
    assert content["labels"] == {"background": 0, "RV": 1, "Myo": 2, "LV": 3, "ignore": 4}
    assert content["numTraining"] == 3
    assert content["patients"] == {"p1_a": "p1", "p1_b": "p1"}


def test_a_dataset_that_fails_half_way_leaves_nothing(tmp_path):
    def broken():
        yield from items()
        yield nnunet.Item("p1_a", ())

    with pytest.raises(MixsegError, match="two scans called p1_a: rename one"):
        nnunet.write_dataset(tmp_path / "out", "Heart", ("background", "RV", "Myo", "LV"), broken())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MixsegError, match="scan 'a/b' in Heart cannot be part of a file name"):
        nnunet.write_dataset(tmp_path / "out", "Heart", ("background", "LV"), [nnunet.Item("a/b", ())])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(MixsegError, match="exists and is not empty"):
        nnunet.write_dataset(tmp_path / "full", "Heart", ("background", "LV"), items())


def test_images_on_disk_are_copied_byte_for_byte_or_converted(tmp_path):
    gz = nifti(tmp_path / "a.nii.gz", image())
    formats.write(tmp_path / "b.nrrd", image(), affine=AFFINE)
    formats.write(tmp_path / "c.png", image()[..., 0].astype(np.uint8))
    sources = {path.name[0]: Source((path,)) for path in (gz, tmp_path / "b.nrrd", tmp_path / "c.png")}
    wanted = [nnunet.Item(name, (source,)) for name, source in sources.items()]
    root = nnunet.write_dataset(tmp_path / "out", "Mixed", ("background", "LV"), wanted)
    assert (root / "imagesTr" / "a_0000.nii.gz").read_bytes() == gz.read_bytes()
    a, b, c = nnunet.cases(root)
    assert not formats.same_geometry(formats.read(a.image[0]), formats.read(b.image[0]))
    assert not formats.read(c.image[0]).spacing_known
