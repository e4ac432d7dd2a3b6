"""partial_labels."""
