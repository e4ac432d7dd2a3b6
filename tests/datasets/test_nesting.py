"""Which structure is a part of which, by the segments that overlap in finished masks."""

import numpy as np
import pytest

from mixseg.core.types import Case, Layer, Source
from mixseg.datasets import formats
from mixseg.datasets.formats.label_files import FORMATS, Segmented
from mixseg.datasets.nesting import nested

CLASSES = ("background", "liver", "lesion", "cyst", "vessel")


@pytest.fixture
def scan(tmp_path):
    """A function that writes segments of these sizes and says what case they are of."""
    formats.write(tmp_path / "image.nii.gz", np.zeros((20, 10, 4), np.int16), affine=np.eye(4))

    def make(number, inside, vessel_in_liver=0):
        labels = np.zeros((20, 10, 4), np.uint8)
        labels[:10] = 1
        labels[2:5, 2:6] = 2
        labels[3, 3, 1:3] = 3
        labels[10 - vessel_in_liver : 14, 0] = 4
        image = Source((tmp_path / "image.nii.gz",))
        path = tmp_path / f"{number}.seg.nrrd"
        FORMATS["seg.nrrd"].write(path, Segmented(labels, CLASSES, image, inside))
        # Segments are numbered by their places; the smaller ones count first, as where a folder is read.
        order = (3, 2, 4, 1)
        layers = tuple(Layer(path, value) for value in order)
        ids = {0: 0} | dict(enumerate(order, start=1))
        return Case(f"{number}", "p", (image,), full=Source((path,), ids=ids, layers=layers), classes=CLASSES)

    return make


def test_an_inner_structure_belongs_to_the_smallest_that_holds_it(scan):
    assert nested([scan(1, {2: 1, 3: 2})]) == {"cyst": "lesion", "lesion": "liver"}


def test_what_only_touches_or_overlaps_in_part_is_no_part(scan):
    assert nested([scan(1, {2: 1}, vessel_in_liver=2)]) == {"lesion": "liver"}
    assert nested([scan(1, {4: 1, 2: 1}, vessel_in_liver=2)]) == {"lesion": "liver", "vessel": "liver"}


def test_all_masks_count_together_and_a_label_map_of_one_layer_says_nothing(scan):
    apart, together = scan(1, {}), scan(2, {2: 1})
    assert nested([apart]) == {}
    assert nested([apart, together]) == {}, "half of the lesions lie outside"
    assert nested([Case("x", "x", apart.image, classes=CLASSES)]) == {}
