import pytest

from mixseg.core.errors import MixsegError
from mixseg.core.types import Case, Source
from mixseg.datasets.folds import make_fold, make_folds
from mixseg.datasets.split import read_split, write_folds

FILE = Source(())


def patients(full, partial, test=0):
    kinds = ["full"] * full + ["partial"] * partial + ["test"] * test
    return [
        Case(
            f"p{number:02}_{frame}",
            f"p{number:02}",
            (FILE,),
            full=FILE if kind != "partial" else None,
            partial=FILE if kind == "partial" else None,
            split="test" if kind == "test" else "",
        )
        for number, kind in enumerate(kinds)
        for frame in ("a", "b")
    ]


@pytest.mark.parametrize(("full", "partial"), [(5, 0), (12, 9), (7, 3)])
def test_every_fully_labelled_patient_validates_once_and_trains_otherwise(full, partial):
    cases = patients(full, partial, test=2)
    folds = make_folds(cases)
    everyone = {case.patient for case in cases if case.split != "test"}
    assert len(folds) == 5
    validating = [patient for fold in folds for patient in fold.val]
    assert sorted(validating) == sorted({case.patient for case in cases if case.full and case.split != "test"})
    assert max(len(fold.val) for fold in folds) - min(len(fold.val) for fold in folds) <= 1
    for fold in folds:
        assert set(fold.train) | set(fold.val) == everyone
        assert len(fold.test) == 2


def test_few_patients_make_fewer_folds_and_one_none():
    assert len(make_folds(patients(3, 4))) == 3
    with pytest.raises(MixsegError, match="1 patients have nothing but full masks"):
        make_folds(patients(1, 4))
    with pytest.raises(MixsegError, match="There are 3 folds of these scans"):
        make_fold(patients(3, 4), 3)


@pytest.mark.parametrize("count", [1, -1])
def test_fewer_than_two_folds_are_refused_as_such(count):
    with pytest.raises(MixsegError, match=f"^{count} folds .*: ask for two or more"):
        make_folds(patients(6, 0), count=count)


def test_folds_do_not_depend_on_the_order_and_come_back_from_the_file(tmp_path):
    cases = patients(6, 4)
    folds = make_folds(cases)
    assert make_folds(cases[::-1]) == folds
    assert make_folds(cases, seed=1) != folds
    write_folds(tmp_path / "splits_final.json", folds, cases)
    assert [read_split(tmp_path / "splits_final.json", cases, fold=number) for number in range(5)] == folds


def test_patients_who_show_a_structure_are_dealt_out_to_all_folds():
    cases = patients(15, 4)
    healthy = {f"p{number:02}" for number in range(10)}
    folds = make_folds(cases, shows=lambda case: case.patient not in healthy)
    assert [len(set(fold.val) - healthy) for fold in folds] == [1] * 5
    assert make_fold(cases, 2, shows=lambda case: case.patient not in healthy) == folds[2]
    assert make_folds(cases, shows=lambda case: True) == make_folds(cases)
