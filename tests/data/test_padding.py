"""What lies beyond a volume that is smaller than a patch: one rule for training and prediction."""

import numpy as np
import pytest
import torch

from mixseg.core.types import IGNORE
from mixseg.data.intensity import normalise
from mixseg.data.padding import inside, widen_image, widen_labels

SIZES = [((5, 7, 3), (8, 6, 4)), ((9, 9, 9), (8, 8, 8)), ((1, 1, 1), (4, 5, 6)), ((6, 10), (9, 4))]


@pytest.mark.parametrize(("size", "patch"), SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_an_image_is_widened_by_its_edge_and_labels_by_nothing(size, patch, dtype):
    image = torch.randint(0, 255, (2, *size), generator=torch.Generator().manual_seed(0)).to(dtype)
    labels = torch.randint(0, 3, size, generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    around = [(max(0, p - n) // 2, max(0, p - n) - max(0, p - n) // 2) for n, p in zip(size, patch, strict=True)]
    wide = widen_image(image, patch)
    assert wide.dtype == dtype
    assert np.array_equal(wide, np.pad(image, [(0, 0), *around], mode="edge"))
    assert np.array_equal(widen_labels(labels, patch), np.pad(labels, around, constant_values=IGNORE))
    within = inside(size, patch)
    assert torch.equal(wide[:, *within], image)
    assert torch.equal(widen_labels(labels, patch)[within], labels)


@pytest.mark.parametrize("intensity", ["unit", "zscore"])
def test_it_does_not_matter_whether_normalising_comes_first(intensity):
    image = torch.randint(0, 255, (1, 3, 4, 5), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    mean, std = torch.tensor([[100.0]]), torch.tensor([[30.0]])
    first = widen_image(normalise(image[None], mean, std, intensity)[0], (6, 6, 6))
    last = normalise(widen_image(image, (6, 6, 6))[None], mean, std, intensity)[0]
    assert torch.equal(first, last)
