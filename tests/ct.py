"""A CT-like scan by formula: an organ of 20 HU more than what lies round it, bone, and an implant of metal."""

import numpy as np


def ct_like(seed=0, shape=(48, 48, 24), noise=12.0, metal=True):
    """The image in HU, int16, and the mask of the organ."""
    rng = np.random.default_rng(seed)
    i, j, k = (np.linspace(-1, 1, n).reshape(-1, *[1] * (2 - axis)) for axis, n in enumerate(shape))
    body = (i / 0.85) ** 2 + (j / 0.7) ** 2 < 1
    fat = body & ~((i / 0.75) ** 2 + (j / 0.6) ** 2 < 1)
    at = rng.uniform(-0.15, 0.15, 2)
    organ = ((i - at[0]) / 0.35) ** 2 + ((j - at[1]) / 0.3) ** 2 + (k / 0.8) ** 2 < 1
    bone = (i / 0.12) ** 2 + ((j + 0.5) / 0.12) ** 2 < 1
    image = np.full(shape, -1000.0)
    for where, value in ((body, 40), (fat, -100), (organ, 60), (bone, 500)):
        image[np.broadcast_to(where, shape)] = value
    image += noise * rng.standard_normal(shape)
    if metal:
        image[np.broadcast_to(((i - 0.5) / 0.05) ** 2 + (j / 0.05) ** 2 < 1, shape)] = 20000
    return np.rint(np.maximum(image, -1024)).astype(np.int16), organ.astype(np.uint8)
