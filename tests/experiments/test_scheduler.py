"""The order of things: a made-up executor whose runs finish, fail or are killed as the test says."""

from pathlib import Path

import pytest
from filelock import FileLock

from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.experiments.executors.worker import Job, execute
from mixseg.experiments.plan import Cell, Plan, PlannedRun, run_path, write_plan
from mixseg.experiments.scheduler import TRIES, run_plan
from mixseg.experiments.states import record_failure, state_of
from mixseg.runs.folder import RunFolder

FINISHED = {"steps": 10, "test": False}


def make_plan(runs, *, test=False):
    planned = tuple(PlannedRun(name, {}, 10, needs) for name, needs in runs.items())
    cells = tuple(Cell(name, "set-3", ("top",), {0: name}) for name in runs)
    words = dict.fromkeys(
        ("experiment", "title", "dataset", "scans", "layout", "split", "preset", "varies", "columns", "axis"), "x"
    )
    return Plan(**words, quick=True, test=test, seeds=(0,), measured=False, cells=cells, runs=planned)


class Fake:
    """Does one job per question. ``fate``: what becomes of a run, by name; finished if nothing is said."""

    def __init__(self, fate=None, slots=2):
        self.fate, self.slots = fate or {}, slots
        self.running, self.started, self.closed = [], [], False
        self.most = 0

    def free(self):
        return self.slots - len(self.running)

    def start(self, jobs):
        self.running += jobs
        self.started += [job.name for job in jobs]
        self.most = max(self.most, len(self.running))

    def ended(self):
        job, *self.running = self.running
        fate = self.fate.get(job.name, "finish")
        if isinstance(fate, list):
            fate = fate.pop(0)
        if fate == "finish":
            write_json(Path(job.out) / "finished.json", FINISHED | {"test": job.test})
        elif fate == "fail":
            record_failure(Path(job.out), "it went wrong.")
        return [job.name]

    def close(self):
        self.closed = True


@pytest.fixture
def run(tmp_path):
    def run(runs, fake, **more):
        plan = make_plan(runs, **more)
        folder = write_plan(tmp_path, plan)
        boards = []
        status = run_plan(
            plan, folder, fake, device="cpu", show=lambda status: boards.append(dict(status.standing)), pause=0
        )
        assert fake.closed
        assert boards[-1] == status.standing
        return status

    return run


def test_every_run_is_done_once_after_what_it_needs(run):
    fake = Fake()
    status = run({"a": "", "b": "a", "c": "b", "d": ""}, fake)
    assert set(status.standing.values()) == {"done"}
    assert sorted(fake.started) == ["a", "b", "c", "d"]
    assert fake.started.index("a") < fake.started.index("b") < fake.started.index("c")
    assert fake.started[:2] == ["a", "d"]


def test_no_more_runs_at_once_than_there_is_room_for(run):
    fake = Fake(slots=3)
    run({str(number): "" for number in range(9)}, fake)
    assert fake.most == 3


def test_what_is_finished_is_not_repeated(run, tmp_path):
    write_json(tmp_path / "runs" / "a" / "finished.json", FINISHED)
    fake = Fake()
    assert set(run({"a": "", "b": "a"}, fake).standing.values()) == {"done"}
    assert fake.started == ["b"]


def test_a_run_whose_test_scans_were_not_scored_is_not_finished_where_they_are_asked_for(run, tmp_path):
    write_json(tmp_path / "runs" / "a" / "finished.json", FINISHED)
    fake = Fake()
    run({"a": ""}, fake, test=True)
    assert fake.started == ["a"]


def test_a_failure_stops_what_needs_it_and_nothing_else(run, tmp_path):
    fake = Fake({"a": "fail"})
    status = run({"a": "", "b": "a", "c": "b", "d": ""}, fake)
    assert status.standing == {"a": "failed", "b": "failed", "c": "failed", "d": "done"}
    assert sorted(fake.started) == ["a", "d"]
    assert status.sentences["a"] == "it went wrong."
    assert "needs a" in status.sentences["b"]
    state = state_of(tmp_path / "runs" / "c")
    assert (state.phase, state.sentence) == ("failed", "it needs b, which failed.")


def test_a_failed_run_is_tried_again_the_next_time(run):
    run({"a": "", "b": "a"}, Fake({"a": "fail"}))
    fake = Fake()
    assert set(run({"a": "", "b": "a"}, fake).standing.values()) == {"done"}
    assert fake.started == ["a", "b"]


def test_a_run_that_was_killed_goes_on(run):
    fake = Fake({"a": ["kill", "kill", "finish"]})
    assert run({"a": ""}, fake).standing == {"a": "done"}
    assert fake.started == ["a"] * 3


def test_a_run_that_is_killed_every_time_fails_in_the_end(run):
    fake = Fake({"a": "kill"})
    status = run({"a": "", "b": ""}, fake)
    assert status.standing == {"a": "failed", "b": "done"}
    assert fake.started.count("a") == TRIES
    assert "killed" in status.sentences["a"]


def test_a_run_is_not_done_before_its_process_is(run):
    class Lingering(Fake):
        """Finishes a run two questions before its process ends."""

        asked = 0

        def ended(self):
            self.asked += 1
            if self.asked == 1:
                write_json(Path(self.running[0].out) / "finished.json", FINISHED)
            return super().ended() if self.asked >= 3 else []

    fake = Lingering()
    assert run({"a": ""}, fake).standing == {"a": "done"}
    assert fake.asked == 3
    assert fake.running == []


def test_a_run_that_another_process_is_writing_is_left_to_it(tmp_path):
    plan = make_plan({"a": "", "b": "a"})
    folder = write_plan(tmp_path, plan)
    theirs = run_path(folder, "a")
    theirs.mkdir(parents=True)
    fake, seen = Fake(), []
    with FileLock(theirs / ".lock") as lock:

        def show(status):
            seen.append(status.standing["a"])
            if len(seen) == 5:
                write_json(theirs / "finished.json", FINISHED)
                lock.release()

        # Nothing of ours runs, so there is nothing to ask the executor for.
        fake.ended = lambda: Fake.ended(fake) if fake.running else []
        run_plan(plan, folder, fake, show=show, pause=0)
    assert fake.started == ["b"]
    assert seen[:5] == ["waiting"] * 5


def as_job(out):
    return Job("a", str(out), "scans", "nnunet", {}, {}, "cpu", False)


def test_a_run_that_another_process_has_is_no_failure_even_if_it_lets_go_at_once(tmp_path, monkeypatch, capsys):
    def train_folder(scans, out, **_):
        with FileLock(out / ".lock"), RunFolder(out).locked():
            pass

    monkeypatch.setattr("mixseg.training.folder.train_folder", train_folder)
    monkeypatch.setattr("mixseg.runs.folder.PATIENCE", 0.1)
    execute(as_job(tmp_path))
    assert state_of(tmp_path).phase == "waiting"
    assert "Another process is writing" in capsys.readouterr().out


def test_a_failure_is_told_even_if_somebody_asks_for_the_lock_then(tmp_path, monkeypatch):
    def train_folder(scans, out, **_):
        raise MixsegError("no scans.", "no-scans")

    monkeypatch.setattr("mixseg.training.folder.train_folder", train_folder)
    with FileLock(tmp_path / ".lock"):
        execute(as_job(tmp_path))
    assert state_of(tmp_path).sentence == "no scans."


def test_a_failure_that_is_forgotten_at_this_moment_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda path: path.name == "failed.json")  # it was there just now
    assert state_of(tmp_path).phase == "waiting"


def test_the_time_left_is_the_steps_left_at_the_pace_so_far(run, monkeypatch):
    plan = make_plan({"a": "", "b": "", "c": ""})
    clock = [100.0]
    monkeypatch.setattr("mixseg.experiments.scheduler.time.monotonic", lambda: clock[0])
    from mixseg.experiments.scheduler import Status

    status = Status(plan, {"a": "done", "b": "running", "c": "waiting"}, {"a": 10, "b": 0}, started=(100.0, 10))
    assert status.seconds_left() is None
    clock[0], status.steps["b"] = 108.0, 4  # 2 seconds a step, 6 + 10 left
    assert status.seconds_left() == pytest.approx(32.0)
    status.standing |= {"b": "failed"}
    assert status.seconds_left() == pytest.approx(20.0)
