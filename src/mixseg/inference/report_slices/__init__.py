"""The few slices that a report shows of a run: its worst and best scans, and some that every run of a split keeps.

They are written where the scans are, on a bare node too (numpy and torch alone), and read where the report is made.
"""

from mixseg.inference.report_slices.cuts import LONGEST_SIDE, Choice, Example, Montage, Plane, cut, planes
from mixseg.inference.report_slices.file import CHECKPOINT, choose, choose_common, read_examples, write_examples

__all__ = [
    "CHECKPOINT",
    "LONGEST_SIDE",
    "Choice",
    "Example",
    "Montage",
    "Plane",
    "choose",
    "choose_common",
    "cut",
    "planes",
    "read_examples",
    "write_examples",
]
