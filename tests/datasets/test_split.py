import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.core.errors import MixsegError
from mixseg.core.types import Case, Source
from mixseg.datasets.split import Split, check_patients_known, make_split, read_split, set_n, write_folds, write_split


def case(name, *, patient=None, kind="full", split="", annotated=None):
    source = Source((), ids={})
    return Case(
        id=name,
        patient=patient or name,
        image=(Source(()),),
        full=source if kind == "full" else None,
        partial=source if kind == "partial" else None,
        split=split,
        annotated=annotated,
    )


def test_a_patient_in_two_parts_is_refused_by_name():
    with pytest.raises(MixsegError, match="Patient b is in train and again in test"):
        Split(("a", "b"), ("c",), ("b",))


def test_a_patient_twice_in_one_part_is_refused():
    with pytest.raises(MixsegError, match="Patient a is in train and again in train"):
        Split(("a", "a"))


def test_set_n_takes_the_first_patients_in_order():
    split = Split(tuple("abcdefgh"))
    assert set_n(split, 1) == (("a",), tuple("bcdef"))
    assert set_n(split, 2, ratio=3) == (("a", "b"), tuple("cdefgh"))
    assert set_n(split, 3, ratio=0) == (tuple("abc"), ())


def test_a_set_that_is_too_large_says_not_enough_scans_and_the_numbers():
    with pytest.raises(MixsegError, match=r"not enough scans: Set-2 takes 2 .* 10 .* 12 in all, .* has 8 train"):
        set_n(Split(tuple("abcdefgh")), 2)


@pytest.mark.parametrize(("n", "ratio"), [(0, 5), (-1, 5), (1, -1)])
def test_a_set_without_patients_is_refused(n, ratio):
    with pytest.raises(MixsegError, match="makes no sense"):
        set_n(Split(("a", "b")), n, ratio)


def test_patients_are_written_and_read_back(tmp_path):
    split = Split(("z", "a"), ("m",), ("b", "c"))
    write_split(tmp_path / "splits.json", split)
    assert read_split(tmp_path / "splits.json", []) == split
    for fold in (0, 2):
        with pytest.raises(MixsegError, match=rf"is no fold {fold}: .*write folds with mixseg .*splits_final\.json"):
            read_split(tmp_path / "splits.json", [], fold=fold)


def test_one_of_several_datasets_is_read_by_name(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"acdc": {"train": ["a"], "val": [], "test": ["b"]}, "la": {"train": ["x"]}}))
    assert read_split(path, [], dataset="acdc") == Split(("a",), (), ("b",))
    assert read_split(path, [], dataset="la") == Split(("x",))
    with pytest.raises(MixsegError, match="choose one of acdc, la"):
        read_split(path, [])


def test_folds_of_case_ids_become_patients_and_go_back(tmp_path):
    cases = [case(f"{p}_{frame}", patient=p) for p in "abc" for frame in (1, 2)] + [case("t", split="test")]
    path = tmp_path / "splits_final.json"
    folds = [Split(("b", "a"), ("c",), ("t",)), Split(("c",), ("a",), ("t",))]
    write_folds(path, folds, cases)
    assert json.loads(path.read_text())[0] == {"train": ["b_1", "b_2", "a_1", "a_2"], "val": ["c_1", "c_2"]}
    assert [read_split(path, cases, fold=fold) for fold in (0, 1)] == folds
    with pytest.raises(MixsegError, match="has 2 folds"):
        read_split(path, cases, fold=2)


def test_a_fold_that_parts_a_patient_is_refused_by_name(tmp_path):
    path = tmp_path / "splits_final.json"
    path.write_text(json.dumps([{"train": ["a_1"], "val": ["a_2"]}]))
    with pytest.raises(MixsegError, match="Patient a is in train and again in val"):
        read_split(path, [case("a_1", patient="a"), case("a_2", patient="a")])


def test_a_fold_that_holds_a_test_patient_is_refused_by_name(tmp_path):
    path = tmp_path / "splits_final.json"
    path.write_text(json.dumps([{"train": ["a"], "val": ["b"]}, {"train": ["a"], "val": ["t"]}]))
    cases = [case("a"), case("b"), case("t", split="test")]
    assert read_split(path, cases, fold=0) == Split(("a",), ("b",), ("t",))
    with pytest.raises(MixsegError, match=r"Fold 1 of .*splits_final\.json holds test patients \(t\): .* --folds 5"):
        read_split(path, cases, fold=1)


def test_a_fold_of_other_scans_is_refused_by_name(tmp_path):
    path = tmp_path / "splits_final.json"
    path.write_text(json.dumps([{"train": ["a", "elsewhere"], "val": []}]))
    with pytest.raises(MixsegError, match=r"names elsewhere in train of fold 0.*nearest name is a;"):
        read_split(path, [case("a")])


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_an_unknown_patient_is_told_with_the_file_and_the_nearest_name(part):
    split = {"train": ["p001", "p002"], "val": ["p003"], "test": ["p004", "p005"]}
    cases = [case(f"{patient}_1", patient=patient) for of in split.values() for patient in of]
    check_patients_known(Path("splits.json"), Split(**split), cases)
    wrong = split[part][-1]
    split[part][-1] = wrong.replace("p00", "p0")
    with pytest.raises(
        MixsegError, match=rf"splits\.json names {split[part][-1]} in {part}.* nearest name is {wrong};"
    ):
        check_patients_known(Path("splits.json"), Split(**split), cases)


def test_test_patients_may_lie_elsewhere_altogether():
    check_patients_known(Path("splits.json"), Split(("a",), (), ("b", "c")), [case("a")])


@pytest.mark.parametrize("content", ["3", '"x"', '{"train": "abc"}', '{"train": [1]}', '[{"train": 1}]', "[3]"])
def test_a_file_that_holds_no_split_is_one_sentence(tmp_path, content):
    path = tmp_path / "splits.json"
    path.write_text(content)
    with pytest.raises(MixsegError, match=r"splits\.json"):
        read_split(path, [])


def test_a_patient_whose_mask_lacks_a_class_neither_judges_nor_comes_first():
    cases = [case("a", annotated=()), case("b"), case("c", annotated=("foreground",)), case("d", kind="unlabeled")]
    for seed in range(5):
        split = make_split(cases, seed=seed, val=0.5)
        assert {*split.val, split.train[0]} == {"b", "c"}


kinds = st.sampled_from(["full", "partial", "unlabeled"])


@settings(deadline=None, derandomize=True)
@given(
    scans=st.lists(st.tuples(st.integers(0, 30), kinds), min_size=1, max_size=80),
    seed=st.integers(0, 5),
    val=st.sampled_from([0.0, 0.1, 0.3]),
    test=st.sampled_from([0.0, 0.2, 0.6]),
)
def test_a_random_split_keeps_patients_whole_and_validates_on_full_masks(scans, seed, val, test):
    cases = [case(f"s{i}", patient=f"p{p}", kind=kind) for i, (p, kind) in enumerate(scans)]
    split = make_split(cases, seed=seed, val=val, test=test)
    patients = {c.patient for c in cases}
    assert sorted((*split.train, *split.val, *split.test)) == sorted(patients)
    labelled = {p for p in patients if all(c.kind == "full" for c in cases if c.patient == p)}
    assert {*split.val, *split.test} <= labelled
    assert len(split.val) + len(split.test) <= len(labelled) // 2
    first_not_full = [p in labelled for p in split.train].count(True)
    assert all(p in labelled for p in split.train[:first_not_full])
    assert make_split(cases[::-1], seed=seed, val=val, test=test) == split


def test_another_seed_gives_another_split():
    cases = [case(f"p{i}") for i in range(20)]
    assert len({make_split(cases, seed=seed).val for seed in range(5)}) > 1


def test_one_of_two_labelled_patients_validates():
    cases = [case("a"), case("b"), *(case(f"w{i}", kind="partial") for i in range(4))]
    split = make_split(cases)
    assert len(split.val) == 1
    assert split.val[0] in ("a", "b")
    assert split.train[0] in ("a", "b")


@pytest.mark.parametrize("seed", range(6))
def test_patients_who_show_a_structure_judge_before_healthy_ones(seed):
    cases = [case(f"{name}{frame}", patient=name) for name in "abcdefgh" for frame in (1, 2)]
    ill = {"a2", "b1", "c1", "d2", "e1"}
    split = make_split(cases, seed=seed, val=0.1, test=0.2, shows=lambda each: each.id in ill)
    assert {*split.val, *split.test} <= set("abcde")
    assert (len(split.val), len(split.test)) == (1, 2)
    split = make_split(cases, seed=seed, val=0.4, shows=lambda each: each.patient in "abc")
    assert (len(split.val), len({*"abc"} & {*split.val})) == (3, 1), "most of those who show one are to be learnt from"
    split = make_split(cases, seed=seed, val=0.1, shows=lambda each: each.patient == "a")
    assert "a" in split.train


@settings(deadline=None, derandomize=True)
@given(patients=st.integers(1, 40), seed=st.integers(0, 5), val=st.floats(0, 1), test=st.sampled_from([0.0, 0.2, 0.6]))
def test_where_all_show_a_structure_a_split_is_drawn_as_if_nobody_had_looked(patients, seed, val, test):
    cases = [case(f"p{number}") for number in range(patients)]
    asked = []
    drawn = make_split(cases, seed=seed, val=val, test=test, shows=lambda each: asked.append(each.id) or True)
    assert drawn == make_split(cases, seed=seed, val=val, test=test)
    assert drawn.test + drawn.val + drawn.train == make_split(cases, seed=seed, val=0.0).train
    assert len(asked) <= 2 * len(drawn.test + drawn.val), "no more masks are read than are needed"


def test_the_folders_on_disk_decide_before_chance():
    cases = [case("a"), case("b"), case("c", split="val"), case("d", split="test"), case("e", split="train")]
    split = make_split(cases, val=0.5, test=0.5)
    assert (split.val, split.test) == (("c",), ("d",))


def test_a_patient_in_two_folders_is_refused_by_name():
    with pytest.raises(MixsegError, match=r"Patient a has scans in train and in test \(case a2\)"):
        make_split([case("a1", patient="a"), case("a2", patient="a", split="test")])
