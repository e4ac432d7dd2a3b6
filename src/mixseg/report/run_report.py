"""The report of one run: a self-contained page made from the files of its folder."""

from __future__ import annotations

import json
from pathlib import Path

from mixseg.core.files import replacing
from mixseg.evaluation.scores import STROKES, summarise
from mixseg.inference.report_slices import Example
from mixseg.methods.outputs import branches, short_name
from mixseg.report import tables
from mixseg.report.figures import curves
from mixseg.report.figures.montages import montages
from mixseg.report.figures.pictures import Strip, gallery
from mixseg.report.figures.scans import Column, strips
from mixseg.report.figures.style import as_html
from mixseg.report.html import Html, escaped, folded, joined, page, paragraph, preformatted
from mixseg.report.run_files import RunFiles, Warned, dsc_by_case
from mixseg.report.wording import IN_VOXELS, MISSED, circumstances, part_name, tells_of_others, title, verdict
from mixseg.runs.config import to_dict

Section = tuple[str, Html]
INTERVAL = "The interval is that of the mean DSC, from a bootstrap over patients; one patient has none."
WARNINGS = 5
"""So many are shown; the others are folded away."""


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the page about a run, from the files of its folder, to ``out`` or its ``report.html``; return the path."""
    found, out = RunFiles.read(run), out or run / "report.html"
    content = page(title(found), sections(found), lead=_lead(found), foot=_foot(found))
    with replacing(out) as temporary:
        temporary.write_text(content, encoding="utf-8")
    return out


def sections(run: RunFiles) -> list[Section]:
    """What the page shows, in order; a section without content is left out."""
    bodies = [
        ("Warnings", _warnings(run)),
        ("Scores", _scores(run)),
        ("Every scan", _scans(run)),
        ("Worst scans", _examples(run, "worst")),
        ("Best scans", _examples(run, "best")),
        ("Learning curves", _validation(run)),
        ("Loss", _losses(run)),
        ("Collapse guard", _watch(run)),
        ("Protocol", tables.protocol(run)),
        ("Config", _config(run)),
        ("Environment", tables.environment(run.facts)),
    ]
    return [(heading, body) for heading, body in bodies if body]


def _lead(run: RunFiles) -> Html:
    sentence = escaped(verdict(run))
    bold = tells_of_others(run)  # one patient is no headline
    return joined([Html(f"<strong>{sentence}</strong>") if bold else sentence, circumstances(run)])


def heading(text: str) -> Html:
    """A heading within a section."""
    return Html(f"<h3>{escaped(text)}</h3>")


def _warnings(run: RunFiles) -> Html:
    warnings = [paragraph(f"Step {step}: {sentence}", kind="warning") for step, sentence in run.warned]
    more = joined(warnings[WARNINGS:])
    return joined([*warnings[:WARNINGS], *([folded(f"{len(warnings) - WARNINGS} more", more)] if more else [])])


def _scores(run: RunFiles) -> Html:
    if not run.rows:
        return paragraph("Nothing has been scored yet.")
    entries = summarise(run.rows, intervals=True)
    if run.best_is_last:
        entries = [entry | {"checkpoint": "last = best"} for entry in entries if entry["checkpoint"] == "last"]
    bodies: list[Html] = []
    for part in run.parts:
        of_part = [entry for entry in entries if entry["part"] == part]
        bodies += [heading(f"{part_name(part).capitalize()} scans"), tables.overview(of_part, run.branches)]
        if len({entry["class"] for entry in of_part}) > 1:
            bodies.append(
                folded("Each class, with ASSD and the scans left out", tables.by_class(of_part, run.branches))
            )
    left_out = sum(entry["left_out"] for entry in entries)
    note = f"Mean ± standard deviation over scans; the background is not scored. {MISSED} {INTERVAL} "
    if STROKES in run.parts:
        note += "Partly labelled scans are scored on their labelled voxels alone, which says little about borders. "
    if left_out:
        note += "Left out: scans that have the class neither in the truth nor in the prediction. "
    known = [any(entry[f"hd95_{unit}"]["mean"] is not None for entry in entries) for unit in ("vox", "mm")]
    if known == [True, False]:
        note += IN_VOXELS
    return joined([*bodies, paragraph(note, kind="soft")])


def _scans(run: RunFiles) -> Html:
    labels = list(dict.fromkeys(row.label for row in run.rows))
    panels = {label: [label] for label in labels}
    if len(labels) > curves.FEW_CLASSES:
        panels = {"mean of the classes": labels}
    groups: list[tuple[str, list[Column]]] = []
    for part in run.parts:
        for name, chosen in panels.items():
            columns: list[Column] = [
                (
                    short_name(branch, run.branches),
                    dsc_by_case(row for row in run.chosen(part=part, branch=branch) if row.label in chosen),
                )
                for branch in run.branches
            ]
            groups.append((f"{name}, {part_name(part)}", columns))
    return as_html(
        strips(groups),
        "DSC of each scan, last checkpoint. A dot is a scan, a thin line joins the outputs for the same scan, the bar "
        "is the mean. The name is that of the scan with the lowest DSC.",
    )


def _examples(run: RunFiles, rank: str) -> Html:
    chosen = [example for example in run.examples if example.rank == rank]
    of = short_name(run.answer, run.branches)
    caption = (
        f"The {rank} scans by mean DSC of the {of}, last checkpoint, on the training "
        "grid, cut to what is marked. Coloured: the outline in that panel. White: the truth. "
        "Entropy: how unsure the answer is, as a share of the largest possible."
    )
    shown = [as_html(gallery([_strip(run, example) for example in chosen], run.classes), caption)]
    named = [
        (f"{example.case} ({part_name(example.part)}), DSC {100 * example.dsc:.1f} %", example.montage)
        for example in chosen
        if example.montage is not None
    ]
    along = f"The same scans from end to end of what is marked: the {of} coloured, the truth white; slices along K."
    return joined([body for body in (*shown, as_html(montages(named, run.classes), along)) if body])


def _strip(run: RunFiles, example: Example) -> Strip:
    """Teacher before student, their mean left out: it lies between them."""
    order = sorted(branches(example.labels), key=lambda name: name == run.answer)
    scored = {
        name: dsc_by_case(run.chosen(part=example.part, branch=name)).get(example.case) for name in example.labels
    }
    names = {name: short_name(name, run.branches) for name in order}
    notes = {names[name]: f"DSC of the scan {100 * dsc:.1f} %" for name in order if (dsc := scored[name]) is not None}
    return Strip(
        name=_name(example, run.config.data.dims),
        image=example.image,
        truth=example.truth,
        labels={names[name]: example.labels[name] for name in order},
        entropy=example.entropy,
        notes=notes,
        pixel=example.plane.pixel,
    )


def _name(example: Example, dims: int) -> str:
    """Which scan and plane; the side views of a volume, which are low, follow the plane that names the scan."""
    plane = where(example, dims)
    named = dims == 2 or example.plane.axis == 2
    return f"{example.case}\n{part_name(example.part)}, {plane}" if named else plane


def where(example: Example, dims: int) -> str:
    """Which plane of the scan it is."""
    plane = example.plane
    if dims == 2:
        return f"slice {plane.index}, {plane.why}"
    across = "IJK"[plane.axis]
    return f"{'IJK'.replace(across, '')} at {across} = {plane.index}"


def _validation(run: RunFiles) -> Html:
    return as_html(curves.validation(run), "Volume DSC on the validation scans, mean over scans." + _flags(run.warned))


def _losses(run: RunFiles) -> Html:
    return as_html(
        curves.losses(run),
        "Each term of the loss between two validations: as it is, and times its weight, as it counts."
        + _flags(run.warned),
    )


def _watch(run: RunFiles) -> Html:
    return as_html(
        curves.watch(run),
        "What the collapse guard watches on the partly labelled scans. The pale bars are the shares that the classes "
        "have in the full masks of the training set: curves that leave them far behind are a collapse."
        + _flags(run.warned),
    )


def _flags(warned: list[Warned]) -> str:
    return " Flags (!) mark the steps at which the log gave a warning." if warned else ""


def _config(run: RunFiles) -> Html:
    whole = preformatted(json.dumps(to_dict(run.config), indent=1))
    return joined([paragraph("What differs from the preset:"), tables.changes(run), folded("The whole config", whole)])


def _foot(run: RunFiles) -> str:
    version = run.facts.get("versions", {}).get("mixseg", "")
    return f"Made by mixseg {version} from the files in {run.path.resolve().name}.".replace("  ", " ")
