"""A run from its scans to its scores: the plan, the loop, and what feeds and watches it."""
