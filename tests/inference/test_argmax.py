"""The class that wins, beside argmax."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mixseg.inference.predictor import argmax


@given(
    classes=st.integers(1, 6),
    dim=st.integers(0, 3),
    levels=st.sampled_from([2, 3, 1000]),  # few levels make ties
    seed=st.integers(0, 2**16),
    layout=st.sampled_from([torch.contiguous_format, torch.channels_last]),
)
def test_it_is_the_first_of_the_highest(
    classes: int, dim: int, levels: int, seed: int, layout: torch.memory_format
) -> None:
    shape = [2, 3, 4, 5]
    shape[dim] = classes
    probs = torch.randint(levels, shape, generator=torch.Generator().manual_seed(seed)) / levels
    highest = probs.amax(dim=dim, keepdim=True)
    # The first index at which the highest value stands, found by counting those before it.
    expected = (probs == highest).cumsum(dim=dim).eq(0).sum(dim=dim)
    assert torch.equal(argmax(probs.contiguous(memory_format=layout), dim=dim), expected.to(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_in_the_precision_that_a_network_answers_in(dtype: torch.dtype) -> None:
    probs = torch.rand((4, 3, 17, 9), generator=torch.Generator().manual_seed(0)).softmax(dim=1).to(dtype)
    top, second = probs.topk(2, dim=1).values.unbind(dim=1)
    alone = top > second  # argmax names any of equals
    assert torch.equal(argmax(probs, dim=1)[alone], probs.argmax(dim=1).to(torch.uint8)[alone])
    assert alone.float().mean() > 0.9
