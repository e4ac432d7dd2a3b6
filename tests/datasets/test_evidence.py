"""Finished masks or strokes: what is decided of label maps whose truth is known."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT
from mixseg.datasets.evidence import judge, measure
from mixseg.datasets.partial_labels import GENERATORS

sys.path.insert(0, str(ROOT / "benchmarks"))

import annotators

NAMES = {1: "liver", 2: "lesion", 3: "vessel"}
SPACING = (1.0, 1.0, 2.5)
CENTRE = (5, 3, 2)


def body(scale=1.0, lesion=6.0, vessel=4.0):
    """A liver with a lesion and a vessel in it, in slices 2.5 mm thick."""
    at = np.stack(np.meshgrid(*[np.arange(n) - n / 2 for n in (64, 56, 24)], indexing="ij"), -1) * SPACING
    ids = (((at / (np.array([22, 19, 25]) * scale)) ** 2).sum(-1) < 1).astype(np.uint8)
    ids[(((at - (-8, -3, 0))[..., :2] ** 2).sum(-1) < vessel**2) & (np.abs(at[..., 2]) < 24)] = 3 if vessel else 1
    ids[((at - CENTRE) ** 2).sum(-1) < lesion**2] = 2 if lesion else 1
    return ids


def strokes(ids, width=3, every=3):
    """A straight stroke through each structure on every n-th slice."""
    out = np.zeros_like(ids)
    for k in range(1, ids.shape[2], every):
        for value in np.unique(ids[:, :, k])[1:]:
            rows = np.argwhere(ids[:, :, k] == value)
            middle = int(np.median(rows[:, 0]))
            band = np.zeros(ids.shape[:2], bool)
            band[middle : middle + width] = True
            out[:, :, k][band & (ids[:, :, k] == value)] = value
    return out


def facts(ids, names=NAMES, file="label.nii.gz", **more):
    return measure(ids, names, file=Path(file), spacing=SPACING, **more)


def read(*files):
    return judge([one if not isinstance(one, np.ndarray) else facts(one) for one in files], list(NAMES.values()))


def states(found):
    return {name: reading.state if reading.sure else "asked" for name, reading in found.items()}


def all_are(state):
    return dict.fromkeys(NAMES.values(), state)


@pytest.mark.parametrize("width", [1, 2, 4, 6])
@pytest.mark.parametrize("every", [2, 3])
def test_finished_masks_and_strokes_are_told_apart_with_any_brush(width, every):
    found = read(body(), body(1.1, lesion=4), strokes(body(0.9), width, every), strokes(body(), width, every))
    assert [states(one) for one in found] == [all_are("finished")] * 2 + [all_are("strokes")] * 2


def test_without_anything_to_compare_with_a_mask_is_finished_and_strokes_are_strokes():
    assert states(read(body())[0]) == all_are("finished")
    assert states(read(strokes(body()))[0]) == all_are("strokes")


def test_one_structure_of_a_file_may_be_finished_and_another_only_strokes():
    drawn = np.where(body() == 3, strokes(body()), body())
    for found in (read(drawn)[0], read(body(), drawn)[1]):
        assert states(found) == {"liver": "finished", "lesion": "finished", "vessel": "strokes"}


def test_a_small_finished_lesion_beside_large_ones_is_finished_and_none_is_absent():
    found = read(body(lesion=11), body(lesion=3), body(lesion=0))
    assert [states(one)["lesion"] for one in found] == ["finished", "finished", "absent"]


def test_a_structure_of_which_nothing_is_painted_among_strokes_is_untouched():
    assert states(read(body(), strokes(body(lesion=0)))[1])["lesion"] == "untouched"


def test_an_organ_that_is_missing_in_a_finished_mask_is_asked_about():
    assert states(read(body(), body(vessel=0))[1]) == {"liver": "finished", "lesion": "finished", "vessel": "asked"}


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_full_slices_with_others_left_out_are_strokes_along_any_axis_and_the_reason_says_so(axis):
    ids = np.zeros_like(body())
    np.moveaxis(ids, axis, 0)[::2] = np.moveaxis(body(), axis, 0)[::2]
    found = read(body(), ids)[1]
    assert {found["liver"].state, found["vessel"].state} == {"strokes"}
    assert found["liver"].sure
    assert "second slice" in found["liver"].why
    assert "outlined in full" in found["liver"].why


@pytest.mark.parametrize("name", [name for name in GENERATORS if name != "boxes"])
def test_what_our_generators_leave_of_a_mask_is_never_finished(name):
    made = GENERATORS[name](body(), np.random.default_rng(0))
    made = np.where(made == 255, 0, made)
    for found in (read(made)[0], read(body(), body(1.1), made)[2]):
        assert "finished" not in states(found).values()


def test_a_painted_background_makes_strokes_of_everything_unless_it_fills_the_rest():
    names = NAMES | {4: "Background"}
    line = body()
    line[2, :, 5] = 4
    assert states(read(facts(line, names))[0]) == all_are("strokes")
    assert states(read(facts(np.where(body() == 0, 4, body()), names))[0]) == all_are("finished")
    void = body()
    void[:3] = 4
    assert states(read(facts(void, NAMES | {4: "ignore"}))[0]) == all_are("strokes")


def test_slicer_counts_only_where_it_says_completed():
    with_status = [facts(body(vessel=0), status={"vessel": status}) for status in ("completed", "inprogress")]
    assert [states(read(body(), one)[1])["vessel"] for one in with_status] == ["absent", "asked"]
    drawn = facts(strokes(body()), status=dict.fromkeys(NAMES.values(), "completed"))
    assert "finished" not in states(read(drawn)[0]).values()


def test_a_word_in_the_name_of_a_file_that_its_shape_contradicts_is_asked_about_and_never_followed():
    assert "strokes" not in states(read(facts(body(), file="x_scribbles.nii.gz"))[0]).values()
    assert "finished" not in states(read(facts(strokes(body()), file="x_final.nii.gz"))[0]).values()
    assert facts(body(), file="case-01_seed.nrrd").words == {"seed"}


def test_the_same_is_read_whatever_the_order_of_the_axes():
    maps = [body(), strokes(body()), body(0.8, lesion=3)]
    turned = [measure(ids.transpose(2, 0, 1), NAMES, file=Path("x"), spacing=(2.5, 1.0, 1.0)) for ids in maps]
    assert [states(one) for one in read(*turned)] == [states(one) for one in read(*maps)]


def test_counts_are_those_of_a_cube_between_two_plates():
    ids = np.zeros((9, 9, 9), np.uint8)
    ids[3:6, 3:6, 3:6] = 1
    ids[3:6, 3:6, 6] = ids[3:6, 3:6, 2] = 2
    cube = measure(ids, {1: "a", 2: "b"}, file=Path("x"), spacing=(1, 1, 2)).structures["a"]
    axis = cube.axes[2]
    assert (cube.voxels, cube.volume, cube.extent, cube.fill, cube.components) == (27, 0.054, (3, 3, 6), 1, 1)
    assert cube.touches == {"b": 18 / 26}
    assert (axis.painted, axis.inside, axis.width, axis.components, axis.thin) == ((3, 4, 5), 1 / 9, 3, 3, 0)
    assert (axis.likeness, axis.roughness, axis.ends, axis.length) == (1, 1, (1, 1), 3)


def test_facts_are_small_and_survive_odd_input():
    found = facts(body())
    assert len(pickle.dumps(found)) < 10_000
    assert pickle.loads(pickle.dumps(found)) == found
    assert states(read(np.zeros((4, 4, 4), np.uint8))[0]) == all_are("untouched")
    flat = measure(np.eye(9, dtype=np.int16) * 7, {}, file=Path("x"), spacing=(1, 1, float("nan")))
    assert list(flat.structures) == ["7"]
    assert judge([], ["liver"]) == []
    twice = measure(body(), {1: "liver", 2: "liver", 3: "liver"}, file=Path("x"), spacing=SPACING)
    assert twice.structures["liver"].voxels == (body() > 0).sum()


def outcome(seed):
    """Of one folder by formula: its readings that are wrong, those that are asked about, and how many there are."""
    _, names, files = annotators.study(np.random.default_rng(seed))
    found = judge([measure(one.array, one.names, file=Path(one.name), spacing=one.spacing) for one in files], names)
    pairs = [
        (made.truth[name], reading[name])
        for made, reading in zip(files, found, strict=True)
        for name in names
        if made.truth[name]
    ]
    wrong = [(truth, reading) for truth, reading in pairs if reading.sure and reading.state != truth]
    return wrong, sum(not reading.sure for _, reading in pairs), len(pairs)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_folders_of_any_bodies_and_annotators_are_not_misread(seed):
    assert outcome(seed)[0] == []


def test_fewer_than_a_quarter_of_the_structures_are_asked_about():
    asked, total = np.sum([outcome(seed)[1:] for seed in range(6)], axis=0)
    assert asked < 0.25 * total


@pytest.mark.real
def test_no_mask_of_a_heart_is_taken_for_strokes_and_no_scribble_for_a_mask(real_data):
    from mixseg.datasets import formats

    classes = ("RV", "Myo", "LV")
    masks, drawn = [], []
    for path in sorted(real_data.glob("acdc/patient*/*_gt.nii.gz"))[::6]:
        masks.append(np.asarray(formats.read(path).array))
        scribble = np.asarray(formats.read(path.with_name(path.name.replace("_gt", "_scribble"))).array)
        drawn.append(np.where(scribble == 4, 0, scribble))
    measured = [
        measure(ids, dict(enumerate(classes, 1)), file=Path("x.nii.gz"), spacing=(1.5, 1.5, 8.0))
        for ids in masks + drawn
    ]
    for group, never in ((measured[: len(masks)], "strokes"), (measured[len(masks) :], "finished")):
        for files in (measured, group, *([one] for one in group)):
            chosen = [reading for one, reading in zip(files, judge(files, classes), strict=True) if one in group]
            assert all(never != state for one in chosen for state in states(one).values())
