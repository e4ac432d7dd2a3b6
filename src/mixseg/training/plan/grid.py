"""At which voxel size slices or volumes are learnt, and how large: chosen from the scans and the memory at hand.

Every choice comes with its reason in a sentence, and each can be given instead: docs/how-to/plan.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixseg.data.resample import size_at
from mixseg.data.scan import Header, middle_spacing, spacing_unknown, times

LARGEST_SLICE = 512
"""Pixels a side; larger fields of view are resampled to fewer."""
SMALLEST_PATCH = 64**3
"""Voxels; if these do not fit, a step takes fewer patches."""
SAME = 0.02
"""Voxel sizes that differ by a smaller share are the same."""
MOST = 0.9
"""The share of scans of which a patch is to hold the whole: without its surroundings a structure is hard to tell."""
ROUGHLY = 1.1
"""Times as many voxels as a preset's patch has are about as many."""
COARSER = tuple(1.1**steps for steps in range(1, 8))
"""How many times as large voxels may become for that. Beyond about twice, small structures would be lost."""
ROD = 4.0
"""Times as long as wide."""

FIXED = 2**30
"""Bytes for weights, those of moving averages too, their optimiser and the libraries."""
USABLE = 0.8
"""The share of the memory that a plan fills at most."""

Sides = Sequence[float] | NDArray[np.float64]
Choice = tuple[dict[str, Any], list[str]]
"""Settings, and the reasons for them."""


@dataclass(frozen=True)
class MemoryBudget:
    """What there is to train with.

    Attributes:
        memory: Bytes, of one device.
        where: What has them, in words.
        channels: Of the finest level of the network.
        held: Numbers that a step of the method holds for each of them and each voxel of an image.
        halvings: How often the network halves an axis.
        number: Bytes that a number takes.
        devices: How many share a batch.
    """

    memory: float
    where: str
    channels: int
    held: float
    halvings: int = 4
    number: int = 4
    devices: int = 1

    @property
    def multiple(self) -> int:
        """What every side must be a multiple of."""
        return 1 << self.halvings

    def bytes(self, rows: int, grid: Sequence[int]) -> float:
        """About what a training step on ``rows`` images takes on each device."""
        return FIXED + ceil(rows / self.devices) * prod(grid) * self.held * self.channels * self.number

    def fits(self, rows: int, grid: Sequence[int]) -> bool:
        """Whether that is little enough."""
        return self.bytes(rows, grid) <= USABLE * self.memory


def choose_slices(
    scans: Sequence[Header], given: Mapping[str, Any], defaults: Mapping[str, Any], budget: MemoryBudget
) -> Choice:
    """Pixel size and size of the slices: the whole field of view of every scan, none of them stretched."""
    chosen: dict[str, Any] = {}
    reasons: list[str] = []
    if "spacing" not in given and "long_side" not in given:
        pixels, reason = _pixels(scans, given.get("size"))
        chosen, reasons = {"spacing": None, "long_side": None, **pixels}, [reason]
    elif given.get("spacing"):
        reasons = [asked_for(f"Pixels become {times(given['spacing'])} mm large")]
    elif given.get("long_side"):
        reasons = [asked_for(f"The longer side of every slice becomes {given['long_side']} pixels")]
    spacing, long_side = ({**chosen, **given}.get(key) for key in ("spacing", "long_side"))
    if not spacing and not long_side:
        reasons.append("Every slice is stretched to one size.")
        chosen |= {} if "size" in given else {"size": defaults["size"]}
    elif "size" not in given:
        fields = np.array([size_at(scan.shape[:2], scan.spacing[:2], spacing, long_side) for scan in scans])
        sides = [budget.multiple * ceil(min(side, LARGEST_SLICE) / budget.multiple) for side in fields.max(axis=0)]
        cut = int((fields > sides).any(axis=1).sum())
        end = f"{cut} of {len(scans)} scans are larger and lose their rim" if cut else "every scan fits into them"
        chosen["size"] = tuple(sides)
        reasons.append(f"Slices have {times(sides)} pixels: {end}.")
    if "size" in given:
        reasons.append(asked_for(f"Slices have {times(given['size'])} pixels"))
    return chosen, reasons


def _pixels(scans: Sequence[Header], size: Sequence[int] | None) -> tuple[dict[str, Any], str]:
    """``spacing`` or ``long_side``, coarse enough for every field of view where ``size`` is given, else for most."""
    limit = size or (LARGEST_SLICE, LARGEST_SLICE)
    if spacing_unknown(scans):
        sides = np.array([scan.shape[:2] for scan in scans])
        usual = 16 * max(1, round(float(np.median(sides.max(axis=1))) / 16))
        side = int(min(usual, *(limit / (sides / sides.max(axis=1, keepdims=True)).max(axis=0))))
        why = "because the files hold no voxel size that can be trusted"
        return {"long_side": side}, f"The longer side of every slice becomes {side} pixels, {why}."
    widths = [float(np.sqrt(scan.spacing[0] * scan.spacing[1])) for scan in scans]
    usual_mm = float(np.median(widths))
    extents = [np.multiply(scan.shape[:2], scan.spacing[:2]) for scan in scans]
    field = np.max(extents, axis=0) if size else np.median(extents, axis=0)
    needed = float(max(field / limit))
    there = f"the files have {min(widths):.4g} to {max(widths):.4g}"
    if needed > usual_mm:
        mm = ceil(1000 * needed) / 1000  # rounded up: the field of view must not be a pixel too large
        which = "largest" if size else "usual"
        why = f"so that {times(limit)} of them hold the {which} field of view, {times(field, '.0f')} mm; {there}"
    else:
        mm = float(f"{usual_mm:.4g}")
        if max(widths) < min(widths) * (1 + SAME):
            return {"spacing": (mm, mm)}, f"Pixels stay {mm:.4g} mm wide, as in all scans."
        why = f"the median of all scans; {there}"
    return {"spacing": (mm, mm)}, f"Pixels become {mm:.4g} mm wide, {why}."


def choose_volumes(
    scans: Sequence[Header], given: Mapping[str, Any], defaults: Mapping[str, Any], budget: MemoryBudget
) -> Choice:
    """Voxel size and size of the patches: whole scans if that can be, else as near to cubes in mm as they allow."""
    chosen: dict[str, Any] = {}
    reasons: list[str] = []
    volume = prod(defaults["patch"])
    whole = WholeScans(scans, ROUGHLY * volume, budget.multiple)
    if "spacing" not in given:
        chosen["spacing"], reason = _voxels(scans, None if "patch" in given else whole.coarse())
        reasons.append(reason)
    elif given["spacing"]:
        reasons.append(asked_for(f"Voxels become {times(given['spacing'])} mm large"))
    if "patch" in given:
        reasons.append(asked_for(f"Patches have {times(given['patch'])} voxels"))
        return chosen, reasons
    spacing = {**chosen, **given}["spacing"]
    voxel = middle_spacing(scans) if spacing is None else spacing
    rows = sum(count or 0 for count in {**defaults["batch"], **given.get("batch", {})}.values())
    sizes = np.array([size_at(scan.shape, scan.spacing, spacing) for scan in scans])
    patch = whole.patch(spacing)
    if patch and budget.fits(rows, patch):
        held = int((sizes <= patch).all(axis=1).sum())
        shape = f"the whole of {held} of {len(scans)} scans" if held < len(scans) else "the whole of every scan"
    else:
        middle = np.median(sizes, axis=0)
        patch = _cube(volume, voxel, middle, rows, budget)
        shape = f"as near to a cube as scans of {times(middle, '.0f')} voxels allow"
    chosen["patch"] = patch
    known = all(scan.spacing_known for scan in scans)
    extent = f", {times(np.multiply(patch, voxel), '.0f')} mm" if known else ""
    reasons.append(f"Patches have {times(patch)} voxels{extent}: {shape}.")
    return chosen, reasons


def _voxels(scans: Sequence[Header], coarse: tuple[float, ...] | None) -> tuple[tuple[float, ...] | None, str]:
    """``spacing``: ``coarse``, if there is such a one, or the usual one."""
    usual = middle_spacing(scans)
    if not all(scan.spacing_known for scan in scans):
        return None, "Voxels stay as they are: not all scans have a known voxel size."
    if coarse:
        why = f"not {times(usual)}, so that a patch of the usual size holds a whole scan"
        return coarse, f"Voxels become {times(coarse)} mm large, {why}."
    # Given though nothing changes: the images that the run will predict may have others.
    spacing = tuple(float(f"{mm:.4g}") for mm in usual)
    if all((np.abs(scan.spacing / usual - 1) < SAME).all() for scan in scans):
        return spacing, f"Voxels stay {times(usual)} mm large, as in all scans."
    return spacing, f"Voxels become {times(usual)} mm large, the median of all scans along each axis."


@dataclass(frozen=True)
class WholeScans:
    """Patches that hold the whole of most scans, and voxels that are coarse enough for them.

    Attributes:
        scans: How large they are.
        most: Voxels that a patch may have.
        multiple: Of which every side of it is one.
    """

    scans: Sequence[Header]
    most: float
    multiple: int

    def patch(self, spacing: Sequence[float] | None) -> tuple[int, ...] | None:
        """That of voxels of ``spacing``, None being those of the files; None if it has too many."""
        sizes = np.array([size_at(scan.shape, scan.spacing, spacing) for scan in self.scans])
        for share in np.linspace(MOST, 1, 11):  # of each axis; of all three at once it is less
            sides = self.multiple * np.ceil(np.quantile(sizes, share, axis=0) / self.multiple).astype(int)
            if (sizes <= sides).all(axis=1).mean() >= MOST:
                break
        return tuple(sides.tolist()) if prod(sides.tolist()) <= self.most else None

    def coarse(self) -> tuple[float, ...] | None:
        """The finest spacing that has such a patch, in steps; None if the usual one has, or none that is fine enough.

        Where voxels are longer along one axis, the others grow first. A rod is no patch: it would show a narrow
        field at half its resolution, to hold all of its length.
        """
        usual = middle_spacing(self.scans)
        if self.patch(tuple(usual)):
            return None
        for factor in COARSER:
            side = float(f"{min(usual) * factor:.2g}")
            spacing = tuple(float(f"{max(mm, side):.4g}") for mm in usual)
            patch = self.patch(spacing)
            if patch:
                mm = np.multiply(patch, spacing)
                return spacing if mm.max() <= ROD * mm.min() else None
        return None


def _cube(volume: float, spacing: Sides, shape: Sides, rows: int, budget: MemoryBudget) -> tuple[int, int, int]:
    """The patch nearest to a cube of ``volume`` voxels, or of as many as fit into the memory ``rows`` times."""
    patch = near_cube(volume, spacing, shape, budget.multiple)
    while not budget.fits(rows, patch) and volume > SMALLEST_PATCH:
        volume *= 0.9
        patch = near_cube(volume, spacing, shape, budget.multiple)
    return patch


def asked_for(choice: str) -> str:
    """The reason for a choice that was made by whoever trains."""
    return f"{choice}, as asked for."


def near_cube(volume: float, spacing: Sides, shape: Sides, multiple: int) -> tuple[int, int, int]:
    """Sides of about ``volume`` voxels, equal in mm where ``shape`` is large enough, in multiples of ``multiple``."""
    sides: dict[int, int] = {}
    while len(sides) < 3:
        free = [axis for axis in range(3) if axis not in sides]
        edge = (volume / prod(sides.values()) * prod(spacing[axis] for axis in free)) ** (1 / len(free))
        most = {axis: float(shape[axis] // multiple) for axis in free}
        wanted = {axis: edge / spacing[axis] / multiple for axis in free}
        # What a short axis cannot take goes to the others, in the next round.
        settled = {axis: most[axis] for axis in free if wanted[axis] > most[axis]} or wanted
        sides |= {axis: multiple * max(1, round(count)) for axis, count in settled.items()}
    return sides[0], sides[1], sides[2]
