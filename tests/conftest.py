"""Fixtures that several test files share."""

import os
from pathlib import Path

import pytest

# Tiny networks: further threads only get into the way of tests that run beside these. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from mixseg.core import workers

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _the_same_precision_on_every_machine():
    """Training here is in fp32 where nothing else is asked for, also on a CPU that has bf16."""
    with pytest.MonkeyPatch.context() as patch:
        for ask in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
            patch.setattr(torch.cpu, ask, lambda: False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _a_handful_of_scans_is_prepared_in_this_process():
    """Worker processes take seconds to start and the scans of a test none: tests of processes ask for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "FEW", 100)
        yield


@pytest.fixture
def unpainted(monkeypatch):
    """Figures of reports are made, and not painted, which takes most of the time: for tests of words and files."""
    from matplotlib.figure import Figure  # here, so that tests of other things need not wait for it
    from PIL import Image

    def save(figure, target, **_):
        Image.new("L", (1, 1)).save(target, format="png")

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture
def decoded(monkeypatch):
    """The branches that networks decode, in order."""
    from mixseg.networks import Network

    branches, decode = [], Network.decode_features

    def noted(self, features, branch):
        branches.append(branch)
        return decode(self, features, branch)

    monkeypatch.setattr(Network, "decode_features", noted)
    return branches


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The public scans (acdc/, la/, splits.json), which are never part of the repository."""
    folder = Path(os.environ.get("MIXSEG_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "splits.json").is_file():
        pytest.skip("no real scans here: set MIXSEG_REAL_DATA to a folder with acdc/, la/ and splits.json")
    return folder
