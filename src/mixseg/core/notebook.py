"""What a Jupyter notebook shows beside text: a bar that moves in place, figures as pictures."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

SECONDS_BETWEEN = 0.2
"""A notebook keeps every change that it is sent: so often is enough for the eye."""


def notebook() -> Any:  # noqa: ANN401 - IPython's shell, a library that need not be there
    """The shell of the notebook that this runs in; None in a terminal, a script, or where there is no IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if hasattr(shell, "kernel") else None


class NotebookBar:
    """One line with a bar under the cell, which is replaced as the job goes on."""

    def __init__(self, label: str, total: int) -> None:
        from IPython.display import HTML, display

        self.label, self.total, self.last = label, total, 0.0
        self._html = HTML
        self._handle = display(HTML(self._line(0, "")), display_id=True)

    def update(self, done: float, text: str, *, now: bool = False) -> None:
        """Show how much is done, unless that was shown a moment ago; ``now`` all the same."""
        if now or time.monotonic() - self.last > SECONDS_BETWEEN:
            self.last = time.monotonic()
            self._handle.update(self._html(self._line(done, text)))

    def _line(self, done: float, text: str) -> str:
        said = html.escape(f"{self.label}: {int(done)}/{self.total}{', ' if text else ''}{text}")
        return f'<progress value="{done:.3f}" max="{max(self.total, 1)}"></progress> <small>{said}</small>'


def show_figures_as_pictures() -> None:
    """In a notebook a matplotlib figure at the end of a cell is its picture; elsewhere nothing happens."""
    shell = notebook()
    if shell is not None:
        from IPython.core.pylabtools import select_figure_formats

        select_figure_formats(shell, {"png"})
