"""The table of the experiment that is measured and not trained: parameters and time of each method."""

from __future__ import annotations

from typing import TypedDict

from mixseg.core.errors import MixsegError
from mixseg.core.text_files import read_json
from mixseg.experiments.complexity import Measure
from mixseg.report.experiment.results import Results
from mixseg.report.experiment.tables import NO_PAPER, Group, Table
from mixseg.report.experiment.tables_paper import paper_values

FILE = "complexity.json"
HEAD = (
    "row",
    "method",
    "parameters stored",
    "paper",
    "ms per sample, all that is stored",
    "paper",
    "ms per sample, what answers",
)


class Measured(TypedDict):
    """What complexity.json holds, as far as the table shows it."""

    network: str
    grid: list[int]
    precision: str
    device: str
    rows: list[Measure]


def complexity_table(results: Results) -> Table:
    """From complexity.json beside the plan: ours, the paper's, and in brackets the difference of the parameters."""
    path = results.folder / FILE
    if not path.exists():
        raise MixsegError(
            f"{path} does not exist: repeat `mixseg experiment complexity`, which measures it.",
            "file-missing",
            file=path,
        )
    content = read_json(path, Measured)
    theirs = paper_values()["complexity"]
    lines = []
    for row in content["rows"]:
        parameters, ms = theirs.get(row["row"], (None, None))
        stored = f"{row['parameters']:,}"
        if parameters is not None:
            stored += f" ({row['parameters'] - parameters:+,})"
        lines.append(
            (
                row["row"],
                row["method"],
                stored,
                NO_PAPER if parameters is None else f"{parameters:,}",
                f"{row['all_ms']:.1f}",
                NO_PAPER if ms is None else f"{ms:.1f}",
                f"{row['answer_ms']:.1f}",
            )
        )
    grid = "x".join(map(str, content["grid"]))
    reading = (
        f"New networks ({content['network']}), one {grid} sample at a time, {content['precision']}, on "
        f"{content['device']}: the median of several passes. Parameters of all networks that training keeps, moving "
        "averages included; in brackets the difference from the paper. The paper's times are those of a Titan RTX and "
        "say how methods compare, not how machines do."
    )
    return Table(results.plan.title, HEAD, 2, (Group(f"{content['network']}, {grid}", tuple(lines)),), reading)
