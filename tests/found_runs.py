"""Experiments as their runs leave them, made without training: every score is the test's own."""

import math

import numpy as np

from mixseg.core.files import write_json
from mixseg.data.scan import Scan
from mixseg.evaluation.scores import Row, write_metrics
from mixseg.experiments.plan import Cell, Plan, PlannedRun, run_path, write_plan
from mixseg.inference.predictor import Maps
from mixseg.inference.report_slices import write_examples
from mixseg.runs.config import make_config, to_dict
from mixseg.runs.log import Log

CLASSES = ("background", "LV")
SIDE = 48


def row(case, dsc, hd95, output, checkpoint, part="test", label="LV"):
    """A line of metrics.csv."""
    distances = {"hd95_vox": hd95, "hd95_mm": math.nan, "assd_vox": 1.0, "assd_mm": math.nan}
    return Row(case=case, label=label, branch=output, checkpoint=checkpoint, part=part, dsc=dsc, **distances)


def write_run(folder, last, best=None, *, hd95=None, log=(), facts=None, test=True, finished=True, rows=(), **changes):
    """A run folder.

    ``last`` and ``best`` hold DSC by output and scan; ``hd95`` likewise, 10 times (1 - DSC) if it is not given. ``log``
    are entries of log.jsonl, ``rows`` further lines of metrics.csv, ``changes`` config keys.
    """
    config = make_config(**{"preset": "quick", "dataset": "acdc", "steps": 100, **changes})
    write_json(folder / "config.json", to_dict(config))
    told = {"classes": list(CLASSES), "data": "made", "device": "cpu: made", "commit": "0123456789ab"}
    write_json(folder / "environment.json", {**told, **(facts or {})})
    book = Log(folder / "log.jsonl", keep_until=0)
    for entry in log:
        book.write(entry)
    if not finished:
        return
    part = "test" if test else "val"
    scored = [
        row(case, dsc, (hd95 or {}).get(output, {}).get(case, 10 * (1 - dsc)), output, checkpoint, part)
        for checkpoint, scores in (("last", last), ("best", best or last))
        for output, of in scores.items()
        for case, dsc in of.items()
    ]
    write_metrics(folder / "metrics.csv", [*scored, *rows])
    write_json(folder / "finished.json", {"steps": 100, "training_seconds": 60.0, "test": test, "summary": []})


def write_experiment(out, cells, *, experiment="main", dataset="acdc", **changes):
    """experiment.json; returns the experiment's folder."""
    names = dict.fromkeys(name for cell in cells for name in cell.runs.values())
    said = {
        **{"title": "A title", "scans": "scans", "layout": "acdc", "split": "", "preset": "paper", "quick": False},
        **{"test": True, "seeds": (0, 1, 2), "varies": "method", "columns": "setting", "axis": "", "measured": False},
    }
    runs = tuple(PlannedRun(name, {}, 100) for name in names)
    plan = Plan(experiment=experiment, dataset=dataset, cells=tuple(cells), runs=runs, **{**said, **changes})
    return write_plan(out, plan)


def cell(label, outputs=("top",), *, column="set-3", seeds=(0,), **more):
    """A cell whose runs are called after it."""
    return Cell(label, column, outputs, {seed: f"{label}-{column}-{seed}" for seed in seeds}, **more)


def run_of(out, of, seed=0):
    """The folder of a cell's run."""
    return run_path(out / "main", of.runs[seed])


def disc(centre, radius, slices=4):
    """A stack of label maps with a disc in each."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    inside = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 <= radius**2
    return np.repeat(inside[None].astype(np.uint8), slices, axis=0)


def write_pictures(folder, answers, *, truth=None, dims=2, sure=1.0):
    """predictions.npz and examples.npz of a run whose metrics are written: ``answers`` holds radii by output and scan.

    ``sure`` is the probability of the foreground inside the answer.
    """
    from mixseg.evaluation.scores import read_metrics

    rows = read_metrics(folder / "metrics.csv")
    cases = list(dict.fromkeys(each.case for each in rows))
    grey = {case: np.random.default_rng(number).integers(40, 90, (4, SIDE, SIDE), np.uint8)
            for number, case in enumerate(cases)}  # fmt: skip
    shape = truth or (lambda case: disc((24, 24), 8))
    scans = [Scan(case, grey[case][:, None] if dims == 2 else grey[case][None], shape(case)) for case in cases]
    maps = {output: {case: disc((24, 24), radius) for case, radius in of.items()} for output, of in answers.items()}

    def predict(scan):
        labels = {output: of[scan.name] for output, of in maps.items()}
        answer = next(iter(labels.values()))
        return Maps(labels, np.zeros_like(answer), np.where(answer > 0, round(255 * sure), 0).astype(np.uint8))

    np.savez_compressed(
        folder / "predictions.npz",
        **{f"last/{output}/{case}": labels for output, of in maps.items() for case, labels in of.items()},
    )
    write_examples(folder / "examples.npz", rows, {"test": scans}, predict, dims=dims)
    return scans
