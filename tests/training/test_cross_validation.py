"""Few full masks: all are trained on, and each is scored by a training that has not seen it; nothing is done twice."""

import math
from pathlib import Path

import numpy as np
import pytest

from made_runs import checkpoint, differences
from mixseg.core.text_files import read_json
from mixseg.core.types import IGNORE, Volume
from mixseg.datasets import formats
from mixseg.datasets.folds import make_folds
from mixseg.datasets.layouts import nnunet
from mixseg.datasets.split import Split, write_split
from mixseg.evaluation.scores import read_metrics
from mixseg.evaluation.statistics import estimate
from mixseg.report.run_files import RunFiles
from mixseg.report.run_report import write_report
from mixseg.report.self_training import write_rounds
from mixseg.report.wording import verdict
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.training import cross_validation
from mixseg.training.cross_validation import train_and_estimate, who_is_held_out
from mixseg.training.folder import ScanFolder, train_folder
from mixseg.training.self_training import self_train
from scans import write_case

CPU = Hardware("cpu")
SMALL = {"preset": "quick", "method": "kl", "steps": 5, "width": 2, "depth": 2, "size": [16, 16], "validate_every": 5}
CLASSES = ("background", "disc", "dot")


def write_scans(folder, *, full, partial=0, unlabeled=0, dots=99):
    """Patients with a disc, and the first ``dots`` of them with a dot; strokes are every third column of the mask."""
    items = []
    for number in range(full + partial + unlabeled):
        rng = np.random.default_rng(number)
        grid = np.indices((16, 16, 3))
        mask = (np.hypot(grid[0] - rng.uniform(6, 10), grid[1] - rng.uniform(6, 10)) < 4).astype(np.uint8)
        mask[13:15, 13:15] = 2 * (number < dots)
        image = (300 + 200.0 * mask + rng.normal(0, 30, mask.shape)).astype(np.int16)
        strokes = np.where(grid[1] % 3 == 0, mask, IGNORE).astype(np.uint8)
        label = mask if number < full else strokes if number < full + partial else None
        items.append(nnunet.Item(f"p{number}", (Volume(image),), label))
    nnunet.write_dataset(folder, "discs", CLASSES, items)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three patients with full masks, one with strokes and one without labels; and a run on them."""
    root = tmp_path_factory.mktemp("few")
    scans = write_scans(root / "scans", full=3, partial=1, unlabeled=1)
    return scans, train_and_estimate(scans, root / "run", settings=SMALL, hardware=CPU)


def folds_of(run):
    return [RunFolder(path) for path in sorted((run.path / "cross-validation").glob("fold-*"))]


def dsc(guess, truth):
    return 2 * np.count_nonzero(guess & truth) / (np.count_nonzero(guess) + np.count_nonzero(truth))


def test_each_patient_is_held_out_once_and_the_run_itself_learns_from_all(made):
    _, run = made
    seen = [(set(fold.facts["protocol"]["full"]), set(fold.facts["protocol"]["val"])) for fold in folds_of(run)]
    assert sorted(name for _, held_out in seen for name in held_out) == ["p0", "p1", "p2"]
    assert all(full == {"p0", "p1", "p2"} - held_out for full, held_out in seen)
    assert all(fold.facts["protocol"]["partial"] == ["p3"] for fold in folds_of(run))
    assert (set(run.facts["protocol"]["full"]), run.facts["protocol"]["val"]) == ({"p0", "p1", "p2"}, [])
    assert [fold.finished["steps"] for fold in folds_of(run)] == [math.ceil(SMALL["steps"] / 3)] * 3
    assert run.finished["steps"] == SMALL["steps"]
    assert not (run.path / "best.pt").exists()


def test_the_folds_are_those_that_f_takes_from_the_same_folder(made):
    scans, run = made
    drawn = make_folds(ScanFolder(scans).cases)
    assert [list(fold.val) for fold in drawn] == [fold.facts["protocol"]["val"] for fold in folds_of(run)]


def test_the_figure_is_that_of_the_held_out_label_maps_which_are_kept(made):
    scans, run = made
    rows = [row for row in read_metrics(run.path / "cross-validation" / "metrics.csv") if row.branch == "bottom"]
    assert {(row.part, row.checkpoint) for row in rows} == {("held-out", "last")}
    assert len(rows) == 3 * 2
    for fold in folds_of(run):
        (case,) = fold.facts["protocol"]["val"]
        kept = formats.read(fold.path / "predictions" / "last" / "bottom" / f"{case}.nii.gz").array
        truth = formats.read(scans / "labelsTr" / f"{case}.nii.gz").array
        for row in (row for row in rows if row.case == case):
            index = CLASSES.index(row.label)
            assert row.dsc == pytest.approx(dsc(kept == index, truth == index))
    told = read_json(run.path / "cross-validation" / "summary.json")
    (mean,) = [each for each in told["summary"] if (each["branch"], each["class"]) == ("bottom", "mean")]
    found = estimate([[(row.case, row.label, row.dsc) for row in rows]], bounds=(0.0, 1.0))
    assert (mean["dsc"]["mean"], mean["patients"]) == (pytest.approx(found.mean), 3)
    assert mean["interval"] == pytest.approx([found.low, found.high])
    assert (told["method"], told["steps"], told["folds"]) == ("leave-one-patient-out", 2, 3)


@pytest.mark.usefixtures("unpainted")
def test_the_page_and_the_sentence_quote_the_figure_with_its_interval(made):
    _, run = made
    found = RunFiles.read(run.path)
    (mean,) = [
        each
        for each in read_json(run.path / "cross-validation" / "summary.json")["summary"]
        if (each["branch"], each["class"]) == ("bottom", "mean")
    ]
    figure = f"{100 * mean['dsc']['mean']:.1f} %"
    interval = "{:.1f} to {:.1f}".format(*(100 * bound for bound in mean["interval"]))
    sentence = verdict(found)
    assert all(part in sentence for part in ("leave-one-patient-out", figure, interval, "3 patients"))
    assert {example.case for example in found.examples} == {"p0", "p1", "p2"}
    assert sentence in write_report(run.path).read_text("utf-8")


def state_of(folder):
    """What changes when a file is written."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", "report.html"))
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in found}


def test_the_same_command_again_writes_nothing(made):
    scans, run = made
    before = state_of(run.path)
    train_and_estimate(scans, run.path, settings=SMALL, hardware=CPU)
    train_and_estimate(scans, run.path, settings=SMALL, hardware=CPU, cross_validation=False)
    assert state_of(run.path) == before


def test_a_run_that_was_stopped_in_its_second_fold_goes_on_there_and_ends_as_any_other(made, tmp_path, monkeypatch):
    scans, whole = made
    calls = []

    def power_cut(run, *more, **options):
        calls.append(run.path.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        train(run, *more, **options)

    train = cross_validation.train_on_files
    with monkeypatch.context() as patched:
        patched.setattr(cross_validation, "train_on_files", power_cut)
        with pytest.raises(KeyboardInterrupt):
            train_and_estimate(scans, tmp_path / "run", settings=SMALL, hardware=CPU)
    stopped = state_of(tmp_path / "run" / "cross-validation" / "fold-0")
    assert not (tmp_path / "run" / "finished.json").exists()
    run = train_and_estimate(scans, tmp_path / "run", settings=SMALL, hardware=CPU)
    assert state_of(tmp_path / "run" / "cross-validation" / "fold-0") == stopped
    pairs = zip([run, *folds_of(run)], [whole, *folds_of(whole)], strict=True)
    for ours, theirs in pairs:
        one, other = (checkpoint(each.path / "last.pt")["method"] for each in (ours, theirs))
        assert not differences(one, other)
    scores, expected = (each.path / "cross-validation" / "metrics.csv" for each in (run, whole))
    assert scores.read_text() == expected.read_text()


def test_strokes_are_held_out_where_one_mask_is_all_there_is_and_scored_where_they_are(tmp_path):
    scans = write_scans(tmp_path / "scans", full=1, partial=2)
    run = train_and_estimate(scans, tmp_path / "run", settings=SMALL, hardware=CPU)
    assert (run.facts["protocol"]["full"], sorted(run.facts["protocol"]["partial"])) == (["p0"], ["p1", "p2"])
    rows = [row for row in read_metrics(run.path / "cross-validation" / "metrics.csv") if row.branch == "bottom"]
    assert {(row.case, row.part) for row in rows} == {("p1", "strokes"), ("p2", "strokes")}
    assert all(math.isnan(row.hd95_vox) and math.isnan(row.assd_mm) for row in rows)
    for fold in folds_of(run):
        (case,) = fold.facts["protocol"]["val"]
        assert case not in fold.facts["protocol"]["partial"]
        guess = formats.read(fold.path / "predictions" / "last" / "bottom" / f"{case}.nii.gz").array
        drawn = formats.read(scans / "labelsTr" / f"{case}.nii.gz").array
        labelled = drawn != len(CLASSES)  # what nnU-Net calls "ignore"
        assert 0 < labelled.mean() < 0.5
        for row in (row for row in rows if row.case == case):
            index = CLASSES.index(row.label)
            assert row.dsc == pytest.approx(dsc((guess == index) & labelled, (drawn == index) & labelled))
    assert "labelled voxels" in verdict(RunFiles.read(run.path))


@pytest.mark.parametrize(
    ("full", "partial", "found"),
    [
        *((3, 0, ("held-out", 3)), (5, 1, ("held-out", 5)), (7, 0, ("held-out", 5)), (8, 2, None)),
        *((1, 2, ("strokes", 2)), (2, 7, ("strokes", 5)), (2, 1, None), (1, 0, None), (0, 4, None)),
    ],
)
def test_who_is_held_out_depends_on_how_many_patients_have_full_masks(tmp_path, full, partial, found):
    cases = [write_case(tmp_path, f"p{number}", full=number < full) for number in range(full + partial)]
    held_out = who_is_held_out(ScanFolder(tmp_path, "phantom", cases=cases), {}, RunFolder(tmp_path / "run"), CPU)
    assert (held_out and (held_out.part, len(held_out.folds))) == found
    if held_out:
        judges = [patient for fold in held_out.folds for patient in fold.val]
        assert sorted(judges) == sorted({case.patient for case in cases if (case.full is None) == (full < 3)})
        assert all(set(fold.train) == {case.patient for case in cases} - set(fold.val) for fold in held_out.folds)


def test_nothing_is_held_out_where_something_says_who_validates(tmp_path):
    cases = [write_case(tmp_path, f"p{number}") for number in range(4)]
    run = RunFolder(tmp_path / "run")

    def asked(settings, cases=cases):
        return who_is_held_out(ScanFolder(tmp_path, "phantom", cases=cases), settings, run, CPU)

    assert asked({}) is not None
    write_split(tmp_path / "mine.json", Split(("p0",), ("p1",)))
    for settings in ({"split": str(tmp_path / "mine.json")}, {"fold": 1}, {"set": 1}, {"validation": "part"}):
        assert asked(settings) is None
    assert asked({}, [*cases, write_case(tmp_path, "judge", split="val")]) is None
    write_split(tmp_path / "splits.json", Split(("p0",), ("p1",)))
    assert asked({}) is None


def test_a_run_that_began_with_a_validation_part_goes_on_with_it(made, tmp_path):
    scans, _ = made
    train_folder(scans, tmp_path / "run", settings={**SMALL, "steps": 1}, hardware=CPU)
    run = train_and_estimate(scans, tmp_path / "run", settings={**SMALL, "steps": 2}, hardware=CPU)
    assert (len(run.facts["protocol"]["val"]), run.finished["steps"]) == (1, 2)
    assert not (run.path / "cross-validation").exists()


@pytest.fixture
def asked_for(monkeypatch):
    """Which trainings would be done, of how many steps."""
    calls = []

    def note(run, config, *_, **__):
        calls.append((Path(run.path).name, config.training.steps))

    monkeypatch.setattr(cross_validation, "train_on_files", note)
    monkeypatch.setattr(cross_validation, "_say_rest", lambda *_: None)
    monkeypatch.setattr(cross_validation, "_gather", lambda *_: None)
    return calls


def test_without_cross_validation_the_run_alone_is_trained(made, tmp_path, asked_for):
    options = {"settings": {**SMALL, "steps": 7}, "hardware": CPU}
    train_and_estimate(made[0], tmp_path / "run", **options, cross_validation=False)
    assert asked_for == [("run", 7)]
    train_and_estimate(made[0], tmp_path / "run", **options)
    assert asked_for[1:] == [("fold-0", 3), ("fold-1", 3), ("fold-2", 3), ("run", 7)]


def test_a_patient_who_alone_shows_a_structure_is_not_held_out(tmp_path, asked_for):
    scans = write_scans(tmp_path / "scans", full=4, dots=1)
    train_and_estimate(scans, tmp_path / "run", settings=SMALL, hardware=CPU)
    (alone,) = [number for number, fold in enumerate(make_folds(ScanFolder(scans).cases)) if fold.val == ("p0",)]
    expected = [f"fold-{number}" for number in range(4) if number != alone]
    assert [name for name, _ in asked_for] == [*expected, "run"]


def test_rounds_that_follow_from_it_learn_from_all_masks_and_are_listed_without_scores(made, tmp_path):
    scans, run = made
    runs = self_train(scans, tmp_path / "rounds", source=run.path, rounds=1, settings={"steps": 1}, hardware=CPU)
    protocol = RunFolder(runs[1]).facts["protocol"]
    assert (set(protocol["full"]), protocol["val"]) == ({"p0", "p1", "p2"}, [])
    (head, *rows), page = write_rounds(runs, tmp_path / "rounds")
    assert (head, [row[0] for row in rows]) == (("round", "method", "seed"), ["0", "1"])
    assert page.exists()
