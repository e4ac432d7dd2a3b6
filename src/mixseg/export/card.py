"""The card of a model, made from its run: what it does, what it learnt from, how well, and what it is not for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mixseg.data.scan import times
from mixseg.evaluation.scores import MEAN, mean_sd
from mixseg.export.exported import Exported
from mixseg.methods import METHODS
from mixseg.methods.outputs import output_name
from mixseg.runs.config import Config

KINDS = {
    "full": "with full masks",
    "partial": "with partial labels",
    "unlabeled": "without labels",
    "proposed": "with proposed masks",
    "val": "held out to validate on",
}


def card(exported: Exported) -> str:
    """The page, in Markdown, with the head that model hubs read."""
    return "\n".join(line for section in _sections(exported) for line in (*section, ""))


def _sections(exported: Exported) -> Iterator[list[str]]:
    about, config = exported.about, exported.config
    classes = about["facts"]["classes"]
    yield [
        "---",
        "library_name: mixseg",
        f"license: {exported.licence or 'unknown'}",
        "pipeline_tag: image-segmentation",
        "tags: [medical-imaging, segmentation, mixed-supervision]",
        "---",
    ]
    yield [f"# Segmentation of {', '.join(classes[1:])}"]
    yield [
        f"A network that marks {', '.join(classes[1:])} in {_images(config, about)}. Method `{config.method.name}`: "
        f"{METHODS[config.method.name].about}. Made by mixseg {about['mixseg']}.",
    ]
    yield ["## Use", "", "```", "mixseg predict MODEL -i IMAGES -o LABELS", "```"]
    yield ["## Input", "", *_input(config, about)]
    yield ["## What it learnt from", "", *_learnt(about)]
    yield ["## How well it does", "", *_scores(about, output=about["output"])]
    yield [
        "## What it is for, and what not",
        "",
        "- For research, on images like those that it learnt from: the same modality, anatomy and kind of scanner.",
        "- **Not a medical device.** Nobody has shown that it is safe or useful in the care of patients. A person who",
        "  can judge the images has to check what it marks.",
        "- The scores above say nothing about images of other scanners, protocols, diseases or ages.",
    ]
    yield [
        "## Provenance",
        "",
        f"- weights: `{about['model']}`, the {about['checkpoint']} checkpoint of the run, of step {about['step']}",
        f"- licence of the weights: {exported.licence or 'not stated: ask whoever gave them to you'}",
        f"- trained with {_versions(about['facts'])}",
        f"- commit of mixseg: {about['facts'].get('commit') or 'not known'}",
    ]


def _images(config: Config, about: Mapping[str, Any]) -> str:
    what = "slices" if config.data.dims == 2 else "volumes"
    channels = about["facts"]["channels"]
    return f"{what} of {channels} channel{'s' * (channels > 1)}"


def _input(config: Config, about: Mapping[str, Any]) -> list[str]:
    data = config.data
    if data.spacing:
        grid = f"resampled to voxels of {times(data.spacing)} mm"
    elif data.dims == 2:
        grid = f"stretched to {times(data.size)} pixels"
    else:
        grid = "taken at the size of their own voxels, which should be that of the training scans"
    lines = [f"- {about['facts']['channels']} channel(s) of grey values; scans are {grid} by whoever runs it"]
    found = about["facts"].get("input_ranges")
    if found:
        lines.append(f"- seen in training: `{found}`")
    return lines


def _learnt(about: Mapping[str, Any]) -> list[str]:
    counts = about["trained_on"].get("scans", {})
    return [f"- {count} scan{'s' * (count != 1)} {KINDS.get(kind, kind)}" for kind, count in counts.items()] or [
        "- not recorded"
    ]


def _scores(about: Mapping[str, Any], *, output: str) -> list[str]:
    entries = [
        each
        for each in about["finished"].get("summary", ())
        if each["checkpoint"] == about["checkpoint"] and each["branch"] == output
    ]
    if not entries:
        return ["No scan with a full mask was held out: nothing is known of how well it does."]
    outputs = sorted({each["branch"] for each in about["finished"]["summary"]})
    lines = [
        f"Of the {output_name(output, outputs)}, on scans that it did not learn from; mean ± sd over scans.",
        "",
        "| part | class | scans | DSC % | HD95, mm |",
        "|---|---|--:|--:|--:|",
    ]
    for each in entries:
        name = "all classes" if each["class"] == MEAN else each["class"]
        values = f"{mean_sd(each['dsc'], 100)} | {mean_sd(each['hd95_mm'])}"
        lines.append(f"| {each['part']} | {name} | {each['cases']} | {values} |")
    fewest = min(each["cases"] for each in entries)
    if fewest < 10:
        lines += ["", f"**{fewest} scan{'s are' if fewest > 1 else ' is'} few: another one may well lie elsewhere.**"]
    return lines


def _versions(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items()) or "unknown versions"
