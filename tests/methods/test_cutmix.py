"""Scans cut into each other: labels travel with their voxels, and no proposal overrules a label."""

import pytest
import torch

from discs import batch, tiny_method, total, train
from mixseg.core.types import IGNORE, Batch, Part
from mixseg.methods.cutmix import CONFIDENT, LARGEST, SMALLEST, boxes, cutmix, settle

MIXED = {"cutmix": 1.0, "dice": 1.0}


def marked(rows, first, *, full, side=16, dims=2):
    """Rows whose every voxel says which row it came from: in the image and, where there is one, in the labels."""
    number = torch.arange(first, first + rows).view(-1, *[1] * dims).expand(rows, *[side] * dims)
    unlabeled = torch.full_like(number, IGNORE).to(torch.uint8)
    labels = number.to(torch.uint8)
    return Part(number.unsqueeze(1).float(), labels if full else unlabeled, labels)


@pytest.mark.parametrize("dims", [2, 3])
def test_image_partial_labels_and_targets_are_cut_by_the_same_boxes(dims):
    torch.manual_seed(0)
    seen = Batch(*(marked(rows, first, full=first == 0, dims=dims) for rows, first in ((2, 0), (3, 2), (1, 5))))
    proposed = torch.full((4, 8, *[16] * dims), 1 / 8)  # sure of nothing: all targets are labels
    found, target = cutmix(seen, proposed)
    images = torch.cat([found.partial.image, found.unlabeled.image])[:, 0]
    labels = torch.cat([found.partial.partial, found.unlabeled.partial])
    assert torch.equal(images, target.float())
    assert torch.equal(images, labels.float())
    pasted = [set(row.unique().tolist()) - {2.0 + at} for at, row in enumerate(images)]
    assert all(len(others) <= 1 for others in pasted)
    assert len(set.union(*pasted)) == sum(map(len, pasted)), "no row is pasted twice"
    assert found.full is seen.full


def test_a_label_counts_before_a_proposal_and_an_unsure_proposal_not_at_all():
    labels = torch.tensor([[[0, IGNORE, IGNORE, 1]]], dtype=torch.uint8)
    foreground = torch.tensor([[[0.99, CONFIDENT + 0.01, CONFIDENT - 0.01, 0.01]]])
    proposed = torch.stack([1 - foreground, foreground], dim=1)
    assert settle(proposed, labels).tolist() == [[[0, 1, IGNORE, 1]]]


@pytest.mark.parametrize("shape", [(64, 32), (32, 16, 24)])
def test_boxes_have_the_sides_that_were_asked_for_and_lie_inside(shape):
    torch.manual_seed(0)
    inside = boxes(torch.zeros(200, 1, *shape))
    for axis, side in enumerate(shape):
        others = [other + 1 for other in range(len(shape)) if other != axis]
        lengths = inside.amax(dim=others).sum(dim=1) / side
        assert lengths.min() >= SMALLEST - 1 / side
        assert lengths.max() <= LARGEST + 1 / side
        assert lengths.std() > 0.05
    assert torch.equal(inside.flatten(1).sum(1), torch.stack([_product(row) for row in inside])), (
        "a box, no other shape"
    )


def _product(row):
    """The volume of the box round what is true."""
    found = row.nonzero()
    return (found.amax(dim=0) - found.amin(dim=0) + 1).prod()


@pytest.mark.parametrize("name", ["kl-ent", "single"])
@pytest.mark.parametrize("dims", [2, 3])
def test_the_average_learns_nothing_by_itself_and_answers(name, dims):
    method = tiny_method(name, dims, weights=MIXED)
    terms = method(batch(2, 2, 1, dims=dims), 0.5)
    assert "cutmix" in terms
    total(terms).backward()
    assert all(p.grad is None and not p.requires_grad for p in method.ema.parameters())
    train(method, batch(2, 2, dims=dims), steps=3, progress=0.5)
    method.eval()
    image = batch(2, dims=dims).full.image
    answer = method.predict(image)[method.outputs[0]]
    torch.testing.assert_close(answer, method.ema.network(image)[-1].softmax(dim=1))


def test_the_average_follows_as_its_decay_says_and_takes_the_statistics():
    method = tiny_method("kl-ent", weights=MIXED)
    before = [p.detach().clone() for p in method.ema.parameters()]
    train(method, batch(2, 2), steps=1, progress=0.5)
    now = [p.detach() for p in method.network.parameters()]
    torch.testing.assert_close([p.detach() for p in method.ema.parameters()], now)  # the first step is taken over
    assert any(not torch.equal(a, b) for a, b in zip(before, now, strict=True))
    method.after_step(1, 0.0)
    for own, other in zip(method.ema.network.buffers(), method.network.buffers(), strict=True):
        assert torch.equal(own, other)
    assert not method.ema.training


def test_without_other_scans_there_is_nothing_to_mix():
    assert "cutmix" not in tiny_method("kl-ent", weights=MIXED)(batch(2, 0, 0), 0.5)


def test_mixing_begins_softly():
    method = tiny_method("kl-ent", weights=MIXED)
    weights = [method(batch(2, 2), progress)["cutmix"].weight for progress in (0.0, 0.1, 0.3)]
    assert weights[0] == pytest.approx(0.0067, abs=1e-4)
    assert weights[0] < weights[1] < weights[2] == 1.0


def test_a_compiled_method_is_compiled_once_though_steps_and_looks_alternate():
    """What a CUDA graph needs: anything that looks new to the compiler would be compiled while a step is recorded."""
    method = tiny_method("kl-ent", weights=MIXED)
    made = []

    def backend(graph, _):
        made.append(graph)
        return graph.forward

    step = torch.compile(method.forward, backend=backend, dynamic=False)
    progress = torch.zeros(())
    for number in range(3):
        progress.fill_(number / 3)
        total(step(batch(2, 2, seed=number), progress)).backward()
        method.after_step(number, number / 3)
        method.eval()
        method.predict(batch(2).full.image)
        method.train()
    assert len(made) == 1
