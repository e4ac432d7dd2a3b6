"""From files to runs and back: old label maps go, and they are there as a whole or not at all."""

import numpy as np
import pytest

from mixseg import io, pipeline
from mixseg.folder import RunFolder
from mixseg.pipeline import write_predictions
from mixseg.types import Case, Source


def test_label_maps_of_an_earlier_training_do_not_stay_behind(tmp_path):
    np.savez(tmp_path / "predictions.npz")
    old = tmp_path / "predictions" / "last" / "top" / "test0.nii.gz"
    io.write(old, np.zeros((4, 4, 2), np.uint8))
    write_predictions(RunFolder(tmp_path), None, [])
    assert not old.exists()


def test_label_maps_that_were_not_all_written_are_not_there(tmp_path, monkeypatch):
    np.savez(tmp_path / "predictions.npz", **{"last/top/a": np.zeros(1), "last/top/b": np.zeros(1)})
    cases = [Case(name, name, (Source((tmp_path / name,)),)) for name in "ab"]
    written = []

    def power_cut(path, labels, like):
        if written:
            raise KeyboardInterrupt
        path.parent.mkdir(parents=True)
        path.touch()
        written.append(path)

    monkeypatch.setattr(pipeline, "to_source", lambda labels, place: labels)
    monkeypatch.setattr(pipeline.io, "write", power_cut)
    with pytest.raises(KeyboardInterrupt):
        write_predictions(RunFolder(tmp_path), {"a": None, "b": None}, cases)
    assert not (tmp_path / "predictions").exists()
