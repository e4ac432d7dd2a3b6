"""The only training loop: steps, looks at the validation scans, checkpoints, exact resume."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch._dynamo.exc import TorchDynamoException

from mixseg.core.errors import MixsegError, listed
from mixseg.core.progress import Progress
from mixseg.core.signals import Interrupts, expendable, terminable
from mixseg.data.batches import Feed
from mixseg.methods import Method
from mixseg.runs.build import evaluating, speed_up, without_compiling
from mixseg.runs.checkpoint import State, Writer
from mixseg.runs.config import Config
from mixseg.runs.device import end_others, on_rank_zero
from mixseg.runs.log import Log, OnEntry, Phases, Record
from mixseg.training.step import PLAIN_FIRST, make_optimizer, make_step
from mixseg.training.trackers import make_trackers

Validate = Callable[[Method, float, Mapping[str, Any], Mapping[str, float]], dict[str, Any]]
"""(method, progress, the log's entry before, the loss' terms since then) -> what is seen between steps, for the log.
"score" chooses the best checkpoint, "message" is shown beside the progress bar, "warning" above it, "collapsed" may
stop the run."""

SECONDS_BETWEEN_CHECKPOINTS = 60.0


def fit(
    method: Method,
    feed: Feed,
    validate: Validate,
    *,
    config: Config,
    folder: Path,
    fabric: Fabric,
    phases: Phases | None = None,
    writer: Writer | None = None,
    on_log: OnEntry | None = None,
) -> State:
    """Train ``method`` to ``config.training.steps``, from where the folder's last checkpoint left off.

    Writes ``last.pt``, ``best.pt`` and ``log.jsonl``; a given ``writer`` may still be at it afterwards; ``on_log`` is
    given each entry of the log. Order and noise
    depend on the seed and a step's number alone: a run that was killed and resumed ends with the same weights.
    """
    state = State(method, make_optimizer(method, config))
    speed_up(method, config, fabric)
    method.to(fabric.device)
    # Before anything is loaded or copied: it settles the precision of the weights.
    model, optimizer = fabric.setup(method, state.optimizer)
    state.resume(folder)
    _check_common_start(state, config, folder, fabric)
    phases = phases or Phases()
    phases.go_on_from(state.seconds)
    with (
        _ending(fabric) as interrupts,
        _writing(state, config.training.steps, fabric, writer) as writer,
        Progress("training", total=config.training.steps, done=state.step, silent=not fabric.is_global_zero) as bar,
        ExitStack() as plainly,
    ):
        pause = _Pause(validate, config, folder, fabric, state, bar, writer, phases, interrupts, on_log)
        train_on = make_step(model, optimizer, feed, config, fabric)
        compiled = state.step + PLAIN_FIRST + 1 if fabric.device.type == "cuda" else None
        phases.end("start")
        while state.step < config.training.steps:
            # Between looks no process knows what the others have recorded.
            saves = fabric.world_size == 1 and (compiled is None or state.step >= compiled)
            interrupts.busy = saves  # so that the step they come in is not lost
            try:
                loss, terms = train_on(state.step)
            except TorchDynamoException as error:  # in the first step, which can be taken again
                plainly.enter_context(without_compiling(error, optimizer, bar))
                loss, terms = train_on(state.step)
            method.after_step(state.step, state.step / config.training.steps)
            state.record.add(loss, terms)
            state.step += 1
            bar.step()
            interrupts.busy = False
            if state.step == compiled:
                torch.cuda.synchronize()
                phases.end("compile")
            validates = state.step % config.training.validation_interval == 0 or state.step == config.training.steps
            if not validates and not (saves and pause.due):
                continue
            if fabric.world_size > 1:
                state.record.take_means(partial(fabric.all_reduce, reduce_op="mean"))  # type: ignore[arg-type]
            _check_losses_finite(state.record, feed, state.step, folder, writer)
            phases.end("steps")  # what was launched is done: the host has seen its losses
            if validates:
                record, state.record = state.record, Record()
                on_rank_zero(fabric, partial(pause, record, float(optimizer.param_groups[0]["lr"])))
            else:
                pause.save()
            interrupts.deliver()
    phases.end("checkpoints")
    return state


def _check_common_start(state: State, config: Config, folder: Path, fabric: Fabric) -> None:
    if on_rank_zero(fabric, lambda: state.step) != state.step:
        raise MixsegError(
            f"The machines do not see the same {folder}: put it on a disk that they share.",
            "no-shared-folder",
            folder=folder,
        )
    if state.step > config.training.steps:
        raise MixsegError(
            f"{folder} was trained for {state.step} steps already: ask for more, or for less elsewhere.",
            "already-trained",
            folder=folder,
            steps=state.step,
        )


@contextmanager
def _ending(fabric: Fabric) -> Iterator[Interrupts]:
    """Inside, a process that trains alone can let interrupts wait. Of several, the first one ends the others."""
    interrupts = Interrupts()
    # The others write nothing; and one that handled a signal while it waits for the first would wait for ever.
    with (
        terminable() if fabric.is_global_zero else expendable(),
        interrupts if fabric.world_size == 1 else nullcontext(),
    ):
        yield interrupts


@contextmanager
def _writing(state: State, steps: int, fabric: Fabric, given: Writer | None) -> Iterator[Writer]:
    """A writer of checkpoints; inside, an interrupt says how far training came, and where the same command goes on.

    One that was not ``given`` has written all when this is left.
    """
    writer = given or Writer()
    writer.kept = state.step
    try:
        with nullcontext() if given else writer:
            yield writer
            if not given:
                on_rank_zero(fabric, writer.wait)
    except KeyboardInterrupt as interrupt:
        writer.close()
        end_others(fabric)
        if not fabric.is_global_zero:  # the first process alone knows what is written
            raise
        there = f"the checkpoint of step {writer.kept} is kept: the same command goes on from there."
        none = "there is no checkpoint yet: the same command begins anew."
        how = type(interrupt)
        raise how(f"Stopped at step {state.step} of {steps}; {there if writer.kept else none}") from None


class _Pause:
    """What the first process does between steps while the others wait: look, log, tell, save."""

    def __init__(
        self,
        validate: Validate,
        config: Config,
        folder: Path,
        fabric: Fabric,
        state: State,
        bar: Progress,
        writer: Writer,
        phases: Phases,
        interrupts: Interrupts,
        on_log: OnEntry | None,
    ) -> None:
        self.validate, self.config, self.folder = validate, config, folder
        self.fabric, self.state, self.bar, self.writer, self.phases = fabric, state, bar, writer, phases
        self.interrupts = interrupts
        self.log: Log | None = None
        if fabric.is_global_zero:
            trackers = make_trackers(folder, config, keep_until=state.step)
            listeners = [*(each.write for each in trackers), *([on_log] if on_log else [])]
            self.log = Log(folder / "log.jsonl", keep_until=state.step, listeners=listeners)
        self.began, self.saved = time.monotonic(), -math.inf  # so that the first validation leaves a checkpoint
        if 0 < state.step < config.training.steps:
            bar.say(f"{folder} goes on after step {state.step} of {config.training.steps}.")

    @property
    def due(self) -> bool:
        """Whether a checkpoint is a minute old, or training without one; or an interrupt waits for one."""
        if self.interrupts.waiting is not None:
            return True
        return time.monotonic() - max(self.began, self.saved) > SECONDS_BETWEEN_CHECKPOINTS

    def __call__(self, record: Record, lr: float) -> None:
        """One look, and a checkpoint if it is time for one."""
        assert self.log is not None, "the first process alone validates"
        state, method = self.state, self.state.method
        entry = {"step": state.step, "lr": lr, **record.entry()}
        with evaluating(method, self.fabric):
            entry |= self.validate(method, state.step / self.config.training.steps, self.log.last, entry["terms"])
            state.keep_if_best(entry["score"])
        self.log.write(entry)
        _show_entry(self.bar, entry)
        self.phases.end("validation")
        stop = bool(entry.get("collapsed")) and self.config.training.on_collapse == "stop"
        first, last = self.saved < self.began, state.step == self.config.training.steps
        if stop or first or last or self.due:
            self.save()
        if stop:
            why = entry.get("warning") or "The student is still collapsed."
            raise MixsegError(
                f"Stopped at step {state.step} (on_collapse=stop; with warn it goes on). {why}",
                "collapsed",
                step=state.step,
            )

    def save(self) -> None:
        """Leave a checkpoint."""
        self.writer.wait()
        _check_weights_finite(self.state, self.folder)
        self.state.seconds = self.phases.entry()
        self.writer.save(self.state, self.folder)
        self.saved = time.monotonic()
        self.phases.end("checkpoints")


def _check_losses_finite(record: Record, feed: Feed, step: int, folder: Path, writer: Writer) -> None:
    bad = record.first_bad()
    if bad is None:
        return
    writer.wait()  # the checkpoint that is being written is a good one
    broken = step - len(record.losses) + bad
    raise MixsegError(
        f"The loss is no longer a finite number at step {broken + 1}, on {listed(feed.names(broken))}: "
        f"{_remedy(folder)}",
        "diverged",
        step=broken + 1,
    )


def _check_weights_finite(state: State, folder: Path) -> None:
    """Nothing, or one sentence about weights that are lost: a finite loss may have had gradients that were not."""
    if not all(bool(tensor.isfinite().all()) for tensor in state.method.state_dict().values()):
        raise MixsegError(
            f"The weights are no longer finite numbers after step {state.step}: {_remedy(folder)}",
            "diverged",
            step=state.step,
        )


def _remedy(folder: Path) -> str:
    there = f"the last good checkpoint in {folder} is kept" if (folder / "last.pt").exists() else "no checkpoint yet"
    return f"{there}; start again with a lower lr or precision fp32."


def _show_entry(bar: Progress, entry: dict[str, Any]) -> None:
    terms = " ".join(f"{name} {value:.4g}" for name, value in entry["terms"].items())
    bar.step(f"{terms}  {entry.get('message', '')}", count=0)
    if entry.get("warning"):
        bar.say(entry["warning"])
