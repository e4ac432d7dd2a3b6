"""The slices that a report shows: which scans, which planes, and that they come back from the file as they were."""

import math

import numpy as np
import pytest
import torch

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.data.scan import Scan
from mixseg.evaluation.scores import Row
from mixseg.inference.predictor import Maps, Slab, maps
from mixseg.inference.report_slices import (
    LONGEST_SIDE,
    choose,
    choose_common,
    lay_out,
    planes,
    read_examples,
    write_examples,
)


def row(case, dsc, *, branch="bottom", checkpoint="last", label="heart", part="val"):
    distances = dict.fromkeys(("hd95_vox", "hd95_mm", "assd_vox", "assd_mm"), math.nan)
    return Row(case=case, label=label, branch=branch, checkpoint=checkpoint, part=part, dsc=dsc, **distances)


def boxes(shape, *corners):
    """A label map with class 1 in each box ``(start, stop)``."""
    labels = np.zeros(shape, np.uint8)
    for start, stop in corners:
        labels[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))] = 1
    return labels


def one_hot(labels, sure=1.0):
    """Probabilities of two classes whose argmax is ``labels``."""
    on = torch.from_numpy(labels).float() * (2 * sure - 1) + (1 - sure)
    return torch.stack([1 - on, on])


def kept(probs):
    """What a run keeps of the probabilities of a scan."""
    grid = next(iter(probs.values())).shape[1:]
    return maps([Slab((slice(None),), probs)], grid, confidence=True)


def test_the_worst_and_the_best_scans_are_chosen_by_the_answer_of_the_last_checkpoint():
    rows = [row(f"p{i}", i / 10) for i in range(9)]
    rows += [row(f"p{i}", 1 - i / 10, branch="top") for i in range(9)]
    rows += [row(f"p{i}", 1 - i / 10, checkpoint="best") for i in range(9)]
    found = choose(rows, "bottom")
    assert [(choice.rank, choice.case) for choice in found] == [
        *(("worst", case) for case in ("p0", "p1", "p2")),
        *(("best", case) for case in ("p8", "p7", "p6")),
    ]


@pytest.mark.parametrize("count", range(8))
def test_no_scan_is_shown_twice_however_few_there_are(count):
    found = choose([row(f"p{i}", 0.5) for i in range(count)], "bottom")
    cases = [choice.case for choice in found]
    assert len(cases) == len(set(cases)) == min(count, 6)


def test_a_scan_is_ranked_by_its_mean_over_classes_and_left_out_without_a_score():
    rows = [row("a", 0.9), row("a", 0.1, label="lung"), row("b", 0.6), row("b", math.nan, label="lung")]
    found = choose([*rows, row("c", math.nan)], "bottom")
    assert [(choice.case, choice.dsc) for choice in found] == [("a", 0.5), ("b", 0.6)]


def test_a_bad_stack_is_shown_where_the_structure_is_largest_and_where_the_errors_are():
    truth = boxes((5, 12, 12), ((2, 1, 1), (3, 9, 9)), ((3, 1, 1), (4, 4, 4)))
    answer = boxes((5, 12, 12), ((2, 1, 1), (3, 9, 9)), ((4, 0, 0), (5, 12, 12)))
    assert [plane.index for plane in planes(truth, answer, dims=2, rank="worst")] == [2, 4]
    assert [plane.index for plane in planes(truth, answer, dims=2, rank="best")] == [2]


def test_unlabelled_voxels_are_neither_structure_nor_error():
    truth = boxes((3, 8, 8), ((1, 1, 1), (2, 4, 4)))
    truth[2] = IGNORE
    assert [plane.index for plane in planes(truth, truth % IGNORE, dims=2, rank="worst")] == [1]


def test_a_volume_is_cut_in_three_planes_through_the_centre_of_the_structure():
    truth = boxes((20, 30, 40), ((2, 10, 20), (7, 21, 35)))
    found = planes(truth, truth, dims=3, rank="worst")
    assert {plane.axis: plane.index for plane in found} == {0: 4, 1: 15, 2: 27}
    assert [plane.of(truth).shape for plane in found] == [(30, 20), (40, 20), (40, 30)]
    for plane in found:
        picture = plane.of(truth)
        assert picture.sum() == truth.take(plane.index, axis=plane.axis).sum()


def test_a_plane_says_how_large_its_pixels_are():
    truth = boxes((20, 30, 40), ((2, 10, 20), (7, 21, 35)))
    found = planes(truth, truth, dims=3, rank="worst", spacing=(0.5, 0.75, 3.0))
    assert {plane.axis: plane.pixel for plane in found} == {0: (0.75, 3.0), 1: (0.5, 3.0), 2: (0.5, 0.75)}
    (slice_,) = planes(truth, truth, dims=2, rank="best", spacing=(10.0, 1.5, 1.25))
    assert slice_.pixel == (1.5, 1.25)
    assert {plane.pixel for plane in planes(truth, truth, dims=3, rank="best")} == {(1.0, 1.0)}


def test_a_volume_has_a_montage_that_comes_back_and_a_stack_of_slices_has_none(tmp_path):
    shape = (24, 20, 30)
    grey = np.random.default_rng(0).integers(0, 256, (1, *shape), np.uint8)
    truth, answer = boxes(shape, ((5, 5, 4), (15, 12, 20))), boxes(shape, ((6, 5, 4), (15, 12, 22)))
    scan = Scan("a", grey, truth, spacing=(1.0, 1.5, 2.0))
    found = kept({"bottom": one_hot(answer)})
    write_examples(tmp_path / "3.npz", [row("a", 0.8)], {"val": [scan]}, lambda _: found, dims=3)
    first, *others = read_examples(tmp_path / "3.npz")
    assert all(example.montage is None for example in others), "one a scan"
    expected = lay_out(grey[0], truth, answer, scan.spacing)
    assert (first.montage.indices, first.montage.columns) == (expected.indices, expected.columns)
    assert first.montage.pixel == (1.0, 1.5)
    for name in ("image", "truth", "answer"):
        assert np.array_equal(getattr(first.montage, name), getattr(expected, name))
    flat = Scan("a", np.moveaxis(grey, 0, 1), truth)
    write_examples(tmp_path / "2.npz", [row("a", 0.8)], {"val": [flat]}, lambda _: found, dims=2)
    assert all(example.montage is None for example in read_examples(tmp_path / "2.npz"))


def test_the_last_axis_of_a_volume_points_upwards():
    volume = boxes((6, 6, 6), ((0, 0, 5), (6, 6, 6)))
    side = planes(volume, volume, dims=3, rank="best")[1].of(volume)
    assert side[0].all()
    assert not side[1:].any()


@pytest.mark.parametrize("dims", [2, 3])
def test_examples_come_back_as_they_were_cut(tmp_path, dims):
    rng = np.random.default_rng(0)
    shape = (4, 20, 24)
    grey = rng.integers(0, 256, shape, np.uint8)
    image = grey[:, None] if dims == 2 else grey[None]
    truth, answer = boxes(shape, ((1, 5, 5), (3, 12, 12))), boxes(shape, ((1, 5, 5), (3, 11, 12)))
    scan = Scan("a<b>/c", image, truth)
    found = {"bottom": one_hot(answer, sure=0.75), "top": one_hot(truth)}
    rows = [row(scan.name, 0.8), row(scan.name, 0.9, branch="top")]
    write_examples(tmp_path / "examples.npz", rows, {"val": [scan]}, lambda _: kept(found), dims=dims)
    examples = read_examples(tmp_path / "examples.npz")
    planes_each = 1 if dims == 2 else 3
    assert [example.rank for example in examples] == ["worst"] * planes_each + ["common"] * planes_each
    for example in examples:
        assert (example.case, example.part, example.dsc) == ("a<b>/c", "val", 0.8)
        assert list(example.labels) == ["bottom", "top"]
        for picture, volume in ((example.image, grey), (example.truth, truth), (example.labels["bottom"], answer)):
            assert np.array_equal(picture, example.plane.of(volume))
        # H(3/4, 1/4) / ln 2 = 2 - 3/4 log2 3
        assert np.unique(example.entropy) == pytest.approx([255 * (2 - 0.75 * math.log2(3))], abs=0.5)
        if example.rank == "worst":
            assert example.foreground is None
        else:
            assert np.array_equal(example.foreground, np.where(example.labels["bottom"], 191, 64))


def test_common_scans_are_the_same_for_every_run_and_of_the_test_set_where_it_was_scored():
    names = [f"p{i:02d}" for i in range(12)]
    one = [*(row(name, i / 20) for i, name in enumerate(names)), row("v", 0.1)]
    other = [row(name, 1 - i / 20, branch="top") for i, name in enumerate(names)][::-1]
    assert [choice.case for choice in choose_common(one[:-1], "bottom")] == ["p02", "p06", "p10"]
    assert [choice.case for choice in choose_common(other, "top")] == ["p02", "p06", "p10"]
    tested = [*one, row("t", 0.9, part="test")]
    assert [(choice.case, choice.part) for choice in choose_common(tested, "bottom")] == [("t", "test")]
    assert choose_common([], "bottom") == []


def test_the_examples_of_large_noisy_scans_stay_below_two_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    scans = [Scan(f"p{i}", rng.integers(0, 256, (2, 1, 520, 400), np.uint8)) for i in range(6)]
    scans = [Scan(scan.name, scan.image, rng.integers(0, 2, (2, 520, 400), np.uint8)) for scan in scans]
    noise = torch.rand((1, 2, 520, 400))
    predict = {"bottom": torch.cat([noise, 1 - noise]), "top": torch.cat([1 - noise, noise])}
    path = tmp_path / "examples.npz"
    write_examples(path, [row(scan.name, 0.5) for scan in scans], {"val": scans}, lambda _: kept(predict), dims=2)
    assert path.stat().st_size < 2e6
    assert max(max(example.image.shape) for example in read_examples(path)) <= LONGEST_SIDE


def test_a_run_without_scored_scans_has_no_examples(tmp_path):
    write_examples(tmp_path / "examples.npz", [], {"val": []}, lambda _: Maps({}), dims=2)
    assert read_examples(tmp_path / "examples.npz") == []
    assert read_examples(tmp_path / "nothing.npz") == []


def test_a_broken_file_is_one_sentence(tmp_path):
    path = tmp_path / "examples.npz"
    path.write_bytes(b"no archive")
    with pytest.raises(MixsegError, match=r"examples\.npz"):
        read_examples(path)
