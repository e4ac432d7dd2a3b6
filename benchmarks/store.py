"""What a store of prepared scans costs: time, bytes and memory, at scans made by formula.

    python benchmarks/store.py OUT [--scans 200] [--side 256] [--patch 96] [--monai] [--containers]

Makes scans (a quarter fully annotated, half with strokes, a quarter without labels) of a smooth shape with noise, as
arrays that a function gives, so that no image file is read: what is measured is the store. Prints the time of one
process to prepare, to find everything there, and to prepare after one label has changed; bytes per scan by kind beside
three flat arrays; the peak of the memory; and random patches per second of one process from the store, from flat
memory-mapped arrays as versions up to 0.1.0 had them, and, with --monai, from MONAI's PersistentDataset with its own
loader of two workers. --containers compares ways to keep one image and its labels: bytes, and the time to read a patch
and all of it, of what is installed here.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mixseg.core.types import IGNORE
from mixseg.data.prepare import entries
from mixseg.data.prepare.build import Given, Grey, build, existing, key_of
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import Prepared
from mixseg.data.scan import Header

OPTIONS = PrepareOptions(dims=3)
KINDS = ("full", "partial", "partial", "unlabeled")


@dataclass(frozen=True)
class Formula:
    """The voxels of a scan."""

    seed: int
    side: int

    def image(self) -> Grey:
        """A ball, brighter than what lies round it, and noise."""
        rng = np.random.default_rng(self.seed)
        noise = rng.normal(0, 8, (self.side,) * 3).astype(np.float32)
        image = (90 + 60 * self._ball() + noise).clip(0, 255).astype(np.uint8)
        return Grey(image[None], (0.0,), (255.0,))

    def full(self) -> np.ndarray[Any, Any]:
        """The ball, and a smaller one within."""
        return self._ball().astype(np.uint8) + (self._ball(0.12) > 0)

    def drawn(self) -> np.ndarray[Any, Any]:
        """A line across every eighth slice."""
        full, strokes = self.full(), np.full((self.side,) * 3, IGNORE, np.uint8)
        row = self.side // 2 + self.seed % 5
        strokes[row : row + 2, :, ::8] = full[row : row + 2, :, ::8]
        return strokes

    def _ball(self, radius: float = 0.3) -> np.ndarray[Any, Any]:
        middle = np.random.default_rng([self.seed, 1]).uniform(0.4, 0.6, 3)
        grids = np.ogrid[tuple(slice(0, 1, self.side * 1j) for _ in range(3))]
        return sum((grid - at) ** 2 for grid, at in zip(grids, middle, strict=True)) < radius**2


def scan(number: int, side: int) -> Given:
    """One scan to prepare."""
    kind = KINDS[number % 4]
    header = Header(
        id=f"scan{number:05}",
        patient=f"scan{number:05}",
        frame="",
        classes=("background", "organ", "core"),
        annotated=None,
        split="",
        channels=1,
        shape=(side, side, side),
        affine=tuple(map(tuple, np.eye(4).tolist())),
        spacing=(1.0, 1.0, 1.0),
        spacing_known=True,
        source=f"scan{number:05}.nii.gz",
        has_full=kind == "full",
        has_drawn=kind == "partial",
        fingerprint=f"{side}-{number}",
    )
    return Given(
        header, {part: f"{side}-{number}-{part}" for part in ("image", "full", "drawn")}, Formula(number, side)
    )


def relabelled(given: Given) -> Given:
    """The same scan after its strokes were changed."""
    header = replace(given.header, fingerprint=given.header.fingerprint + "'")
    return replace(given, header=header, made_from={**given.made_from, "drawn": given.made_from["drawn"] + "'"})


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long it took."""
    start = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - start:.2f} s", flush=True)


def sizes(prepared: Prepared) -> None:
    """Print bytes per scan by kind, beside those of three flat arrays."""
    print(f"{'kind':12}{'scans':>7}{'image':>12}{'labels':>12}{'flat':>12}{'share':>8}")
    total = flat_total = 0
    for kind in ("full", "partial", "unlabeled"):
        cases = [case for case in prepared.cases if case.kind == kind]
        image = labels = flat = 0
        for case in cases:
            flat += 3 * case.voxels
            for part in entries.PARTS:
                if (entry := prepared.entry(part, case)) is not None:
                    path = entries.array_file(prepared.folder, part, entry.key)
                    size = path.stat().st_size + path.with_suffix(".json").stat().st_size
                    image, labels = (image + size, labels) if part == "image" else (image, labels + size)
        count = max(1, len(cases))
        share = (image + labels) / max(1, flat)
        print(f"{kind:12}{len(cases):7}{image / count:12.0f}{labels / count:12.0f}{flat / count:12.0f}{share:8.3f}")
        total, flat_total = total + image + labels, flat_total + flat
    index = (prepared.folder / prepared.name).stat().st_size
    print(f"all: {total / 1e6:.1f} MB, the index {index / 1e6:.1f} MB, flat {flat_total / 1e6:.1f} MB", flush=True)


def patches(read: Callable[[int, tuple[slice, ...]], object], count: int, side: int, patch: int, steps: int) -> float:
    """Random patches per second."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(steps):
        corner = rng.integers(0, side - patch + 1, 3)
        read(int(rng.integers(count)), tuple(slice(int(c), int(c) + patch) for c in corner))
    return steps / (time.perf_counter() - start)


def from_store(prepared: Prepared) -> Callable[[int, tuple[slice, ...]], object]:
    """Reads image and labels of a patch."""
    opened: dict[int, tuple[Any, Any]] = {}

    def read(number: int, box: tuple[slice, ...]) -> object:
        if number not in opened:
            case = prepared.cases[number]
            part = "full" if case.has_full else "partial" if case.has_partial else ""
            opened[number] = prepared.image(case), getattr(prepared, part)(case) if part else None
        image, labels = opened[number]
        return image[:, *box].copy(), None if labels is None else labels[box].copy()

    return read


def from_flat(prepared: Prepared, folder: Path, side: int) -> Callable[[int, tuple[slice, ...]], object]:
    """The same from flat arrays, image and both label maps."""
    arrays = []
    for name in ("image", "full", "partial"):
        path = folder / f"{name}.npy"
        every = np.lib.format.open_memmap(
            path, mode="w+", dtype=np.uint8, shape=(len(prepared.cases), side, side, side)
        )
        for number, case in enumerate(prepared.cases):
            every[number] = getattr(prepared, name)(case).reshape(side, side, side)
        every.flush()
        del every
        arrays.append(np.load(path, mmap_mode="r"))
    return lambda number, box: [array[(number, *box)].copy() for array in arrays]


def monai_patches(prepared: Prepared, folder: Path, patch: int, steps: int) -> float:
    """Patches per second of MONAI's PersistentDataset, cached before, with a loader of two workers."""
    from monai.data import DataLoader, PersistentDataset
    from monai.transforms import Compose, RandSpatialCropd, Transform

    class Load(Transform):
        def __call__(self, item: dict[str, int]) -> dict[str, Any]:
            case = prepared.cases[item["number"]]
            return {"image": prepared.image(case).astype(np.float32), "label": prepared.full(case)[None]}

    crop = RandSpatialCropd(("image", "label"), (patch,) * 3, random_size=False)
    items = [{"number": number} for number in range(len(prepared.cases))]
    data = PersistentDataset(items, Compose([Load(), crop]), cache_dir=folder)
    for number in range(len(items)):
        data[number]  # fills the cache
    loader = DataLoader(data, batch_size=1, shuffle=True, num_workers=2, persistent_workers=True)
    seen, start = 0, 0.0
    while seen < steps:
        for _ in loader:
            seen += 1
            start = start or time.perf_counter()  # not counting that the workers start
    return (seen - 1) / (time.perf_counter() - start)


def containers(side: int, patch: int) -> None:
    """Print bytes and times of ways to keep one scan."""
    formula = Formula(0, side)
    image, full, drawn = formula.image().image[0], formula.full(), formula.drawn()
    with tempfile.TemporaryDirectory() as name:
        for kind, array in (("image", image), ("mask", full), ("strokes", drawn)):
            for label, write, read in ways(Path(name), array):
                start = time.perf_counter()
                size = write()
                took = time.perf_counter() - start
                whole = _times(lambda read=read: read(()), 3)
                box = (slice(side // 3, side // 3 + patch),) * 3
                part = _times(lambda read=read, box=box: read(box), 10)
                print(
                    f"{kind:8}{label:24}{size:12d} B  write {took * 1e3:7.1f} ms  all {whole * 1e3:7.1f} ms"
                    f"  patch {part * 1e3:7.2f} ms",
                    flush=True,
                )


def ways(folder: Path, array: np.ndarray[Any, Any]) -> Iterator[tuple[str, Callable[[], int], Callable[[Any], Any]]]:
    """Names of containers, with what writes an array and what reads a part of it."""
    path = folder / "plain.npy"

    def plain() -> int:
        np.save(path, array)
        return path.stat().st_size

    yield "npy, mapped", plain, lambda box: np.load(path, mmap_mode="r")[box].copy()
    entry = entries.Entry("aa", "")

    def ours() -> int:
        entries.write_labels(folder, "aa", array, {})
        return entries.array_file(folder, "full", "aa").stat().st_size

    yield "zlib, of the store", ours, lambda box: entries.read_labels(folder, entry, array.shape, verify=False)[0][box]

    def deflate() -> int:
        buffer = BytesIO()
        np.savez_compressed(buffer, array)
        (folder / "z.npz").write_bytes(buffer.getvalue())
        return buffer.tell()

    yield "npz", deflate, lambda box: np.load(folder / "z.npz")["arr_0"][box]
    try:
        import blosc2

        def blosc() -> int:
            file = folder / "a.b2nd"
            file.unlink(missing_ok=True)
            blosc2.asarray(array, urlpath=str(file), chunks=(64,) * 3, blocks=(32,) * 3, cparams={"clevel": 5})
            return file.stat().st_size

        yield "blosc2, 64^3", blosc, lambda box: blosc2.open(str(folder / "a.b2nd"), mode="r")[box or ...]
    except ImportError:
        pass
    try:
        import zarr

        def zarred() -> int:
            shutil.rmtree(folder / "a.zarr", ignore_errors=True)
            made = zarr.create_array(folder / "a.zarr", shape=array.shape, chunks=(64,) * 3, dtype=array.dtype)
            made[...] = array
            return sum(file.stat().st_size for file in (folder / "a.zarr").rglob("*") if file.is_file())

        yield "zarr v3, 64^3", zarred, lambda box: zarr.open_array(folder / "a.zarr", mode="r")[box or ...]
    except ImportError:
        pass


def _times(call: Callable[[], object], count: int) -> float:
    call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the store; what is there of an earlier call is used")
    parser.add_argument("--scans", type=int, default=200)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--patch", type=int, default=96)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--monai", action="store_true")
    parser.add_argument("--containers", action="store_true")
    arguments = parser.parse_args()
    if arguments.containers:
        containers(arguments.side, arguments.patch)
        return
    scans = [scan(number, arguments.side) for number in range(arguments.scans)]
    store = arguments.out / f"{arguments.scans}x{arguments.side}"
    with timed(f"prepare {len(scans)} scans of {arguments.side}^3"):
        prepared = build(store, scans, OPTIONS, workers=1)
    with timed("find all there"):
        assert existing(store, key_of([each.header.fingerprint for each in scans], OPTIONS)) is not None
    with timed("after one label has changed"):
        prepared = build(store, [scans[0], relabelled(scans[1]), *scans[2:]], OPTIONS, workers=1)
    sizes(prepared)
    speed = {"store": patches(from_store(prepared), len(scans), arguments.side, arguments.patch, arguments.steps)}
    again = from_store(prepared)
    patches(again, len(scans), arguments.side, arguments.patch, 4 * len(scans))
    speed["store, all opened"] = patches(again, len(scans), arguments.side, arguments.patch, arguments.steps)
    with tempfile.TemporaryDirectory(dir=arguments.out) as folder:
        flat = from_flat(prepared, Path(folder), arguments.side)
        speed["flat"] = patches(flat, len(scans), arguments.side, arguments.patch, arguments.steps)
        if arguments.monai:
            cache = Path(folder) / "monai"
            speed["MONAI"] = monai_patches(prepared, cache, arguments.patch, arguments.steps)
    for name, rate in speed.items():
        print(f"patches of {arguments.patch}^3 per second, {name}: {rate:.0f}")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
