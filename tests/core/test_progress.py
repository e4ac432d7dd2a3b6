"""Progress: a plain line now and then in a log file, a bar in a terminal, nothing from the other processes."""

import io
import re

import pytest

from mixseg.core import progress
from mixseg.core.progress import Progress, duration, track


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (75, "75 s"), (89.6, "90 s"), (90, "2 min"), (3600, "60 min"), (5400, "1.5 h")]
)
def test_durations_are_read_at_a_glance(seconds, text):
    assert duration(seconds) == text


def test_lines_come_every_quarter_of_a_minute_with_the_time_left_and_one_at_the_end(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    with Progress("training", total=20, stream=stream) as bar:
        for step in range(20):
            clock.now += 5
            bar.step(f"step {step}")
    assert stream.getvalue().splitlines() == [
        "training: 4/20, 80 s left  step 3",
        "training: 8/20, 60 s left  step 7",
        "training: 12/20, 40 s left  step 11",
        "training: 16/20, 20 s left  step 15",
        "training: 20/20, took 2 min  step 19",
    ]


def test_within_one_long_step_the_time_left_is_that_of_its_rest_and_of_the_steps_after_it(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    with Progress("predicting", total=2, stream=stream) as bar:
        for done in (10, 20, 30, 40):
            clock.now += 20
            bar.partly(f"a, {done} of 40 windows", done / 40)
        bar.step("a")
        clock.now += 40
        bar.partly("b, 20 of 40 windows", 0.5)
        bar.step("b")
    assert stream.getvalue().splitlines() == [
        "predicting: 0/2, 2 min left  a, 10 of 40 windows",
        "predicting: 0/2, 2 min left  a, 20 of 40 windows",
        "predicting: 0/2, 2 min left  a, 30 of 40 windows",
        "predicting: 0/2, 80 s left  a, 40 of 40 windows",
        "predicting: 1/2, 40 s left  b, 20 of 40 windows",
        "predicting: 2/2, took 2 min  b",
    ]


def test_steps_of_an_earlier_process_do_not_count_for_the_time_left(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    with Progress("training", total=100, done=80, stream=stream) as bar:
        clock.now += 20
        bar.step(count=10)
    assert stream.getvalue().splitlines()[0] == "training: 90/100, 20 s left"


def test_an_error_is_not_followed_by_a_line_that_sounds_like_success():
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), Progress("training", total=2, stream=stream):
        _ = 1 / 0
    assert stream.getvalue() == ""


def test_a_silent_one_says_nothing():
    stream = io.StringIO()
    with Progress("training", total=1, stream=stream, silent=True) as bar:
        bar.step("done")
        bar.say("a word")
    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar_and_sentences_beside_it():
    stream = Terminal()
    with Progress("training", total=2, stream=stream) as bar:
        bar.partly("a third", 1 / 3)
        bar.step("half [of it]")
        bar.say("A sentence [with] brackets.")
        bar.step("all")
    shown = stream.getvalue()
    assert "training" in shown
    assert "2/2" in shown
    assert "A sentence [with] brackets." in shown


def test_a_long_text_leaves_room_for_the_count_and_the_time_left_in_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    text = "full 0.1171 weak 0.05546 distill 0.0004235 entropy 0.264  DSC on val: student 6.9%, teacher 3.5%, both 6.2%"
    stream = Terminal()
    with Progress("training", total=300, done=100, stream=stream) as bar:
        bar.step(text)
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", stream.getvalue())
    assert re.search(r"training .*101/300 [-\d:]{7}", shown)
    assert " ".join(text.split()) in " ".join(shown.split())


def test_tracking_yields_what_it_is_given(capsys):
    assert list(track([3, 1], "counting", total=2)) == [3, 1]
    assert "counting: 2/2" in capsys.readouterr().err
