import dataclasses
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.core.errors import MixsegError
from mixseg.data.prepare.archive import pack, unpack
from mixseg.data.prepare.codec import decode_image, decode_labels, encode_image, encode_labels
from mixseg.data.prepare.files import prepare
from mixseg.data.prepare.options import PrepareOptions
from scans import write_case, write_cases
from stores import array_files, same_arrays

SMALL = PrepareOptions(size=(32, 28))
sides = st.integers(1, 21)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(sides, sides, sides, st.integers(1, 256), st.integers(0, 99))
def test_volumes_of_any_size_and_grey_values_come_back_exactly(i, j, k, levels, seed):
    rng = np.random.default_rng(seed)
    grey = rng.choice(256, levels, replace=False).astype(np.uint8)
    volume = grey[rng.integers(0, levels, (i, j, k))]
    assert (decode_image(encode_image(volume), volume.shape) == volume).all()
    assert (decode_labels(encode_labels(volume), volume.shape) == volume).all()


@pytest.mark.parametrize("slope", [(3, 5, 0), (2, 1, 2)])
def test_smooth_volumes_with_noise_take_little_more_than_their_noise(slope):
    rng = np.random.default_rng(0)
    smooth = np.tensordot(slope, np.indices((64, 64, 20)), axes=1) / 4 + 20
    volume = (smooth + rng.integers(0, 4, smooth.shape)).astype(np.uint8)
    bits = 8 * len(encode_image(volume)) / volume.size
    assert bits < 2 + 0.9  # 2 bits of noise; a guess from noisy neighbours and rounding add the rest


@pytest.mark.parametrize(
    "options",
    [
        SMALL,
        dataclasses.replace(SMALL, target=("LV",), partial="erosion-3x3"),
        dataclasses.replace(SMALL, partial="points", seed=3),
        PrepareOptions(size=None),
        PrepareOptions(size=(9, 28), spacing=(1.7, 1.1), partial="scribbles"),
        PrepareOptions(size=(24, 24), long_side=30),
        PrepareOptions(dims=3, spacing=(1.1, 2.0, 4.0)),
        PrepareOptions(dims=3, partial="scribbles"),
    ],
)
def test_unpacked_scans_equal_prepared_ones(tmp_path, options):
    cases = [*write_cases(tmp_path / "in", 1), write_case(tmp_path / "in", "x", full=False, shape=(17, 30, 4))]
    cases.append(write_case(tmp_path / "in", "y", full=False, drawn=False, split="test"))
    here = prepare(cases, tmp_path / "here", options, workers=1)
    there = unpack(pack(cases, tmp_path / "scans.mixseg", workers=1), tmp_path / "there", options, workers=1)
    assert there.index == here.index  # with the hash of the arrays in it
    assert same_arrays(here, there)


def test_several_channels_and_clipped_intensities_travel_too(tmp_path):
    first, second = (write_case(tmp_path / "in", name) for name in "ab")
    cases = [dataclasses.replace(first, image=(*first.image, *second.image))]
    options = dataclasses.replace(SMALL, clip=(2.0, 98.0))
    here = prepare(cases, tmp_path / "here", options, workers=1)
    archive = pack(cases, tmp_path / "scans.mixseg", options, workers=1)
    assert unpack(archive, tmp_path / "there", options, workers=1).index == here.index
    assert unpack(archive, tmp_path / "unasked", SMALL, workers=1).index == here.index
    with pytest.raises(MixsegError, match=r"packed with clip \(2.0, 98.0\), not \(1.0, 99.0\)"):
        unpack(archive, tmp_path / "other", dataclasses.replace(SMALL, clip=(1.0, 99.0)))


def test_the_same_scans_make_the_same_archive_in_one_process_or_two(tmp_path):
    cases = write_cases(tmp_path / "in", 3)
    one = pack(cases, tmp_path / "one.mixseg", workers=1)
    two = pack(cases, tmp_path / "two.mixseg", workers=2)
    assert one.read_bytes() == two.read_bytes()
    here = unpack(one, tmp_path / "a", SMALL, workers=1)
    assert unpack(two, tmp_path / "b", SMALL, workers=2).index == here.index


def test_an_archive_is_unpacked_once(tmp_path):
    archive = pack([write_case(tmp_path / "in", "a")], tmp_path / "scans.mixseg", workers=1)
    unpack(archive, tmp_path / "out", SMALL, workers=1)
    made = array_files(tmp_path / "out")
    unpack(archive, tmp_path / "out", SMALL, workers=1)
    assert len(made) == 3
    assert array_files(tmp_path / "out") == made


def test_a_damaged_archive_is_one_sentence_and_leaves_nothing(tmp_path):
    archive = pack([write_case(tmp_path / "in", "a")], tmp_path / "scans.mixseg", workers=1)
    whole = archive.read_bytes()
    for content in (b"", b"no archive", whole[: len(whole) // 2], whole[:200] + b"\0" * 50 + whole[250:]):
        archive.write_bytes(content)
        with pytest.raises(MixsegError, match=r"scans.mixseg is damaged"):
            unpack(archive, tmp_path / "out", SMALL, workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "scans.mixseg"]
    with pytest.raises(MixsegError, match="does not exist"):
        unpack(tmp_path / "gone.mixseg", tmp_path / "out", SMALL)
    with zipfile.ZipFile(archive, "w") as other:
        other.writestr("index.json", '{"format": "else"}')
    with pytest.raises(MixsegError, match="not packed by this version"):
        unpack(archive, tmp_path / "out", SMALL)
