"""`mixseg predict` on a large volume with the memory of the process capped: minutes, and the peak.

python benchmarks/prediction.py --out FOLDER [--size 512 512 600] [--classes 5] [--patch 64 64 64] [--cap 8]

A small V-Net is trained for two steps on small volumes, which is as slow to predict with as a good one; an image of
the size is made by formula; then another process, in which no more than --cap GB can be allocated (RLIMIT_AS), reads
the file, predicts and writes the label map. Prints what that process said of its plan, how long it took, how much it
had resident at its peak, and what a float for each class, output and voxel would have taken.
"""

import argparse
import json
import math
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

GB = 10**9


def make_run(folder, *, classes, patch):
    """A run folder of the preset quick in 3D, hardly trained."""
    import mixseg

    rng = np.random.default_rng(0)

    def made(name):
        mask = np.zeros((40, 40, 40), np.uint8)
        for index in range(1, classes):
            mask[5 * index : 5 * index + 8, 8:30, 8:30] = index
        image = 40.0 * mask + rng.normal(0, 10, mask.shape)
        return mixseg.scan(name, image, mask)

    names = ["background", *(f"class {index}" for index in range(1, classes))]
    settings = {"preset": "quick", "dims": 3, "method": "kl-ent", "steps": 2, "patch": patch}
    batch = {"full": 1, "partial": 0, "unlabeled": 0}
    mixseg.train([made("a")], classes=names, out=folder / "run", device="cpu", batch=batch, **settings)


def make_image(path, size):
    """Smooth shapes and noise in 16 bits, slice by slice."""
    import nibabel

    rng = np.random.default_rng(0)
    image = np.empty(size, np.int16)
    i, j = np.meshgrid(*(np.linspace(0, 6 * np.pi, side, dtype=np.float32) for side in size[:2]), indexing="ij")
    for k in range(size[2]):
        plane = np.sin(i + k / 40) * np.cos(j - k / 60)
        image[..., k] = 400 * plane + rng.normal(0, 60, size[:2])
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.Nifti1Image(image, np.diag([0.8, 0.8, 1.0, 1.0])).to_filename(path)


def predict_capped(folder, cap, overlap):
    """What the child process does: predict with no more than ``cap`` GB of addresses; prints its facts as JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (int(cap * GB), int(cap * GB)))
    import torch

    from mixseg.inference.folder import predict_folder

    started = time.monotonic()
    (written,) = predict_folder(folder / "run", folder / "images", folder / "out", overlap=overlap, device="cpu")
    seconds = time.monotonic() - started
    import nibabel

    found = np.asanyarray(nibabel.load(written).dataobj)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    facts = {
        "seconds": round(seconds),
        "resident_gb": round(int(status["VmHWM"].split()[0]) * 1024 / GB, 2),
        "addresses_gb": round(int(status["VmPeak"].split()[0]) * 1024 / GB, 2),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "shape": list(found.shape),
        "classes_found": np.unique(found).tolist(),
    }
    print(json.dumps(facts), flush=True)


def main():
    """Make what is missing, predict in a capped process, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the run, the image and the label map")
    parser.add_argument("--size", nargs=3, type=int, default=(512, 512, 600))
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--patch", nargs=3, type=int, default=(64, 64, 64))
    parser.add_argument("--overlap", type=float, default=0.5)
    parser.add_argument("--cap", type=float, default=8.0, help="GB of addresses that the predicting process may take")
    parser.add_argument("--capped", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.capped:
        predict_capped(options.out, options.cap, options.overlap)
        return
    size = tuple(options.size)
    image = options.out / "images" / "large.nii"
    if not (options.out / "run" / "finished.json").exists():
        make_run(options.out, classes=options.classes, patch=list(options.patch))
    if not image.exists():
        print("making the image", flush=True)
        make_image(image, size)
    command = [sys.executable, __file__, "--capped", "--out", str(options.out), "--cap", str(options.cap)]
    ended = subprocess.run(
        [*command, "--overlap", str(options.overlap)], stdout=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(f"The prediction did not end well under {options.cap:g} GB: exit code {ended.returncode}.")
    facts = json.loads(ended.stdout.splitlines()[-1])
    whole = 4 * options.classes * math.prod(size) / GB
    print(f"{'x'.join(map(str, size))}, {options.classes} classes, capped at {options.cap:g} GB: {json.dumps(facts)}")
    print(f"{facts['seconds'] / 60:.1f} minutes, {facts['resident_gb']:.2f} GB resident at the peak")
    print(f"The probabilities of one output alone are {whole:.1f} GB, those of three {3 * whole:.1f} GB.")
    print(f"{platform.processor() or platform.machine()}, {facts['threads']} threads, torch {facts['torch']}")


if __name__ == "__main__":
    main()
