"""What every export starts from: a finished run with its weights, and what may be said of it to strangers."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mixseg import __version__
from mixseg.core.errors import MixsegError
from mixseg.core.types import Kind
from mixseg.inference.predictor import Predictor
from mixseg.runs.config import Config
from mixseg.runs.folder import RunFolder
from mixseg.runs.model_file import ModelFile, trained_at

ROUNDS = 200_000
"""Of the hash of a name: guessing names by trying all of them takes long."""

SAID = ("classes", "channels", "python", "versions", "commit", "source", "input_ranges", "nested")
"""Facts of a run that name neither a person nor a file nor a machine."""

LEARNT_FROM: tuple[Kind | str, ...] = ("full", "partial", "unlabeled", "proposed", "val")


@dataclass(frozen=True)
class Exported:
    """A finished run, ready to be written in any format.

    Attributes:
        source: The run folder, or a model file of it.
        predictor: With its weights, on the CPU.
        licence: Under which the weights are given away; "" where nobody has said it.
    """

    source: RunFolder | ModelFile
    predictor: Predictor
    licence: str = ""

    @classmethod
    def of(cls, run: Path, *, checkpoint: str | None = None, licence: str = "") -> Exported:
        """Read a run.

        Raises:
            MixsegError: It is not finished.
        """
        source = trained_at(run)
        if source.finished is None:
            raise MixsegError(
                f"{run} is not finished: train it to its end, step {source.config.training.steps}, and export it then.",
                "run-unfinished",
                folder=run,
            )
        return cls(source, Predictor.of(source, device="cpu", checkpoint=checkpoint), licence)

    @property
    def config(self) -> Config:
        """Of the run, without the paths that are in it."""
        return self.source.config.changed(split="", proposals_from="")

    @cached_property
    def about(self) -> dict[str, Any]:
        """What is handed over beside weights and settings."""
        origin, facts = self.predictor.origin, self.source.facts
        if isinstance(self.source, ModelFile):
            trained_on = self.source.about.get("trained_on", {})
        else:
            trained_on = _trained_on(facts.get("protocol", {}))
        finished = self.source.finished or {}
        return {
            "mixseg": __version__,
            "model": origin.model,
            "checkpoint": origin.checkpoint,
            "step": origin.step,
            "output": self.predictor.answer,
            "licence": self.licence,
            "facts": {key: facts[key] for key in SAID if key in facts},
            "trained_on": trained_on,
            "finished": {key: finished[key] for key in ("steps", "test", "summary") if key in finished},
        }


def _trained_on(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """How many scans there were of each kind, and salted hashes of their names.

    Whoever has the names can find out by them whether a scan was learnt from, and nobody can read them off.
    """
    salt = secrets.token_hex(16)
    names = {kind: list(protocol[kind]) for kind in LEARNT_FROM if protocol.get(kind)}
    return {
        "scans": {kind: len(of) for kind, of in names.items()},
        "salt": salt,
        "rounds": ROUNDS,
        "hashes": {kind: sorted(hash_of(name, salt) for name in of) for kind, of in names.items()},
    }


def hash_of(name: str, salt: str) -> str:
    """PBKDF2 with SHA-256 of the name of a scan."""
    return hashlib.pbkdf2_hmac("sha256", name.encode(), bytes.fromhex(salt), ROUNDS).hex()[:32]
