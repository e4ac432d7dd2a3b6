"""A run on disk: config, folder, checkpoints, log, provenance, and the device it computes on."""
