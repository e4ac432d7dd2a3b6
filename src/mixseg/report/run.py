"""A finished run as an object: its scores, history, predictions and figures, for Python and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixseg.core.errors import MixsegError, known
from mixseg.core.notebook import show_figures_as_pictures
from mixseg.core.types import Labels
from mixseg.evaluation.frames import frame, score_frame
from mixseg.evaluation.scores import summarise
from mixseg.inference.model import Model, as_path
from mixseg.methods.outputs import short_name
from mixseg.report import tables
from mixseg.report.figures import curves
from mixseg.report.figures.pictures import Strip, gallery
from mixseg.report.figures.scans import strips
from mixseg.report.html import Html, escaped, figure_png, joined, paragraph
from mixseg.report.run_files import RunFiles, dsc_by_case
from mixseg.report.run_report import write_report
from mixseg.report.wording import circumstances, part_name, title, verdict
from mixseg.training.trackers import numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


def open_run(path: Path | str) -> Run:
    """The run in a folder, made by ``mixseg.train`` or by the command line; it may still be under way.

    Raises:
        MixsegError: The folder holds no run.
    """
    return Run(as_path(path, "path"))


class Run:
    """What a run left. Tables are DataFrames of pandas, figures are matplotlib's; in a notebook it shows itself.

    Args:
        path: The run folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = RunFiles.read(path)

    def __repr__(self) -> str:
        steps = self.files.log[-1]["step"] if self.files.log else 0
        state = "finished" if self.finished else f"at step {steps}"
        return f"Run({str(self.path)!r}: {title(self.files)}, {state})"

    def _repr_html_(self) -> str:
        """The first sentence of its report, and its scores."""
        entries = [entry for entry in summarise(self.files.rows) if entry["checkpoint"] in ("last", "")]
        bodies: list[object] = [Html(f"<h4>{escaped(title(self.files))}</h4>"), paragraph(verdict(self.files))]
        for part in self.files.parts:
            of_part = [entry for entry in entries if entry["part"] == part]
            bodies += [paragraph(f"{part_name(part).capitalize()} scans, last checkpoint"),
                       tables.overview(of_part, self.files.branches)]  # fmt: skip
        return joined([*bodies, paragraph(circumstances(self.files), kind="soft")])

    @property
    def finished(self) -> bool:
        """Whether it is trained to its end and scored."""
        return self.files.finished is not None

    @property
    def config(self) -> Any:  # noqa: ANN401 - runs.config.Config, whose groups are documented there
        """The config that it was trained with."""
        return self.files.config

    @property
    def classes(self) -> tuple[str, ...]:
        """Names by class index, the background first."""
        return self.files.classes

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of the method, its answer first."""
        return self.files.branches

    @cached_property
    def scores(self) -> DataFrame:
        """A line for each scan, class, output and checkpoint: what metrics.csv holds, DSC from 0 to 1."""
        return score_frame(self.files.rows)

    @cached_property
    def summary(self) -> DataFrame:
        """Means over scans by part, checkpoint, output and class, with the standard deviation of each."""
        found = []
        for entry in summarise(self.files.rows):
            line = {key: value for key, value in entry.items() if not isinstance(value, dict)}
            for metric, of in entry.items():
                if isinstance(of, dict):
                    line |= {metric: of["mean"], f"{metric}_sd": of["sd"]}
            found.append(line)
        return frame(found)

    @cached_property
    def history(self) -> DataFrame:
        """A line for each entry of the log: ``loss``, ``terms/full``, ``dsc/bottom/LV`` and whatever else there is."""
        return frame(({"step": entry["step"], **dict(numbers(entry))} for entry in self.files.log), ("step", "loss"))

    @cached_property
    def predictions(self) -> DataFrame:
        """Which label maps there are: checkpoint, output and scan; ``prediction`` reads one."""
        return frame((dict(zip(PLACE, key.split("/", 2), strict=True)) for key in self._keys), PLACE)

    def prediction(self, case: str, *, output: str | None = None, checkpoint: str = "last") -> Labels:
        """The label map of a scan on the training grid, as class indices.

        Args:
            case: The scan, of those that were scored.
            output: Of the method; None is its answer.
            checkpoint: "last" or "best".

        Raises:
            MixsegError: The run kept no such map.
        """
        output = output or (self.outputs[0] if self.outputs else "")
        key = f"{checkpoint}/{output}/{case}"
        if key not in self._keys:
            known("label map of the run", key, self._keys)
        with np.load(self.path / STORE, allow_pickle=False) as held:
            labels: Labels = held[key]
        return labels

    @property
    def figures(self) -> Figures:
        """The figures of its report by name, each drawn when it is asked for."""
        return Figures(
            {
                "every scan": self._every_scan,
                "learning curves": lambda: curves.validation(self.files),
                "loss": lambda: curves.losses(self.files),
                "collapse guard": lambda: curves.watch(self.files),
                "worst scans": lambda: self._examples("worst"),
                "best scans": lambda: self._examples("best"),
            }
        )

    def model(self, **more: Any) -> Model:  # noqa: ANN401 - see mixseg.load
        """What answers: the weights of the run, ready to predict; arguments as for ``mixseg.load``."""
        return Model(self.path, **more)

    def report(self, out: Path | str | None = None) -> Path:
        """Write its page, to ``out`` or its ``report.html``; returns the path."""
        return write_report(self.path, None if out is None else Path(out))

    @cached_property
    def _keys(self) -> list[str]:
        if not (self.path / STORE).exists():
            return []
        with np.load(self.path / STORE, allow_pickle=False) as held:
            return list(held.files)

    def _every_scan(self) -> Figure | None:
        files = self.files
        groups = [
            (
                part_name(part),
                [
                    (short_name(output, files.branches), dsc_by_case(files.chosen(part=part, branch=output)))
                    for output in files.branches
                ],
            )
            for part in files.parts
        ]
        return strips(groups)

    def _examples(self, rank: str) -> Figure | None:
        chosen = [example for example in self.files.examples if example.rank == rank]
        return gallery(
            [
                Strip(
                    name=f"{each.case}\n{part_name(each.part)}",
                    image=each.image,
                    truth=each.truth,
                    labels={short_name(name, self.outputs): labels for name, labels in each.labels.items()},
                    entropy=each.entropy,
                    pixel=each.plane.pixel,
                )
                for each in chosen
            ],
            self.classes,
        )


STORE = "predictions.npz"
PLACE = ("checkpoint", "output", "case")


class Figures(Mapping[str, "Figure"]):
    """Figures by name; in a notebook all of them, one below the other."""

    def __init__(self, drawn: Mapping[str, Callable[[], Figure | None]]) -> None:
        self._drawn = drawn
        self._made: dict[str, Figure] = {}

    def __getitem__(self, name: str) -> Figure:
        show_figures_as_pictures()
        if name not in self._drawn:
            raise KeyError(f"{name!r}: there are {', '.join(self._drawn)}")
        if name not in self._made:
            figure = self._drawn[name]()
            if figure is None:
                raise MixsegError(
                    f"The run left nothing that {name!r} could show: it may not be finished, or its method has none.",
                    "nothing-to-draw",
                    name=name,
                )
            self._made[name] = figure
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._drawn)

    def __len__(self) -> int:
        return len(self._drawn)

    def __repr__(self) -> str:
        return f"Figures({', '.join(self)})"

    def _repr_html_(self) -> str:
        shown = []
        for name in self:
            try:
                shown.append(figure_png(self[name], name))
            except MixsegError:  # what a run has nothing for is left out, as on its page
                continue
        return joined(shown)
