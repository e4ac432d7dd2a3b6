"""Slices in chunks: as if there were none."""

import pytest
import torch

from mixseg.data.intensity import normalise
from mixseg.inference.sliding_window import SLICES_AT_ONCE, Forward, Grey, predict_slices
from pointwise import Pointwise


@pytest.mark.parametrize("count", [1, 31, 32, 33, 65])
@pytest.mark.parametrize("intensity", ["unit", "zscore"])
def test_slices_in_chunks_are_those_at_once(count, intensity):
    method = Pointwise()
    image = torch.randint(0, 256, (count, 2, 4, 4), dtype=torch.uint8)[:, :1]
    mean, std = torch.rand(count, 1) * 100, torch.rand(count, 1) * 20 + 1
    chunks = list(predict_slices(Forward(method, intensity), Grey(image, mean, std)))
    assert all(len(found["bottom"]) <= SLICES_AT_ONCE for _, found in chunks)
    at_once = method.predict(normalise(image, mean, std, intensity))
    for name, probs in at_once.items():
        torch.testing.assert_close(torch.cat([found[name] for _, found in chunks]), probs)
    for some, found in chunks:
        torch.testing.assert_close(found["bottom"], at_once["bottom"][some])
