"""Every convention of label ids, read by the rule, and nnU-Net's, written."""

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.datasets.labels import LabelFlags, declaration, describe, detect, encode, given, thin

HEART = {0: "background", 1: "RV", 2: "Myo", 3: "LV"}
STROKES = {0: 970, 1: 10, 2: 10, 3: 10}


def test_the_id_that_dataset_json_calls_ignore_is_unlabelled():
    decision = detect("labelsTr", {}, names=HEART, ignore=4)
    assert decision.ids == {0: 0, 1: 1, 2: 2, 3: 3, 4: IGNORE}
    assert decision.classes == ("background", "RV", "Myo", "LV")
    assert decision.sentence == (
        "labelsTr: 0 = background, 1 = RV, 2 = Myo, 3 = LV, 4 = unlabeled (dataset.json calls 4 ignore)."
    )


@pytest.mark.parametrize("unlabeled", [4, 255, -1, -100])
def test_one_id_above_the_declared_classes_is_unlabelled(unlabeled):
    decision = detect("labelsTr", {**STROKES, unlabeled: 5000}, names=HEART)
    assert decision.ids == {0: 0, 1: 1, 2: 2, 3: 3, unlabeled: IGNORE}


@pytest.mark.parametrize("unlabeled", [255, -1, -100])
def test_padding_ids_are_unlabelled_without_declared_classes(unlabeled):
    decision = detect("masks", {0: 5, 1: 5, 2: 5, unlabeled: 100})
    assert decision.ids == {0: 0, 1: 1, 2: 2, unlabeled: IGNORE}
    assert decision.classes == ("background", "class 1", "class 2")


@pytest.mark.parametrize("foreground", [1, 7, 255])
def test_zero_and_one_other_id_are_a_full_mask(foreground):
    decision = detect("masks", {0: 50, foreground: 50})
    assert decision.ids == {0: 0, foreground: 1}
    assert decision.classes == ("background", "foreground")


def test_a_binary_mask_of_0_and_255_is_full_although_the_class_is_declared_as_1():
    decision = detect("labelsTr", {0: 90, 255: 10}, names={0: "background", 1: "atrium"})
    assert decision.ids == {0: 0, 1: 1, 255: 1}
    assert decision.classes == ("background", "atrium")


def test_declared_ids_alone_are_full_masks():
    assert detect("labelsTr", STROKES, names=HEART).ids == {0: 0, 1: 1, 2: 2, 3: 3}


def test_viewer_strokes_with_a_named_background_leave_0_unlabelled():
    names = {1: "LV", 2: "background"}
    decision = detect("labelsTr", {0: 960, 1: 20, 2: 20}, names=names)
    assert decision.ids == {0: IGNORE, 1: 1, 2: 0}
    with pytest.raises(MixsegError, match=r"which of the label ids 0 \(94 %\)"):
        detect("labelsTr", {0: 940, 1: 30, 2: 30}, names=names)


def test_monai_label_scribbles_are_strokes_with_a_named_background():
    names = {0: "background", 1: "spleen", 2: "background_scribbles", 3: "foreground_scribbles"}
    decision = detect("labels", {0: 99, 2: 1, 3: 1}, names=names)
    assert decision.ids_in({0, 2, 3}) == {0: IGNORE, 1: 1, 2: 0, 3: 2}


@pytest.mark.parametrize(
    "said",
    [
        {"names": HEART, "flags": LabelFlags(scribble_background=4)},
        {"names": {**HEART, 4: "background_scribbles"}},
        {"names": {**HEART, 4: "background_scribbles"}, "flags": LabelFlags(unlabeled=255)},
        {"names": {**HEART, 4: "background_scribbles"}, "ignore": 255},
        {"names": HEART, "ignore": 255, "flags": LabelFlags(scribble_background=4)},
    ],
)
def test_0_is_unlabelled_where_scribbles_mark_the_background_and_background_in_the_full_masks_beside(said):
    decision = detect("labelsTr", {**STROKES, 4: 10}, **said)
    assert decision.classes == ("background", "RV", "Myo", "LV")
    full, drawn = decision.ids_in({0, 1, 2, 3}), decision.ids_in({0, 1, 4})
    assert [full[value] for value in range(4)] == [0, 1, 2, 3]
    assert [drawn[value] for value in range(5)] == [IGNORE, 1, 2, 3, 0]
    assert "; but 0 = unlabeled in a file that holds 4, a scribble (" in decision.sentence


def test_an_undeclared_id_on_few_voxels_beside_0_may_be_the_background_of_scribbles_and_is_asked_about():
    full, drawn = {0: 900, 1: 100}, {0: 970, 1: 20, 4: 10}
    total = {0: 1870, 1: 120, 4: 10}
    with pytest.raises(MixsegError, match="--scribble-background ID if full masks"):
        detect("labelsTr", total, names=HEART, files=[full, drawn])
    filled = {0: 10, 1: 20, 4: 970}  # beside many full masks 0 may be frequent, and 4 unlabeled all the same
    total = {0: 90010, 1: 10020, 4: 970}
    assert detect("labelsTr", total, names=HEART, files=[*100 * [full], filled]).ids[4] == IGNORE


def test_the_background_of_scribbles_has_an_id_of_its_own():
    for flags in (LabelFlags(scribble_background=0), LabelFlags(unlabeled=4, scribble_background=4)):
        with pytest.raises(MixsegError, match="the background of scribbles has an id of its own"):
            detect("labelsTr", STROKES, names=HEART, flags=flags)
    with pytest.raises(MixsegError, match="masks and scribbles do not mix here"):
        given("acdc", {0: 0, 1: 1}, ("background", "LV"), why="layout", flags=LabelFlags(scribble_background=4))


def test_lines_are_thin_and_regions_are_not():
    lines, region = np.zeros((2, 12, 12, 1), np.uint8)
    lines[2], lines[3], lines[4, 3:9] = 1, 2, 3  # side by side, but each is a line
    region[2:8, 2:8] = 1
    assert thin(lines)
    assert not thin(region)
    assert not thin(np.zeros_like(lines))


def test_scribblebench_without_ignore_is_read_by_the_background_flag():
    decision = detect("labelsTr", {**STROKES, 4: 10}, names=HEART, flags=LabelFlags(background=4))
    assert decision.ids == {0: IGNORE, 1: 1, 2: 2, 3: 3, 4: 0}
    assert decision.sentence.endswith("(as the flags say).")


def test_foreground_only_labels_never_hold_background():
    decision = detect("WeaklyAnnotations", {0: 99, 1: 1}, flags=LabelFlags(foreground_only=True))
    assert decision.ids == {0: IGNORE, 1: 1}
    assert decision.classes == ("background", "foreground")


@pytest.mark.parametrize("counts", [{**STROKES, 4: 50, 255: 50}, {0: 50, 4: 50}, {0: 50, 255: 50}])
def test_the_unlabelled_flag_settles_what_would_be_asked(counts):
    with pytest.raises(MixsegError, match=r"which of the label ids .* --unlabeled ID"):
        detect("labelsTr", counts, names=HEART)
    assert detect("labelsTr", counts, names=HEART, flags=LabelFlags(unlabeled=4)).ids[4] == IGNORE


def test_a_stray_id_is_left_out_of_the_map_and_mentioned():
    decision = detect("labelsTr", {**STROKES, 9: 1}, names=HEART)
    assert 9 not in decision.ids
    assert "9 is not declared and refused where it occurs" in decision.sentence
    assert detect("labelsTr", {**STROKES, 9: 1}, names=HEART, flags=LabelFlags(unlabeled=9)).ids[9] == IGNORE


def test_background_0_says_that_every_id_is_a_class():
    with pytest.raises(MixsegError, match="--background 0"):
        detect("masks", STROKES)
    decision = detect("masks", STROKES, flags=LabelFlags(background=0))
    assert decision.ids == {0: 0, 1: 1, 2: 2, 3: 3}


def test_0_unlabelled_without_a_background_is_asked_about():
    with pytest.raises(MixsegError, match="which id is the background"):
        detect("labelsTr", STROKES, names=HEART, flags=LabelFlags(unlabeled=0))
    flags = LabelFlags(unlabeled=0, background=3)
    assert detect("labelsTr", STROKES, names=HEART, flags=flags).classes == ("background", "RV", "Myo")


@pytest.mark.parametrize(
    "counts",
    [{0: 10}, {1: 5, 2: 5}, {0: 1, 1: 1, 2: 1}, {0: 5, 1: 5, 255: 1, -1: 1}, {0: 1, 2: 1, 5: 1, 255: 1}],
)
def test_nothing_is_guessed_without_names(counts):
    with pytest.raises(MixsegError, match="which of the label ids"):
        detect("masks", counts)


@pytest.mark.parametrize(
    "flags",
    [
        LabelFlags(0, 0),
        LabelFlags(background=2, foreground_only=True),
        LabelFlags(background=0, scribble_background=4),
    ],
)
def test_flags_that_contradict_each_other_are_refused(flags):
    with pytest.raises(MixsegError, match=r"^masks: "):
        detect("masks", STROKES, flags=flags)


def test_a_flag_may_add_to_a_given_map_but_not_contradict_it():
    ids = {0: 0, 1: 1, 4: IGNORE}
    classes = ("background", "LV")
    assert given("acdc", ids, classes, why="layout", flags=LabelFlags(unlabeled=255)).ids == {**ids, 255: IGNORE}
    assert given("acdc", ids, classes, why="layout", flags=LabelFlags(4, 0)).ids == ids
    for flags in (LabelFlags(unlabeled=0), LabelFlags(background=4), LabelFlags(foreground_only=True)):
        with pytest.raises(MixsegError, match=r"but a flag says .*: leave the flag out"):
            given("acdc", ids, classes, why="layout", flags=flags)


def test_ids_that_are_not_consecutive_are_remapped_and_the_map_is_recorded():
    names = {0: "background", 2: "liver", 5: "spleen", 40: "kidney"}
    decision = detect("labelsTr", {0: 1, 2: 1, 5: 1, 40: 1}, names=names)
    assert decision.ids == {0: 0, 2: 1, 5: 2, 40: 3}
    assert describe(decision.ids, decision.classes) == "0 = background, 2 = liver, 5 = spleen, 40 = kidney"


def test_a_dataset_json_without_background_gets_one():
    assert detect("labelsTr", {0: 9, 1: 1}, names={1: "LV"}).ids == {0: 0, 1: 1}


def test_encode_writes_the_highest_class_plus_one_for_unlabelled():
    array = np.array([[0, 1, IGNORE]], dtype=np.uint8)
    assert encode(array, ("background", "LV")).tolist() == [[0, 1, 2]]
    assert declaration(("background", "LV"), ignore=True) == {"background": 0, "LV": 1, "ignore": 2}
    assert declaration(("background", "LV"), ignore=False) == {"background": 0, "LV": 1}
    with pytest.raises(MixsegError, match="too many"):
        encode(array, [f"class {index}" for index in range(255)])


@settings(deadline=None, derandomize=True)
@forall(st.integers(2, 30), st.data())
def test_what_encode_writes_detect_reads_back(number, data):
    classes = ("background", *(f"organ {index}" for index in range(1, number)))
    values = data.draw(st.lists(st.sampled_from([*range(number), IGNORE]), min_size=1, max_size=50))
    array = np.array(values, dtype=np.uint8)
    written = declaration(classes, ignore=True)
    ignore = written.pop("ignore")
    decision = detect("labelsTr", {}, names={value: name for name, value in written.items()}, ignore=ignore)
    assert decision.classes == classes
    assert [decision.ids[int(value)] for value in encode(array, classes)] == values
