"""Nouns and plumbing: types, errors, messages, atomic files, progress, signals; numpy at most."""
