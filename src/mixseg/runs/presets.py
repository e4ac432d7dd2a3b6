"""What each preset changes of the defaults of a config, by number of spatial axes. Why: docs/reference/presets.md."""

from __future__ import annotations

from typing import Any

STRONG: dict[str, Any] = {
    "norm": "instance",
    "optimizer": "adamw",
    "lr": 1e-3,
    "weight_decay": 1e-2,
    "schedule": "poly",
    "augment": "strong",
    "weights": {"weak": 0.1, "dice": 1.0, "cutmix": 1.0},
    "largest": None,
}
"""The default recipe, in slices and volumes alike."""

PRESETS: dict[str, dict[int, dict[str, Any]]] = {
    "paper": {
        2: {"steps": 3000, "lr": 1e-4, "partial": "erosion-3x3", "weak_over": "images", "compile": True},
        3: {
            "network": "vnet",
            "window": "uniform",
            "stride": (18, 18, 4),
            "intensity": "zscore",
            "steps": 6000,
            "optimizer": "sgd",
            "lr": 1e-2,
            "weight_decay": 1e-4,
            "schedule": "drops",
            "augment": "paper-3d",
            "partial": "erosion-10x10",
            "weak_over": "images",
            "compile": True,
        },
    },
    "strong": {
        2: {**STRONG, "steps": 3000, "width": 32, "compile": True},
        # A validation on volumes takes as long as a dozen steps.
        3: {
            **STRONG,
            "steps": 3000,
            "network": "vnet",
            "intensity": "zscore",
            "compile": True,
            "validate_every": 100,
        },
    },
    "quick": {
        2: {
            "steps": 600,
            "size": (64, 64),
            "width": 12,
            "depth": 3,
            "lr": 2e-3,
            "schedule": "cosine",
            "weights": {"weak": 1.0},
            "validate_every": 50,
        },
        3: {
            "network": "vnet",
            "intensity": "zscore",
            "patch": (32, 32, 32),
            "width": 4,
            "dropout": 0.1,
            "steps": 300,
            "lr": 1e-2,
            "schedule": "cosine",
            "weights": {"weak": 1.0},
            "validate_every": 50,
        },
    },
}

METHOD_WEIGHTS: dict[tuple[str, str], dict[str, float]] = {
    ("quick", "glmi"): {"global": 0.01, "local": 0.01, "consistency": 0.1},
}
"""Weights that a preset changes for one method alone. Why: docs/reference/methods/glmi.md."""
