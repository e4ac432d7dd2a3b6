import gc
from dataclasses import replace

import numpy as np
import pytest

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, KINDS
from mixseg.data.prepare.files import PrepareOptions, prepare
from mixseg.data.prepare.store import PreparedCase
from mixseg.data.scan import Header, Scan
from mixseg.data.supervision import Proposals, see, unscored, without_mask
from mixseg.datasets.split import Split
from scans import write_case, write_cases

OPTIONS = PrepareOptions(size=(16, 16), partial="points")
SPLIT = Split(tuple(f"p{i:02}" for i in range(7)), ("p07",), ("p08",))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Nine patients of two frames, every one with a full mask."""
    folder = tmp_path_factory.mktemp("labelled")
    return prepare(write_cases(folder / "in", 9, shape=(20, 24, 2)), folder / "out", OPTIONS, workers=1)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Patients as they come: two with full masks, two with strokes, one with nothing, one to validate on."""
    folder = tmp_path_factory.mktemp("mixed")
    cases = [
        write_case(folder / "in", f"p{i}", full=kind == "full", drawn=kind != "unlabeled")
        for i, kind in enumerate(["full", "full", "partial", "partial", "unlabeled", "full"])
    ]
    return prepare(cases, folder / "out", PrepareOptions(size=(16, 16)), workers=1)


MIXED = Split(("p0", "p1", "p2", "p3", "p4"), ("p5",))


def searched(folder, *annotated, **options):
    """Prepared scans with full masks, one for each of ``annotated``: the classes that were looked for in it."""
    cases = [
        replace(write_case(folder / "in", f"p{i}", drawn=options.get("partial") == "drawn"), annotated=names)
        for i, names in enumerate(annotated)
    ]
    return prepare(cases, folder / "out", PrepareOptions(size=(20, 24), **options), workers=1)


def patients(seen):
    return list(dict.fromkeys(scan.case.patient for scan in seen))


def kinds(view):
    return [len(view.train[kind]) for kind in KINDS]


def test_set_n_sees_full_masks_of_the_first_and_partial_labels_of_the_next(labelled):
    view = see(labelled, SPLIT, n=1, ratio=5)
    assert patients(view.train["full"]) == ["p00"]
    assert patients(view.train["partial"]) == ["p01", "p02", "p03", "p04", "p05"]
    assert (view.train["unlabeled"], patients(view.val)) == ([], ["p07"])
    assert kinds(view) == [2, 10, 0]
    for seen in view.train["full"]:
        assert (seen.full == labelled.full(labelled[seen.name])).all()
        assert (seen.partial == labelled.partial(labelled[seen.name])).all()
    for seen in view.train["partial"]:
        assert (seen.image == labelled.image(labelled[seen.name])).all()
        assert (seen.partial == labelled.partial(labelled[seen.name])).all()


def test_full_masks_of_partial_patients_cannot_be_reached_through_the_view(labelled):
    view = see(labelled, SPLIT, n=1, ratio=5)
    assert all(seen.full is None for seen in view.train["partial"])
    for seen in view.train["partial"]:
        truth = labelled.full(seen.case)
        reached, front = [], [seen]
        while front:  # everything that a partial case refers to, directly or not
            item = front.pop()
            if any(item is other for other in reached):
                continue
            reached.append(item)
            if isinstance(item, Scan | PreparedCase | Header | dict | tuple | list | np.ndarray):
                front += [other for other in gc.get_referents(item) if not isinstance(other, type)]
            if isinstance(item, np.ndarray):
                assert not np.array_equal(item, truth)
        assert not any(item is labelled for item in reached)


@pytest.mark.parametrize(
    ("sees", "expected"),
    [("mixed", [2, 10, 0]), ("full", [2, 0, 0]), ("all-full", [12, 0, 0]), ("unlabeled", [2, 0, 10])],
)
def test_what_is_seen_of_a_set(labelled, sees, expected):
    view = see(labelled, SPLIT, sees=sees, n=1)
    assert kinds(view) == expected
    assert all(seen.full is not None for seen in view.train["full"])
    assert all(seen.full is None and seen.partial is None for seen in view.train["unlabeled"])


def test_an_upper_bound_without_a_set_takes_all_train_patients(labelled):
    assert patients(see(labelled, SPLIT, sees="all-full").train["full"]) == list(SPLIT.train)


@pytest.mark.parametrize("sees", ["mixed", "full", "all-full", "unlabeled"])
@pytest.mark.parametrize("n", [1, None])
def test_patients_never_cross_and_test_stays_closed_until_opened(labelled, sees, n):
    view = see(labelled, SPLIT, sees=sees, n=n)
    parts = [
        set(patients(part)) for part in (view.train["full"], view.train["partial"], view.train["unlabeled"], view.val)
    ]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert "p08" not in set.union(*parts)
    assert patients(view.open_test()) == ["p08"]
    assert all(seen.full is not None for seen in view.open_test())


def test_without_a_set_each_scan_is_seen_with_what_it_has(mixed):
    assert kinds(see(mixed, MIXED)) == [2, 2, 1]
    assert kinds(see(mixed, MIXED, sees="full")) == [2, 0, 0]
    assert kinds(see(mixed, MIXED, sees="unlabeled")) == [2, 0, 3]


def test_proposals_become_full_masks(mixed):
    proposals = {name: np.full((3, 16, 16), 2, np.uint8) for name in ("p2_01", "p3_01", "p4_01")}
    view = see(mixed, MIXED, sees="proposals", proposals=Proposals(proposals))
    assert kinds(view) == [5, 0, 0]
    assert all((seen.full == 2).all() for seen in view.train["full"][2:])
    assert (view.train["full"][0].full == mixed.full(mixed["p0_01"])).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p2_01": None}, "no proposal for p2_01"),
        ({"p2_01": np.zeros((3, 9, 9), np.uint8)}, "not uint8 of"),
        ({"p2_01": np.full((3, 16, 16), 9, np.uint8)}, "holds 9, which is no class"),
    ],
)
def test_a_wrong_proposal_is_named(mixed, change, message):
    proposals = {name: np.zeros((3, 16, 16), np.uint8) for name in ("p2_01", "p3_01", "p4_01")} | change
    with pytest.raises(MixsegError, match=message):
        see(mixed, MIXED, sees="proposals", proposals=Proposals(proposals))


def test_requests_that_cannot_be_met_are_one_sentence(labelled, mixed):
    for prepared, split, options, message in [
        (labelled, SPLIT, {"n": 2}, "not enough scans: Set-2 takes 2 fully and 10 partially"),
        (labelled, Split(("p00", "p99")), {}, "not enough scans: train takes 2 patients and .* holds 1 of them"),
        (mixed, Split(("p2", "p3")), {}, "no fully labelled scan"),
        (mixed, MIXED, {"sees": "all-full"}, r"full mask of p2_01, which has none \(3 such scans\)"),
        (mixed, Split(("p2", "p0")), {"n": 1, "ratio": 1}, "Set-1 needs the full mask of p2_01"),
        (mixed, Split(("p0", "p4")), {"n": 1, "ratio": 1}, "Set-1 needs the partial labels of p4_01"),
        (mixed, Split(("p0",), ("p3",)), {}, "None of the val patients"),
        (mixed, MIXED, {"sees": "everything"}, "cannot see 'everything'"),
    ]:
        with pytest.raises(MixsegError, match=message):
            see(prepared, split, **options)


def test_an_archive_without_its_test_patients_trains_and_says_so_when_they_are_opened(mixed):
    view = see(mixed, Split(MIXED.train, MIXED.val, ("p77",)))
    with pytest.raises(MixsegError, match="test takes 1 patients"):
        view.open_test()


def test_test_scans_without_a_mask_are_left_out_and_none_with_one_is_a_sentence(mixed):
    view = see(mixed, Split(("p0", "p2"), ("p5",), ("p1", "p3")))
    assert [scan.name for scan in view.open_test()] == ["p1_01"]
    with pytest.raises(MixsegError, match=r"None of the test patients .* nothing to score; leave the test out"):
        see(mixed, Split(("p0", "p2"), ("p5",), ("p3", "p4"))).open_test()


@pytest.mark.parametrize("partial", ["drawn", "none", "scribbles", "points", "boxes", "slices"])
def test_a_mask_in_which_a_class_was_not_looked_for_is_its_foreground_alone(tmp_path, partial):
    prepared = searched(tmp_path, None, ("LV", "Myo"), partial=partial)
    view = see(prepared, Split(("p0", "p1")))
    assert [seen.name for seen in view.train["full"]] == ["p0_01"]
    (seen,) = view.train["partial"]
    mask = prepared.full(prepared["p1_01"])
    assert (seen.full, view.protocol.get("unused")) == (None, None)
    np.testing.assert_array_equal(seen.partial, np.where(mask == 0, IGNORE, mask))
    assert (mask == 0).any(), "the prepared folder still has it"


@pytest.mark.parametrize("partial", ["drawn", "scribbles", "points", "boxes", "slices", "erosion-3x3"])
def test_partial_labels_of_a_set_never_say_background_where_a_class_was_not_looked_for(tmp_path, partial):
    prepared = searched(tmp_path, None, ("LV",), None, partial=partial)
    view = see(prepared, Split(("p0", "p1", "p2")), n=1, ratio=2)
    labels = [prepared.partial(prepared[name]) for name in ("p1_01", "p2_01")]
    np.testing.assert_array_equal(view.train["partial"][0].partial, np.where(labels[0] == 0, IGNORE, labels[0]))
    np.testing.assert_array_equal(view.train["partial"][1].partial, labels[1])


def test_a_set_takes_such_a_mask_for_partial_labels_and_not_for_a_full_one(tmp_path):
    prepared = searched(tmp_path, None, ("LV",), ("LV", "RV"), partial="none")
    view = see(prepared, Split(("p0", "p1", "p2")), n=1, ratio=2)
    assert kinds(view) == [1, 2, 0]
    assert all(set(np.unique(seen.partial)) == {1, 2, 3, IGNORE} for seen in view.train["partial"])
    message = (
        r"Set-2 needs the full mask of p1_01, in which nobody looked for RV \(1 such scans\): outline it there too"
    )
    with pytest.raises(MixsegError, match=message):
        see(prepared, Split(("p0", "p1", "p2")), n=2, ratio=0)


def test_methods_on_full_masks_alone_leave_such_scans_out_and_others_have_their_images(tmp_path):
    prepared = searched(tmp_path, None, ("LV",), None)
    split = Split(("p0", "p1", "p2"))
    for sees in ("full", "all-full"):
        view = see(prepared, split, sees=sees)
        assert (kinds(view), patients(view.train["full"]), view.protocol["unused"]) == (
            [2, 0, 0],
            ["p0", "p2"],
            ["p1_01"],
        )
    view = see(prepared, split, sees="unlabeled")
    assert (kinds(view), view.train["unlabeled"][0].name, view.train["unlabeled"][0].partial) == (
        [2, 0, 1],
        "p1_01",
        None,
    )
    proposal = np.full((3, 20, 24), 2, np.uint8)
    view = see(prepared, split, sees="proposals", proposals=Proposals({"p1_01": proposal}))
    assert [seen.full is proposal for seen in view.train["full"]] == [False, False, True]


def test_no_mask_of_all_classes_is_told_with_the_class(tmp_path):
    prepared = searched(tmp_path, ("LV",), ("RV", "Myo"))
    with pytest.raises(MixsegError, match=r"no fully labelled scan .* \(in p0_01 nobody looked for RV\)"):
        see(prepared, Split(("p0", "p1")))


def test_patients_and_scans_that_no_mask_can_judge_are_named(tmp_path):
    scans = [("a", "01", True), ("b", "01", True), ("b", "09", False), ("c", "01", False), ("c", "09", False)]
    cases = [write_case(tmp_path / "in", patient, frame, full=full) for patient, frame, full in scans]
    prepared = prepare(cases, tmp_path / "out", PrepareOptions(size=(16, 16)), workers=1)
    split = Split(("a",), ("b", "c"), ("elsewhere",))
    assert unscored(prepared, split) == ("c", "b_09")
    assert without_mask(prepared, ("c", "b", "a", "elsewhere")) == ("c",), "who is not there may have one"
    assert [seen.name for seen in see(prepared, split).val] == ["b_01"]
    assert unscored(prepared, Split(("b", "c"), ("a",))) == ()


@pytest.mark.parametrize("part", ["val", "test"])
def test_nothing_is_judged_by_a_mask_in_which_a_class_was_not_looked_for(tmp_path, part):
    prepared = searched(tmp_path, None, ("LV", "RV"))
    with pytest.raises(
        MixsegError, match=rf"In p1_01 nobody looked for Myo, and scores of the {part} .*leave the scan"
    ):
        see(prepared, Split(**{"train": ("p0",), part: ("p1",)})).open_test()


def test_classes_that_are_not_segmented_need_not_have_been_looked_for(tmp_path):
    prepared = searched(tmp_path, ("LV", "RV"), ("LV",), target=("LV",))
    view = see(prepared, Split(("p0",), ("p1",)))
    assert (kinds(view), patients(view.val)) == ([1, 0, 0], ["p1"])
    assert (view.train["full"][0].full == 0).any()
