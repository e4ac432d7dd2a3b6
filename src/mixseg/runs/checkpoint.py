"""What a run needs to go on exactly where it was, and what a prediction needs: last.pt and best.pt."""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from mixseg.core.errors import MixsegError, lacks_memory
from mixseg.core.files import replacing
from mixseg.methods import Method
from mixseg.runs import checksum
from mixseg.runs.log import Record

Weights = dict[str, Tensor]

WEIGHTS = {"method", "step"}
"""What every checkpoint holds; last.pt holds more."""
ANOTHER = "put back a last.pt or best.pt that a run wrote, or remove it and train again."


def copied(module: nn.Module) -> Weights:
    """The weights, sharing no storage with the module."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


@dataclass
class State:
    """Everything of a training that is not a function of the seed and the step."""

    method: Method
    optimizer: torch.optim.Optimizer
    step: int = 0
    best_score: float = -math.inf
    best_step: int = 0
    best: Weights = field(default_factory=dict)
    written: int = 0
    """The step of the weights in best.pt, which are not written twice."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What the training has taken so far, by phase."""
    record: Record = field(default_factory=Record)
    """The losses since the last validation."""

    def keep_if_best(self, score: float) -> None:
        """Remember the present weights if none scored higher at a validation; the first of equals stay."""
        if score > self.best_score:
            self.best_score, self.best_step, self.best = score, self.step, copied(self.method)

    def weights(self) -> dict[str, Weights]:
        """What each checkpoint predicts with; there is no best one without validation scans that can choose it."""
        last = copied(self.method)
        return {"last": last, "best": self.best} if self.best else {"last": last}

    def files(self) -> dict[str, dict[str, Any]]:
        """What a checkpoint consists of, by the name of the file, in the order of writing.

        A kill between the two leaves a best.pt from after last.pt: the steps are then done again, and it is the same.
        """
        found = {"step": self.best_step, "score": self.best_score}
        content = {"step": self.step, "method": self.method.state_dict(), "optimizer": self.optimizer.state_dict()}
        new = {"best.pt": {**found, "method": self.best}} if self.best_step != self.written else {}
        since = {"seconds": dict(self.seconds), "record": self.record.content()}
        return {**new, "last.pt": {**content, "best": found, **since}}

    def resume(self, folder: Path) -> None:
        """Take up the last checkpoint of ``folder``, if there is one."""
        if not (folder / "last.pt").exists():
            return
        device = next(self.method.parameters()).device
        content = _read(folder / "last.pt", device, {"method", "step", "optimizer", "best"})
        give_weights(self.method, content["method"], folder / "last.pt")
        self.optimizer.load_state_dict(content["optimizer"])
        self.step = content["step"]
        self.best_score, self.best_step = content["best"]["score"], content["best"]["step"]
        self.seconds = content.get("seconds", {})
        self.record = Record.of(content["record"]) if "record" in content else Record()
        if self.best_step and (folder / "best.pt").exists():
            best = _read(folder / "best.pt", device, WEIGHTS)
            self.best, self.written = best["method"], best["step"]


class Writer:
    """Writes checkpoints from copies while training goes on; each waits for the one before, leaving waits for all.

    Attributes:
        kept: The step of the last checkpoint that is on disk; 0 for none.
    """

    def __init__(self) -> None:
        self.kept = 0
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self.pending: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None:
            self.wait()

    def close(self) -> None:
        """Write what was asked for, and take nothing more."""
        self.pool.shutdown()

    def save(self, state: State, folder: Path) -> None:
        """Copy the state as it is now and have it written, each file whole or not at all."""
        self.wait()
        files = {folder / name: content for name, content in state.files().items()}
        self.pending = self.pool.submit(self._write_all, *_aside(files), state.step)
        state.written = state.best_step

    def wait(self) -> None:
        """Until all is written; raises what went wrong on the way."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def _write_all(self, files: Mapping[Path, Any], stream: torch.cuda.Stream | None, step: int) -> None:
        with torch.cuda.stream(stream) if stream else nullcontext():
            for path, content in files.items():
                _write(path, _changed(content, Tensor.cpu))
        self.kept = step


def _aside(content: Any) -> tuple[Any, torch.cuda.Stream | None]:  # noqa: ANN401
    """A copy whose tensors nothing else changes; on a GPU with room for it twice it stays there, and takes no time.

    It is to be brought to the host on the stream that comes with it: training then waits for nothing of that.
    """
    tensors: list[Tensor] = []
    _changed(content, tensors.append)
    card = next((tensor.device for tensor in tensors if tensor.is_cuda), None)
    room = card is not None and torch.cuda.mem_get_info(card)[0] >= 2 * sum(tensor.nbytes for tensor in tensors)
    try:
        copy = _changed(content, lambda tensor: tensor.detach().clone()) if room else None
    except torch.OutOfMemoryError:  # somebody else took it, or this process may not
        copy = None
    if copy is None:
        return _changed(content, lambda tensor: tensor.detach().to("cpu", copy=True)), None
    stream = torch.cuda.Stream(card)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(card))
    return copy, stream


def _changed(content: Any, change: Callable[[Tensor], Any]) -> Any:  # noqa: ANN401 - whatever an optimiser keeps
    """The same tree with every tensor changed."""
    if isinstance(content, Tensor):
        return change(content)
    if isinstance(content, dict):
        return {key: _changed(value, change) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return type(content)(_changed(value, change) for value in content)
    return content


def load_weights(method: Method, path: Path) -> int:
    """Give ``method`` the weights to predict with of a checkpoint; returns the step it was made at."""
    content = _read(path, torch.device("cpu"), WEIGHTS, mmap=True)  # two thirds of last.pt are the optimiser's
    averaged = content.get("average")  # a run of version 0.1.0 may have kept one, which answers
    give_weights(method, averaged["weights"] if averaged else content["method"], path)
    return int(content["step"])


def weights_hash(method: Method) -> str:
    """The hash of the weights, whatever file they came in and whatever machine they are on."""
    state = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(method.state_dict().items()):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        state.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return state.hexdigest()


def _write(path: Path, content: Mapping[str, Any]) -> None:
    # Through a file of Python's: torch's own writer turns a full disk into an error about positions.
    with replacing(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(dict(content), file)
        except RuntimeError as error:  # it ends its archive after a refused write too, which fails and hides the reason
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
        file.close()
        checksum.append(temporary)


def _read(path: Path, device: torch.device, needed: Set[str], *, mmap: bool = False) -> dict[str, Any]:
    if not path.exists() and path.with_name("last.pt").exists():
        raise MixsegError(
            f"{path.parent} has no {path.name}, as where no validation scan chooses one: take the last checkpoint.",
            "no-best-checkpoint",
            folder=path.parent,
        )
    if not path.exists():
        raise MixsegError(
            f"{path} does not exist: train the run first, or name another checkpoint.", "file-missing", file=path
        )
    if not checksum.verify(path):
        raise MixsegError(
            f"{path} was damaged since it was written (its checksum is another): {ANOTHER}", "broken-file", file=path
        )
    try:
        whole = zipfile.is_zipfile(path)
        content = torch.load(path, map_location=device, weights_only=True, mmap=mmap) if whole else None
    except Exception as error:  # a damaged file can break the reader anywhere, and its advice is to trust the file
        if lacks_memory(error):
            there = "the device" if device.type != "cpu" else "this machine"
            raise MixsegError(
                f"{path} takes more memory than {there} has left: end other programs there.", "out-of-memory", file=path
            ) from error
        raise MixsegError(
            f"{path} is damaged, or holds more than weights: {ANOTHER}", "broken-file", file=path
        ) from error
    if content is None:
        raise MixsegError(f"{path} was cut short, or is no checkpoint at all: {ANOTHER}", "broken-file", file=path)
    if not isinstance(content, dict) or not needed <= set(content):
        raise MixsegError(
            f"{path} is not the kind of checkpoint that is needed here: {ANOTHER}", "wrong-content", file=path
        )
    return {**content, "method": {_with_new_name(name): tensor for name, tensor in content["method"].items()}}


def _with_new_name(name: str) -> str:
    """What a tensor of an earlier version is called today."""
    return name.replace("elder.", "ema.", 1) if name.startswith("elder.") else name


def give_weights(method: Method, weights: Weights, path: Path) -> None:
    """Load ``weights``, which ``path`` holds, into ``method``.

    Raises:
        MixsegError: They are of another architecture.
    """
    own = method.state_dict()
    differing = sorted(
        set(own) ^ set(weights) | {name for name in set(own) & set(weights) if own[name].shape != weights[name].shape}
    )
    if differing:
        raise MixsegError(
            f"{path} is of another architecture ({len(differing)} tensors differ, {differing[0]} first): "
            "use the config.json that lies beside it, or another run folder.",
            "architecture-differs",
            file=path,
            tensor=differing[0],
        )
    method.load_state_dict(weights)
