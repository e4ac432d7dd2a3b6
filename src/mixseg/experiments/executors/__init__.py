"""Where the runs of an experiment compute: one module for each executor."""
