"""A run on disk: its config, its folder, its checkpoints and log, and the device that it computes on."""
