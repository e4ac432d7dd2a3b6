"""Nouns and plumbing that every room shares, with nothing heavier than numpy."""
