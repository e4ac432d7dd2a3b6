"""Real processes, here, in Ray and through submitit: real runs of tiny networks, real kills."""

import os
import re
import signal
import subprocess
import sys
from functools import partial

import pytest

import patience
from conftest import ROOT
from grids import FEW, SMALL, small, write_scans
from mixseg.core.errors import MixsegError
from mixseg.core.workers import cores
from mixseg.evaluation.scores import read_metrics
from mixseg.experiments.executors import base
from mixseg.experiments.executors.base import Resources, make_executor, thread_limits
from mixseg.experiments.executors.local import Local
from mixseg.experiments.executors.worker import Job
from mixseg.experiments.plan import read_plan, run_path
from mixseg.experiments.run_experiment import run_experiment
from mixseg.experiments.states import state_of
from mixseg.runs.folder import RunFolder
from mixseg.runs.log import read_log

SCRIPT = ROOT / "tests" / "runner_script.py"
wait_until = partial(patience.wait_until, seconds=200)  # on a machine that does other things too


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    return write_scans(tmp_path_factory.mktemp("data") / "scans")


def finished(run):
    """When, or None."""
    path = run / "finished.json"
    return path.stat().st_mtime_ns if path.exists() else None


class KillsFirst(Local):
    """Kills the first worker that has begun to train."""

    killed = ""

    def ended(self):
        if self.running and not self.killed:
            self.killed, (process, _) = next(iter(self.running.items()))
            wait_until(lambda: RunFolder(self.runs / self.killed).is_locked)
            process.kill()
            process.wait()
        return super().ended()


def test_a_killed_runner_and_a_killed_worker_are_survived_and_nothing_is_done_twice(scans, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with subprocess.Popen([sys.executable, str(SCRIPT), str(scans), str(out)]) as runner:
        try:
            wait_until(lambda: (out / "main" / "experiment.json").exists())
            first, second = (run_path(out / "main", run.name) for run in read_plan(out / "main").runs)
            wait_until(lambda: finished(first) and RunFolder(second).is_locked)
        finally:
            runner.kill()
    wait_until(lambda: not RunFolder(second).is_locked)  # its worker has gone with it
    assert state_of(second).phase != "finished"

    when = finished(first)
    KillsFirst.runs = out / "runs"
    monkeypatch.setitem(base.EXECUTORS, "kills", (f"{__name__}:KillsFirst", ""))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[KillsFirst.__module__])
    request = small("lower-bound", "single", steps=60)
    _, status = run_experiment("main", str(scans), out, request, on="kills", resources=Resources(out, "cpu", 1))
    assert set(status.standing.values()) == {"done"}
    assert finished(first) == when
    steps = [entry["step"] for entry in read_log(second / "log.jsonl")]
    assert steps == sorted(set(steps))
    assert steps[-1] == 60


@pytest.mark.filterwarnings("ignore")  # of Ray itself
def test_two_workers_of_ray_do_the_same_grid_as_urgently_as_others_and_leave_signals_to_who_starts_them(
    scans, tmp_path, monkeypatch
):
    ray = pytest.importorskip("ray", reason="needs pip install 'mixseg[ray]'")
    monkeypatch.delenv("RAY_worker_niceness", raising=False)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    urgency = []

    def look(status):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
        if not urgency:  # once is enough, beside the runs
            urgency.append(ray.get(ray.remote(num_cpus=0)(lambda: os.nice(0)).remote()))

    request, resources = small("lower-bound", "single"), Resources(tmp_path, "cpu", 2)
    folder, status = run_experiment("main", str(scans), tmp_path, request, on="ray", resources=resources, show=look)
    assert urgency == [os.nice(0)]
    assert set(status.standing.values()) == {"done"}
    for run in read_plan(folder).runs:
        assert read_metrics(run_path(folder, run.name) / "metrics.csv")
        assert "training: 4/4" in (run_path(folder, run.name) / "console.log").read_text()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
def test_a_worker_outlives_the_ctrl_c_of_its_runner_and_keeps_its_last_step_when_that_ends_it(scans, tmp_path):
    settings = {
        **SMALL,
        "target": ["LV"],
        "batch": FEW,
        "set": 1,
        "steps": 10**6,
        "preset": "quick",
        "method": "lower-bound",
    }
    out = tmp_path / "run"
    executor = Local(Resources(tmp_path, "cpu", 1))
    executor.start([Job("run", str(out), str(scans), "nnunet", settings, {}, "cpu", test=False)])
    process, _ = executor.running["run"]
    try:
        wait_until(lambda: (out / "last.pt").exists() or process.poll() is not None)
        looks = len(read_log(out / "log.jsonl"))
        process.send_signal(signal.SIGINT)
        wait_until(lambda: len(read_log(out / "log.jsonl")) > looks + 1 or process.poll() is not None)
        assert process.poll() is None
    finally:
        executor.close()
    console = (out / "console.log").read_text()
    last = console.strip().splitlines()[-1]
    assert re.fullmatch(r"Stopped at step (\d+) of 1000000; the checkpoint of step \1 is kept: .*", last), console


@pytest.mark.filterwarnings("ignore")  # of submitit itself
def test_what_slurm_would_get_runs_through_submitit_and_needs_are_waited_for(scans, tmp_path):
    pytest.importorskip("submitit", reason="needs pip install 'mixseg[slurm]'")
    request = small("proposals-lower-bound")
    folder, status = run_experiment(
        "proposals", str(scans), tmp_path, request, on="submitit-local", resources=Resources(tmp_path, "cpu", 2)
    )
    assert set(status.standing.values()) == {"done"}
    source, proposed = (finished(run_path(folder, run.name)) for run in read_plan(folder).runs)
    assert source < proposed


@pytest.mark.filterwarnings("ignore")
def test_no_slurm_and_a_misspelt_option_of_it_are_one_sentence(tmp_path, monkeypatch):
    submitit = pytest.importorskip("submitit", reason="needs pip install 'mixseg[slurm]'")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MixsegError, match="No SLURM here"):
        make_executor("slurm", Resources(tmp_path, "cpu"))
    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", classmethod(lambda cls: 2))
    with pytest.raises(MixsegError, match="partitoin"):
        make_executor("slurm", Resources(tmp_path, "cpu", slurm={"partitoin": "gpu"}))
    with pytest.raises(MixsegError, match="did you mean 'slurm'"):
        make_executor("slurn", Resources(tmp_path))


@pytest.mark.filterwarnings("ignore")
def test_slurm_is_handed_one_array_with_the_options_of_the_user(tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="needs pip install 'mixseg[slurm]'")
    for name, said in {
        "sbatch": f"cp $1 {tmp_path}/handed.sh; echo Submitted batch job 77",
        "srun": "",
        "sacct": "",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{said}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    slurm = make_executor("slurm", Resources(tmp_path, "auto", 5, slurm={"partition": "heart", "timeout_min": 90}))
    jobs = [Job(name, str(tmp_path / name), "scans", "nnunet", {}, {}, "auto", True) for name in ("a", "b", "c")]
    slurm.start(jobs)
    handed = (tmp_path / "handed.sh").read_text()
    for line in ("--array=0-2%3", "--partition=heart", "--time=90", "--gpus-per-node=1", "--job-name=mixseg"):
        assert f"#SBATCH {line}\n" in handed
    assert slurm.ended() == []
    assert slurm.free() > 1000
    slurm.running.clear()  # there is nothing to cancel


@pytest.mark.parametrize("name", ["ray", "submitit"])
def test_what_is_not_installed_is_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MixsegError, match=r"pip install 'mixseg\["):
        make_executor("ray" if name == "ray" else "slurm", Resources(tmp_path, "cpu"))


@pytest.mark.parametrize("trouble", ["import", "job"])
def test_what_a_worker_says_before_its_run_begins_is_in_console_log(tmp_path, monkeypatch, trouble):
    if trouble == "import":
        (tmp_path / "mixseg").mkdir()
        (tmp_path / "mixseg" / "__init__.py").write_text("raise ImportError('libtrouble.so is missing')")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    else:
        monkeypatch.setattr("mixseg.experiments.executors.local.as_line", lambda job: b'{"trouble": 1}\n')
    local = Local(Resources(tmp_path, "cpu", 1))
    local.start([Job("a", str(tmp_path / "runs" / "a"), "scans", "nnunet", {}, {}, "cpu", False)])
    try:
        wait_until(local.ended)
    finally:
        local.close()
    assert "trouble" in (tmp_path / "runs" / "a" / "console.log").read_text()


def test_workers_share_the_cores(tmp_path, monkeypatch):
    for name in base.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(base, "cores", lambda: 8)
    assert thread_limits(1)["OMP_NUM_THREADS"] == "8"
    assert thread_limits(3)["OMP_NUM_THREADS"] == "2"
    assert thread_limits(80)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert set(thread_limits(1).values()) == {"3"}
    assert set(thread_limits(4).values()) == {"2"}
    local = Local(Resources(tmp_path, "cpu"))
    assert local.free() == cores()


def test_each_worker_has_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("mixseg.experiments.executors.local.gpus", lambda device: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    local = Local(Resources(tmp_path))
    assert local.workers == 2
    assert [local._environment(slot)["CUDA_VISIBLE_DEVICES"] for slot in range(2)] == ["4", "7"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    local = Local(Resources(tmp_path, workers=4))
    assert [local._environment(slot)["CUDA_VISIBLE_DEVICES"] for slot in range(4)] == ["0", "1", "0", "1"]
