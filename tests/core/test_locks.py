"""One process has a lock at a time; to ask for it disturbs nobody; systems without fcntl have it too."""

import subprocess
import sys
import threading
import time

from mixseg.core.locks import is_taken, take
from mixseg.runs.folder import RunFolder

ASK = """
import sys, time
from pathlib import Path
from mixseg.core.locks import is_taken
print("asking", flush=True)
while True:
    is_taken(Path(sys.argv[1]))
"""


def test_a_lock_is_waited_for_as_long_as_one_likes(tmp_path):
    path = tmp_path / "lock"
    assert not is_taken(path)
    with path.open("w") as theirs, path.open("w") as ours:
        assert take(theirs)
        assert is_taken(path)
        started = time.monotonic()
        assert not take(ours, patience=0.2)
        assert time.monotonic() - started >= 0.2
        threading.Timer(0.2, theirs.close).start()
        assert take(ours)
    assert not is_taken(path)


def test_a_process_that_asks_all_the_time_keeps_no_writer_out(tmp_path):
    run = RunFolder(tmp_path)
    with run.locked():
        pass
    asker = subprocess.Popen([sys.executable, "-c", ASK, str(tmp_path / ".lock")], stdout=subprocess.PIPE, text=True)
    try:
        assert asker.stdout.readline() == "asking\n"
        started = time.monotonic()
        while time.monotonic() - started < 1:
            with run.locked():
                pass
    finally:
        asker.kill()
        asker.communicate()


WITHOUT_FCNTL = """
import os, subprocess, sys, types  # subprocess would take a system with msvcrt for Windows

held = set()

def locking(descriptor, mode, count):
    assert (mode, count) == (2, 1)
    place = os.fstat(descriptor).st_ino
    if place in held:
        raise PermissionError(13, "Permission denied")
    held.add(place)

sys.modules["fcntl"] = None
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
import mixseg.training.arrays, mixseg.experiments.executors.worker, mixseg.inference.folder, mixseg.training.train
from mixseg.runs.folder import BusyError, RunFolder

run = RunFolder(mixseg.training.train.Path(sys.argv[1]))
with run.locked():
    try:
        with run.locked():
            pass
    except BusyError as error:
        print(error)
"""


def test_everything_is_imported_and_locked_where_there_is_no_fcntl(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_FCNTL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Another process is writing {tmp_path}")
