"""The format ``model``: one file that mixseg takes wherever it takes a run."""

from __future__ import annotations

from pathlib import Path

from mixseg.export.card import card
from mixseg.export.exported import Exported
from mixseg.runs.model_file import write_model_file


def export_model(exported: Exported, out: Path) -> None:
    """Write a model file."""
    weights = exported.predictor.method.state_dict()
    write_model_file(out, exported.config, exported.about, weights, card(exported))
