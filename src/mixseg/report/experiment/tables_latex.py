r"""A table in LaTeX, for ``\input``; needs the package booktabs."""

from __future__ import annotations

import re
import textwrap

from mixseg.report.experiment.tables import Table

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
}
NUMBER = re.compile(r"(?P<mean>-?\d+\.\d+)(?: ± (?P<sd>\d+\.\d+))?(?: \((?P<difference>[+-]\d+\.\d+)\))?")
"""A cell that is a value, as ``tables.value_text`` writes it."""
INTERVAL = re.compile(r"\[(-?[\d.]+), (-?[\d.]+)\]")
"""A cell that is an interval."""


def latex(table: Table, label: str) -> str:
    """A floating table over the width of the page: a line of its own for the name of each group.

    The caption is short; how to read the table stands above it as a comment, for the text of the paper.
    """
    columns = "l" * table.words + "r" * (len(table.head) - table.words)
    body = []
    for group in table.groups:
        body.append(rf"\midrule \multicolumn{{{len(table.head)}}}{{l}}{{\textit{{{escape(group.heading)}}}}} \\")
        body += [f"{' & '.join(map(cell, line))} \\\\" for line in group.lines]
    return "\n".join(
        (
            "% Needs \\usepackage{booktabs}. Made by `mixseg report`: it is written anew, do not edit.",
            *(f"% {sentence}" for sentence in textwrap.wrap(table.reading, 110)),
            r"\begin{table*}[t]",
            r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{escape(table.title)}.}}",
            rf"\label{{tab:{re.sub('[^A-Za-z0-9]+', '-', label).strip('-')}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            f"{' & '.join(map(escape, table.head))} \\\\",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
            "",
        )
    )


def cell(text: str) -> str:
    """A value in mathematical type, its difference smaller; anything else as it is written."""
    found = NUMBER.fullmatch(text)
    if interval := INTERVAL.fullmatch(text):
        return rf"{{\scriptsize $[{interval[1]}, {interval[2]}]$}}"
    if found is None:
        return escape(text)
    spread = rf" \pm {found['sd']}" if found["sd"] else ""
    difference = rf" {{\scriptsize $({found['difference']})$}}" if found["difference"] else ""
    return f"${found['mean']}{spread}${difference}"


def escape(text: str) -> str:
    """``text`` so that it is set as it is written."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)
