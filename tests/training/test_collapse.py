"""The guard's verdicts, and the collapse itself: what mixed batch statistics do to a U-Net."""

import re
from functools import cache

import numpy as np
import pytest
import torch

from discs import total
from mixseg.core.types import IGNORE, Batch, Part
from mixseg.datasets.phantom import heart
from mixseg.methods import METHODS, AblationOptions, MethodOptions, make_method
from mixseg.networks import make_network
from mixseg.runs.config import make_config
from mixseg.training.validation import Guard

OURS = METHODS["kl-ent"].weights


def guard(weights=OURS, **options):
    return Guard(("background", "LV", "RV"), (0.9, 0.08, 0.02), weights, **options)


@pytest.mark.parametrize(
    ("shares", "progress", "words"),
    [
        ((0.9, 0.08, 0.02), 0.5, ""),
        ((0.7, 0.26, 0.04), 0.5, ""),  # three times and a little: early masks are generous
        ((0.6, 0.28, 0.12), 0.5, "far too much as LV (28.0% of the voxels; the full masks have 8.0%)"),
        ((0.8, 0.1, 0.1), 0.5, "far too much as RV"),
        ((0.0, 1.0, 0.0), 0.1, "far too much as LV"),
        ((0.0, 1.0, 0.0), 0.09, ""),  # nothing is judged in the first tenth
        ((1.0, 0.0, 0.0), 0.29, ""),  # a rare class may be found late
        ((1.0, 0.0, 0.0), 0.3, "next to nothing as LV"),
        ((0.92, 0.08, 0.0), 0.3, "next to nothing as RV"),
        ((0.98, 0.0041, 0.0011), 1.0, ""),
        ((0.98, 0.0039, 0.02), 1.0, "next to nothing as LV"),
    ],
)
def test_a_class_runs_away_or_dies_out(shares, progress, words):
    sentence = guard().judge(shares, progress)
    assert words in sentence
    assert bool(sentence) == bool(words)
    if words:
        assert ("Train longer" if "nothing" in words else "raise weights.distill") in sentence, "with the remedy"


def test_a_class_that_the_full_masks_lack_may_stay_away_but_not_take_over():
    absent = Guard(("background", "scar"), (1.0, 0.0), OURS)
    assert not absent.judge((1.0, 0.0), 0.9)
    assert not absent.judge((0.97, 0.03), 0.9)
    assert "far too much as scar" in absent.judge((0.9, 0.1), 0.9)


def test_the_background_is_not_judged():
    assert not Guard(("background", "LV"), (0.5, 0.5), OURS).judge((0.1, 0.9), 0.9)


def test_it_speaks_when_things_change_and_not_in_between():
    watch = guard()
    away, fine = (0.0, 1.0, 0.0), (0.9, 0.08, 0.02)
    said = [watch.judge(shares, 0.5) for shares in (fine, away, away, fine, fine, away)]
    assert [bool(sentence) for sentence in said] == [False, True, False, True, False, True]
    assert said[3] == "The student has come back from its collapse."
    assert watch.collapsed


@pytest.mark.parametrize(
    ("seen", "progress", "words"),
    [
        ({"divergence": 0.6}, 0.1, "contradict each other (0.6 nats apart"),
        ({"divergence": 0.6}, 0.09, ""),
        ({"divergence": 0.4}, 0.9, ""),
        ({"entropy": 1.0}, 0.3, "decides nothing"),  # three classes: at most 1.0986
        ({"entropy": 1.0}, 0.29, ""),
        ({"entropy": 0.9}, 0.9, ""),
        ({"partial": 1.2}, 0.3, "contradicts the labels that they have (1.2 nats per labelled voxel; guessing would"),
        ({"partial": 1.2}, 0.29, ""),
        ({"partial": 1.0}, 0.9, ""),  # ln 3 = 1.0986
    ],
)
def test_other_signs_of_a_student_that_is_lost_are_told(seen, progress, words):
    sentence = guard().judge((0.9, 0.08, 0.02), progress, **seen)
    assert words in sentence
    assert bool(sentence) == bool(words)


SIGNS = {
    "far too much": {"shares": (0.0, 1.0, 0.0)},
    "next to nothing": {"shares": (1.0, 0.0, 0.0)},
    "contradict each other": {"divergence": 0.6},
    "decides nothing": {"entropy": 1.0},
    "contradicts the labels": {"partial": 1.2},
}


def said(weights, sign):
    """What the guard of a method with such weights advises when it sees a sign of a collapse."""
    sentence = guard(weights).judge(**{"shares": (0.9, 0.08, 0.02), "progress": 0.5, **SIGNS[sign]})
    assert sign in sentence
    return sentence.rpartition("). ")[2]


@pytest.mark.parametrize(
    ("sign", "remedy"),
    [
        ("far too much", "Train longer, raise weights.distill, lower weights.entropy or use ramp=0.3."),
        ("next to nothing", "Train longer, raise weights.weak, or lower weights.entropy."),
        ("contradict each other", "Raise weights.distill, or lower weights.entropy."),
        ("decides nothing", "Raise weights.entropy or the lr, or train longer."),
        ("contradicts the labels", "Raise weights.weak, or lower weights.entropy or use ramp=0.3."),
    ],
)
def test_the_method_is_told_all_that_can_be_tried(sign, remedy):
    assert said(OURS, sign) == remedy


def test_separate_passes_are_advised_to_a_run_with_joint_ones_alone():
    joint = guard(joint=True).judge((0.5, 0.48, 0.02), 0.5)
    assert joint.endswith("or use ramp=0.3, and set passes=separate.")
    assert joint.replace(", and set passes=separate", "") == guard().judge((0.5, 0.48, 0.02), 0.5)


@pytest.mark.parametrize("sign", list(SIGNS))
@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.sees in ("mixed", "unlabeled")])
@pytest.mark.parametrize("off", [(), ("entropy", "consistency")])
def test_a_method_is_advised_what_its_run_accepts(name, sign, off):
    weights = {term: 0.0 if term in off else weight for term, weight in METHODS[name].weights.items()}
    if sign == "contradicts the labels" and "weak" not in weights:
        return  # a term that is not there has no value
    remedy = said(weights, sign)
    assert remedy[0].isupper()
    assert remedy.endswith(".")
    down = re.search(r"ower (weights\.[\w-]+(?:(?:, | or )weights\.[\w-]+)*)", remedy)
    lowered = re.findall(r"weights\.([\w-]+)", down[0]) if down else []
    for term in re.findall(r"weights\.([\w-]+)", remedy):
        make_config(method=name, weights={term: weights[term] + (-1e-4 if term in lowered else 1)})
    assert ("ramp" not in remedy and "passes" not in remedy) or METHODS[name].sees == "mixed", (
        "which others do not read"
    )
    assert "ramp" not in remedy or weights["entropy"] > 0


def test_methods_without_our_terms_are_told_to_lower_their_own():
    assert said(METHODS["ua-mt"].weights, "far too much") == "Train longer or lower weights.consistency."
    assert said(METHODS["ssco"].weights, "next to nothing") == (
        "Train longer, or lower weights.self-paced or weights.consistency."
    )
    assert said(METHODS["single"].weights, "decides nothing") == "Raise the lr, or train longer."
    assert said(METHODS["decoupled"].weights, "contradict each other") == "Train longer."


SIDE = 32


@cache
def hearts(patients):
    """Slices of phantom hearts at 32x32, grey values 0 to 1 in each scan, and the mask of all that is heart."""
    images, masks = [], []
    for patient in patients:
        image, mask = heart(0, patient, "ED", size=(SIDE, SIDE), slices=6)
        images.append(np.moveaxis((image - image.min()) / (image.max() - image.min()), 2, 0))
        masks.append(np.moveaxis(mask > 0, 2, 0))
    return torch.from_numpy(np.concatenate(images)).float()[:, None], torch.from_numpy(np.concatenate(masks)).byte()


def learnt(*, passes, seed, norm="batch", steps=100):
    """A U-Net trained on 2 patients with full masks; slices of 8 others are in its batches, and in no loss."""
    torch.manual_seed(seed)
    (full, masks), (unlabeled, _) = hearts((0, 1)), hearts(tuple(range(2, 10)))
    method = make_method(
        "lower-bound",
        lambda branches: make_network("unet", branches=branches, width=8, depth=3, norm=norm),
        {},
        MethodOptions(ablation=AblationOptions(passes=passes)),
    )
    optimizer = torch.optim.Adam(method.parameters(), 1e-3)
    order = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        some, others = (torch.randperm(len(rows), generator=order)[:size] for rows, size in ((full, 4), (unlabeled, 8)))
        blank = torch.full((8, SIDE, SIDE), IGNORE, dtype=torch.uint8)
        seen = Batch(
            Part(full[some], masks[some], blank[:4]),
            Part(unlabeled[:0], *[blank[:0]] * 2),
            Part(unlabeled[others], *[blank] * 2),
        )
        optimizer.zero_grad()
        total(method(seen, 0.5)).backward()
        optimizer.step()
    return method.eval()


@torch.no_grad()
def marked(method, images):
    """The share of the voxels that the method calls heart."""
    return method.predict(images)["top"].argmax(dim=1).float().mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mixed_batch_statistics_mark_far_too_much_on_unlabelled_scans_and_separate_ones_do_not(seed):
    unlabeled, truth = hearts(tuple(range(2, 10)))
    expected = hearts((0, 1))[1].float().mean().item()
    watch = Guard(("background", "heart"), (1 - expected, expected), OURS)
    actual = truth.float().mean().item()
    joint, separate = (marked(learnt(passes=passes, seed=seed), unlabeled) for passes in ("joint", "separate"))
    assert joint > 5 * actual, "the loss never saw these rows, and most of what they show became heart"
    assert "far too much as heart" in watch.judge((1 - joint, joint), 0.5)
    assert separate < 2 * actual
    assert "come back" in watch.judge((1 - separate, separate), 0.2)


@pytest.mark.slow
def test_without_batch_statistics_there_is_no_collapse_to_begin_with():
    unlabeled, truth = hearts(tuple(range(2, 10)))
    share = marked(learnt(passes="joint", seed=1, norm="instance"), unlabeled)
    assert share < 2 * truth.float().mean().item()
