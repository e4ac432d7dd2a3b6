"""How often labels in folders that nobody arranged are misread, and how often somebody is asked.

python benchmarks/own_folders.py [--folders 100] [--first-seed 0] [--files] [--show]

Bodies and annotators are by formula (``bodies.py``, ``annotators.py``). Arrays are measured and judged as they lie;
with ``--files`` they are written with images, in one of three layouts, and read as ``mixseg inspect`` reads them.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import annotators
from mixseg.datasets import formats, read_table
from mixseg.datasets.evidence import judge, measure

LAYOUTS = ("per-patient", "flat", "beside")


def judged(names, files):
    """The readings of each label map, from its array."""
    facts = [measure(one.array, one.names, file=Path(one.name), spacing=one.spacing) for one in files]
    return judge(facts, names)


def read(root, rng, files):
    """The readings of each label map, from files; nothing where its scan was not placed."""
    layout = str(rng.choice(LAYOUTS))
    for number, one in enumerate(files):
        scan = f"case {number:02}"
        labels = root / (scan if layout == "per-patient" else "labels" if layout == "beside" else "")
        images = root / "images" if layout == "beside" else labels
        affine = np.diag([*one.spacing, 1.0])
        image = (rng.normal(200, 40, one.array.shape) + 100 * (one.array > 0)).astype(np.int16)
        for folder in (labels, images):
            folder.mkdir(parents=True, exist_ok=True)
        formats.write(images / f"{scan} T1.nii.gz", image, affine=affine)
        formats.write(labels / f"{scan} T1.seg.nrrd", one.array.astype(np.uint8), affine=affine, names=one.names)
    rows = {row.id: row.structures for row in read_table(root).rows}
    return [next((rows[row] for row in rows if f"case {number:02}" in row), {}) for number in range(len(files))]


def main():
    """Count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--show", action="store_true", help="each reading that is wrong")
    args = parser.parse_args()
    count = Counter()
    for seed in range(args.first_seed, args.first_seed + args.folders):
        rng = np.random.default_rng(seed)
        body, names, files = annotators.study(rng)
        with tempfile.TemporaryDirectory() as scratch:
            found = read(Path(scratch), rng, files) if args.files else judged(names, files)
        before = count.copy()
        for number, (made, readings) in enumerate(zip(files, found, strict=True)):
            for name, truth in made.truth.items():
                if truth is None:
                    continue
                reading = readings.get(name)
                kind = "unread" if reading is None else "asked" if not reading.sure else "right"
                if kind == "right" and reading.state != truth:
                    kind = "wrong"
                    if args.show:
                        print(f"{seed} {body} {number} {name}, {made.habits[name]}: {truth}, but {reading}")
                count[kind] += 1
        for kind in ("wrong", "asked", "unread"):
            count[f"folders {kind}"] += count[kind] > before[kind]
    total = sum(count[kind] for kind in ("right", "wrong", "asked", "unread"))
    print(f"{args.folders} folders: in {count['folders wrong']} something is wrong, {count['folders asked']} ask")
    print(f"{total} structures: {count['wrong']} wrong, {count['asked']} asked, {count['unread']} not read")


if __name__ == "__main__":
    main()
