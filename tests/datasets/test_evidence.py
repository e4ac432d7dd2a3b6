"""Finished masks or strokes: what is decided of label maps whose truth is known."""

from pathlib import Path

import numpy as np

from mixseg.datasets.evidence import judge, measure

NAMES = {1: "liver", 2: "lesion"}


def ellipsoids(scale=1.0, lesion=6.0):
    at = np.stack(np.meshgrid(*[np.arange(n) - n / 2 for n in (64, 56, 24)], indexing="ij"), -1) * (1, 1, 2.5)
    ids = (((at / (np.array([20, 17, 24]) * scale)) ** 2).sum(-1) < 1).astype(np.uint8)
    ids[((at - (5, 3, 2)) ** 2).sum(-1) < lesion**2] = 2 if lesion else 1
    return ids


def strokes(ids, step=3):
    out = np.zeros_like(ids)
    out[30:33, 20:40, ::step] = ids[30:33, 20:40, ::step]
    return out


def read(*arrays, names=NAMES, classes=("liver", "lesion")):
    facts = [measure(ids, names, file=Path(f"{n}.nii.gz"), spacing=(1, 1, 2.5)) for n, ids in enumerate(arrays)]
    return judge(facts, classes)


def states(found):
    return [(reading.state, reading.sure) for reading in found.values()]


def test_finished_masks_and_strokes_are_told_apart_and_an_empty_structure_follows_the_others():
    full, drawn, without = read(ellipsoids(), strokes(ellipsoids()), strokes(ellipsoids(lesion=0)))
    assert states(full) == [("finished", True)] * 2
    assert drawn["liver"].state == "strokes"
    assert drawn["liver"].sure
    assert without["lesion"].state == "untouched"
