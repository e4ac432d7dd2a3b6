"""The checksum of a checkpoint: any damage is noticed before a weight is used, and files without are read."""

import zipfile

import numpy as np
import pytest
import torch

from mixseg.runs import checksum
from mixseg.runs.checkpoint import _read, _write
from refusals import refused

CPU = torch.device("cpu")


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "last.pt"
    _write(path, {"method": {"w": torch.arange(1000.0)}, "step": 3})
    return path


@pytest.mark.parametrize("mmap", [False, True])
def test_what_was_written_is_read_by_us_by_torch_and_by_zipfile(checkpoint, mmap):
    assert _read(checkpoint, CPU, {"method"}, mmap=mmap)["step"] == 3
    assert torch.load(checkpoint, weights_only=True, mmap=mmap)["method"]["w"].sum() == 999 * 500
    with zipfile.ZipFile(checkpoint) as parts:
        assert parts.testzip() is None
        assert parts.comment.startswith(checksum.SIGN)


def test_every_flipped_bit_and_every_missing_byte_is_noticed(checkpoint):
    whole = checkpoint.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole) - checksum.COMMENT, 4):
            damaged[place] ^= 1 << int(rng.integers(8))
        checkpoint.write_bytes(damaged)
        with refused("broken-file", file=checkpoint):
            _read(checkpoint, CPU, {"method"})
    for size in (*range(len(whole) - 60, len(whole)), 0, 1, 40):
        checkpoint.write_bytes(whole[:size])
        with refused("broken-file", file=checkpoint):
            _read(checkpoint, CPU, {"method"})


def test_a_checkpoint_of_an_earlier_version_is_read_and_said_to_have_no_checksum(checkpoint, caplog):
    torch.save({"method": {"w": torch.arange(1000.0)}, "step": 3}, checkpoint)
    with caplog.at_level("INFO", logger="mixseg"):
        assert _read(checkpoint, CPU, {"method"})["step"] == 3
    assert any("no checksum" in line for line in caplog.messages)
    damaged = bytearray(checkpoint.read_bytes())
    damaged[damaged.index(np.arange(500, 510, dtype="<f4").tobytes())] ^= 4
    checkpoint.write_bytes(damaged)
    with refused("broken-file", file=checkpoint):  # the zip file's own checksum of this part
        _read(checkpoint, CPU, {"method"})


def test_a_checksum_is_given_once(checkpoint):
    with pytest.raises(ValueError, match="already"):
        checksum.append(checkpoint)
