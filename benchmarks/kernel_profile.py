"""Where the time of a step goes: a table of the top kernels as text, and a picture by kind, before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

KINDS = ("convolution", "normalisation", "elementwise", "optimizer", "copies")
IDLE = "nothing running"

# The first row that has a word in the kernel's name decides. What none names is elementwise: ReLU, pooling, losses.
# Convolutions stand before the other copies because the templates of a cutlass kernel name the copies inside it.
WORDS = (
    ("optimizer", ("adam", "sgd", "multi_tensor", "multitensor")),
    ("normalisation", ("batch_norm", "batchnorm", "bn_fw", "bn_bw", "group_norm", "instance_norm", "welford")),
    ("copies", ("nchwtonhwc", "nhwctonchw")),
    ("convolution", ("convol", "conv2d", "conv3d", "xmma", "gemm", "cutlass", "wgrad", "dgrad", "fprop", "nvjet")),
    ("convolution", ("cudnn", "triton_tem", "::mm", "addmm")),
    ("copies", ("memcpy", "memset", "copy", "cat", "transpose", "clone", "index_", "gather")),
)


def kind_of(name: str) -> str:
    """The kind of kernel (or, on a CPU, of operator) that a name tells."""
    lower = name.lower()
    if lower.startswith("triton_") and not lower.startswith("triton_tem"):
        # Inductor names a fused kernel after every operator inside, a convolution's bias among them.
        if any(word in lower for _, words in WORDS[:2] for word in words):
            return next(kind for kind, words in WORDS if any(word in lower for word in words))
        inside = lower.split("fused_", 1)[-1].strip("_0123456789")
        return "copies" if inside in ("to_copy", "cat", "clone", "convert_element_type") else "elementwise"
    return next((kind for kind, words in WORDS if any(word in lower for word in words)), "elementwise")


def profile_steps(step: Callable[[], Any], device: torch.device, *, steps: int, step_ms: float) -> dict[str, Any]:
    """Kernels of ``steps`` steps: ms per step by kind, launches per step, the table as text.

    ``step_ms`` is the time of a step without the profiler: what no kernel fills of it is the device's idle time.
    """
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as recorded:
        for _ in range(steps):
            step()
        if on_gpu:
            torch.cuda.synchronize(device)
    averages = recorded.key_averages()
    rows = [
        (event.key, (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1e3 / steps, event.count)
        for event in averages
        # With a GPU, operators carry the time of their kernels and named ranges span them: only kernels count.
        if event.device_type == (DeviceType.CUDA if on_gpu else DeviceType.CPU) and not event.is_user_annotation
    ]
    by_kind: Counter[str] = Counter(dict.fromkeys(KINDS, 0.0))
    for name, ms, _ in rows:
        by_kind[kind_of(name)] += ms
    if on_gpu:
        by_kind[IDLE] = max(0.0, step_ms - sum(ms for _, ms, _ in rows))
    lines = [f"{'ms/step':>9} {'calls/step':>10}  {'kind':14} kernel"]
    for name, ms, count in sorted(rows, key=lambda row: -row[1])[:60]:
        lines.append(f"{ms:9.3f} {count / steps:10.1f}  {kind_of(name):14} {name[:120]}")
    launches = sum(count for _, _, count in rows) / steps
    return {"ms_by_kind": dict(by_kind), "launches": launches, "table": "\n".join(lines), "step_ms": step_ms}


def draw(before: dict[str, Any], after: dict[str, Any], path: Path, *, names: tuple[str, str], title: str) -> None:
    """Two bars for each kind of kernel, ``before`` pale and ``after`` dark, with their ms."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    kinds = list(dict.fromkeys([*before["ms_by_kind"], *after["ms_by_kind"]]))
    figure, axes = plt.subplots(figsize=(8, 0.75 * len(kinds) + 1.4), layout="constrained")
    most = 0.0
    for place, (found, name, colour) in enumerate(zip((before, after), names, ("#b9c6d6", "#2b5c8a"), strict=True)):
        values = [found["ms_by_kind"].get(kind, 0.0) for kind in kinds]
        most = max([most, *values])
        label = f"{name}: {found['step_ms']:.1f} ms a step"
        rows = [row + 0.4 * place - 0.2 for row in range(len(kinds))]
        bars = axes.barh(rows, values, height=0.38, color=colour, label=label)
        axes.bar_label(bars, [f" {value:.2f}" for value in values], fontsize=9)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * most)
    axes.set_xlabel("ms per step")
    axes.set_title(title, fontsize=10, loc="left")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
