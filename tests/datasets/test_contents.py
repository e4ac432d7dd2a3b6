from dataclasses import replace

import numpy as np

from mixseg.datasets import formats
from mixseg.datasets.contents import shows_foreground
from scans import AFFINE, write_case


def test_a_mask_shows_what_it_has_a_voxel_of(tmp_path):
    case = write_case(tmp_path, "p0", shape=(20, 24, 3))
    assert shows_foreground(case)
    assert not shows_foreground(replace(case, full=None))
    path = case.full.path
    mask = np.zeros((20, 24, 3), np.uint8)
    formats.write(path, mask, affine=AFFINE)
    assert not shows_foreground(case)
    mask[3, 4, 2] = 2
    formats.write(path, mask, affine=AFFINE)
    assert shows_foreground(case)
    assert shows_foreground(case, ["LV", "Myo"])
    assert not shows_foreground(case, ["LV"])


def test_of_a_mask_that_cannot_be_read_others_tell_what_is_wrong(tmp_path):
    case = write_case(tmp_path, "p0")
    case.full.path.write_bytes(b"cut short")
    assert shows_foreground(case)
