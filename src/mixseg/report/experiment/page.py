"""The page of an experiment: its table, paired tests, the figures that its runs allow, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixseg import __version__
from mixseg.core.progress import duration
from mixseg.report.experiment.figures import Drawn
from mixseg.report.experiment.missing import command, missing_figures, missing_runs
from mixseg.report.experiment.results import Filled, Results, Spread
from mixseg.report.experiment.tables import Table, heading, row_name
from mixseg.report.experiment.tables_tests import reference
from mixseg.report.figures.style import as_html
from mixseg.report.html import Html, joined, page, paragraph, preformatted, table
from mixseg.report.run_report import heading as subheading
from mixseg.report.wording import count, part_name


def experiment_page(results: Results, scores: Table, tests: Table | None, drawn: Mapping[str, Sequence[Drawn]]) -> str:
    """One self-contained page.

    Args:
        results: What the experiment has found.
        scores: Its table.
        tests: Its paired tests, if there is anything to compare.
        drawn: Figures by the name of their kind; none of a kind that the runs do not allow.
    """
    sections = [
        ("Table", table_html(scores)),
        ("Paired tests", table_html(tests) if tests else Html("")),
        ("Figures", _figures([each for of_kind in drawn.values() for each in of_kind])),
        ("Missing runs", missing_runs(results)),
        (
            "Figures that these runs do not give",
            missing_figures(results, [name for name, of in drawn.items() if not of]),
        ),
        ("Runs", _runs(results)),
    ]
    title = f"{results.plan.title} ({results.plan.dataset})"
    foot = f"Made by mixseg {__version__} from the runs of {results.folder.resolve().name}."
    return page(title, [each for each in sections if each[1]], lead=_lead(results), foot=foot)


def _figures(drawn: Sequence[Drawn]) -> Html:
    return joined(part for each in drawn for part in (subheading(each.title), as_html(each.figure, each.caption)))


def table_html(content: Table) -> Html:
    """A table for each setting, and how to read them."""
    parts: list[Html] = []
    for group in content.groups:
        parts += [subheading(group.heading), table(group.lines, content.head, words=content.words)]
    return joined([*parts, paragraph(content.reading, kind="soft")])


def _lead(results: Results) -> str:
    """How the row that others are held against stands in the first setting that has it, and how much is there."""
    if results.plan.measured:
        return "Measured on new networks: nothing is trained."
    scored = (
        (column, {each.cell.row: (each, found) for each in cells if (found := _dsc(results, each))})
        for column, cells in results.columns.items()
    )
    standing = next(
        (_standing(results, column, found) for column, found in scored if found), "Nothing is finished yet."
    )
    done = len({run.path for each in results.filled for run in each.runs})
    asked = done + len(results.gaps)
    return f"{standing} {done} of {count(asked, 'run')} of this table {'is' if done == 1 else 'are'} finished."


def _dsc(results: Results, each: Filled) -> Spread | None:
    return each.score("dsc", part=results.part, output=each.answer)


def _standing(results: Results, column: str, scored: Mapping[str, tuple[Filled, Spread]]) -> str:
    held = reference(results, [each for each, _ in scored.values()])
    means = {name: 100 * found.mean for name, (_, found) in scored.items()}
    own = scored[held.cell.row][1]
    sentence = (
        f"{heading(results.plan.columns, column)}: {row_name(results.plan, held.cell.row)} has "
        f"{means.pop(held.cell.row):.1f} % DSC on the {part_name(results.part)} scans ({count(own.seeds, 'seed')})"
    )
    if not means:
        return f"{sentence}."
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    if low == high:
        return f"{sentence}, {low} {means[low]:.1f} %."
    return f"{sentence}; the others lie between {means[low]:.1f} % ({low}) and {means[high]:.1f} % ({high})."


def _runs(results: Results) -> Html:
    """Every finished run, and the command that makes them all."""
    found = {run.path: run for each in results.filled for run in each.runs}
    lines = [
        (
            run.path.name,
            run.config.training.seed,
            run.config.training.steps,
            duration((run.finished or {}).get("training_seconds", 0.0)),
            run.facts.get("device", "?"),
            run.facts.get("commit") or "-",
        )
        for run in found.values()
    ]
    if not lines:
        return preformatted(command(results))
    head = ("run", "seed", "steps", "trained in", "device", "commit")
    return joined([table(lines, head), paragraph("The command that makes them, and goes on where it stopped:"),
                   preformatted(command(results))])  # fmt: skip
