"""What a step sees: a function of the seed and the step's number, shared by processes without overlap."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from made_runs import data, scan
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, KINDS
from mixseg.data.augment import NONE, STRONG, Augmentation, Chance
from mixseg.data.batches import LABELLED_PATCHES, Feed, PatchStream, SliceStream, common_spacing
from mixseg.data.intensity import normalise
from mixseg.data.scan import Scan

CPU = torch.device("cpu")


def feed(scans, sizes, *, dims=2, seed=0, augmentation=NONE, **more):
    grid = (16, 16) if dims == 2 else (8, 8, 8)
    return Feed(scans, sizes, grid=grid, seed=seed, augmentation=augmentation, device=CPU, **more)


def slices(count, size, *, kind="full", seed=0):
    return SliceStream(kind, [scan("a", slices=count)], size, seed=seed, device=CPU)


def equal(one, other):
    return all(torch.equal(a, b) for p, q in zip(one, other, strict=True) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("augmentation", [NONE, STRONG])
def test_a_step_is_a_function_of_the_seed_and_its_number_alone(dims, augmentation):
    scans, sizes = data(unlabeled=2, dims=dims).train, {"full": 2, "partial": 2, "unlabeled": 1}
    first, second = (feed(scans, sizes, dims=dims, augmentation=augmentation) for _ in range(2))
    in_order = [first(step) for step in range(6)]
    torch.manual_seed(7)  # nothing outside has a say
    for step in (5, 2, 2, 0, 4):
        assert equal(second(step), in_order[step])
    assert not equal(feed(scans, sizes, dims=dims, seed=1, augmentation=augmentation)(3), in_order[3])
    assert not equal(in_order[0], in_order[1])


@pytest.mark.parametrize(("count", "size"), [(12, 4), (13, 4), (7, 7), (9, 5)])
def test_a_pass_shows_no_row_twice_and_drops_the_rest(count, size):
    stream = slices(count, size)
    steps = count // size
    passes = []
    for number in range(20):
        drawn = np.concatenate([stream.order(number * steps + step) for step in range(steps)])
        assert len(set(drawn)) == len(drawn) == steps * size
        passes.append(tuple(drawn))
    assert len(set(passes)) > 1
    assert set(itertools.chain(*passes)) == set(range(count)), "what one pass drops, another shows"


@pytest.mark.parametrize(("count", "size"), [(3, 8), (1, 4), (5, 6)])
def test_fewer_rows_than_a_batch_are_each_shown_equally_often(count, size):
    stream = slices(count, size)
    orders = [stream.order(step) for step in range(5)]
    for order in orders:
        times = Counter(order.tolist())
        assert len(order) == size
        assert set(times) == set(range(count))
        assert max(times.values()) - min(times.values()) <= 1
    if count > 1:
        assert len({tuple(order) for order in orders}) > 1


def test_kinds_are_shuffled_apart():
    assert not np.array_equal(slices(64, 32).order(0), slices(64, 32, kind="partial").order(0))


def test_slices_come_with_their_own_labels_and_statistics():
    scans = [scan("a", slices=3), scan("b", slices=5)]
    stream = SliceStream("full", scans, 4, seed=0, device=CPU)
    flat = [(s, i) for s in scans for i in range(len(s.image))]
    for step in range(4):
        rows = stream.rows(step, slice(None))
        for at, index in enumerate(stream.order(step)):
            owner, i = flat[index]
            assert np.array_equal(rows.image[at], owner.image[i])
            assert np.array_equal(rows.full[at], owner.full[i])
            assert np.array_equal(rows.partial[at], owner.partial[i])
            assert rows.mean[at].item() == pytest.approx(owner.mean[0])
            assert stream.names(step)[at] == f"{owner.name} slice {i}"


def test_labels_that_a_kind_lacks_are_all_ignore():
    batch = feed(data(unlabeled=2).train, {"full": 2, "partial": 2, "unlabeled": 2})(0)
    assert (batch.full.full != IGNORE).all()
    assert (batch.full.partial != IGNORE).any()
    assert (batch.partial.full == IGNORE).all()
    assert (batch.partial.partial != IGNORE).any()
    assert (batch.unlabeled.full == IGNORE).all()
    assert (batch.unlabeled.partial == IGNORE).all()


@pytest.mark.parametrize("dims", [2, 3])
def test_a_kind_that_is_absent_is_a_part_without_rows(dims):
    scans = {"unlabeled": [], **data(dims=dims).train}
    batch = feed(scans, {"full": 2, "partial": 2, "unlabeled": 2}, dims=dims)(0)
    assert [part.rows for part in batch] == [2, 2, 0]
    assert batch.unlabeled.image.shape[1:] == batch.full.image.shape[1:]
    assert len(batch.parts) == 2


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_a_step_without_overlap_and_together_see_all_of_it(dims, world):
    scans, sizes = data(full=3, partial=3, dims=dims).train, {"full": 4, "partial": 8}
    whole = feed(scans, sizes, dims=dims)
    shares = [feed(scans, sizes, dims=dims, rank=rank, world=world) for rank in range(world)]
    for step in range(3):
        batch, parts = whole(step), [share(step) for share in shares]
        for kind in ("full", "partial"):
            for field in ("image", "full", "partial"):
                expected = getattr(getattr(batch, kind), field)
                found = [getattr(getattr(part, kind), field) for part in parts]
                assert torch.equal(torch.stack(found, dim=1).flatten(0, 1), expected)


def test_processes_draw_their_own_changes():
    scans = data().train
    one, other = (
        feed({"full": scans["full"][:1]}, {"full": 2}, augmentation=STRONG, rank=rank, world=2) for rank in range(2)
    )
    assert not torch.equal(one(0).full.image, other(0).full.image)


def test_a_batch_that_processes_cannot_share_is_one_sentence():
    with pytest.raises(MixsegError, match="3 partial images a step cannot be shared by 2 processes"):
        feed(data().train, {"full": 2, "partial": 3}, world=2)


def test_patches_lie_inside_their_volumes_and_are_cut_where_they_say():
    scans = [scan("a", dims=3, side=12), scan("b", dims=3, side=9)]
    stream = PatchStream("full", scans, 2, patch=(8, 8, 8), seed=0, device=CPU)
    for step in range(20):
        rows = stream.rows(step, slice(None))
        for at, (index, corner) in enumerate(stream.corners(step)):
            box = tuple(slice(c, c + 8) for c in corner)
            volume = scans[index]
            assert all(0 <= c <= n - 8 for c, n in zip(corner, volume.full.shape, strict=True))
            assert np.array_equal(rows.image[at, 0], volume.image[0][box])
            assert np.array_equal(rows.full[at], volume.full[box])
            assert np.array_equal(rows.partial[at], volume.partial[box])
            assert stream.names(step)[at] == f"{volume.name} at {corner}"


def test_patches_reach_every_corner_of_a_volume():
    stream = PatchStream("full", [scan("a", dims=3, side=10)], 1, patch=(8, 8, 8), seed=0, device=CPU)
    seen = {stream.corners(step)[0][1] for step in range(400)}
    assert seen == set(itertools.product(range(3), repeat=3))


def test_a_volume_smaller_than_a_patch_is_widened_by_its_edge_without_labels():
    small = scan("a", dims=3, side=5)
    stream = PatchStream("partial", [small], 1, patch=(8, 6, 5), seed=0, device=CPU)
    rows = stream.rows(0, slice(None))
    assert rows.image.shape == (1, 1, 8, 6, 5)
    inside = (slice(1, 6), slice(0, 5), slice(None))
    assert np.array_equal(rows.image[0, 0][inside], small.image[0])
    assert np.array_equal(rows.partial[0][inside], small.partial)
    # One voxel before and two after along the first axis, one after along the second.
    assert np.array_equal(rows.image[0, 0], np.pad(small.image[0], ((1, 2), (0, 1), (0, 0)), mode="edge"))
    for labels in (rows.full, rows.partial):
        outside = torch.ones(8, 6, 5, dtype=torch.bool)
        outside[inside] = False
        assert (labels[0][outside] == IGNORE).all()


def sparse(*, labelled):
    """A volume of which one patch in eight holds the one labelled voxel, at random."""
    image = np.zeros((1, 24, 24, 24), np.uint8)
    partial = np.full((24, 24, 24), IGNORE, np.uint8)
    if labelled:
        partial[2, 2, 2] = 1
    return Scan("sparse", image, partial=partial)


def test_patches_of_partly_labelled_volumes_hold_a_label_about_as_often_as_stated():
    def share(kind, labelled=True):
        stream = PatchStream(kind, [sparse(labelled=labelled)], 1, patch=(8, 8, 8), seed=0, device=CPU)
        return np.mean([(stream.rows(step, slice(None)).partial != IGNORE).any().item() for step in range(600)])

    by_chance = (3 / 17) ** 3
    expected = LABELLED_PATCHES + (1 - LABELLED_PATCHES) * by_chance
    assert share("partial") == pytest.approx(expected, abs=0.06)
    assert share("full") == pytest.approx(by_chance, abs=0.03)
    assert share("partial", labelled=False) == 0


def test_the_share_of_patches_with_a_label_is_counted_where_they_are_cut():
    def found(*scans, kind="partial", steps=range(200)):
        return PatchStream(kind, scans, 2, patch=(8, 8, 8), seed=0, device=CPU).labelled_share(steps)

    stream = PatchStream(
        "partial", [sparse(labelled=True), sparse(labelled=False)], 2, patch=(8,) * 3, seed=0, device=CPU
    )
    rows = [stream.rows(step, slice(None)).partial for step in range(200)]
    counted = np.mean([(row != IGNORE).any().item() for pair in rows for row in pair])
    assert stream.labelled_share(range(200)) == pytest.approx(counted)
    for step in range(20):
        assert stream.labelled_share([step]) == np.mean([(row != IGNORE).any().item() for row in rows[step]])
    by_chance = (3 / 17) ** 3
    assert counted == pytest.approx((LABELLED_PATCHES + (1 - LABELLED_PATCHES) * by_chance) / 2, abs=0.06)
    assert found(sparse(labelled=False)) == 0
    # A voxel that no patch can miss: the volume is no larger than a patch.
    assert found(scan("small", kind="partial", dims=3, side=8)) == 1
    assert np.isnan(found(sparse(labelled=True), steps=()))
    # What a stretch of steps has is what its parts have: a run that was killed counts the same.
    parts = [stream.labelled_share(range(0, 120)), stream.labelled_share(range(120, 200))]
    assert (120 * parts[0] + 80 * parts[1]) / 200 == pytest.approx(counted)


def test_a_feed_tells_the_share_for_partly_labelled_volumes_alone():
    sizes = {"full": 2, "partial": 2}
    assert feed(data().train, sizes).labelled_share(range(5)) is None, "slices are not drawn by their labels"
    assert (
        feed(data(partial=0, unlabeled=2, dims=3).train, {"full": 2, "unlabeled": 2}, dims=3).labelled_share(range(5))
        is None
    )
    volumes = feed(data(dims=3).train, sizes, dims=3)
    assert volumes.labelled_share(range(20)) == volumes.streams["partial"].labelled_share(range(20))


def test_the_names_of_a_step_are_those_of_all_its_rows():
    stream = feed(data(unlabeled=2).train, {"full": 2, "partial": 3, "unlabeled": 1}, dims=2)
    names = stream.names(0)
    assert len(names) == 6
    assert [name.split()[0].rstrip("0123456789") for name in names] == ["full"] * 2 + ["partial"] * 3 + ["unlabeled"]


def test_grey_values_become_shares_of_255_or_z_scores_of_their_channel():
    image = torch.tensor([0, 51, 255, 204], dtype=torch.uint8).reshape(2, 2, 1, 1)
    mean, std = torch.tensor([[0.0, 50.0], [250.0, 200.0]]), torch.tensor([[1.0, 2.0], [5.0, 0.0]])
    assert normalise(image, mean, std, "unit").flatten().tolist() == pytest.approx([0, 0.2, 1, 0.8])
    assert normalise(image, mean, std, "zscore").flatten().tolist() == pytest.approx([0, 0.5, 1, 4000])


def test_z_scored_scans_of_the_feed_have_mean_0_and_deviation_1():
    stream = feed({"full": [scan("a", slices=6)]}, {"full": 6}, intensity="zscore")
    image = stream(0).full.image
    assert image.mean().item() == pytest.approx(0, abs=1e-4)
    assert image.std(correction=0).item() == pytest.approx(1, abs=1e-4)


def test_kinds_are_in_the_order_of_the_batch():
    assert KINDS == ("full", "partial", "unlabeled")


def test_the_orders_that_are_sent_ahead_are_those_of_each_step():
    for count, size in ((10, 4), (3, 4), (200, 3)):
        stream = slices(count, size)
        for step in (0, 5, 63, 64, 65, 200, 64, 1):
            shown = stream.rows(step, slice(None)).image
            assert torch.equal(shown, stream.image[stream.order(step)])
            assert torch.equal(stream.rows(step, slice(1, None, 2)).image, shown[1::2])


def test_shapes_are_turned_in_mm_where_voxels_are_not_square():
    scans = data().train
    flat = {kind: [replace(one, spacing=(8.0, 1.5, 3.0)) for one in of_kind] for kind, of_kind in scans.items()}
    assert common_spacing(scans["full"], axes=2) is None
    assert common_spacing(flat["full"], axes=2) == (1.0, 2.0)
    assert common_spacing(flat["full"], axes=3) == (5.33, 1.0, 2.0)
    assert common_spacing([*scans["full"], replace(scans["full"][0], spacing=(1, 4, 2))], axes=2) == (2.0, 1.0)
    spun = Augmentation(rotation=Chance(1.0, 90, 90))
    square, oblong = (feed(each, {"full": 1}, augmentation=spun)(0).full for each in (scans, flat))
    plain = feed(scans, {"full": 1})(0).full
    torch.testing.assert_close(square.image, torch.rot90(plain.image, -1, dims=(2, 3)), rtol=0, atol=1e-5)
    # A quarter turn in mm of an image twice as wide as high brings in what lies beyond its upper and lower edge.
    assert (oblong.full == IGNORE).any()
    assert not (square.full == IGNORE).any()
