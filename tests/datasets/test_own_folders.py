"""Folders as people have them: what is an image, what a label, whose, called what and drawn how."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataset_folders import AFFINE, make_nnunet, nifti
from mixseg.core.types import IGNORE, Layer, Source
from mixseg.datasets import formats, inspect, load, read_table, recognise
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts.own import description, names, readings
from refusals import refused

SHAPE = (30, 28, 14)
GRID = np.stack(np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij"), -1)
ITK_SNAP = '    1   255    0    0        1  1  1    "liver"\n    2     0  255    0        1  1  1    "lesion"\n'


def ball(centre, radii):
    return (((GRID - centre) / np.array(radii)) ** 2).sum(-1) < 1


LIVER, LESION = ball((14, 13, 7), (11, 10, 6)), ball((12, 13, 7), (4, 4, 3))


def outlined(*, lesion=True):
    return np.where(LESION & lesion, 2, LIVER).astype(np.uint8)


def drawn():
    """A line in every third slice of each structure."""
    lines = np.zeros(SHAPE, np.uint8)
    lines[8:20, 10:12, 2:13:3] = outlined()[8:20, 10:12, 2:13:3]
    return lines


def grey(seed=0):
    return np.random.default_rng(seed).integers(0, 1000, SHAPE).astype(np.int16)


def segmentation(path: Path, layers, segments):
    """As 3D Slicer saves one: (name, layer, value) of each segment; made without mixseg."""
    array = np.stack(layers) if len(layers) > 1 else layers[0]
    lps = np.diag([-1, -1, 1]) @ AFFINE[:3]
    vectors = " ".join("(" + ",".join(f"{value:g}" for value in lps[:, axis]) + ")" for axis in range(3))
    several = len(layers) > 1
    head = [
        "NRRD0004",
        "type: unsigned char",
        f"dimension: {array.ndim}",
        "space: left-posterior-superior",
        "sizes: " + " ".join(map(str, array.shape)),
        f"space directions: {'none ' * several}{vectors}",
        f"kinds: {'list ' * several}domain domain domain",
        "encoding: raw",
        "space origin: (" + ",".join(f"{value:g}" for value in lps[:, 3]) + ")",
    ]
    for number, (name, layer, value) in enumerate(segments):
        about = {"ID": f"Segment_{number}", "Name": name, "Layer": layer, "LabelValue": value}
        head += [f"Segment{number}_{key}:={text}" for key, text in about.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("\n".join(head) + "\n\n").encode() + array.astype(np.uint8).tobytes(order="F"))
    return path


def found(root: Path, **flags):
    """Scan -> (kind, images, labels) with files as they are called below the folder."""
    table = read_table(root, flags=LabelFlags(**flags))
    below = {
        row.id: (
            row.kind,
            [path.relative_to(root).as_posix() for path in row.images],
            [path.relative_to(root).as_posix() for path in row.labels],
        )
        for row in table.rows
    }
    return table, below


def row_of(table, scan):
    return next(row for row in table.rows if row.id == scan)


def states(table, scan):
    return {name: reading.state for name, reading in row_of(table, scan).structures.items()}


def pair(root, image, label, array, seed=0):
    nifti(root / image, grey(seed))
    nifti(root / label, array)


LAYOUTS = {
    "a folder per patient": ("P1/P1 T1.nii.gz", "P1/label.nii.gz", "P2/P2 T1.nii.gz", "P2/Strokes.nii.gz"),
    "nested": ("a/P1/mr/scan.nii.gz", "a/P1/mr/seg.nii.gz", "a/P2/mr/scan.nii.gz", "a/P2/mr/seg.nii.gz"),
    "side by side": ("P 01.nii.gz", "P 01-label.nii.gz", "P 02.nii.gz", "P 02_scribble.nii.gz"),
    "two folders": ("images/1.nii.gz", "labels/1.nii.gz", "images/2.nii.gz", "labels/2.nii.gz"),
    "padded": ("images/case_001.nii.gz", "masks/case1_mask.nii.gz", "images/case_002.nii.gz", "masks/case2.nii.gz"),
    "BIDS": (
        "sub-01/anat/sub-01_T2w.nii.gz",
        "sub-01/anat/sub-01_T2w_dseg.nii.gz",
        "sub-02/anat/sub-02_T2w.nii.gz",
        "derivatives/manual/sub-02/anat/sub-02_dseg.nii.gz",
    ),
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_images_and_labels_are_found_wherever_they_lie(layout, tmp_path):
    full, mask, some, strokes = LAYOUTS[layout]
    pair(tmp_path, full, mask, outlined(), 1)
    pair(tmp_path, some, strokes, drawn(), 2)
    nifti(tmp_path / full.replace("1", "3"), grey(3))
    (tmp_path / "labels.txt").write_text(ITK_SNAP)
    table, below = found(tmp_path)
    assert recognise(tmp_path) == "own"
    assert sorted(below.values()) == sorted(
        [("full", [full], [mask]), ("partial", [some], [strokes]), ("unlabeled", [full.replace("1", "3")], [])]
    )
    assert len({row.case.patient for row in table.rows}) == 3
    assert table.classes == ("background", "liver", "lesion")
    assert not table.problems


def test_of_two_scans_of_a_patient_each_has_its_label_and_they_stay_together(tmp_path):
    for name in ("day1", "day2"):
        nifti(tmp_path / "Patient 1" / f"{name}.nii.gz", grey())
    nifti(tmp_path / "Patient 1" / "day2 label.nii.gz", outlined())
    nifti(tmp_path / "Patient 2" / "day1.nii.gz", grey())
    table, below = found(tmp_path)
    assert [row.case.patient for row in table.rows] == ["Patient 1", "Patient 1", "Patient 2"]
    assert [row[0] for row in below.values()] == ["unlabeled", "full", "unlabeled"]


@pytest.mark.parametrize(("first", "second"), [("_0000", "_0001"), ("_T1", "_T2"), (" flair", " dwi")])
def test_several_images_of_a_scan_are_its_channels(first, second, tmp_path):
    for number in range(1, 6):
        for channel in (first, second)[: 1 if number == 5 else 2]:
            nifti(tmp_path / f"P{number}{channel}.nii.gz", grey(number))
    nifti(tmp_path / "P1_seg.nii.gz", outlined())
    table, below = found(tmp_path)
    assert [len(row.images) for row in table.rows] == [2, 2, 2, 2, 1]
    assert [row.kind for row in table.rows] == ["full", "unlabeled", "unlabeled", "unlabeled", "bad"]
    assert below["P1"][1] == [f"P1{first}.nii.gz", f"P1{second}.nii.gz"]


@pytest.mark.parametrize(
    ("liver", "lesion"),
    [
        ("{scan}/segmentations/liver.nii.gz", "{scan}/segmentations/lesion.nii.gz"),
        ("{scan}/{scan}_liver.nii.gz", "{scan}/{scan}_lesion.nii.gz"),
        ("{scan}/x_label-liver_mask.nii.gz", "{scan}/x_label-lesion_mask.nii.gz"),
    ],
)
def test_a_file_per_structure_is_one_label_map_in_which_small_ones_lie_above(liver, lesion, tmp_path):
    for scan, there in (("s1", True), ("s2", False)):
        nifti(tmp_path / scan / "ct.nii.gz", grey())
        nifti(tmp_path / liver.format(scan=scan), LIVER.astype(np.uint8) * 255)
        nifti(tmp_path / lesion.format(scan=scan), (LESION & there).astype(np.float32))
    table, _ = found(tmp_path)
    assert table.priority == ("lesion", "liver")
    assert states(table, "s2")["lesion"] == "absent"
    case = row_of(table, "s1").case
    labels = formats.read_labels(case.full).array
    assert [int((labels == case.classes.index(name)).sum()) for name in ("lesion", "liver")] == [
        int(LESION.sum()),
        int((LIVER & ~LESION).sum()),
    ]


def test_segments_are_called_alike_whatever_their_capitals_and_numbers(tmp_path):
    nifti(tmp_path / "a" / "a.nii.gz", grey())
    nifti(tmp_path / "b" / "b.nii.gz", grey())
    segmentation(tmp_path / "a" / "Segmentation.seg.nrrd", [outlined()], [("Liver", 0, 1), ("lesion", 0, 2)])
    other = np.select([outlined() == 1, outlined() == 2], [7, 3]).astype(np.uint8)
    segmentation(tmp_path / "b" / "Segmentation.seg.nrrd", [other], [("lesion", 0, 3), ("liver", 0, 7)])
    table, _ = found(tmp_path)
    assert [name.lower() for name in table.classes] == ["background", "liver", "lesion"]
    one, two = (formats.read_labels(row.case.full).array for row in table.rows)
    assert np.array_equal(one, two)
    assert np.array_equal(one, outlined())


def test_segments_that_overlap_are_read_in_the_order_that_is_kept(tmp_path):
    nifti(tmp_path / "a.nii.gz", grey())
    layers = [LIVER.astype(np.uint8), LESION.astype(np.uint8)]
    segmentation(tmp_path / "a.seg.nrrd", layers, [("liver", 0, 1), ("lesion", 1, 1)])
    table = read_table(tmp_path)
    assert table.priority == ("lesion", "liver")
    assert np.array_equal(formats.read_labels(table.rows[0].case.full).array == 0, ~LIVER)
    assert (formats.read_labels(table.rows[0].case.full).array == 2).sum() == LESION.sum()
    path = description.write(table)
    assert json.loads(path.read_text())["priority"] == ["lesion", "liver"]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"priority": ["liver", "lesion"]}))
    again = read_table(tmp_path).rows[0].case
    assert (formats.read_labels(again.full).array == 2).sum() == 0


def test_a_segment_named_background_makes_what_is_unpainted_unlabeled(tmp_path):
    nifti(tmp_path / "a.nii.gz", grey())
    strokes = drawn()
    strokes[1, 3:20, 2::3] = 3
    segmentation(tmp_path / "a.seg.nrrd", [strokes], [("liver", 0, 1), ("lesion", 0, 2), ("Background", 0, 3)])
    table = read_table(tmp_path)
    row = table.rows[0]
    assert (row.kind, row.background, table.classes) == ("partial", 3, ("background", "liver", "lesion"))
    assert np.array_equal(formats.read_labels(row.case.partial).array, np.where(strokes == 0, IGNORE, strokes % 3))


def test_finished_structures_beside_strokes_label_the_foreground_and_no_background(tmp_path):
    nifti(tmp_path / "a.nii.gz", grey())
    nifti(tmp_path / "a-label.nii.gz", np.where(drawn() == 2, 2, outlined(lesion=False)))
    (tmp_path / "labels.txt").write_text(ITK_SNAP)
    description.write(read_table(tmp_path))
    path = tmp_path / "mixseg.json"
    content = json.loads(path.read_text())
    content["scans"]["a"]["structures"] = {"liver": "finished", "lesion": "strokes"}
    path.write_text(json.dumps(content))
    (case,) = load(tmp_path)
    assert (case.kind, case.annotated, case.partial) == ("partial", ("liver",), None)


def test_what_is_missing_from_a_file_that_names_its_structures_was_not_looked_for(tmp_path):
    for name in ("a", "b"):
        nifti(tmp_path / f"{name}.nii.gz", grey())
    segmentation(tmp_path / "a.seg.nrrd", [outlined()], [("liver", 0, 1), ("lesion", 0, 2)])
    segmentation(tmp_path / "b.seg.nrrd", [outlined(lesion=False)], [("liver", 0, 1)])
    table = read_table(tmp_path)
    assert states(table, "b") == {"liver": "finished", "lesion": "untouched"}
    assert row_of(table, "b").case.annotated == ("liver",)


def test_names_of_ids_come_from_the_nearest_description_and_conflicts_are_named(tmp_path):
    pair(tmp_path, "a.nii.gz", "a-label.nii.gz", outlined())
    assert read_table(tmp_path).classes == ("background", "class 1", "class 2")
    (tmp_path / "dseg.tsv").write_text("index\tname\n1\tspleen\n2\tcyst\n")
    assert read_table(tmp_path).classes == ("background", "spleen", "cyst")
    (tmp_path / "labels.txt").write_text(ITK_SNAP)
    table = read_table(tmp_path)
    assert [row.kind for row in table.rows] == ["bad"]
    assert "dseg.tsv" in table.rows[0].problem


def test_a_dataset_json_without_its_folders_just_names_ids(tmp_path):
    pair(tmp_path, "images/a.nii.gz", "labels/a.nii.gz", outlined())
    (tmp_path / "dataset.json").write_text('{"labels": {"background": 0, "liver": 1, "lesion": 2}}')
    assert recognise(tmp_path) == "own"
    assert read_table(tmp_path).classes == ("background", "liver", "lesion")


BAD = {
    "its image is missing": ("x7-label.nii.gz", outlined(), AFFINE),
    "flipped along axis 1": ("b-label.nii.gz", outlined(), AFFINE @ np.diag([-1, 1, 1, 1])),
    "its axes are exchanged (3, 2, 1)": ("b-label.nii.gz", outlined().transpose(2, 1, 0), AFFINE),
    "holds 9, which no class has": ("b-label.nii.gz", np.where(outlined() == 2, 9, outlined()), AFFINE),
    "holds 0.9999": ("b-label.nii.gz", LIVER * np.float32(0.9999), AFFINE),
    "holds grey values": ("b-label.nii.gz", grey(), AFFINE),
    "4 axes": ("c.nii.gz", np.zeros((4, 4, 4, 3), np.int16), AFFINE),
    "is in colour": ("c.nii.gz", np.zeros(SHAPE, [("R", "u1"), ("G", "u1"), ("B", "u1")]), AFFINE),
    "Hounsfield": ("c.nii.gz", grey() - np.int16(1024), AFFINE),
}


@pytest.mark.parametrize("clause", list(BAD))
def test_what_cannot_be_read_is_one_sentence_and_the_others_go_on(clause, tmp_path):
    pair(tmp_path, "a.nii.gz", "a-label.nii.gz", outlined())
    for name in ("b", "d", "e", "f"):
        nifti(tmp_path / f"{name}.nii.gz", grey())
    name, array, affine = BAD[clause]
    if array.dtype.names:
        array["R"] = np.arange(array.size).reshape(SHAPE) % 251
    nifti(tmp_path / name, array, affine)
    (tmp_path / "labels.txt").write_text(ITK_SNAP)
    table = read_table(tmp_path)
    (sentence,) = table.problems
    assert clause in sentence
    assert name in sentence
    assert row_of(table, "a").kind == "full"
    assert {"a", "d", "e", "f"} <= {case.id for case in table.cases}


def test_a_label_of_two_images_and_a_link_out_of_the_folder_are_named(tmp_path):
    for name in ("late", "early"):
        nifti(tmp_path / "scans" / "P1" / f"{name}.nii.gz", grey())
    nifti(tmp_path / "scans" / "P1" / "Segmentation.nii.gz", outlined())
    outside = nifti(tmp_path / "else" / "z.nii.gz", grey())
    (tmp_path / "scans" / "z.nii.gz").symlink_to(outside)
    table = read_table(tmp_path / "scans")
    assert sorted(each.file.name for each in table.unplaced) == ["Segmentation.nii.gz", "z.nii.gz"]
    assert [row.kind for row in table.rows] == ["unlabeled", "unlabeled"]


def test_of_two_labellings_strokes_are_partial_labels_and_a_second_mask_is_not_used(tmp_path):
    pair(tmp_path, "a.nii.gz", "a_label.nii.gz", outlined())
    nifti(tmp_path / "a_scribble.nii.gz", drawn())
    pair(tmp_path, "b.nii.gz", "b_label_anna.nii.gz", outlined())
    nifti(tmp_path / "b_label_bob.nii.gz", outlined())
    table = read_table(tmp_path)
    case = row_of(table, "a").case
    assert (case.full.path.name, case.partial.path.name) == ("a_label.nii.gz", "a_scribble.nii.gz")
    assert [each.file.name for each in table.unplaced] == ["b_label_bob.nii.gz"]


def test_flags_win_over_signs_and_globs_that_fit_nothing_are_refused(tmp_path):
    pair(tmp_path, "P1/a.nii.gz", "P1/a-label.nii.gz", outlined())
    pair(tmp_path, "P2/b.nii.gz", "P2/b-label.nii.gz", drawn())
    assert [row.kind for row in read_table(tmp_path).rows] == ["full", "partial"]
    for glob in ("a", "P1/*", "a-label.nii.gz"):
        assert read_table(tmp_path, flags=LabelFlags(scribbles=(glob,))).rows[0].case.kind == "partial"
    assert inspect(tmp_path, full=["P2/*"]).rows[1].case.kind == "full"
    assert [row.case.kind for row in read_table(tmp_path, flags=LabelFlags(foreground_only=True)).rows] == 2 * [
        "partial"
    ]
    with refused("unknown-scan", name="P3/*"):
        read_table(tmp_path, flags=LabelFlags(full=("P3/*",)))
    with refused("flags-contradict"):
        read_table(tmp_path, flags=LabelFlags(full=("a",), scribbles=("P1/*",)))


def test_globs_say_it_of_scans_in_a_known_layout_too(tmp_path):
    root = make_nnunet(tmp_path)
    kinds = {case.id: case.kind for case in load(root, flags=LabelFlags(scribbles=("a",)))}
    assert kinds["a"] == "partial"
    assert kinds["d"] == "full"


def test_what_is_unclear_is_asked_and_counts_once_somebody_says_it(tmp_path, monkeypatch):
    pair(tmp_path, "a.nii.gz", "a-label.nii.gz", outlined())
    pair(tmp_path, "b.nii.gz", "b-label.nii.gz", np.minimum(drawn(), 1))

    def of_two_minds(files, classes, judge=readings.judge):
        one, other = judge(files, classes)
        return [one, {name: replace(each, sure=each.state != "strokes") for name, each in other.items()}]

    monkeypatch.setattr(readings, "judge", of_two_minds)
    table = read_table(tmp_path)
    assert [row.kind for row in table.rows] == ["full", "unsure"]
    with refused("labels-unsure", scans=["b"]):
        load(tmp_path)
    path = description.write(table)
    entry = json.loads(path.read_text())["scans"]["b"]
    assert "class 1" in entry["unsure"]
    with refused("labels-unsure", scans=["b"]):  # writing it down has decided nothing
        load(tmp_path)
    said = json.loads(path.read_text())
    said["scans"]["b"]["structures"] = {"class 1": "strokes", "class 2": "untouched"}
    path.write_text(json.dumps(said))
    assert {case.id: case.kind for case in load(tmp_path)} == {"a": "full", "b": "partial"}


def test_mixseg_json_keeps_what_it_does_not_know_and_is_judged_anew_after_more_drawing(tmp_path):
    pair(tmp_path, "P1/a.nii.gz", "P1/a-label.nii.gz", outlined())
    pair(tmp_path, "P2/b.nii.gz", "P2/b-label.nii.gz", drawn())
    path = description.write(read_table(tmp_path))
    content = json.loads(path.read_text())
    content["colleague"] = "Ada"
    content["scans"]["a"] |= {"note": "look again", "structures": {"class 1": "strokes", "class 2": "strokes"}}
    path.write_text(json.dumps(content))
    table = read_table(tmp_path)
    assert [row.kind for row in table.rows] == ["partial", "partial"]
    assert [row.case.patient for row in table.rows] == ["P1", "P2"]
    description.write(table)
    content = json.loads(path.read_text())
    assert (content["colleague"], content["scans"]["a"]["note"]) == ("Ada", "look again")
    nifti(tmp_path / "P2" / "b-label.nii.gz", outlined())
    assert [row.kind for row in read_table(tmp_path).rows] == ["partial", "full"]
    nifti(tmp_path / "P3" / "c.nii.gz", grey())
    assert [row.id for row in read_table(tmp_path).rows] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("[]", "wrong-content"),
        ("{", "invalid-json"),
        ('{"scans": []}', "wrong-content"),
        ('{"scans": {"a": {"images": ["../secret.nii.gz"]}}}', "unsafe-name"),
        ('{"scans": {"a": {"labels": "/etc/passwd"}}}', "unsafe-name"),
        ('{"scans": {"a": {"structures": {"liver": "finnished"}}}}', "invalid-value"),
        ('{"classes": [{"name": "x", "id": 1}, {"name": "y", "id": 1}]}', "duplicate-name"),
        ('{"full": [1]}', "wrong-content"),
    ],
)
def test_a_broken_mixseg_json_is_refused_by_name(content, code, tmp_path):
    nifti(tmp_path / "a.nii.gz", grey())
    (tmp_path / "mixseg.json").write_text(content)
    with refused(code, file=tmp_path / "mixseg.json"):
        read_table(tmp_path)


def test_the_table_is_rows_for_python_with_or_without_pandas(tmp_path, monkeypatch):
    pair(tmp_path, "a.nii.gz", "a-label.nii.gz", outlined())
    table = inspect(str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    (row,) = table.to_frame()
    assert (row["scan"], row["kind"], row["class 2"]) == ("a", "full", "finished")
    assert table.described[0]["structures"]["class 1"]["sure"] is True


@given(st.lists(st.tuples(st.integers(0, 2**27 - 1)), min_size=1, max_size=4), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_layers_are_composed_as_a_loop_over_voxels_does(tmp_path_factory, bits, split):
    root = tmp_path_factory.mktemp("layers")
    masks = [np.array([int(bit) for bit in f"{each:027b}"], np.uint8).reshape(3, 3, 3) for (each,) in bits]
    files = [nifti(root / f"{number}.nii", mask * (number + 1)) for number, mask in enumerate(masks)]
    layers = tuple(Layer(file, number + 1) for number, file in enumerate(files))
    composed = formats.read_ids(Source(tuple(files), layers=layers)).array
    for place in np.ndindex(3, 3, 3):
        first = next((number for number, mask in enumerate(masks, start=1) if mask[place]), 0)
        assert composed[place] == first
    assert formats.count_layers(layers) == [int(mask.sum()) for mask in masks]


@given(st.sampled_from(["", " ", "_", "-", " - ", "__"]), st.integers(0, 99), st.sampled_from(["", "_T1", " t2w"]))
def test_numbers_in_names_are_told_apart_whatever_stands_round_them(sign, number, channel):
    parts = names.tokens(f"Patient{sign}{number:03}{channel}")
    assert parts[:2] == ("patient", str(number))
    assert names.modality(parts) == channel.strip(" _").lower()
