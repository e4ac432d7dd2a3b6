"""Medical image segmentation from mixed supervision."""

__version__ = "0.1.0"
