"""Clocks for work on a CPU or a GPU: of a call, and of whole versions of a training step with their peak memory."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

WARM_UP = {"cuda": 8}
Step = Callable[[], Any]


def synchronize(device: torch.device) -> None:
    """Wait for what was launched."""
    if device.type != "cpu":
        torch.accelerator.synchronize()


def time_calls(function: Callable[[], Any], device: torch.device, *, repeats: int = 5, block_ms: float = 2.0) -> float:
    """Milliseconds of one call: the median over blocks of calls, each block about ``block_ms`` long."""
    for _ in range(3):
        function()
    calls = max(1, min(30, round(block_ms / max(_block(function, device, 1), 1e-3))))
    return statistics.median(_block(function, device, calls) for _ in range(repeats))


def time_kernels(function: Callable[[], Any], device: torch.device, *, calls: int = 20) -> float:
    """Milliseconds of one call without what the host takes to launch it: on a GPU, so many are recorded and replayed.

    A small kernel takes a few microseconds, to launch it ten times as long.
    """
    if device.type != "cuda":
        return time_calls(function, device)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # libraries choose their kernels before the recording
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    return time_calls(graph.replay, device) / calls


def _block(function: Callable[[], Any], device: torch.device, calls: int) -> float:
    synchronize(device)
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / calls
    started = time.perf_counter()
    for _ in range(calls):
        function()
    synchronize(device)
    return 1e3 * (time.perf_counter() - started) / calls


class Memory:
    """Peak memory between two points: of the device's allocator, or of the process on a CPU (Linux alone)."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.before = device, 0
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device)
        else:
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM

    def peak_gib(self) -> float:
        """GiB above what was held before; on a CPU, of the whole process."""
        if self.device.type == "cuda":
            return (torch.cuda.max_memory_allocated(self.device) - self.before) / 2**30
        with suppress(OSError):
            lines = Path("/proc/self/status").read_text().splitlines()
            return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmHWM")), float("nan"))
        return float("nan")


class Deadline:
    """When a benchmark has to be done: what has not begun by then is left out, and said to be."""

    def __init__(self, seconds: float | None) -> None:
        self.began, self.seconds = time.perf_counter(), seconds

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.began

    def leaves(self, seconds: float) -> bool:
        """Whether so many are left."""
        return self.seconds is None or self.spent + seconds <= self.seconds


class Version:
    """One of the things compared: built, warmed up and timed, its failure kept instead of raised."""

    def __init__(self, name: str, make: Callable[[], Step], device: torch.device) -> None:
        self.name, self.device = name, device
        self.step: Step | None = None
        self.error, self.warm_s, self.peak_gib = "", float("nan"), float("nan")
        self.rounds: list[list[float]] = []
        self._guarded(lambda: self._start(make))

    @property
    def ms(self) -> float:
        """Milliseconds per step: the median over the blocks of all rounds."""
        return statistics.median(itertools.chain(*self.rounds)) if self.rounds else float("nan")

    def time(self, blocks: int, seconds: float) -> None:
        """One more round of ``blocks`` blocks, about ``seconds`` long, each of two steps at least."""
        self._guarded(lambda: self.rounds.append(self._round(blocks, seconds)))

    def entry(self) -> dict[str, Any]:
        """What the JSON file keeps."""
        start_s = self.warm_s - self.warm_up * self.ms / 1e3 if self.rounds else self.warm_s
        medians = [statistics.median(blocks) for blocks in self.rounds]
        content = {"ms": self.ms, "ms_of_each_round": medians, "ms_of_each_block": self.rounds}
        return {**content, "start_s": max(0.0, start_s), "peak_gib": self.peak_gib, "error": self.error}

    @property
    def warm_up(self) -> int:
        """Steps before the clock starts."""
        return WARM_UP.get(self.device.type, 3)

    def _start(self, make: Callable[[], Step]) -> None:
        memory = Memory(self.device)
        step = make()
        started = time.perf_counter()
        for _ in range(self.warm_up):
            step()
        synchronize(self.device)
        self.warm_s, self.peak_gib = time.perf_counter() - started, memory.peak_gib()
        self.step = step

    def _round(self, blocks: int, seconds: float) -> list[float]:
        first = self._block(2)
        steps = max(2, round(1e3 * seconds / blocks / first))
        return [self._block(steps) for _ in range(blocks)]

    def _block(self, steps: int) -> float:
        assert self.step is not None
        synchronize(self.device)
        started = time.perf_counter()
        for _ in range(steps):
            self.step()
        synchronize(self.device)
        return 1e3 * (time.perf_counter() - started) / steps

    def _guarded(self, work: Callable[[], Any]) -> None:
        if self.error:
            return
        try:
            work()
        except Exception as error:  # out of memory, a failed compilation: the other versions go on
            self.error = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            self.step = None
            traceback.print_exc()
        clean(self.device)


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Its result, or the error in its place."""
    try:
        return work()
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def clean(device: torch.device) -> None:
    """Give back what nobody holds any more."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
