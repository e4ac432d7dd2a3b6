"""Slicer's segmentations: what we write, slicerio reads; what Slicer writes of names, colours and states, we read."""

import gzip

import nibabel as nib
import numpy as np
import pytest
import slicerio

from mixseg.core.colours import STRUCTURES, shares, structure_colour
from mixseg.datasets import formats

NAMES = {1: "liver", 2: "lesion", 3: "portal vein: left", 4: "absent"}


def oblique():
    """Voxel index to mm in RAS+, axes turned by a third of a radian and of three lengths."""
    turn = np.array([[np.cos(0.3), -np.sin(0.3), 0], [np.sin(0.3), np.cos(0.3), 0], [0, 0, 1]])
    tilt = np.array([[1, 0, 0], [0, np.cos(0.2), -np.sin(0.2)], [0, np.sin(0.2), np.cos(0.2)]])
    result = np.eye(4)
    result[:3, :3] = turn @ tilt @ np.diag([-0.9, -1.1, 3.2])
    result[:3, 3] = (-31.5, 12.25, 7.75)
    return result


@pytest.fixture
def written(tmp_path):
    """A label map of three structures and a fourth that is nowhere, like an oblique NIfTI image."""
    labels = np.zeros((9, 8, 5), np.uint8)
    labels[1:7, 2:6, 1:4] = 1
    labels[3, 3, 2] = 2
    labels[8, 0:2, 4] = 3
    nib.save(nib.Nifti1Image(np.zeros(labels.shape, np.int16), oblique()), tmp_path / "image.nii.gz")
    path = tmp_path / "image.seg.nrrd"
    formats.write(path, labels, like=tmp_path / "image.nii.gz", names=NAMES, colours={2: "#FF0080"})
    return path, labels


def test_slicerio_finds_names_colours_voxels_and_place(written):
    path, labels = written
    found = slicerio.read_segmentation(str(path))
    assert [each["name"] for each in found["segments"]] == list(NAMES.values())
    assert [each["labelValue"] for each in found["segments"]] == [1, 2, 3, 4]
    assert [each["id"] for each in found["segments"]] == ["Segment_1", "Segment_2", "Segment_3", "Segment_4"]
    assert [each["layer"] for each in found["segments"]] == [0, 0, 0, 0]
    colours = [STRUCTURES[0], "#FF0080", STRUCTURES[2], STRUCTURES[3]]
    for each, colour in zip(found["segments"], colours, strict=True):
        assert each["color"] == pytest.approx(shares(colour), abs=1e-6)
        assert not {"terminology", "TerminologyEntry"} & {*each, *each.get("tags", {})}
        assert each["status"] == "inprogress"
    assert found["segments"][0]["extent"] == [1, 6, 2, 5, 1, 3]
    assert found["segments"][2]["extent"] == [8, 8, 0, 1, 4, 4]
    assert found["segments"][3]["extent"] == [0, -1, 0, -1, 0, -1]
    assert found["containedRepresentationNames"] == ["Binary labelmap"]
    assert found["masterRepresentation"] == "Binary labelmap"
    assert (found["voxels"] == labels).all()
    np.testing.assert_allclose(np.diag([-1, -1, 1, 1]) @ found["ijkToLPS"], oblique(), atol=1e-6)


def test_slicerio_takes_single_segments_out_by_name(written):
    path, labels = written
    whole = slicerio.read_segmentation(str(path))
    one = slicerio.extract_segments(whole, [("portal vein: left", 5)])
    assert ((one["voxels"] == 5) == (labels == 3)).all()


def test_segments_come_back_with_names_colours_and_states(written):
    found = formats.read_segments(written[0])
    assert {number: each.name for number, each in found.items()} == NAMES
    assert [each.colour for each in found.values()] == [STRUCTURES[0], "#FF0080", STRUCTURES[2], STRUCTURES[3]]
    assert {each.status for each in found.values()} == {"inprogress"}


def slicer_file(path, meta):
    """A segmentation of one voxel with such a header, as Slicer orders it."""
    head = ["NRRD0004", "type: unsigned char", "dimension: 3", "space: left-posterior-superior", "sizes: 1 1 2"]
    head += ["space directions: (1,0,0) (0,1,0) (0,0,1)", "kinds: domain domain domain", "encoding: gzip"]
    head += ["space origin: (0,0,0)", *(f"{key}:={value}" for key, value in meta.items())]
    path.write_bytes(("\n".join(head) + "\n\n").encode() + gzip.compress(bytes([7, 0])))


@pytest.mark.parametrize(
    ("about", "colour", "status"),
    [
        (
            {
                "Color": "0.501961 0.682353 1",
                "Tags": "TerminologyEntry:Tissue~SCT^8^Liver|Segmentation.Status:completed|",
            },
            "#80AEFF",
            "completed",
        ),
        ({"Color": "red", "Tags": "Segmentation.Status"}, "", ""),
        ({"Color": "1 0", "Tags": "Other.Segmentation.Status:completed|"}, "", ""),
        ({"Color": "-3 7 0.5", "Tags": ""}, "#00FF80", ""),
        ({}, "", ""),
    ],
)
def test_what_a_header_says_of_a_segment_is_read_and_nonsense_is_nothing(tmp_path, about, colour, status):
    known = {"ID": "Segment_1", "Name": "Leber", "LabelValue": "7", "Layer": "0", **about}
    slicer_file(tmp_path / "a.seg.nrrd", {f"Segment0_{key}": value for key, value in known.items()})
    (segment,) = formats.read_segments(tmp_path / "a.seg.nrrd").values()
    assert segment == ("Leber", 7, 0, colour, status)
    assert formats.segment_names(tmp_path / "a.seg.nrrd") == {1: "Leber"}


def test_other_files_have_no_segments(tmp_path):
    formats.write(tmp_path / "a.nrrd", np.ones((2, 2, 2), np.uint8))
    assert formats.read_segments(tmp_path / "a.nrrd") == {}


def test_forty_structures_have_forty_colours_that_differ():
    rgb = np.array([shares(structure_colour(index)) for index in range(1, 41)])
    apart = np.abs(rgb[:, None] - rgb[None]).sum(axis=-1) + np.eye(40)
    assert apart.min() > 0.02
    assert rgb.shape == (40, 3)
