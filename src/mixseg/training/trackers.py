"""The log of a run where people look at curves: TensorBoard in the run folder, MLflow in a store beside it.

``log.jsonl`` is the record; what is written here can be made from it again.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from mixseg.core.errors import MixsegError
from mixseg.core.files import explained
from mixseg.runs.config import Config, settings_of

STORE = "mlflow.db"
NAMES = {"tensorboard": "TensorBoard", "mlflow": "MLflow"}
"""Of the libraries that trackers need, by the key of the config."""


class Tracker(Protocol):
    """Is told every entry of the log."""

    def write(self, entry: Mapping[str, Any]) -> None:
        """One entry."""


def check_installed(config: Config) -> None:
    """Nothing, or one sentence about a library that ``config`` asks for and that is not installed."""
    for key in NAMES:
        if config.value(key) and find_spec(key) is None:
            raise _absent(key)


def _absent(key: str) -> MixsegError:
    return MixsegError(
        f"{NAMES[key]} is not installed: pip install 'mixseg[{key}]', or leave {key} off.", "not-installed", package=key
    )


def make_trackers(folder: Path, config: Config, *, keep_until: int) -> list[Tracker]:
    """What ``config`` asks for. What a tracker shows from after step ``keep_until`` is done again."""
    trackers: list[Tracker] = []
    if config.runtime.tensorboard:
        trackers.append(TensorBoard(folder / "tensorboard", keep_until))
    if config.runtime.mlflow:
        trackers.append(MLflow(folder, config))
    return trackers


class TensorBoard:
    """``tensorboard/`` in the run folder."""

    def __init__(self, folder: Path, keep_until: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise _absent("tensorboard") from None
        self.board: Any = SummaryWriter(str(folder), purge_step=keep_until + 1)  # which has no types

    def write(self, entry: Mapping[str, Any]) -> None:
        """Every number of the entry as a point."""
        for tag, value in numbers(entry):
            self.board.add_scalar(tag, value, entry["step"])
        self.board.flush()


class MLflow:
    """A run in ``mlflow.db`` beside the run folder, so that all runs there can be compared.

    A run that is continued is found again by its name. What it does again it does alike, so a point that the store has
    is left as it is.
    """

    def __init__(self, folder: Path, config: Config) -> None:
        try:
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise _absent("mlflow") from None
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        where = folder.resolve()
        with _one_at_a_time(where.parent):  # the first one makes the tables
            self.client: Any = MlflowClient(tracking_uri=f"sqlite:///{where.parent / STORE}")
            self.run = self._find(where) or self._begin(where, config)
        self.steps = config.training.steps
        points = self.client.get_metric_history(self.run, "loss")
        self.last = max((point.step for point in points), default=0)

    def write(self, entry: Mapping[str, Any]) -> None:
        """Every number of the entry as a point; the last step ends the run."""
        from mlflow.entities import Metric

        step, now = int(entry["step"]), round(1000 * time.time())
        if step > self.last:
            points = [Metric(_allowed(tag), value, timestamp=now, step=step) for tag, value in numbers(entry)]
            self.client.log_batch(self.run, metrics=points)
        if step >= self.steps:
            self.client.set_terminated(self.run)

    def _find(self, folder: Path) -> str | None:
        experiment = self.client.get_experiment_by_name(folder.parent.name)
        if experiment is None:
            return None
        runs = self.client.search_runs([experiment.experiment_id], f"attributes.run_name = '{_quoted(folder.name)}'")
        return runs[0].info.run_id if runs else None

    def _begin(self, folder: Path, config: Config) -> str:
        experiment = self.client.get_experiment_by_name(folder.parent.name)
        number = experiment.experiment_id if experiment else self.client.create_experiment(folder.parent.name)
        run: str = self.client.create_run(number, run_name=_quoted(folder.name)).info.run_id
        for key, value in settings_of(config).items():
            self.client.log_param(run, key, value)
        return run


def numbers(entry: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """Every number of an entry with its path: ``dsc/bottom/LV``."""
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{above}{key}/")
        elif isinstance(value, list):
            yield from numbers({str(index): item for index, item in enumerate(value)}, f"{above}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and key != "step":
            yield f"{above}{key}", float(value)


def _allowed(tag: str) -> str:
    """``tag`` in the letters that MLflow takes in a name."""
    return re.sub(r"[^\w\-./ ]", "_", tag, flags=re.ASCII)


def _quoted(name: str) -> str:
    """A name that fits between the quotes of a query."""
    return name.replace("'", "_")


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    with explained(folder), FileLock(folder / ".mlflow.lock"):
        yield
