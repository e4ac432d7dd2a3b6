"""What is gained by letting strokes speak for what lies near them: DSC of completed label maps, scan by scan.

    python benchmarks/complete.py SCANS RUN [--every 1] [--first 0] [--reach 0 3 5 10 20] [--border 2] [--trust 1]

SCANS has partial labels and, hidden, the full masks of the same scans: `mixseg simulate` leaves them.
Prints for each setting the mean DSC over scans and structures, and its difference from the network's own answer and
from strokes that are pasted in, over the same scans, with the standard error.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from mixseg.annotate import refinement
from mixseg.annotate.constraints import Drawn, read_drawn
from mixseg.core.types import IGNORE
from mixseg.datasets import formats, load
from mixseg.inference.answer import read_image
from mixseg.inference.predictor import Predictor
from mixseg.runs.model_file import trained_at


def dsc(labels, truth, classes):
    """Of the classes above the background that the truth shows."""
    found = []
    for index in range(1, classes):
        ours, theirs = labels == index, truth == index
        if theirs.any():
            found.append(2 * (ours & theirs).sum() / (ours.sum() + theirs.sum()))
    return float(np.mean(found)) if found else np.nan


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scans", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=1, help="take every so many scans")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    for name, values in (("reach", (0, 3, 5, 10, 20)), ("border", (2,)), ("trust", (1,))):
        parser.add_argument(f"--{name}", type=float, nargs="+", default=values)
    options = parser.parse_args()
    predictor = Predictor.of(trained_at(options.run), device=options.device)
    cases = [case for case in load(options.scans) if case.partial is not None and case.hidden is not None]
    cases = cases[options.first :: options.every]
    scores = {}
    for case in cases:
        native = read_image(case, grey=predictor.config.data.prepare_options.grey_range)
        probs = predictor.probabilities_on_source(predictor.prepare(native), outputs=[predictor.answer])
        truth = np.asarray(formats.read_labels(case.hidden).array)
        drawn = read_drawn(case, predictor.classes)
        single = predictor.config.inference.largest or ()
        nothing = Drawn(np.full_like(drawn.labels, IGNORE))
        settings = {"network alone": (nothing, 0.0, 10.0, 1.0), "pasted": (drawn, 0.0, 10.0, 1.0)}
        settings |= {
            f"reach {reach:g}, border {border:g}, trust {trust:g}": (drawn, reach, border, trust)
            for reach, border, trust in product(options.reach, options.border, options.trust)
            if reach
        }
        for name, (known, reach, border, trust) in settings.items():
            refinement.BORDER, refinement.TRUST = border, trust
            found = refinement.complete(
                probs[predictor.answer], native.image, known, spacing=native.header.spacing, single=single, reach=reach
            )
            scores.setdefault(name, []).append(dsc(found.labels, truth, len(predictor.classes)))
    print(f"{len(cases)} scans, DSC in percent")
    for name, of in scores.items():
        values = 100 * np.array(of)
        text = f"{name:34} {np.nanmean(values):6.2f}"
        for other in ("network alone", "pasted"):
            apart = values - 100 * np.array(scores[other])
            text += f"   {np.nanmean(apart):+6.2f} ± {np.nanstd(apart) / np.sqrt(len(apart)):.2f} against {other}"
        print(text)


if __name__ == "__main__":
    main()
