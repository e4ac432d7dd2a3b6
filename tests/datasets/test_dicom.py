"""DICOM: where voxels lie and what they hold agrees with SimpleITK and with the tags; what makes no grid is refused."""

import shutil
from pathlib import Path

import numpy as np
import pydicom
import pytest
import SimpleITK as sitk  # noqa: N813

from dicom_files import CT, MR, RAS, blank, fill, noise, oblique, write_enhanced, write_series
from mixseg.core.errors import MixsegError
from mixseg.core.types import Source
from mixseg.datasets import formats

PLACES = {
    "straight": oblique(angles=(0, 0, 0)),
    "oblique": oblique(),
    "sagittal": oblique(angles=(np.pi / 2, 0.1, np.pi / 2)),
    "upside down": oblique(angles=(np.pi, 0, 0)),
}


def source(folder):
    return Source(tuple(sorted(path for path in folder.rglob("*") if path.is_file())))


def by_simpleitk(folder):
    """Grey values and LPS affine, read by the series reader in its own order."""
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(sitk.ImageSeriesReader.GetGDCMSeriesFileNames(str(folder)))
    image = reader.Execute()
    affine = np.eye(4)
    affine[:3, :3] = np.array(image.GetDirection()).reshape(3, 3) * image.GetSpacing()
    affine[:3, 3] = image.GetOrigin()
    return sitk.GetArrayFromImage(image).T, affine


@pytest.mark.parametrize("place", PLACES)
def test_a_series_lies_where_simpleitk_and_its_tags_put_it(tmp_path, place):
    affine, array = PLACES[place], noise()
    write_series(tmp_path / "s", array, affine, scale=(2, -1000))
    volume = formats.read(source(tmp_path / "s"))
    assert (volume.array == 2.0 * array - 1000).all()
    assert np.allclose(volume.affine, RAS @ affine, atol=1e-6)
    values, lps = by_simpleitk(tmp_path / "s")
    assert (volume.array == values).all()
    assert np.allclose(volume.affine, RAS @ lps, atol=1e-6)
    for path in (tmp_path / "s").iterdir():  # each voxel of each slice, by the formula of the standard
        tags = pydicom.dcmread(path)
        row, column = np.array(tags.ImageOrientationPatient, float).reshape(2, 3)
        i, j = 3, 4
        at = np.array(tags.ImagePositionPatient, float)
        at = at + row * tags.PixelSpacing[1] * i + column * tags.PixelSpacing[0] * j
        index = np.linalg.inv(RAS @ volume.affine) @ [*at, 1]
        assert np.allclose(index, np.rint(index), atol=1e-5)
        x, y, z = np.rint(index[:3]).astype(int)
        assert (x, y) == (i, j)
        assert volume.array[x, y, z] == 2 * tags.pixel_array[j, i] - 1000
    header = formats.read_geometry(source(tmp_path / "s"))
    assert header.shape == array.shape
    assert (header.affine == volume.affine).all()
    assert header.spacing == pytest.approx((0.9, 0.7, 3.2), rel=1e-6)


def test_frames_of_an_enhanced_file_are_sorted_by_position_and_scaled_each(tmp_path):
    array, affine = noise(), oblique()
    scales = [(1.0 + k, 0.5 * k) for k in range(5)]
    write_enhanced(tmp_path / "all.dcm", array, affine, scales=scales)
    volume = formats.read(tmp_path / "all.dcm")
    wanted = np.stack([array[:, :, k] * scales[k][0] + scales[k][1] for k in range(5)], axis=2)
    assert volume.array.dtype == np.float32
    assert np.allclose(volume.array, wanted, rtol=1e-6)
    assert np.allclose(volume.affine, RAS @ affine, atol=1e-6)


def test_simpleitk_puts_an_enhanced_file_there_too(tmp_path):
    write_series(tmp_path / "s", noise(), oblique())
    write_enhanced(tmp_path / "all", noise(), oblique())
    one, other = formats.read(source(tmp_path / "s")), formats.read(tmp_path / "all")
    assert (one.array == other.array).all()
    assert not formats.same_geometry(one, other)


@pytest.mark.parametrize(
    ("scale", "kind"),
    [((1, 0), np.int16), ((1, -1024), np.int32), ((0.5, 0), np.float32), ((1, 0.25), np.float32)],
)
def test_whole_numbers_stay_whole(tmp_path, scale, kind):
    write_series(tmp_path / "s", noise(), oblique(), scale=scale)
    array = formats.read(source(tmp_path / "s")).array
    assert array.dtype == kind
    assert (array == noise() * scale[0] + scale[1]).all()


def tilted(data, k):
    x, y, z = data.ImagePositionPatient
    data.ImagePositionPatient = [x, y + 0.4 * k, z]


def elsewhere(data, k):
    data.ImagePositionPatient[2] += 0.8 * (k == 2)


def turned(data, k):
    if k == 1:
        data.ImageOrientationPatient = [0, 1, 0, 0, 0, 1]


def larger(data, k):
    if k == 1:
        fill(data, np.zeros((1, 9, 9)))


def coarser(data, k):
    if k == 1:
        data.PixelSpacing = [2, 2]


def coloured(data, k):
    data.SamplesPerPixel, data.PhotometricInterpretation = 3, "RGB"


def tiled(data, k):
    data.ImageType = ["ORIGINAL", "PRIMARY", "M", "MOSAIC"]


def nowhere(data, k):
    del data.ImagePositionPatient


def at_one_of_two(data, k):
    data.ImagePositionPatient[2] = 3.2 * (k % 2)


def damaged_number(data, k):
    data.ImagePositionPatient = [1, 2]


def unknown_syntax(data, k):
    data.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.4.201"  # high-throughput JPEG 2000
    data.PixelData = pydicom.encaps.encapsulate([bytes(64)])
    data["PixelData"].VR = "OB"


@pytest.mark.parametrize(
    ("change", "code", "fields"),
    [
        (tilted, "gantry-tilt", {"degrees": pytest.approx(7.125, abs=1e-3)}),
        (lambda _, k: k not in (2, 3), "missing-slices", {"missing": 2}),
        (elsewhere, "uneven-slices", {}),
        (turned, "directions-differ", {}),
        (larger, "slices-differ", {}),
        (coarser, "slices-differ", {}),
        (coloured, "colour-image", {}),
        (nowhere, "no-position", {}),
        (tiled, "mosaic", {}),
        (at_one_of_two, "several-volumes", {"volumes": 4}),
        (damaged_number, "broken-file", {}),
        (unknown_syntax, "no-decoder", {"syntax": "High-Throughput JPEG 2000 Image Compression (Lossless Only)"}),
    ],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else None,
)
def test_what_makes_no_grid_is_one_sentence(tmp_path, change, code, fields):
    write_series(tmp_path / "s", noise((7, 6, 8)), oblique(angles=(0, 0, 0)), change=change)
    with pytest.raises(MixsegError) as caught:
        formats.read(source(tmp_path / "s"))
    assert caught.value.code == code
    assert {name: caught.value.fields[name] for name in fields} == fields
    assert Path(caught.value.fields["file"]).parent == tmp_path / "s"


def test_a_slice_that_is_there_twice_is_named(tmp_path):
    write_series(tmp_path / "s", noise(), oblique())
    shutil.copy(tmp_path / "s" / "IM0003", tmp_path / "s" / "IM0003 copy")
    with pytest.raises(MixsegError) as caught:
        formats.read_geometry(source(tmp_path / "s"))
    assert caught.value.code == "doubled-slices"
    assert {Path(caught.value.fields[name]).name for name in ("file", "other")} == {"IM0003", "IM0003 copy"}


@pytest.mark.parametrize("length", [0, 100, 200, 600, -1, -40])
def test_a_truncated_slice_is_refused(tmp_path, length):
    write_series(tmp_path / "s", noise(), oblique(), name="{}.dcm")
    path = tmp_path / "s" / "2.dcm"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(MixsegError) as caught:
        formats.read(source(tmp_path / "s"))
    assert caught.value.code in {"broken-file", "empty-file", "not-dicom", "no-position"}
    assert caught.value.fields["file"] == path


def test_a_file_that_is_called_dicom_and_is_none_is_refused(tmp_path):
    (tmp_path / "notes.dcm").write_text("remember the milk " * 20)
    with pytest.raises(MixsegError) as caught:
        formats.read(tmp_path / "notes.dcm")
    assert caught.value.code == "not-dicom"


@pytest.mark.parametrize("packed", [False, True])
def test_inverted_grey_values_are_turned_round_as_simpleitk_does(tmp_path, packed):
    def invert(data, _):
        data.PhotometricInterpretation, data.PixelRepresentation = "MONOCHROME1", 0
        data.BitsStored, data.HighBit = 12, 11

    write_series(tmp_path / "s", np.abs(noise()), oblique(), scale=(0.5, 3), change=invert)
    if packed:
        compressed(tmp_path / "s", pydicom.uid.JPEGLSLossless)
    array = formats.read(source(tmp_path / "s")).array
    assert (array == (4095 - np.abs(noise())) * 0.5 + 3).all()
    assert np.allclose(array, by_simpleitk(tmp_path / "s")[0])


def test_a_report_and_a_dose_hold_no_slices(tmp_path):
    for name, kind, modality in (("SR", "88.11", "SR"), ("dose", "481.2", "RTDOSE")):
        data = blank(tmp_path / name, f"1.2.840.10008.5.1.4.1.1.{kind}", study="1.2", series="1.3", modality=modality)
        if modality == "RTDOSE":
            fill(data, noise().T)
        data.save_as(tmp_path / name)
        with pytest.raises(MixsegError) as caught:
            formats.read(tmp_path / name)
        assert caught.value.code == "no-slices"


def test_a_radiograph_is_one_slice_with_its_pixel_size(tmp_path):
    data = blank(tmp_path / "x", MR, study="1.2", series="1.3", modality="DX")
    fill(data, noise((5, 4, 1)).T)
    data.ImagerPixelSpacing = [0.2, 0.1]
    data.save_as(tmp_path / "x")
    volume = formats.read(tmp_path / "x")
    assert volume.array.shape == (5, 4, 1)
    assert volume.spacing[:2] == (0.1, 0.2)


def compressed(folder, syntax):
    for path in folder.iterdir():
        data = pydicom.dcmread(path)
        data.compress(syntax)
        data.save_as(path)


@pytest.mark.parametrize("syntax", [pydicom.uid.RLELossless, pydicom.uid.JPEGLSLossless])
def test_compressed_slices_hold_what_plain_ones_do(tmp_path, syntax):
    write_series(tmp_path / "s", noise(), oblique(), scale=(2, -1000), modality="CT")
    plain = formats.read(source(tmp_path / "s"))
    compressed(tmp_path / "s", syntax)
    volume = formats.read(source(tmp_path / "s"))
    assert volume.array.dtype == plain.array.dtype
    assert (volume.array == plain.array).all()


def test_frames_that_are_compressed_are_scaled_each(tmp_path):
    scales = [(1.0 + k, -k) for k in range(5)]
    for name in ("plain", "packed"):
        write_enhanced(tmp_path / name / "x", noise(), oblique(), scales=scales)
    compressed(tmp_path / "packed", pydicom.uid.JPEGLSLossless)
    plain, packed = (formats.read(tmp_path / name / "x").array for name in ("plain", "packed"))
    assert plain.dtype == packed.dtype == np.int32
    assert (plain == packed).all()
    assert (plain[:, :, 4] == noise()[:, :, 4] * 5 - 4).all()


def test_what_tests_write_is_dicom_of_the_right_class(tmp_path):
    write_series(tmp_path / "s", noise(), oblique(), modality="CT")
    assert {str(pydicom.dcmread(path).SOPClassUID) for path in (tmp_path / "s").iterdir()} == {CT}
