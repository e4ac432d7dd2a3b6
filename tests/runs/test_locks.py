"""One process writes a run at a time; to ask whether one does disturbs nobody; systems without fcntl have it too."""

import subprocess
import sys
import threading
import time

import pytest
from filelock import FileLock

from mixseg.runs import folder
from mixseg.runs.folder import BusyError, RunFolder

ASK = """
import sys
from pathlib import Path
from mixseg.runs.folder import RunFolder
print("asking", flush=True)
while True:
    RunFolder(Path(sys.argv[1])).is_locked
"""


def test_a_run_that_is_locked_is_waited_for_and_then_busy(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    monkeypatch.setattr(folder, "PATIENCE", 0.2)
    with run.locked():
        assert run.is_locked
        started = time.monotonic()
        with pytest.raises(BusyError, match=f"Another process is writing {tmp_path}"), run.locked():
            pass
        assert time.monotonic() - started >= 0.2
    assert not run.is_locked


def test_a_run_that_is_let_go_of_soon_is_not_busy(tmp_path):
    theirs = FileLock(tmp_path / folder.LOCK, thread_local=False)
    theirs.acquire()
    threading.Timer(0.2, theirs.release).start()
    with RunFolder(tmp_path).locked():
        pass


def test_to_ask_for_a_lock_makes_no_file(tmp_path):
    assert not RunFolder(tmp_path / "none").is_locked
    assert not RunFolder(tmp_path).is_locked
    assert not list(tmp_path.iterdir())


def test_a_process_that_asks_all_the_time_keeps_no_writer_out(tmp_path):
    run = RunFolder(tmp_path)
    with run.locked():
        pass
    asker = subprocess.Popen([sys.executable, "-c", ASK, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert asker.stdout.readline() == "asking\n"
        started = time.monotonic()
        while time.monotonic() - started < 1:
            with run.locked():
                pass
    finally:
        asker.kill()
        asker.communicate()


WITHOUT_POSIX = """
import sys

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
import mixseg.cli.demo, mixseg.experiments.executors.worker, mixseg.inference.folder, mixseg.training.arrays
from mixseg.runs.folder import BusyError, Path, RunFolder

run = RunFolder(Path(sys.argv[1]))
with run.locked():
    try:
        with run.locked():
            pass
    except BusyError as error:
        print(error)
"""


def test_everything_is_imported_and_locked_where_there_is_no_fcntl(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Another process is writing {tmp_path}")
