"""Label maps against reference masks: metrics, tables of scores, files paired by name."""
