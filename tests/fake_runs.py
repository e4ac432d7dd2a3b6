"""Run folders as training leaves them, made without training: the real writers, and invented but plausible content."""

import math

import numpy as np
import torch
from scipy import ndimage

from mixseg.core.files import write_json
from mixseg.data.scan import Scan
from mixseg.evaluation.scores import score_case, summarise, write_metrics
from mixseg.inference.predictor import Slab
from mixseg.inference.predictor import maps as decided
from mixseg.inference.report_slices import write_examples
from mixseg.runs.config import make_config, to_dict
from mixseg.runs.log import Log
from mixseg.training.validation import Guard

CLASSES = ("background", "<b>cavity</b>", "wall & $rim$")
BRANCHES = {"bottom": 0.05, "top": 0.35, "ensemble": 0.15}
"""Outputs of the method, and how far off each is."""


def ball(shape, centre, radius):
    """The voxels within ``radius`` of ``centre``."""
    grid = np.meshgrid(*(np.arange(side) for side in shape), indexing="ij")
    return sum((axis - at) ** 2 for axis, at in zip(grid, centre, strict=True)) <= radius**2


def labels(shape, centre, radius, classes):
    """A ball of class 1, in a shell of class 2 if there is one."""
    found = np.zeros(shape, np.uint8)
    if len(classes) > 2:
        found[ball(shape, centre, 1.5 * radius)] = 2
    found[ball(shape, centre, radius)] = 1
    return found


def scan(number, dims, classes):
    """A noisy picture of the ball, and its full mask."""
    rng = np.random.default_rng(number)
    shape = (6, 64, 56) if dims == 2 else (40, 36, 28)
    centre = [side / 2 + rng.uniform(-3, 3) for side in shape]
    if dims == 2:
        size = rng.uniform(8, 12)
        truth = np.stack([labels(shape[1:], centre[1:], size - abs(k - 3), classes) for k in range(shape[0])])
    else:
        truth = labels(shape, centre, rng.uniform(6, 8), classes)
    grey = np.array([60, 170, 110])[truth] + rng.normal(0, 18, truth.shape)
    image = grey.clip(0, 255).astype(np.uint8)
    return Scan(f"patient{number:03d}", image[:, None] if dims == 2 else image[None], truth)


def guess(truth, classes, off, rng):
    """Probabilities whose argmax is the truth, shifted and frayed by ``off``."""
    moved = np.roll(truth, round(12 * off * rng.uniform(0.5, 1.5)), axis=-1)
    noise = ndimage.gaussian_filter(rng.normal(size=(*truth.shape, classes)), (0.5, 2, 2, 0))
    sure = ndimage.gaussian_filter(6 * np.eye(classes)[moved], (0.3, 0.8, 0.8, 0)) + noise * (2 + 30 * off)
    return torch.from_numpy(sure).float().softmax(dim=-1).movedim(-1, 0)


def entries(config, classes, *, collapse, branches):
    """Lines of a log: terms fall, DSC rises until the last look, at two thirds the student may run away and return."""
    rng = np.random.default_rng(config.training.seed)
    expected = [0.9, *[0.04, 0.06, *[0.01] * 20][: len(classes) - 1]]
    dual = "top" in branches and len(branches) > 1
    weights = {"full": 1.0, "weak": 1e-3, "distill": 50.0, "entropy": 1.0} if dual else {"full": 1.0}
    guard = Guard(classes, expected, weights)
    for step in range(
        config.training.validation_interval, config.training.steps + 1, config.training.validation_interval
    ):
        x = step / config.training.steps
        away = collapse and 0.6 < x < 0.8
        late = 0.98 if x == 1 else 1.0  # so that the last checkpoint is not the best
        terms = {name: float(0.7 * math.exp(-4 * x) * rng.uniform(0.8, 1.2) + 0.01) for name in weights}
        if dual:
            terms["distill"] *= 0.01
        shares = [share * (1.6 - 0.6 * min(1, 2 * x)) * (6 if away else 1) for share in expected]
        dsc = {
            branch: {
                name: float(
                    late * (0.92 - 0.6 * off - 0.03 * i) * (1 - math.exp(-5 * x)) * (0.5 if away and off < 0.1 else 1)
                )
                for i, name in enumerate(classes[1:])
            }
            for branch, off in branches.items()
        }
        entry = {"step": step, "lr": config.training.lr, "loss": sum(weights[n] * v for n, v in terms.items())}
        entry |= {"terms": terms, "weights": weights, "dsc": dsc, "message": ""}
        entry["score"] = float(np.mean(list(dsc[next(iter(dsc))].values())))
        if dual:
            divergence = float(0.2 * math.exp(-3 * x) + (0.3 if away else 0.01))
            entry["watch"] = {"shares": shares, "expected": expected, "entropy": 0.4 * math.exp(-5 * x) + 0.005}
            entry["watch"]["divergence"] = divergence
            entry["warning"] = guard.judge(shares, x)
        yield entry


def write_run(
    folder, *, dims=2, classes=CLASSES, branches=None, collapse=False, test=False, finished=True, scans=8, **changes
):
    """A run folder; returns its scores."""
    branches = BRANCHES if branches is None else branches
    changes = {"preset": "quick", "dims": dims, "dataset": "phantom", "set": 3, "steps": 600, **changes}
    config = make_config(**changes)
    parts = {"val": [scan(number, dims, classes) for number in range(scans)]}
    if test:
        parts["test"] = [scan(number, dims, classes) for number in range(100, 104)]
    write_json(folder / "config.json", to_dict(config))
    facts = {
        "python": "3.11.9",
        "versions": {"mixseg": "0.1.0", "torch": "2.13.0"},
        "device": "cpu: x86_64",
        "threads": 2,
        "commit": "0123456789ab",
        "command": "mixseg train DATA --method kl-ent",
        "folder": "Dataset001_Heart",
        "data": "5f2c" * 8,
        "classes": list(classes),
        "protocol": {
            "full": ["patient201", "patient202", "patient203"],
            "partial": [f"patient{number}" for number in range(204, 219)],
            "unlabeled": [],
            "val": [each.name for each in parts["val"]],
            "test patients": ["patient100", "patient101", "patient102", "patient103"],
        },
    }
    write_json(folder / "environment.json", facts)
    log = Log(folder / "log.jsonl", keep_until=0)
    for entry in entries(config, classes, collapse=collapse, branches=branches):
        if finished or entry["step"] <= config.training.steps // 2:
            log.write(entry)
    if not finished:
        return []
    return _score(folder, config, parts, classes, branches)


def _score(folder, config, parts, classes, branches):
    rows, maps, found = [], {}, {}
    for checkpoint, better in (("last", 1.0), ("best", 0.9)):
        for part, scans in parts.items():
            for each in scans:
                rng = np.random.default_rng([int(each.name[-3:]), config.training.seed])
                probs = {name: guess(each.full, len(classes), better * off, rng) for name, off in branches.items()}
                if checkpoint == "last":
                    found[each.name] = probs
                for branch, values in probs.items():
                    mask = values.argmax(dim=0).to(torch.uint8).numpy()
                    maps[f"{checkpoint}/{branch}/{each.name}"] = mask
                    key = {"case": each.name, "part": part, "branch": branch, "checkpoint": checkpoint}
                    rows += score_case(key, mask, each.full, classes)
    write_metrics(folder / "metrics.csv", rows)
    np.savez_compressed(folder / "predictions.npz", **maps)

    def kept(each):
        return decided([Slab((slice(None),), found[each.name])], each.full.shape, confidence=True)

    write_examples(folder / "examples.npz", rows, parts, kept, dims=config.data.dims)
    summary = {"steps": config.training.steps, "training_seconds": 93.2, "seconds": 99.0, "peak_gpu_gib": None}
    write_json(folder / "finished.json", {**summary, "test": "test" in parts, "summary": summarise(rows)})
    return rows
