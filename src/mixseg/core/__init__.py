"""Nouns and plumbing: types, errors, messages, atomic files, progress, signals, workers; numpy is the heaviest."""
