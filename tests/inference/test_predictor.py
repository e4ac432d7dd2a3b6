"""An image reaches the training grid in one way, whoever brings it there."""

import numpy as np
import pytest

from mixseg.core.errors import MixsegError
from mixseg.data.arrays import make_scan
from mixseg.data.prepare.files import prepare
from mixseg.datasets import formats
from mixseg.inference.answer import read_image
from mixseg.inference.predictor import Predictor
from mixseg.runs.config import make_config
from scans import CLASSES, write_case

GRIDS = {
    "stretched": {"dims": 2, "size": (16, 18)},
    "resampled and cropped": {"dims": 2, "size": (32, 20), "spacing": (1.0, 1.0), "clip": (2, 98)},
    "volume": {"dims": 3, "spacing": (2.0, 2.0, 4.0), "clip": (1, 99)},
    "one class": {"dims": 2, "size": (16, 16), "target": ("LV",)},
}


def predictor(**settings):
    """All that bringing an image to the grid asks for: there is no network."""
    config = make_config(method="lower-bound", preset="quick", **settings)
    return Predictor(None, config, None, CLASSES, channels=1)


@pytest.mark.parametrize("settings", GRIDS.values(), ids=GRIDS)
def test_an_image_is_prepared_as_the_store_holds_it_from_a_file_and_from_an_array(tmp_path, settings):
    case = write_case(tmp_path / "in", "a")
    ready = predictor(**settings)
    prepared = prepare([case], tmp_path / "out", ready.config.data.prepare_options, workers=1)
    entry, volume = prepared.cases[0], formats.read(case.image[0])
    grey = ready.config.data.prepare_options.grey_range
    array = make_scan("a", volume.array, spacing=volume.spacing, grey=grey)
    for native in (read_image(case, grey=grey), array):
        scan = ready.prepare(native)
        assert np.array_equal(scan.image, prepared.image(entry))
        assert (scan.mean, scan.std, scan.full, scan.partial) == (entry.mean, entry.std, None, None)
        assert (scan.case.field, scan.case.low, scan.case.high) == (entry.field, entry.low, entry.high)
        np.testing.assert_allclose(scan.spacing, entry.spacing, rtol=1e-6)
        assert scan.case.header.shape == entry.header.shape


def test_an_image_with_other_channels_is_refused(tmp_path):
    image = np.zeros((2, 8, 8, 3), np.uint8)
    image[:, 2:] = 9
    with pytest.raises(MixsegError, match="the image has 2 channels, and the run was trained on 1"):
        predictor(size=(16, 16)).prepare(make_scan("the image", image))
