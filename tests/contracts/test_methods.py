"""What every row of METHODS promises, in 2D and in 3D."""

import math
from contextlib import nullcontext

import pytest
import torch

from discs import batch, part, tiny_method, total, train
from mixseg.core.types import IGNORE
from mixseg.methods import METHODS
from mixseg.methods.ema import EMATeacher
from mixseg.networks import Network

every_method = pytest.mark.parametrize("name", list(METHODS))
in_2d_and_3d = pytest.mark.parametrize("dims", [2, 3])

PROGRESS = 0.3  # every schedule has begun


def assert_finite_scalars(terms, name):
    assert set(terms) <= set(METHODS[name].weights)
    for term in terms.values():
        assert term.value.shape == ()
        assert math.isfinite(term.value.item())
        assert math.isfinite(term.weight)


@every_method
@in_2d_and_3d
def test_all_kinds_together_give_every_term(name, dims):
    terms = tiny_method(name, dims)(batch(2, 2, 1, dims=dims), PROGRESS)
    assert_finite_scalars(terms, name)
    assert set(terms) == set(METHODS[name].weights)


@every_method
@in_2d_and_3d
@pytest.mark.parametrize("rows", [(0, 2, 0), (0, 0, 2), (0, 1, 1)])
def test_without_full_masks_the_supervised_terms_are_absent(name, dims, rows):
    terms = tiny_method(name, dims)(batch(*rows, dims=dims), PROGRESS)
    assert_finite_scalars(terms, name)
    assert not {"full", "distill"} & set(terms)


@every_method
@in_2d_and_3d
def test_with_full_masks_alone_the_unsupervised_terms_are_absent(name, dims):
    terms = tiny_method(name, dims)(batch(2, 0, 0, dims=dims), PROGRESS)
    assert_finite_scalars(terms, name)
    assert "full" in terms
    assert not {"entropy", "consistency", "global", "local", "self-paced"} & set(terms)


@every_method
@in_2d_and_3d
def test_empty_partial_maps_are_no_labels_and_no_error(name, dims):
    seen = batch(2, 2, dims=dims)
    empty = [some._replace(partial=torch.full_like(some.partial, IGNORE)) for some in seen]
    terms = tiny_method(name, dims)(seen._make(empty), PROGRESS)
    assert_finite_scalars(terms, name)
    if "weak" in terms:
        assert terms["weak"].value.item() == 0


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.sees != "mixed"])
def test_a_method_that_may_not_see_partial_labels_reads_none(name):
    method = tiny_method(name)
    torch.manual_seed(0)
    seen = batch(2, 2)
    expected = total(method(seen, PROGRESS)).item()
    method = tiny_method(name)
    torch.manual_seed(0)
    scrambled = seen.partial._replace(partial=1 - seen.partial.full // IGNORE, full=seen.partial.full * 0)
    assert total(method(seen._replace(partial=scrambled), PROGRESS)).item() == expected


@every_method
@in_2d_and_3d
def test_gradients_reach_all_that_learns_and_nothing_else(name, dims):
    method = tiny_method(name, dims)
    total(method(batch(2, 2, 1, dims=dims), PROGRESS)).backward()
    teachers = {id(p) for module in method.modules() if isinstance(module, EMATeacher) for p in module.parameters()}
    for key, parameter in method.named_parameters():
        assert parameter.requires_grad == (id(parameter) not in teachers), key
        if not parameter.requires_grad:
            assert parameter.grad is None, key
        else:
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all(), key
            # A bias before a BatchNorm is the one thing without effect.
            assert parameter.ndim == 1 or parameter.grad.abs().sum() > 0, key


@every_method
@in_2d_and_3d
def test_predictions_are_probabilities_of_the_size_of_the_image(name, dims):
    method = tiny_method(name, dims, in_channels=2, classes=3).eval()
    image = part(2, dims, channels=2).image
    found = method.predict(image)
    assert tuple(found) == method.outputs
    for probs in found.values():
        assert probs.shape == (2, 3, *image.shape[2:])
        assert probs.min() >= 0
        torch.testing.assert_close(probs.sum(dim=1), torch.ones(2, *image.shape[2:]))


@every_method
def test_an_output_by_itself_is_what_it_is_among_all(name):
    method = tiny_method(name).eval()
    image = part(2, 2).image
    every = method.predict(image)
    for output in method.outputs:
        torch.testing.assert_close(method.predict(image, [output]), {output: every[output]}, rtol=0, atol=0)
    assert tuple(method.predict(image, method.outputs[::-1])) == method.outputs, "the answer first"


@every_method
def test_predicting_changes_nothing(name):
    method = tiny_method(name).eval()
    before = {key: value.clone() for key, value in method.state_dict().items()}
    image = part(3, 2).image
    first = method.predict(image)
    torch.testing.assert_close(method.predict(image), first, rtol=0, atol=0)
    torch.testing.assert_close(method.state_dict(), before, rtol=0, atol=0)
    # Nor does the answer for one image depend on its neighbours.
    alone = method.predict(image[:1])
    for output, probs in first.items():
        torch.testing.assert_close(alone[output], probs[:1], rtol=1e-5, atol=1e-6)


@every_method
@in_2d_and_3d
def test_another_instance_predicts_the_same_after_loading_the_state(name, dims):
    method, other = tiny_method(name, dims, seed=0), tiny_method(name, dims, seed=1)
    train(method, batch(2, 2, dims=dims), steps=2, progress=PROGRESS)
    image = part(2, dims, seed=9).image
    expected = method.eval().predict(image)
    other.eval()
    assert any(not torch.equal(other.predict(image)[key], value) for key, value in expected.items())
    other.load_state_dict(method.state_dict())
    torch.testing.assert_close(other.predict(image), expected, rtol=0, atol=0)


@every_method
def test_no_two_parameters_or_buffers_share_storage(name):
    method = tiny_method(name)
    tensors = [*method.parameters(), *method.buffers()]
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)


@every_method
@pytest.mark.parametrize(("dims", "side"), [(2, 32), (3, 8)])
def test_fifteen_steps_lower_the_loss(name, dims, side):
    method = tiny_method(name, dims, dropout=0.1)
    losses = train(method, batch(2, 2, dims=dims, side=side), steps=15, progress=PROGRESS)
    assert sum(losses[-3:]) < sum(losses[:3])


@every_method
@pytest.mark.parametrize(("dims", "side"), [(2, 16), (3, 8)])
def test_two_runs_with_one_seed_are_bit_equal(name, dims, side):
    states = []
    for _ in range(2):
        method = tiny_method(name, dims)
        train(method, batch(2, 1, 1, dims=dims, side=side), steps=3, progress=PROGRESS)
        states.append(method.state_dict())
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)


@every_method
@in_2d_and_3d
def test_a_step_never_waits_for_a_value(name, dims, monkeypatch):
    # A tensor on "meta" has no values: reading one, or branching on one, is an error, as it is a pause on a GPU.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # which "meta" does not know
    method = tiny_method(name, dims).to("meta")
    seen = batch(2, 1, 1, dims=dims)
    total(method(seen._make(type(some)(*(t.to("meta") for t in some)) for some in seen), PROGRESS)).backward()
    method.after_step(3, PROGRESS)


@every_method
def test_half_precision_keeps_the_terms_in_float32(name):
    method = tiny_method(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        terms = method(batch(2, 1, 1), PROGRESS)
    assert_finite_scalars(terms, name)
    assert all(term.value.dtype == torch.float32 for term in terms.values())
    total(terms).backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(probs.dtype == torch.float32 for probs in method.eval().predict(part(1, 2).image).values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at it itself
@pytest.mark.parametrize("name", ["kl-ent", "ua-mt", "glmi", "ssco"])
def test_compiled_networks_learn_the_same(name):
    plain, compiled = tiny_method(name), tiny_method(name)
    for network in (module for module in compiled.modules() if isinstance(module, Network)):
        for one in (network.encoder, *network.decoders):
            one.compile(dynamic=False, backend="aot_eager", fullgraph=True)
    seen = batch(2, 0, 2)
    losses = [train(method, seen, steps=3, progress=PROGRESS) for method in (plain, compiled)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
