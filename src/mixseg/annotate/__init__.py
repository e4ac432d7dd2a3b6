"""What to do with the scans that are not finished: labels for them that keep what was drawn."""
