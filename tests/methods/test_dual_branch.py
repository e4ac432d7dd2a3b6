"""The dual-branch family against its formulas, and what each kind of scan may depend on."""

import math

import numpy as np
import pytest
import torch

from discs import batch, tiny_method, total
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.methods import METHODS, AblationOptions, MethodOptions, TermOptions, terms_of
from mixseg.methods.base import ramp_up
from mixseg.runs.build import build
from mixseg.runs.config import make_config


def plain_softmax(values):
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def plain_cross_entropy(logits, label):
    """The mean of -log p[label] over labelled voxels, one by one."""
    probs = plain_softmax(logits)
    losses = [
        -math.log(probs[(row, label[(row, *voxel)], *voxel)])
        for row, *voxel in np.ndindex(*label.shape)
        if label[(row, *voxel)] != IGNORE
    ]
    return sum(losses) / len(losses)


def evaluated(name, seen, **settings):
    """The terms on ``seen`` without dropout and with running statistics, and numpy logits (top, bottom)."""
    method = tiny_method(name, **settings).eval()
    (top,), (bottom,) = method._answers(seen)
    return method(seen, 0.5), top.detach().double().numpy(), bottom.detach().double().numpy()


def other_partial_scans(seen):
    """The same step with other partly labelled scans, from a brighter scanner."""
    other = batch(2, 3, seed=7).partial
    return seen._replace(partial=other._replace(image=3 * other.image + 2))


def test_with_separate_passes_labelled_rows_do_not_depend_on_the_other_rows():
    seen = batch(2, 3)
    for name in ("single-ent", "kl-ent"):
        found = []
        for some in (seen, other_partial_scans(seen), seen._replace(partial=batch(2, 0).partial)):
            method = tiny_method(name)
            torch.manual_seed(0)
            terms = method(some, 0.5)
            torch.manual_seed(0)
            (top,), (bottom,) = method._answers(some)
            found.append((top, bottom[:2], terms["full"].value, terms["distill"].value if name == "kl-ent" else top))
        for others in found[1:]:
            for one, other in zip(found[0], others, strict=True):
                assert torch.equal(one, other)


def test_with_joint_passes_they_do():
    seen = batch(2, 3)
    method = tiny_method("kl-ent", options=MethodOptions(ablation=AblationOptions(passes="joint")), dropout=0.0)
    ours, theirs = (method(some, 0.5) for some in (seen, other_partial_scans(seen)))
    assert abs(ours["full"].value - theirs["full"].value).item() > 1e-4
    assert abs(ours["distill"].value - theirs["distill"].value).item() > 1e-6
    rows = []
    for decoder in method.network.decoders:
        decoder.register_forward_hook(lambda *args: rows.append(len(args[-1][0])))
    method(seen, 0.5)
    assert rows == [5, 5], "the teacher's statistics are joint as well"


@pytest.mark.parametrize("passes", ["separate", "joint"])
def test_the_terms_are_those_of_plain_loops(passes):
    seen = batch(2, 2, 1)
    terms, top, bottom = evaluated("kl-ent", seen, options=MethodOptions(ablation=AblationOptions(passes=passes)))
    assert list(terms) == ["full", "weak", "distill", "entropy"]
    assert bottom.shape[0] == 5
    found = {name: term.value.item() for name, term in terms.items()}
    assert found["full"] == pytest.approx(plain_cross_entropy(top, seen.full.full.numpy()), rel=1e-5)
    partial = torch.cat([seen.full.partial, seen.partial.partial, seen.unlabeled.partial]).numpy()
    assert found["weak"] == pytest.approx(plain_cross_entropy(bottom, partial), rel=1e-5)
    teacher, student = (plain_softmax(plain_softmax(logits)) for logits in (top, bottom[:2]))
    divergence = (teacher * np.log(teacher / student)).sum(axis=1).mean()
    assert found["distill"] == pytest.approx(divergence, rel=1e-3, abs=1e-7)
    probs = plain_softmax(bottom[2:])
    assert found["entropy"] == pytest.approx(-(probs * np.log(probs)).sum(axis=1).mean(), rel=1e-5)
    assert {name: term.weight for name, term in terms.items()} == METHODS["kl-ent"].weights


def test_the_divergence_goes_from_top_to_bottom_unless_reversed():
    seen = batch(2, 0)
    values = {}
    for name in ("kl", "reverse-kl"):
        # Far apart, so that the two directions differ by more than rounding.
        method = tiny_method("kl", options=MethodOptions(TermOptions(divergence=name))).eval()
        with torch.no_grad():
            method.network.decoders[0].head.bias.copy_(torch.tensor([0.0, 1.0]))
            method.network.decoders[1].head.bias.copy_(torch.tensor([4.0, 0.0]))
        top, bottom = (plain_softmax(plain_softmax(z.detach().double().numpy())) for (z,) in method._answers(seen))
        downwards = (top * np.log(top / bottom)).sum(axis=1).mean()
        upwards = (bottom * np.log(bottom / top)).sum(axis=1).mean()
        assert abs(downwards - upwards) > 1e-4 * downwards
        values[name] = method(seen, 0.5)["distill"].value.item()
        assert values[name] == pytest.approx(downwards if name == "kl" else upwards, rel=1e-5)
    assert values["kl"] != values["reverse-kl"]


def test_a_temperature_divides_the_probabilities_before_the_second_softmax():
    seen = batch(2, 0)
    terms, top, bottom = evaluated("kl", seen, options=MethodOptions(ablation=AblationOptions(temperature=2.0)))
    teacher, student = (plain_softmax(plain_softmax(logits) / 2) for logits in (top, bottom))
    expected = (teacher * np.log(teacher / student)).sum(axis=1).mean()
    assert terms["distill"].value.item() == pytest.approx(expected, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("detach", [True, False])
def test_distillation_moves_the_top_decoder_only_if_it_is_not_detached(detach):
    method = tiny_method("kl-ent", options=MethodOptions(ablation=AblationOptions(detach=detach)))
    method(batch(2, 2), 0.5)["distill"].value.backward()
    top, bottom = method.network.decoders
    assert any(p.grad is not None and p.grad.any() for p in top.parameters()) is not detach
    assert any(p.grad.any() for p in bottom.parameters())
    assert any(p.grad.any() for p in method.network.encoder.parameters())


def test_each_branch_learns_from_its_own_labels():
    seen = batch(2, 2)
    for term, learns, rests in (("full", 0, 1), ("weak", 1, 0), ("entropy", 1, 0)):
        method = tiny_method("kl-ent")
        method(seen, 0.5)[term].value.backward()
        assert any(p.grad is not None and p.grad.any() for p in method.network.decoders[learns].parameters())
        assert all(p.grad is None or not p.grad.any() for p in method.network.decoders[rests].parameters())


@pytest.mark.parametrize("name", ["single", "kl-ent"])
def test_partial_labels_can_weigh_by_their_number_in_each_image(name):
    seen = batch(2, 3, 1)
    terms, _, bottom = evaluated(
        name, seen, options=MethodOptions(ablation=AblationOptions(weak_over="images")), weights={"weak": 0.001}
    )
    labels = torch.cat([part.partial for part in seen.parts]).numpy()
    logs = np.log(plain_softmax(bottom))
    sums = [
        -sum(logs[image, label, *at] for at, label in np.ndenumerate(of_image) if label != IGNORE)
        for image, of_image in enumerate(labels)
    ]
    assert len(sums) == 6
    assert float(terms["weak"].weight) * terms["weak"].value.item() == pytest.approx(0.001 * np.mean(sums), rel=1e-5)
    assert terms["weak"].value.item() == pytest.approx(plain_cross_entropy(bottom, labels), rel=1e-5)


@pytest.mark.parametrize(("entropy_on", "first"), [("partial", 2), ("all", 0)])
@pytest.mark.parametrize("confidence", ["entropy", "min-entropy"])
def test_the_confidence_term_sees_the_scans_it_is_told_to(entropy_on, first, confidence):
    options = MethodOptions(ablation=AblationOptions(entropy_on=entropy_on, confidence=confidence))
    terms, _, bottom = evaluated("kl-ent", batch(2, 2, 1), options=options)
    probs = plain_softmax(bottom[first:])
    shannon, least = -(probs * np.log(probs)).sum(axis=1).mean(), -np.log(probs.max(axis=1)).mean()
    expected = shannon if confidence == "entropy" else least
    assert terms["entropy"].value.item() == pytest.approx(expected, rel=1e-5)


def test_the_config_key_makes_pseudo_labels_the_confidence_term():
    config = make_config(method="kl-ent", preset="quick", confidence="min-entropy", width=4, depth=2, dropout=0.0)
    method = build(config, channels=1, classes=2).eval()
    seen = batch(2, 3)
    bottom = method._answers(seen)[1][0][2:].detach().double().numpy()
    term = method(seen, 0.5)["entropy"]
    assert term.value.item() == pytest.approx(plain_cross_entropy(bottom, bottom.argmax(axis=1)), rel=1e-5)
    assert term.weight == METHODS["kl-ent"].weights["entropy"]


def test_the_confidence_term_grows_over_the_ramp_and_no_other_does():
    method, seen = tiny_method("kl-ent", options=MethodOptions(TermOptions(ramp=0.5))), batch()
    for progress, factor in ((0.0, math.exp(-5)), (0.25, math.exp(-1.25)), (0.5, 1.0), (0.9, 1.0)):
        weights = {name: term.weight for name, term in method(seen, progress).items()}
        expected = {"full": 1.0, "weak": 1e-3, "distill": 50.0, "entropy": factor}
        assert weights == pytest.approx(expected)


def test_the_ramp_is_the_gaussian_one():
    assert ramp_up(0.04, 0.05, 0.5) == 0
    assert ramp_up(0.05, 0.05, 0.5) == pytest.approx(0.0067, abs=5e-5)
    assert ramp_up(0.275, 0.05, 0.5) == pytest.approx(math.exp(-1.25))
    assert ramp_up(0.5, 0.05, 0.5) == ramp_up(1.0, 0.05, 0.5) == 1


@pytest.mark.parametrize("off", ["full", "weak", "distill", "entropy"])
def test_a_weight_of_zero_switches_a_term_off(off):
    terms = tiny_method("kl-ent", weights={off: 0.0})(batch(), 0.5)
    assert set(terms) == {"full", "weak", "distill", "entropy"} - {off}


def test_dice_joins_where_it_is_given_a_weight():
    seen = batch(2, 2)
    terms, top, _ = evaluated("lower-bound", seen, weights={"dice": 0.5})
    foreground, truth = plain_softmax(top)[:, 1], seen.full.full.numpy() == 1
    dice = 1 - (2 * foreground[truth].sum() + 1e-5) / ((foreground**2).sum() + truth.sum() + 1e-5)
    assert terms["dice"].weight == 0.5
    assert terms["dice"].value.item() == pytest.approx(dice, rel=1e-5)


def test_a_weight_for_a_term_that_does_not_exist_is_refused():
    with pytest.raises(MixsegError, match="distill"):
        tiny_method("single", weights={"distill": 1.0})


def test_one_branch_is_one_decoder_that_learns_from_both_labels():
    method = tiny_method("single")
    assert method.network.branches == 1
    assert method.outputs == ("top",)
    seen = batch(2, 2)
    terms, top, bottom = evaluated("single", seen)
    np.testing.assert_array_equal(top, bottom[:2])
    partial = torch.cat([seen.full.partial, seen.partial.partial]).numpy()
    assert terms["weak"].value.item() == pytest.approx(plain_cross_entropy(bottom, partial), rel=1e-5)


def test_two_branches_answer_with_the_student_first_and_start_apart():
    method = tiny_method("decoupled").eval()
    assert method.outputs == ("bottom", "top", "ensemble")
    assert method.network.branches == 2
    image = batch().full.image
    top, bottom = (logits.softmax(dim=1) for logits in method.network(image))
    found = method.predict(image)
    torch.testing.assert_close(found, {"bottom": bottom, "top": top, "ensemble": (top + bottom) / 2})
    assert not torch.equal(top, bottom)


@pytest.mark.parametrize(("wanted", "run"), [("bottom", [1]), ("top", [0]), ("ensemble", [0, 1])])
def test_a_branch_that_nobody_asks_for_is_not_computed(decoded, wanted, run):
    method = tiny_method("decoupled").eval()
    assert list(method.predict(batch().full.image, [wanted])) == [wanted]
    assert decoded == run


def test_a_coarser_level_learns_every_other_voxel_at_half_the_weight():
    seen = batch(2, 2)
    method = tiny_method("kl-ent", weights={"dice": 1.0, "cutmix": 1.0}, deep=1).eval()
    (top, half), _ = method._answers(seen)
    label = seen.full.full.numpy()
    found = method(seen, 0.5)["full"].value.item()
    levels = ((top, label), (half, label[:, ::2, ::2]))
    fine, coarse = (plain_cross_entropy(logits.detach().double().numpy(), of) for logits, of in levels)
    assert found == pytest.approx(fine + coarse / 2, rel=1e-5)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_coarser_levels_learn_in_every_method_and_never_answer(name):
    seen = batch(2, 2, 2)
    mixes = "cutmix" in terms_of(name)
    method = tiny_method(name, weights={"dice": 1.0, **({"cutmix": 1.0} if mixes else {})}, deep=1)
    total(method(seen, 0.5)).backward()
    heads = {key: value for key, value in method.named_parameters() if "deep_heads" in key and value.requires_grad}
    assert heads
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in heads.values())
    method.eval()
    before = method.predict(seen.full.image)
    with torch.no_grad():
        for key, value in method.named_parameters():
            if "deep_heads" in key:
                value.add_(1.0)
    for output, probs in method.predict(seen.full.image).items():
        assert torch.equal(probs, before[output])
