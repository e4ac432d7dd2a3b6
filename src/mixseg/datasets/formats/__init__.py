"""Volume <-> nii, nrrd, seg.nrrd, mha, png, h5 and DICOM, with its geometry.

The home of nibabel, SimpleITK, h5py, pydicom and highdicom.
"""

from mixseg.datasets.formats.base import HDF5, SEGMENTS, SUFFIXES, TRANSPOSED, is_dicom, stem, suffix
from mixseg.datasets.formats.geometry import Geometry, same_geometry
from mixseg.datasets.formats.label_maps import count_ids, count_layers, count_shared, read_ids, read_labels
from mixseg.datasets.formats.peek import declares_labels, leading
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
    "count_layers",
    "count_shared",
    "declares_labels",
    "h5_keys",
    "is_dicom",
    "leading",
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
