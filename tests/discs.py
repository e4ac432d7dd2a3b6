"""Bright discs on noise, and networks small enough to learn them in a second: what the tests of methods train on."""

import torch

from mixseg.core.types import IGNORE, Batch, Part
from mixseg.methods import MethodOptions, make_method
from mixseg.networks import make_network

SIDE = {2: 32, 3: 16}


def part(rows, dims, *, labels="full", seed=0, side=None, channels=1):
    """``rows`` images with one disc (a ball, in 3D) each, its labels "full", "partial" (its core alone) or "none"."""
    side = side or SIDE[dims]
    rng = torch.Generator().manual_seed(seed)
    axis = torch.arange(side, dtype=torch.float32)
    grid = torch.stack(torch.meshgrid(*[axis] * dims, indexing="ij"))
    centre = side * (0.35 + 0.3 * torch.rand(rows, dims, *[1] * dims, generator=rng))
    distance = (grid - centre).square().sum(dim=1).sqrt() / side
    mask = (distance < 0.25).to(torch.uint8)
    noise = torch.randn(rows, channels, *[side] * dims, generator=rng)
    unlabeled = torch.full_like(mask, IGNORE)
    core = torch.where(distance < 0.1, mask, unlabeled)
    return Part(
        image=mask.unsqueeze(1) + 0.3 * noise,
        full=mask if labels == "full" else unlabeled,
        partial=unlabeled if labels == "none" else core,
    )


def batch(full=2, partial=2, unlabeled=0, *, dims=2, seed=0, **size):
    """A batch with so many rows of each kind; the rows of a kind depend on the seed and their number alone."""
    return Batch(
        part(full, dims, labels="full", seed=3 * seed, **size),
        part(partial, dims, labels="partial", seed=3 * seed + 1, **size),
        part(unlabeled, dims, labels="none", seed=3 * seed + 2, **size),
    )


def tiny_method(name, dims=2, *, weights=None, options=None, seed=0, **network):
    """The method on a U-Net of width 4 and depth 2, the same for the same seed."""
    torch.manual_seed(seed)
    shape = {"width": 4, "depth": 2, "dims": dims, **network}
    return make_method(
        name,
        lambda branches: make_network("unet", branches=branches, **shape),
        weights or {},
        options or MethodOptions(),
    )


def total(terms):
    """What the loop minimises."""
    return torch.stack([term.weight * term.value for term in terms.values()]).sum()


def train(method, seen, *, steps, progress, lr=1e-2):
    """So many steps of Adam on one batch at one progress, as the loop does them; returns the loss of each."""
    optimizer = torch.optim.Adam([p for p in method.parameters() if p.requires_grad], lr)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        loss = total(method(seen, progress))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step(step, progress)
        losses.append(loss.item())
    return losses
