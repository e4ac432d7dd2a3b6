"""A trained model in one file: a zip of weights, settings and a card, each with a checksum; nothing in it is executed.

``mixseg export RUN --to model`` writes it, and it will do wherever a run is asked for to predict with. Its format:
docs/reference/export.md.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.runs.config import Config, from_dict, to_dict
from mixseg.runs.folder import RunFolder

FORMAT = 1
ABOUT, WEIGHTS, CARD, CHECKSUMS = "model.json", "weights.safetensors", "README.md", "checksums.json"
MEMBERS = (ABOUT, WEIGHTS, CARD, CHECKSUMS)
LARGEST_TEXT = 2**20
"""Bytes of a member that is read as text: those of real models have some thousands."""
ANEW = "export it again, or ask for it again where it came from."


class ModelFile:
    """What a model file says; its weights are read when they are asked for.

    Attributes:
        path: Of the file.
        about: The content of its model.json.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        sizes = self._sizes()
        self._checksums = self._parsed(CHECKSUMS, sizes)
        self.about = self._parsed(ABOUT, sizes, checked=True)
        written = self.about.get("format")
        if written != FORMAT:
            raise MixsegError(
                f"{path} was written by mixseg {self.about.get('mixseg', '?')} in a format that this version does not "
                "read: install that version, or export the run again.",
                "other-version",
                file=path,
                format=written,
            )
        if not {"config", "facts", "checkpoint", "step"} <= set(self.about):
            raise self._broken(f"{ABOUT} lacks keys")

    @cached_property
    def config(self) -> Config:
        """The settings of its training."""
        return from_dict(self.about["config"], where=f"{self.path}/{ABOUT}")

    @property
    def facts(self) -> dict[str, Any]:
        """Its classes and channels, and what else a prediction needs to know."""
        return dict(self.about["facts"])

    @property
    def finished(self) -> dict[str, Any]:
        """What was said of the training when it ended: only finished runs are exported."""
        return dict(self.about.get("finished", {}))

    @property
    def checkpoint(self) -> str:
        """Which weights of the run it holds, "best" or "last"."""
        return str(self.about["checkpoint"])

    def weights(self) -> tuple[dict[str, Tensor], int]:
        """The weights, checked, and the step of the training that they are from.

        Raises:
            MixsegError: They are not those that were written.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            return load(self._read(WEIGHTS)), int(self.about["step"])
        except SafetensorError as error:
            raise self._broken(f"{WEIGHTS}: {error}") from error

    def _sizes(self) -> dict[str, int]:
        """Bytes of its members, of which there are just these."""
        if not self.path.is_file():
            raise MixsegError(f"{self.path} does not exist: check the path.", "file-missing", file=self.path)
        try:
            with zipfile.ZipFile(self.path) as archive:
                members = archive.infolist()
        except (OSError, zipfile.BadZipFile) as error:
            raise self._broken(str(error)) from None
        names = [member.filename for member in members]
        if sorted(names) != sorted(MEMBERS):
            raise MixsegError(
                f"{self.path} is no model that mixseg exported: name a run folder, or a file of "
                "`mixseg export --to model`.",
                "not-a-run",
                folder=self.path,
            )
        if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members):
            raise self._broken("a member is compressed or encrypted")
        return {member.filename: member.file_size for member in members}

    def _parsed(self, name: str, sizes: Mapping[str, int], *, checked: bool = False) -> dict[str, Any]:
        if sizes[name] > LARGEST_TEXT:
            raise self._broken(f"{name} has {sizes[name]} bytes")
        try:
            content = json.loads(self._read(name, checked=checked))
        except (ValueError, RecursionError) as error:
            raise self._broken(f"{name}: {error}") from None
        if not isinstance(content, dict):
            raise self._broken(f"{name} is no object")
        return content

    def _read(self, name: str, *, checked: bool = True) -> bytes:
        try:
            with zipfile.ZipFile(self.path) as archive:
                content = archive.read(name)
        except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise self._broken(str(error)) from None
        if checked and self._checksums.get(name) != checksum(content):
            raise self._broken(f"the checksum of {name} differs")
        return content

    def _broken(self, why: str) -> MixsegError:
        return MixsegError(f"{self.path} is damaged ({why}): {ANEW}", "broken-file", file=self.path)


def write_model_file(
    path: Path, config: Config, about: Mapping[str, Any], weights: Mapping[str, Tensor], card: str
) -> None:
    """Write a model file, whole or not at all."""
    from safetensors.torch import save

    content = {"format": FORMAT, **about, "config": to_dict(config)}
    members = {
        ABOUT: (json.dumps(content, indent=1) + "\n").encode(),
        WEIGHTS: save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}),
        CARD: card.encode(),
    }
    members[CHECKSUMS] = json.dumps({name: checksum(of) for name, of in members.items()}, indent=1).encode()
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, of in members.items():
            archive.writestr(zipfile.ZipInfo(name), of)  # without a time: the same model is the same file


def checksum(content: bytes) -> str:
    """SHA-256, as `sha256sum` prints it."""
    return hashlib.sha256(content).hexdigest()


def trained_at(path: Path) -> RunFolder | ModelFile:
    """What a user names to predict with: a run folder, or a model in one file."""
    return ModelFile(path) if path.is_file() else RunFolder(path)
