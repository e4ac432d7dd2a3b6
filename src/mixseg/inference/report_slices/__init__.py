"""The few slices that a report shows of a run: its worst and best scans, and some that every run of a split keeps.

They are written where the scans are, on a bare node too (numpy and torch alone), and read where the report is made.
"""

from mixseg.inference.report_slices.choices import CHECKPOINT, Choice, choose, choose_common
from mixseg.inference.report_slices.cuts import LONGEST_SIDE, Example, Plane, cut, planes
from mixseg.inference.report_slices.file import read_examples, write_examples
from mixseg.inference.report_slices.montage import Montage

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
