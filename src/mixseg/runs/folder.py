"""The run folder: one config, one writer, finished if and only if it holds finished.json."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from mixseg import __version__
from mixseg.core.errors import MixsegError
from mixseg.core.files import check_not_foreign, explained, sweep, write_json
from mixseg.core.schema import Content
from mixseg.core.text_files import read_json
from mixseg.core.types import renamed
from mixseg.runs.config import REMOVED, Config, from_dict, keys_where, settings_of, to_dict
from mixseg.runs.config_groups import Traits
from mixseg.runs.documents import Facts, Finished
from mixseg.runs.provenance import commit, source_hash

LOCK = ".lock"
LIBRARIES = ("torch", "lightning-fabric", "pytorch-lightning", "numpy", "scipy")
LOGS = (".log", ".out", ".err")
"""Of files that a shell, a scheduler or an experiment may write into the folder of a run before it begins."""
FAILED = "failed.json"
"""Why a run of an experiment failed, perhaps before it began."""
CROSS_VALIDATION = "cross-validation"
"""Below a run: the runs that were trained without some of its patients, and their scores on these."""
PATIENCE = 1.0
"""Seconds for which a run that is locked is waited for: who asks whether it is, locks it for a moment."""


Stamp = tuple[int, int, int] | None


class BusyError(MixsegError):
    """Another process is writing the run."""


class RunFolder:
    """The files of one run. Their formats: docs/reference/run-folder.md.

    What they say is read once, and again only if somebody has written the file anew: hand this on, not its path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, tuple[Stamp, Any]] = {}
        self._named: dict[str, RunFolder] = {}

    @property
    def finished(self) -> Content | None:
        """What finished.json says, or None while the run is not finished."""
        found: Content | None = self._once("finished.json", lambda path: read_json(path, Finished, missing_ok=True))
        return found

    @property
    def begun(self) -> bool:
        """Whether anything was learnt here yet: until then the folder is free for other settings."""
        return any((self.path / name).exists() for name in ("last.pt", "finished.json"))

    def check_not_foreign(self) -> None:
        """Nothing, or one sentence if the folder holds something else than a run: scans, predictions, other runs."""
        check_not_foreign(self.path, "config.json", "run folder", harmless=_may_lie_there)

    @property
    def config(self) -> Config:
        """The resolved config that the run was started with."""
        config: Config = self._once("config.json", self._parsed)[0]
        return config

    def _parsed(self, path: Path) -> tuple[Config, dict[str, Any]]:
        """The config, and what it had in keys that this version has no more."""
        content = self._json(path.name, dict[str, Any])
        removed = {key: content.pop(key) for key in REMOVED if key in content}
        return from_dict(content, where=str(path)), removed

    @property
    def facts(self) -> Content:
        """environment.json: versions, device, data and who was train, val and test."""
        found: Content = self._once("environment.json", self._described)
        return found

    def _described(self, path: Path) -> Content:
        """What environment.json says, the kinds of supervision by today's names."""
        content: Content = self._json(path.name, Facts)
        if "protocol" in content:
            content["protocol"] = renamed(content["protocol"])
        return content

    def named(self, source: str) -> RunFolder:
        """The run that this one calls ``source``: relative to the folder that holds it, or to the current one.

        Runs that lie beside each other can so be moved together.
        """
        if source not in self._named:
            beside = (self.path.parent / source).resolve()  # before the folder that holds it need exist
            self._named[source] = RunFolder(beside if beside.exists() else Path(source))
        return self._named[source]

    def _once(self, name: str, read: Callable[[Path], Any]) -> Any:  # noqa: ANN401 - what ``read`` makes of the file
        """What a file says."""
        path = self.path / name
        now = _stamp(path)
        if now is None or name not in self._read or self._read[name][0] != now:
            self._read[name] = (now, read(path))
        return self._read[name][1]

    def _json(self, name: str, kind: object) -> Any:  # noqa: ANN401 - whatever json holds
        if not (self.path / "config.json").exists():
            raise MixsegError(
                f"{self.path} is no run folder (it has no config.json): name the --out of a training.",
                "not-a-run",
                folder=self.path,
            )
        return read_json(self.path / name, kind)

    def begin(self, config: Config, facts: dict[str, Any]) -> None:
        """Take the folder for ``config``, or continue the run that it holds: see ``check_same_run``."""
        sweep(self.path)
        (self.path / "finished.json").unlink(missing_ok=True)
        write_json(self.path / "config.json", to_dict(config))
        self._read["config.json"] = (_stamp(self.path / "config.json"), (config, {}))
        write_json(self.path / "environment.json", facts)

    def check_same_run(self, config: Config, facts: dict[str, Any]) -> None:
        """Nothing, or one sentence if the folder holds a run that differs in more than its length."""
        if not self.begun:
            return
        self.check_unchanged(config)
        self.check_same_data(facts)

    def check_same_data(self, facts: Mapping[str, Any]) -> None:
        """The same, of its data, classes and split alone."""
        was = self.facts
        whose = f" ({was['folder']})" if "folder" in was else ""
        if _identity(was) != _identity(facts):
            raise MixsegError(
                f"{self.path} holds a run on other data{whose}, or on another split of them: choose another --out.",
                "data-differ",
                folder=self.path,
            )

    def check_unchanged(self, config: Config, *, compared: Callable[[Traits], bool] = lambda key: key.fixed) -> None:
        """The same, of its settings alone, those of them that are ``compared``."""
        if not self.begun:
            return
        self._check_no_removed_keys()
        before, now = self.config, config
        changed = next((key for key in keys_where(compared) if now.value(key) != before.value(key)), None)
        if changed:
            was, asked = (settings_of(each)[changed] for each in (before, now))
            raise MixsegError(
                f"{self.path} holds a run with {changed}={was!r}, not {asked!r}: "
                "choose another --out, or repeat the run's own settings to continue it.",
                "settings-differ",
                folder=self.path,
                key=changed,
                value=asked,
                expected=was,
            )
        steps = before.training.steps
        if now.training.steps < steps and self.finished:
            raise MixsegError(
                f"{self.path} was trained for {steps} steps already: ask for more, or for less elsewhere.",
                "already-trained",
                folder=self.path,
                steps=steps,
            )

    def _check_no_removed_keys(self) -> None:
        """Nothing, or one sentence about a run that this version can predict with and not continue."""
        for key, value in self._once("config.json", self._parsed)[1].items():
            if value != REMOVED[key]:
                raise MixsegError(
                    f"{self.path} holds a run with {key}={value!r}, which this version cannot continue: "
                    "continue it with the version that began it, or choose another --out.",
                    "removed-key",
                    folder=self.path,
                    key=key,
                    value=value,
                )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Inside, no other process can write this run. The system frees the lock even after a kill."""
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK, timeout=PATIENCE)
            try:
                lock.acquire()
            except Timeout:
                raise BusyError(
                    f"Another process is writing {self.path}: wait for it, or choose another --out.",
                    "busy",
                    folder=self.path,
                ) from None
        try:
            yield
        finally:
            lock.release()

    @property
    def is_locked(self) -> bool:
        """Whether a process is writing the run. To ask is to have the lock for a moment: see ``PATIENCE``."""
        if not (self.path / LOCK).exists():  # to ask must not make it
            return False
        try:
            with FileLock(self.path / LOCK, blocking=False):
                return False
        except Timeout:
            return True


def _stamp(path: Path) -> Stamp:
    """What changes when a file is written: None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _may_lie_there(path: Path) -> bool:
    """Whether a file says nothing against its folder's being that of a run that has not begun."""
    return path.name.startswith(".") or path.suffix in LOGS or path.name in (FAILED, CROSS_VALIDATION)


def environment(device: torch.device, data: str) -> dict[str, Any]:
    """What a reader needs to repeat the run: versions, hardware, sources, and the hash of the data."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "python": platform.python_version(),
        "versions": {"mixseg": __version__}
        | {library: version for library in LIBRARIES if (version := _version(library))},
        "device": f"{device.type}: {name}",
        "threads": torch.get_num_threads(),
        "commit": commit(),
        "source": source_hash(),
        "command": shlex.join(sys.argv),
        "data": data,
    }


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _identity(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes the data and the split of a run; who of val and test has no mask follows from them."""
    protocol = {who: names for who, names in facts.get("protocol", {}).items() if who != "unscored"}
    return facts.get("data"), facts.get("classes"), protocol
