"""The page of an experiment: its table, paired tests, the figures that its runs allow, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixseg import __version__
from mixseg.core.progress import duration
from mixseg.evaluation.statistics import Estimate
from mixseg.report.experiment.figures import Drawn
from mixseg.report.experiment.missing import command, missing_figures, missing_runs
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.experiment.tables import Table, heading, row_name
from mixseg.report.experiment.tables_tests import reference
from mixseg.report.figures.style import as_html
from mixseg.report.html import Html, joined, page, paragraph, preformatted, table
from mixseg.report.paired import Tested, span, standing
from mixseg.report.run_report import heading as subheading
from mixseg.report.wording import count, part_name


def experiment_page(
    results: Results, scores: Table, tests: Table | None, drawn: Mapping[str, Sequence[Drawn]], *, lead: str
) -> str:
    """One self-contained page.

    Args:
        results: What the experiment has found.
        scores: Its table.
        tests: Its paired tests, if there is anything to compare.
        drawn: Figures by the name of their kind; none of a kind that the runs do not allow.
        lead: Its first sentences.
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
    return page(title, [each for each in sections if each[1]], lead=lead, foot=foot)


def _figures(drawn: Sequence[Drawn]) -> Html:
    return joined(part for each in drawn for part in (subheading(each.title), as_html(each.figure, each.caption)))


def table_html(content: Table) -> Html:
    """A table for each setting, and how to read them."""
    parts: list[Html] = []
    for group in content.groups:
        parts += [subheading(group.heading), table(group.lines, content.head, words=content.words)]
    return joined([*parts, paragraph(content.reading, kind="soft")])


def lead(results: Results, tested: Mapping[str, Sequence[Tested]]) -> str:
    """How the row that others are held against stands in the first setting that has it, and how much is there."""
    if results.plan.measured:
        return "Measured on new networks: nothing is trained."
    scored = (
        (column, [each for each in cells if _dsc(results, each).patients]) for column, cells in results.columns.items()
    )
    verdict = next((_standing(results, column, cells, tested.get(column, ())) for column, cells in scored if cells), "")
    done = len({run.path for each in results.filled for run in each.runs})
    asked = done + len(results.gaps)
    finished = f"{done} of {count(asked, 'run')} of this table {'is' if done == 1 else 'are'} finished."
    return f"{verdict or 'Nothing is finished yet.'} {finished}"


def _dsc(results: Results, each: Filled) -> Estimate:
    return each.estimate("dsc", part=results.part, output=each.answer)


def _standing(results: Results, column: str, scored: Sequence[Filled], tested: Sequence[Tested]) -> str:
    """The row that others are held against with its interval, then against the best of the others."""
    held = reference(results, scored)
    own = _dsc(results, held)
    name = row_name(results.plan, held.cell.row)
    where = f"{count(own.patients, f'{part_name(results.part)} patient')}, {count(own.seeds, 'seed')}"
    sentence = f"{heading(results.plan.columns, column)}: {name} has {100 * own.mean:.1f} % DSC ({span(own)}; {where})."
    others = [each for each in scored if each is not held]
    if not others:
        return sentence
    best = max(others, key=lambda each: _dsc(results, each).mean)
    rival = row_name(results.plan, best.cell.row)
    of_pair = [each for each in tested if each.metric == "dsc" and _are(each, name, rival)]
    # Each curve has a reference of its own: the two may not have been compared.
    return (
        f"{sentence} {standing(of_pair[0]._replace(first=name, second=rival), results.part)}" if of_pair else sentence
    )


def _are(each: Tested, first: str, second: str) -> bool:
    """Whether a test is between the answers of two rows: a side is called by its row and its output."""
    return each.first.rpartition(", ")[0] == first and each.second.rpartition(", ")[0] == second


def _runs(results: Results) -> Html:
    """Every finished run, and the command that makes them all."""
    found = {run.path: run for each in results.filled for run in each.runs}
    lines = [
        (
            run.path.name,
            run.config.training.seed,
            run.config.training.steps,
            duration(run.finished.get("training_seconds", 0.0) if run.finished else 0.0),
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
