import numpy as np

from grids import SMALL, write_scans
from mixseg.core.types import IGNORE
from mixseg.datasets import load
from mixseg.datasets.split import read_split
from mixseg.experiments.annotation_cost import budget_of, strokes
from mixseg.runs.config import make_config
from mixseg.training.folder import ScanFolder


def test_a_stroke_is_a_connected_piece_of_one_class_in_one_slice():
    slices = np.full((3, 5, 5), IGNORE, np.uint8)
    slices[0, 0, :] = 1  # a line
    slices[0, 2, 0] = slices[0, 3, 1] = 1  # corners touch
    slices[0, 3, 2:] = 0  # another class beside it
    slices[1, 0, 0] = slices[1, 4, 4] = 1  # two dots
    assert strokes(slices) == 3 + 2


def test_the_labels_of_the_partly_labelled_scans_are_counted(tmp_path):
    scans = write_scans(tmp_path / "scans")
    cases = load(scans)
    split = read_split(scans / "splits.json", cases)
    settings = {**SMALL, "preset": "quick", "target": ["LV"], "set": 1, "dataset": "phantom"}
    found = {}
    for partial in ("points", "slices"):
        config = make_config(**settings, partial=partial)
        prepared = ScanFolder(scans, cases=cases).prepare(config, tmp_path / "runs" / "x")
        found[partial] = budget_of(config, prepared, split)
        wide = make_config(**{**settings, "ratio": 3}, partial=partial)
        assert budget_of(wide, prepared, split)["scans"] == 3 * found[partial]["scans"] == 6
        theirs = [prepared.partial(case) for case in prepared.cases if case.patient == split.train[1]]
        assert found[partial]["voxels"] == sum(int((each != IGNORE).sum()) for each in theirs)
    assert found["points"]["voxels"] < found["slices"]["voxels"]
    assert found["points"]["strokes"] <= found["points"]["voxels"]
