"""Volume <-> nii, nrrd, seg.nrrd, mha, png and h5, with its geometry. The home of nibabel, SimpleITK and h5py."""

from mixseg.datasets.formats.base import HDF5, SEGMENTS, SUFFIXES, TRANSPOSED, stem, suffix
from mixseg.datasets.formats.geometry import Geometry, same_geometry
from mixseg.datasets.formats.label_maps import count_ids, read_ids, read_labels
from mixseg.datasets.formats.volumes import (
    h5_keys,
    read,
    read_geometry,
    read_image,
    read_segments,
    segment_names,
    write,
)

__all__ = [
    "HDF5",
    "SEGMENTS",
    "SUFFIXES",
    "TRANSPOSED",
    "Geometry",
    "count_ids",
    "h5_keys",
    "read",
    "read_geometry",
    "read_ids",
    "read_image",
    "read_labels",
    "read_segments",
    "same_geometry",
    "segment_names",
    "stem",
    "suffix",
    "write",
]
