"""How every verb behaves: exit codes, JSON for programs, a log file, silence; and a signal is answered at once."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dataset_folders import make_nnunet
from mixseg.cli import main
from mixseg.core.console import exit_code
from mixseg.core.errors import MixsegError, SomeFailedError, Terminated, UsageError
from mixseg.core.messages import Manner, result, say, speaking
from mixseg.core.progress import Progress
from mixseg.core.signals import Interrupts

SIMULATE = ["simulate", "made", "--phantom", "heart", "--patients", "6", "--val", "1", "--test", "1", "--size", "32"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("x"), 1),
        (UsageError("x", "y"), 2),
        (SomeFailedError("x", "y"), 3),
        (MixsegError("x", "y"), 4),
        (PermissionError(13, "Permission denied", "a.nii"), 4),
        (OSError("no file of the user's"), 1),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
    ],
)
def test_each_way_to_end_has_its_code_and_no_traceback(capsys, error, code):
    def fail():
        raise error

    assert exit_code(fail) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    with pytest.raises(type(error)):
        exit_code(fail, debug=True)


def test_with_json_standard_output_has_results_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*SIMULATE, "--json"]) == 0
    printed = capsys.readouterr()
    assert [json.loads(line) for line in printed.out.splitlines()] == [{"written": "made"}]
    assert "Look at it" in printed.err
    assert main(["evaluate", "-i", "made/labelsTr_dense", "-r", "made/labelsTr_dense", "-o", "scores", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["case"] for row in rows}
    assert {row["dsc"] for row in rows} <= {1.0, None}, "null where JSON has no number"


@pytest.mark.parametrize(
    ("error", "code", "fields"),
    [
        (MixsegError("It is damaged.", "broken-file", file=Path("a.nii")), "broken-file", {"file": "a.nii"}),
        (PermissionError(13, "Permission denied", "a.nii"), "system-refused", {"file": "a.nii"}),
        (ValueError("x"), "internal", {}),
        (KeyboardInterrupt("stopped"), "interrupted", {}),
        (Terminated("stopped"), "terminated", {}),
    ],
)
def test_with_json_an_error_is_one_object_with_its_code_and_fields(capsys, error, code, fields):
    def fail():
        raise error

    assert exit_code(fail, manner=Manner(json=True)) != 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"error": {"code": code, "message": printed.err.rstrip("\n"), **fields}}


@pytest.mark.parametrize(
    ("words", "code"),
    [(["no-verb"], "unknown-name"), (["doctor", "--log"], "flag-without-value"), (["doctor", "--no-flag"], "usage")],
)
def test_with_json_a_command_line_that_makes_no_sense_is_one_object_too(capsys, words, code):
    with suppress(SystemExit):
        assert main([*words, "--json"] if "--log" not in words else ["--json", *words]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_the_code_of_an_error_is_shown_to_whoever_wants_to_know_more(capsys):
    def fail():
        raise MixsegError("It is damaged.", "broken-file")

    for verbosity, shown in ((-1, "It is damaged.\n"), (0, "It is damaged.\n"), (1, "It is damaged. [broken-file]\n")):
        assert exit_code(fail, manner=Manner(verbosity=verbosity)) == 4
        assert capsys.readouterr().err == shown


def test_quiet_leaves_results_and_errors_and_a_log_file_has_everything(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["-q", *SIMULATE, "--log", "logs/all.txt"]) == 0
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""
    assert main([*SIMULATE, "--log=logs/all.txt"]) == 4, "it is there already"
    lines = (tmp_path / "logs" / "all.txt").read_text().splitlines()
    levels = [line.split()[2] for line in lines if line[:2] == "20"]
    assert levels.count("ERROR") == 1
    assert "INFO" in levels
    assert main(["inspect", "made", "--log"]) == 2


def test_manners_end_with_the_command(capsys):
    logger = logging.getLogger("mixseg")
    before = logger.handlers[:], logger.level, logger.propagate
    with speaking(Manner(json=True, verbosity=-1)):
        say("not shown")
        result({"n": float("nan"), "deep": [{"x": float("inf")}]})
        assert Progress("x", total=1).silent
    assert (logger.handlers[:], logger.level, logger.propagate) == before
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"n": None, "deep": [{"x": None}]}
    assert printed.err == ""
    result({"n": 1})
    assert capsys.readouterr().out == ""


def test_a_script_without_logging_hears_what_is_said(tmp_path):
    script = "from mixseg.core.messages import say; say('a'); say('b')"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "a\nb\n"


@pytest.fixture
def interruptible():
    """SIGINT as a terminal has it: a shell lets what it runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_that_waits_is_answered_at_once(capfd, interruptible):
    with Interrupts() as interrupts:
        interrupts.busy = True
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert "once more ends at once" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            interrupts.deliver()


def test_bad_scans_are_some_of_several(tmp_path, capsys):
    raw = make_nnunet(tmp_path / "raw")
    next((raw / "labelsTr").iterdir()).write_bytes(b"")
    assert main(["inspect", str(raw), "-o", str(tmp_path / "page.html")]) == 3
