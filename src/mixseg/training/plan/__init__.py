"""What a run's settings come to on these scans and on this machine."""
