"""Runs on masks that another run proposes: whose masks they are, what never reaches them, what is refused."""

import json
import shutil

import numpy as np
import pytest
import torch

from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.data.prepare.archive import pack
from mixseg.data.prepare.files import prepare
from mixseg.data.prepare.store import Prepared
from mixseg.data.supervision import Proposals
from mixseg.datasets import load as load_cases
from mixseg.datasets import phantom
from mixseg.datasets.split import Split, read_split, write_split
from mixseg.runs.build import load
from mixseg.runs.config import make_config, settings_of, to_dict
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.training.__main__ import main
from mixseg.training.assemble import seen_by
from mixseg.training.pseudo_labels import FILE, inherited, propose, read_proposals, write_proposals
from mixseg.training.train import train
from stores import rewritten

CPU = Hardware("cpu")
SMALL = {
    "preset": "quick",
    "schedule": "constant",
    "target": ["LV"],
    "partial": "erosion-3x3",
    "set": 1,
    "ratio": 2,
    "steps": 6,
    "size": [16, 16],
    "width": 2,
    "depth": 2,
    "precision": "fp32",
    "validate_every": 3,
}


def settings(**changes):
    return {**SMALL, **changes}


def run(prepared, split, out, **changes):
    """One finished run, as both entries make it."""
    config = make_config(**settings(**changes))
    proposals = propose(config, prepared, split, RunFolder(out), hardware=CPU)
    return train(config, seen_by(config, prepared, split, proposals=proposals), out, hardware=CPU)


def proposals_run(prepared, split, out, source, **changes):
    return run(prepared, split, out, **{"method": "proposals", "proposals_from": str(source), **changes})


def assert_same_weights(one, other):
    """To the last bit, of the last checkpoints."""
    first, second = (torch.load(folder / "last.pt", weights_only=True)["method"] for folder in (one, other))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Hearts of five patients, all with full masks: three to train on, one to validate on, one to test on."""
    folder = tmp_path_factory.mktemp("scans") / "hearts"
    phantom.write(folder, patients=5, val=1, test=1, size=(16, 16), slices=3)
    return folder


@pytest.fixture(scope="module")
def cases(scans):
    return load_cases(scans, "phantom")


@pytest.fixture(scope="module")
def split(scans, cases):
    return read_split(scans / "splits.json", cases)


@pytest.fixture(scope="module")
def prepared(cases, tmp_path_factory):
    options = make_config(**SMALL).data.prepare_options
    return prepare(cases, tmp_path_factory.mktemp("prepared") / "arrays", options, workers=1)


@pytest.fixture(scope="module")
def source(prepared, split, tmp_path_factory):
    """A finished run of kl: 1 patient with full masks, 2 with partial labels."""
    return run(prepared, split, tmp_path_factory.mktemp("source") / "kl", method="kl").path


@pytest.fixture(scope="module")
def finished(prepared, split, source, tmp_path_factory):
    return proposals_run(prepared, split, tmp_path_factory.mktemp("finished") / "run", source).path


@pytest.fixture
def copied(source, tmp_path):
    """A copy of the source to spoil."""
    return shutil.copytree(source, tmp_path / "copied")


def without_full_masks(prepared, split):
    return [case for case in prepared.cases if case.patient in split.train[1:]]


def test_masks_are_proposed_by_the_students_decoder_alone(prepared, split, source, tmp_path, decoded):
    config = make_config(**settings(method="proposals", proposals_from=str(source)))
    assert propose(config, prepared, split, RunFolder(tmp_path / "out"), hardware=CPU).masks
    assert set(decoded) == {1}


def test_proposals_are_the_argmax_of_the_students_last_answer(prepared, split, source, finished):
    student = load(RunFolder(source), channels=1, classes=2, checkpoint="last").method
    kept = read_proposals(finished / FILE)
    wanted = without_full_masks(prepared, split)
    assert list(kept.masks) == [case.id for case in wanted]
    assert len(wanted) == 4
    for case in wanted:
        with torch.no_grad():
            probs = student.predict(torch.from_numpy(prepared.image(case)).float() / 255)
        assert (kept.masks[case.id] == probs["bottom"].argmax(dim=1).numpy()).all()
    assert any(mask.any() for mask in kept.masks.values()), "the source has learnt something"
    assert kept.origin["methods"] == ["kl"]


def test_volumes_get_proposals_on_their_own_grid(cases, split, tmp_path):
    changes = {"dims": 3, "patch": [8, 8, 4], "network": "unet", "depth": 1, "steps": 2}
    volumes = prepare(cases, tmp_path / "arrays", make_config(**settings(**changes)).data.prepare_options, workers=1)
    first = run(volumes, split, tmp_path / "first", method="lower-bound", **changes).path
    again = proposals_run(volumes, split, tmp_path / "again", first, **changes)
    masks = read_proposals(again.path / FILE).masks
    assert {name: mask.shape for name, mask in masks.items()} == {
        case.id: case.shape for case in without_full_masks(volumes, split)
    }


def test_the_run_learns_full_masks_and_proposals_alike(prepared, split, source, finished):
    config = make_config(**settings(method="proposals", proposals_from=str(source)))
    kept = read_proposals(finished / FILE)
    data = seen_by(config, prepared, split, proposals=kept)
    assert {kind: len(some) for kind, some in data.train.items()} == {"full": 6, "partial": 0, "unlabeled": 0}
    for scan in data.train["full"]:
        expected = kept.masks[scan.name] if scan.name in kept.masks else prepared.full(prepared[scan.name])
        assert (scan.full == expected).all()
    facts = RunFolder(finished).facts
    assert facts["protocol"]["proposed"] == list(kept.masks)
    assert not set(facts["protocol"]["full"]) & set(kept.masks)
    assert facts["proposals"]["methods"] == ["kl"]


def test_full_masks_of_partly_labelled_patients_never_reach_the_run(prepared, split, source, finished, tmp_path):
    poisoned = shutil.copytree(prepared.folder, tmp_path / "poisoned")
    other = Prepared(poisoned)
    for case in without_full_masks(prepared, split):
        other = rewritten(other, case, "full", 1 - prepared.full(case))
    assert other.content == prepared.content, "its index still has the hash of the true masks"
    assert (other.full(other.cases[2]) != prepared.full(prepared.cases[2])).all()
    first = run(other, split, tmp_path / "kl", method="kl").path
    again = proposals_run(other, split, tmp_path / "again", first).path
    for one, another in ((source, first), (finished, again)):
        assert_same_weights(one, another)
    true, found = (read_proposals(folder / FILE).masks for folder in (finished, again))
    assert all((true[name] == found[name]).all() for name in true)


def test_a_run_goes_on_with_the_proposals_it_began_with(prepared, split, copied, finished, tmp_path):
    out = tmp_path / "run"
    proposals_run(prepared, split, out, copied, steps=3)
    before = (out / FILE).read_bytes()
    shutil.rmtree(copied)  # what is learnt from is kept in the run itself
    proposals_run(prepared, split, out, copied, steps=6)
    assert (out / FILE).read_bytes() == before
    assert_same_weights(out, finished)


def test_a_finished_run_is_left_alone(prepared, split, source, finished):
    before = {path: path.stat().st_mtime_ns for path in finished.iterdir() if path.is_file() and path.name != ".lock"}
    proposals_run(prepared, split, finished, source)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_source_that_changed_meanwhile_is_not_taken_for_the_old_one(prepared, split, copied, tmp_path):
    proposals_run(prepared, split, tmp_path / "run", copied)
    shutil.copy(copied / "best.pt", copied / "last.pt")
    with pytest.raises(MixsegError, match=r"has changed since .* took its proposals"):
        proposals_run(prepared, split, tmp_path / "run", copied)


def edited(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def unfinished(folder):
    (folder / "finished.json").unlink()
    return "is not finished"


def of_other_classes(folder):
    edited(folder / "environment.json", classes=["background", "RV"])
    return "on the classes background, RV, not background, LV"


def on_another_grid(folder):
    write_json(folder / "config.json", to_dict(RunFolder(folder).config.changed(size=(32, 32))))
    return r"another grid \(dims 2, size \[32, 32\], not 2 and \[16, 16\]\)"


def on_other_data(folder):
    edited(folder / "environment.json", data="0123")
    return r"other data \(0123, not"


def of_another_split(folder):
    facts = json.loads((folder / "environment.json").read_text())
    edited(folder / "environment.json", protocol={**facts["protocol"], "test patients": ["patient001"]})
    return "another split"


def of_another_architecture(folder):
    write_json(folder / "config.json", to_dict(RunFolder(folder).config.changed(width=4)))
    return "last.pt is of another architecture"


def no_run(folder):
    (folder / "config.json").unlink()
    return "is no run folder"


SPOILS = [
    unfinished,
    of_other_classes,
    on_another_grid,
    on_other_data,
    of_another_split,
    of_another_architecture,
    no_run,
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_source_that_cannot_propose_is_one_sentence_and_nothing_is_written(prepared, split, copied, tmp_path, spoil):
    with pytest.raises(MixsegError, match=spoil(copied)):
        proposals_run(prepared, split, tmp_path / "run", copied)
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_seen_the_full_masks_may_not_pass_them_on(prepared, split, tmp_path):
    bound = run(prepared, split, tmp_path / "bound", method="upper-bound-set").path
    with pytest.raises(MixsegError, match=r"has seen the full mask of .* \(4 such scans\)"):
        proposals_run(prepared, split, tmp_path / "run", bound)


def test_a_run_that_has_learnt_from_patients_that_judge_the_new_one_may_not_propose(prepared, split, source, tmp_path):
    other = Split((*split.train[1:], *split.val), split.train[:1], split.test)
    with pytest.raises(MixsegError, match=r"has learnt from .* on which this run would be judged"):
        proposals_run(prepared, other, tmp_path / "run", source)


def test_proposals_and_other_methods_are_not_confused(prepared, split, source, tmp_path):
    with pytest.raises(MixsegError, match="name it with --from RUN"):
        run(prepared, split, tmp_path / "run", method="proposals")
    with pytest.raises(MixsegError, match="The method kl takes no proposals"):
        run(prepared, split, tmp_path / "run", method="kl", proposals_from=str(source))


def test_without_a_scan_to_propose_for_there_is_nothing_to_do(prepared, split, source, tmp_path):
    with pytest.raises(MixsegError, match="there is nothing to propose"):
        proposals_run(prepared, Split(split.train[:1], split.val, split.test), tmp_path / "run", source, set=None)


def test_the_file_holds_what_was_written_and_a_damaged_one_is_named(tmp_path):
    masks = {"file": np.eye(3, dtype=np.uint8), "a/b": np.zeros((2, 1, 2), np.uint8)}
    write_proposals(tmp_path / FILE, Proposals(masks, {"methods": ["kl"], "checkpoint": "1"}))
    found = read_proposals(tmp_path / FILE)
    assert list(found.masks) == list(masks)
    assert all((found.masks[name] == mask).all() for name, mask in masks.items())
    assert found.origin == {"methods": ["kl"], "checkpoint": "1"}
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:50])
    with pytest.raises(MixsegError, match=r"proposals.npz holds no proposals"):
        read_proposals(tmp_path / FILE)


def test_a_source_is_looked_for_beside_the_run_and_then_from_here(tmp_path, monkeypatch):
    (tmp_path / "here" / "kl").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    out = tmp_path / "runs" / "new"  # neither is there yet
    assert RunFolder(out).named("kl").path.resolve() == tmp_path / "here" / "kl"
    assert RunFolder(out).named("../here/kl").path == tmp_path / "here" / "kl"
    (tmp_path / "runs" / "kl").mkdir(parents=True)
    assert RunFolder(out).named("kl").path == tmp_path / "runs" / "kl"
    assert RunFolder(out).named(str(tmp_path / "here" / "kl")).path == tmp_path / "here" / "kl"


def test_what_is_not_said_is_taken_over_from_the_source(source, tmp_path):
    theirs = settings_of(RunFolder(source).config)
    asked = {"method": "proposals", "proposals_from": str(source), "lr": 0.5}
    found = settings_of(make_config(**inherited(asked, RunFolder(tmp_path / "run"))))
    own = {"method": "proposals", "proposals_from": str(source), "lr": 0.5, "batch": found["batch"], "weights": {}}
    assert found == {**theirs, **own}
    assert found["batch"] == {"full": 24, "partial": 0, "unlabeled": 0}
    fresh = inherited({**asked, "preset": "paper"}, RunFolder(tmp_path / "run"))
    assert make_config(**fresh).training.steps == 3000
    assert (fresh["size"], fresh["target"], fresh["set"]) == ([16, 16], ["LV"], 1)
    other = {"method": "kl", "steps": 3}
    assert inherited(other, RunFolder(tmp_path / "run")) == other


def test_a_bare_node_trains_a_run_and_then_from_its_proposals(cases, split, finished, tmp_path):
    archive = pack(cases, tmp_path / "scans.zip", workers=1)
    write_split(tmp_path / "splits.json", split)
    for name, changes in {"kl": {"method": "kl"}, "again": {"method": "proposals", "proposals_from": "kl"}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(settings(**changes)))
    configs = [str(tmp_path / f"{name}.json") for name in ("kl", "again")]
    options = ["--data", str(archive), "--split", str(tmp_path / "splits.json"), "--device", "cpu"]
    main([*configs, *options, "--out", str(tmp_path / "runs")])
    assert_same_weights(tmp_path / "runs" / "again", finished)
