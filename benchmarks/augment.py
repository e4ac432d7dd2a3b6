"""Milliseconds, kernels and peak memory of augmenting one training batch, eager and compiled, on the device at hand.

    python benchmarks/augment.py [--repeats 20] [--device cuda]

On CUDA it also checks that nothing waits for the host and that the result agrees with the CPU's.
"""

from __future__ import annotations

import argparse
import time

import torch

from mixseg.data.augment import PAPER_3D, STRONG, Augmentation, Draws, apply, augment, draw

BATCHES = {
    "24 slices of 256x256, strong": ((24, 1, 256, 256), STRONG),
    "12 patches of 112x112x80, strong": ((12, 1, 112, 112, 80), STRONG),
    "12 patches of 112x112x80, paper-3d": ((12, 1, 112, 112, 80), PAPER_3D),
}
SMALL = {
    "16 slices of 64x64, strong": ((16, 1, 64, 64), STRONG),
    "4 patches of 32x32x32, strong": ((4, 1, 32, 32, 32), STRONG),
}


def batch(shape, device):
    """Smooth images and random labels."""
    generator = torch.Generator(device).manual_seed(0)
    image = torch.rand(shape, generator=generator, device=device)
    labels = torch.randint(0, 3, (shape[0], *shape[2:]), generator=generator, device=device, dtype=torch.uint8)
    return image, (labels, labels.clone()), generator


def milliseconds(function, device, repeats):
    """Mean time of a call after warming up."""
    for _ in range(3):
        function()
    _wait(device)
    started = time.perf_counter()
    for _ in range(repeats):
        function()
    _wait(device)
    return 1e3 * (time.perf_counter() - started) / repeats


def kernels(function):
    """How many kernels one call launches."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages() if event.device_type.name == "CUDA")


def check(image, labels, generator, strength: Augmentation):
    """No synchronisation; the same result as on the CPU, up to rounding."""
    draws = draw(image, strength, generator)
    augment(image, labels, strength, generator)  # the first call loads kernels, which may wait
    torch.cuda.set_sync_debug_mode("error")
    augment(image, labels, strength, generator)
    torch.cuda.set_sync_debug_mode("default")
    there, (there_labels, _) = apply(image, labels, draws, strength)
    local = Draws(*(None if part is None else part.cpu() for part in draws))
    here, (here_labels, _) = apply(image.cpu(), tuple(one.cpu() for one in labels), local, strength)
    difference = (there.cpu() - here).abs()
    agree = (there_labels.cpu() == here_labels).float().mean()
    return f"difference from the CPU: mean {difference.mean():.1e}, labels equal in {agree:.4%}"


def _wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(shape, strength, device, repeats):
    """The line about one batch; compiling is measured where it pays, on CUDA."""
    image, labels, generator = batch(shape, device)

    def eager():
        return augment(image, labels, strength, generator)

    plain = f"{milliseconds(eager, device, repeats):.2f} ms eager"
    if device != "cuda":
        return plain
    torch.cuda.reset_peak_memory_stats()
    eager()
    peak = torch.cuda.max_memory_allocated() / 2**20
    apply_compiled = torch.compile(apply, fullgraph=True, dynamic=False)

    def compiled():
        return apply_compiled(image, labels, draw(image, strength, generator), strength)

    fast = f"{milliseconds(compiled, device, repeats):.2f} ms compiled"
    launches = f"{kernels(eager)} and {kernels(compiled)} kernels, peak {peak:.0f} MiB eager"
    return f"{plain}, {fast}, {launches}; {check(image, labels, generator, strength)}"


def main():
    """Print a line for each batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = options.device
    on_cuda = device == "cuda"
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if on_cuda else 'cpu'}", flush=True)
    for name, (shape, strength) in (BATCHES if on_cuda else SMALL).items():
        print(f"{name}: {measure(shape, strength, device, options.repeats)}", flush=True)


if __name__ == "__main__":
    main()
