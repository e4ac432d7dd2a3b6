"""Means over the voxels that count."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.methods.losses import labelled_mean, masked_sum_and_count

VALUES = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]], dtype=torch.float64)
MASK = torch.tensor([[True, False, True], [False, True, False]])


def test_the_mean_counts_only_the_voxels_of_the_mask():
    assert labelled_mean(VALUES, MASK) == (1 + 4 + 16) / 3


def test_an_empty_mask_gives_zero_with_zero_gradients():
    values = VALUES.clone().requires_grad_()
    mean = labelled_mean(values, torch.zeros_like(MASK))
    mean.backward()
    assert mean == 0
    assert (values.grad == 0).all()


def test_a_batch_without_rows_gives_zero():
    assert labelled_mean(torch.zeros(0, 4, 4), torch.zeros(0, 4, 4, dtype=torch.bool)) == 0


def test_a_value_that_is_not_finite_does_no_harm_outside_the_mask():
    values = torch.where(MASK, VALUES, torch.tensor(torch.nan, dtype=torch.float64)).requires_grad_()
    mean = labelled_mean(values, MASK)
    mean.backward()
    assert mean == 7
    assert torch.equal(values.grad, MASK.double() / 3)


def test_half_precision_values_are_summed_in_float32():
    values = torch.full((1, 4096), 0.1, dtype=torch.bfloat16)
    total, count = masked_sum_and_count(values, torch.ones_like(values, dtype=torch.bool))
    assert total.dtype == count.dtype == torch.float32
    assert float(total) == pytest.approx(4096 * float(values[0, 0]), rel=1e-5)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_processes_that_average_their_gradients_get_the_mean_over_the_voxels_of_all(chosen):
    mask = torch.tensor(chosen).reshape(2, 3)
    count = torch.stack([masked_sum_and_count(VALUES[rank], mask[rank])[1] for rank in range(2)]).mean()
    ranks = [labelled_mean(VALUES[rank], mask[rank], count=count) for rank in range(2)]
    torch.testing.assert_close(torch.stack(ranks).mean(), labelled_mean(VALUES, mask))
