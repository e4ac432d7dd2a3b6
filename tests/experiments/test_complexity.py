"""The paper's parameter counts, and what is measured of a small network."""

import json

import pytest
import torch

from mixseg.experiments.complexity import FILE, ROWS, make, measure, measure_all
from mixseg.networks import Network
from mixseg.runs.config import make_config

PAPER = {
    "single": 31_042_434,
    "glmi": 31_042_434,
    "dual-branch": 41_137_220,
    "ua-mt": 62_084_868,
    "ssco": 248_339_472,
    "ssco, 2 + 2": 124_169_736,
}


@pytest.mark.parametrize("row", ROWS)
def test_the_networks_have_as_many_parameters_as_the_paper_says(row):
    with torch.device("meta"):  # nothing is computed, nothing is stored
        method = make(row, make_config(preset="paper", method=ROWS[row]))
    networks = [module for module in method.modules() if isinstance(module, Network)]
    assert sum(each.numel() for network in networks for each in network.parameters()) == PAPER[row]


def test_an_answer_takes_the_students_decoder_alone(decoded):
    config = make_config(method="kl-ent", preset="quick", width=2, depth=2, size=[16, 16])
    measure("dual-branch", config, torch.device("cpu"))
    assert decoded.count(1) == 2 * decoded.count(0), "once among all, and once by itself"


def test_heads_are_counted_apart():
    small = {"preset": "quick", "width": 2, "depth": 2, "size": [16, 16]}
    glmi, single = (
        measure(name, make_config(method=name, **small), torch.device("cpu")) for name in ("glmi", "single")
    )
    # 5 heads of 20 clusters with biases, on the bottleneck and on two levels of 8, 4 and 2 channels.
    assert glmi.heads == 100 * (8 + 4 + 2) + 3 * 100
    assert single.heads == 0
    assert glmi.parameters == single.parameters
    assert glmi.all_ms > 0
    assert glmi.answer_ms > 0


def test_every_row_is_measured_and_written(tmp_path):
    found = measure_all(tmp_path, preset="quick", settings={"width": 2, "depth": 2, "size": [16, 16]}, device="cpu")
    written = json.loads((tmp_path / FILE).read_text())
    assert [row["row"] for row in written["rows"]] == list(ROWS) == [each.row for each in found]
    assert (written["grid"], written["batch"], written["precision"]) == ([16, 16], 1, "fp32")
