"""A look: the DSC that scoring each scan by itself gives, and a few watched slices spread over all scans."""

import numpy as np
import pytest
import torch

from made_runs import CLASSES, config, data, scan
from mixseg.core.types import IGNORE
from mixseg.evaluation.metrics import dice
from mixseg.inference.predictor import Predictor
from mixseg.runs.build import build, evaluating
from mixseg.runs.device import Hardware, make_fabric
from mixseg.training.validation import WATCHED_SLICES, Validation, _few

CPU = torch.device("cpu")


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("name", ["kl-ent", "lower-bound"])
def test_a_look_at_all_scans_together_scores_what_each_scan_scores_by_itself(dims, name):
    chosen = config(method=name, dims=dims, **({"patch": [8, 8, 8]} if dims == 3 else {}))
    fabric = make_fabric(Hardware("cpu"), "fp32")
    method = build(chosen, channels=1, classes=2)
    for decoder in method.network.decoders:  # so that an untrained network answers more than one thing
        torch.nn.init.normal_(decoder.head.weight)
    # 7 and 30 slices: the rows that the network sees at once hold several scans, and parts of one.
    val = [scan("a", slices=7, dims=dims), scan("b", slices=30, dims=dims), scan("c", slices=2, dims=dims)]
    val[1].full[0, :3] = IGNORE
    look = Validation(val, data(dims=dims).train["partial"], [], classes=CLASSES, config=chosen, device=CPU)
    with evaluating(method, fabric):
        entry = look(method, 0.0, {}, {})
    predictor = Predictor(method, chosen, fabric, CLASSES, 1)
    maps = [predictor.maps(each).labels for each in val]
    for output in method.outputs:
        each = [
            dice((found[output] == 1) & (one.full != IGNORE), one.full == 1)
            for found, one in zip(maps, val, strict=True)
        ]
        assert entry["dsc"][output]["disc"] == pytest.approx(np.mean(each), abs=1e-6)
    assert entry["score"] == pytest.approx(entry["dsc"][method.outputs[0]]["disc"])
    assert 0 < entry["score"] < 1


def test_scans_that_show_no_structure_choose_nothing_unless_others_do():
    chosen = config(method="lower-bound")
    method = build(chosen, channels=1, classes=2)
    torch.nn.init.normal_(method.network.decoders[0].head.weight)  # an untrained network that marks something
    blank = scan("blank")
    blank.full[:] = 0
    blank.full[0, :3] = IGNORE
    scores = []
    for val in ([blank], [blank, scan("a")]):
        look = Validation(val, [], [], classes=CLASSES, config=chosen, device=CPU)
        with evaluating(method, make_fabric(Hardware("cpu"), "fp32")):
            scores.append(look(method, 0.0, {}, {})["score"])
    assert np.isnan(scores[0])
    assert 0 < scores[1] < 1


@pytest.mark.parametrize("lengths", [[3], [10, 10], [40], [1] * 50, [9, 1, 200, 30], [12] * 30])
def test_watched_slices_are_few_and_spread_over_all_scans(lengths):
    scans = [scan(f"s{i}", slices=length) for i, length in enumerate(lengths)]
    everything = np.concatenate([one.image for one in scans])
    few = _few(scans, 2)
    shown = np.concatenate([one.image for one in few])
    assert len(shown) == min(sum(lengths), WATCHED_SLICES)
    places = [next(i for i, image in enumerate(everything) if np.array_equal(image, row)) for row in shown]
    assert places == sorted(set(places))
    gaps = np.diff([-1, *places, sum(lengths)])
    assert gaps.max() - 1 <= 2 * sum(lengths) / WATCHED_SLICES
    for one in few:
        source = scans[int(one.name[1:])]
        assert (one.mean, one.std) == (source.mean, source.std)
        assert all(any(np.array_equal(row, image) for image in source.image) for row in one.image)


def test_without_watched_scans_nothing_is_watched():
    assert _few([], 2) == []
    assert _few([], 3) == []


def test_labels_that_training_could_not_fit_are_told_whatever_the_shares_are():
    chosen = config(method="lower-bound")
    method = build(chosen, channels=1, classes=2)
    torch.nn.init.normal_(method.network.decoders[0].head.weight, std=50.0)  # an untrained network that is sure
    look = Validation([], data().train["partial"], [], classes=CLASSES, config=chosen, device=CPU)
    with evaluating(method, make_fabric(Hardware("cpu"), "fp32")):
        look.guard.expected = look(method, 0.9, {}, {})["watch"]["shares"]
        assert look(method, 0.9, {}, {"weak": 0.5})["warning"] == ""
        assert "contradicts the labels that they have (5 nats" in look(method, 0.9, {}, {"weak": 5.0})["warning"]


def test_the_guard_of_a_look_knows_the_weights_of_the_run():
    chosen = config(method="ua-mt", weights={"consistency": 0.2})
    look = Validation([], data().train["partial"], [], classes=CLASSES, config=chosen, device=CPU)
    assert look.guard.weights == {"full": 0.5, "dice": 0.5, "consistency": 0.2}
