from pathlib import Path

import pytest

from grids import small
from mixseg.cli import live_table
from mixseg.cli.live_table import LiveTable, cell_text, summary
from mixseg.datasets.split import Split
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.planner import make_plan
from mixseg.experiments.protocol import PROTOCOLS, Scans
from mixseg.experiments.scheduler import Status

WAITING = "0 of 2 runs done, 2 waiting; time left unknown yet"


@pytest.fixture
def plan():
    scans = Scans("phantom", Path("scans"), "phantom", [], PROTOCOLS["phantom"])
    return make_plan(EXPERIMENTS["main"], small("lower-bound", "kl"), scans, Split(("a", "b")))


def board_of(plan):
    names = [run.name for run in plan.runs]
    return Status(plan, dict.fromkeys(names, "waiting"), dict.fromkeys(names, 0))


def test_it_says_where_every_cell_stands(plan):
    status = board_of(plan)
    first, second = (run.name for run in plan.runs)
    assert summary(status) == WAITING
    status.standing |= {first: "done", second: "running"}
    status.steps |= {first: 4, second: 1}
    status.started = (0.0, 5)
    assert cell_text(status, plan.cells[0]) == "1 of 1"
    assert cell_text(status, plan.cells[1]) == "0 of 1, 25 %"
    assert summary(status) == f"1 of 2 runs done, 1 running ({second} 25 %); time left unknown yet"
    status.steps[second], status.started = 4, (0.0, 0)
    assert cell_text(status, plan.cells[1]) == "0 of 1, scoring"
    assert summary(status) == f"1 of 2 runs done, 1 running ({second} scoring); nearly done"
    status.standing[second] = "failed"
    assert cell_text(status, plan.cells[1]) == "0 of 1, 1 failed"
    assert summary(status) == "1 of 2 runs done, 1 failed"


def test_in_a_log_file_every_change_is_a_line_and_nothing_is_said_twice(plan, capsys, monkeypatch):
    monkeypatch.setattr(live_table.time, "monotonic", lambda: 1000.0)
    table = LiveTable()
    assert table.live is None
    first, second = (run.name for run in plan.runs)
    with table:
        for _ in range(3):
            table.show(board_of(plan))
        status = board_of(plan)
        status.standing |= {first: "done", second: "failed"}
        status.sentences[second] = "it went wrong."
        for _ in range(3):
            table.show(status)
    assert capsys.readouterr().out.splitlines() == [
        WAITING,
        f"{first}: done",
        f"{second}: failed (it went wrong.)",
        "1 of 2 runs done, 1 failed",
    ]
