"""Arrays and geometry survive every format, and both libraries agree on what the other wrote."""

import errno
import gzip
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Source, Volume
from mixseg.datasets import formats

VOLUMES = ("nii", "nii.gz", "nrrd", "seg.nrrd", "mha", "h5")
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


def rotation(x: float, y: float, z: float) -> np.ndarray:
    (cx, sx), (cy, sy), (cz, sz) = ((np.cos(a), np.sin(a)) for a in (x, y, z))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    return about_x @ about_y @ np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])


def affine(angles=(0.3, -0.2, 0.1), flips=(1, 1, 1), spacing=(1.25, 0.7, 8.0), origin=(-101.3, 42.7, 9.1)):
    result = np.eye(4)
    result[:3, :3] = rotation(*angles) @ np.diag(np.array(flips) * spacing)
    result[:3, 3] = origin
    return result


PLACES = {
    "straight": affine((0, 0, 0)),
    "oblique": affine(),
    "flipped": affine((0, 0, 0), flips=(-1, 1, -1)),
    "oblique and mirrored": affine(flips=(1, -1, 1)),
    "axes exchanged": affine((np.pi / 2, 0, 0)),
}


@pytest.fixture
def mask() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, (7, 6, 5)).astype(np.uint8)


def lps_affine(image) -> np.ndarray:
    """What SimpleITK says, by asking it where single voxels are."""
    corner = np.array(image.TransformIndexToPhysicalPoint((0, 0, 0)))
    result = np.eye(4)
    for axis in range(3):
        result[:3, axis] = np.array(image.TransformIndexToPhysicalPoint(np.eye(3, dtype=int)[axis].tolist())) - corner
    result[:3, 3] = corner
    return result


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("suffix", VOLUMES)
def test_array_and_affine_survive_the_format(tmp_path, mask, suffix, place):
    path = tmp_path / f"mask.{suffix}"
    formats.write(path, mask, affine=PLACES[place])
    volume = formats.read(path)
    assert (volume.array == mask).all()
    assert np.allclose(volume.affine, PLACES[place], atol=1e-5, rtol=0)
    assert volume.spacing == pytest.approx((1.25, 0.7, 8.0), rel=1e-6)
    assert volume.spacing_known
    header = formats.read_geometry(path)
    assert header.shape == mask.shape
    assert (header.affine == volume.affine).all()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("suffix", ["nii", "nii.gz"])
def test_simpleitk_reads_our_nifti_where_nibabel_put_it(tmp_path, mask, suffix, place):
    path = tmp_path / f"mask.{suffix}"
    formats.write(path, mask, affine=PLACES[place])
    image = sitk.ReadImage(str(path))
    assert (mask == sitk.GetArrayFromImage(image).T).all()
    assert np.allclose(LPS @ lps_affine(image), PLACES[place], atol=1e-4)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("suffix", ["nii.gz", "nrrd", "mha"])
def test_nibabel_and_simpleitk_agree_on_what_simpleitk_wrote(tmp_path, mask, suffix, place):
    image = sitk.GetImageFromArray(mask.T)
    lps = LPS @ PLACES[place]
    spacing = np.linalg.norm(lps[:3, :3], axis=0)
    image.SetOrigin(lps[:3, 3].tolist())
    image.SetSpacing(spacing.tolist())
    image.SetDirection((lps[:3, :3] / spacing).ravel().tolist())
    sitk.WriteImage(image, str(tmp_path / f"image.{suffix}"))
    # Written again as NIfTI, nibabel alone must find every voxel where SimpleITK put it.
    formats.write(tmp_path / "again.nii.gz", mask, like=tmp_path / f"image.{suffix}")
    again = nib.load(tmp_path / "again.nii.gz")
    assert (np.asarray(again.dataobj) == mask).all()
    assert np.allclose(again.affine, PLACES[place], atol=1e-4)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.tuples(*[st.floats(-3.1, 3.1)] * 3),
    st.tuples(*[st.sampled_from([-1, 1])] * 3),
    st.tuples(*[st.floats(0.1, 10)] * 3),
)
def test_any_oblique_or_mirrored_grid_passes_through_nrrd_and_nifti(tmp_path_factory, angles, flips, spacing):
    folder = tmp_path_factory.mktemp("grid")
    wanted = affine(angles, flips, spacing)
    array = np.zeros((3, 4, 2), np.uint8)
    formats.write(folder / "a.nrrd", array, affine=wanted)
    formats.write(folder / "b.nii", array, like=folder / "a.nrrd")
    formats.write(folder / "c.mha", array, like=folder / "b.nii")
    for name in ("a.nrrd", "b.nii", "c.mha"):
        assert not formats.same_geometry(formats.read_geometry(folder / name), formats.Geometry((3, 4, 2), wanted))


def sheared() -> np.ndarray:
    result = affine()
    result[0, 1] += 0.4
    return result


@pytest.mark.parametrize(("sform", "qform"), [(1, 1), (2, 1), (0, 1), (4, 0), (0, 0)])
def test_a_mask_like_a_nifti_image_keeps_its_transforms_and_codes_bit_for_bit(tmp_path, mask, sform, qform):
    image = nib.Nifti1Image(mask.astype(np.int16) * 100, None)
    image.set_sform(sheared(), code=sform)
    image.set_qform(affine((0.1, 0.2, 0.3)), code=qform)
    image.header.set_xyzt_units("mm", "sec")
    image.header["cal_max"] = 900
    image.header.set_slope_inter(2.5, 1)
    nib.save(image, tmp_path / "image.nii.gz")
    formats.write(tmp_path / "mask.nii.gz", mask, like=tmp_path / "image.nii.gz")
    before, after = nib.load(tmp_path / "image.nii.gz"), nib.load(tmp_path / "mask.nii.gz")
    kept = ("qform_code", "sform_code", "quatern_b", "quatern_c", "quatern_d", "qoffset_x", "qoffset_y", "qoffset_z")
    for field in (*kept, "srow_x", "srow_y", "srow_z", "pixdim", "xyzt_units"):
        assert before.header[field].tobytes() == after.header[field].tobytes(), field
    assert after.get_data_dtype() == np.uint8
    assert (np.asarray(after.dataobj) == mask).all()


@pytest.mark.parametrize(("unit", "mm"), [("unknown", 1), ("mm", 1), ("meter", 1000), ("micron", 0.001)])
@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
def test_a_nifti_file_is_read_in_mm_whatever_its_unit_and_so_is_a_mask_like_it(tmp_path, mask, kind, unit, mm):
    image = kind(mask, np.diag([1 / mm, 1 / mm, 1 / mm, 1]) @ affine())
    image.header.set_xyzt_units(unit, "sec")
    nib.save(image, tmp_path / "image.nii.gz")
    for name in ("like.nii.gz", "like.nrrd", "like.mha"):
        formats.write(tmp_path / name, mask, like=tmp_path / "image.nii.gz")
    for name in ("image.nii.gz", "like.nii.gz", "like.nrrd", "like.mha"):
        for place in (formats.read_geometry(tmp_path / name), formats.read(tmp_path / name)):
            np.testing.assert_allclose(place.affine, affine(), rtol=1e-5, atol=1e-5)
    assert nib.load(tmp_path / "like.nii.gz").header["xyzt_units"] == image.header["xyzt_units"]


def test_a_unit_that_nifti_does_not_know_is_taken_for_mm(tmp_path, mask):
    image = nib.Nifti1Image(mask, affine())
    image.header["xyzt_units"] = 6
    nib.save(image, tmp_path / "image.nii.gz")
    np.testing.assert_allclose(formats.read_geometry(tmp_path / "image.nii.gz").affine, affine(), rtol=1e-5, atol=1e-5)


def test_voxels_far_below_a_micron_have_a_valid_size(tmp_path, mask):
    image = nib.Nifti1Image(mask, np.diag([0.02, 0.02, 0.05, 1]))
    image.header.set_xyzt_units("micron")
    nib.save(image, tmp_path / "image.nii.gz")
    assert formats.read_geometry(tmp_path / "image.nii.gz").spacing == pytest.approx((2e-5, 2e-5, 5e-5))


@pytest.mark.parametrize("suffix", ["mha", "nrrd"])
def test_a_mask_like_a_simpleitk_image_keeps_its_geometry_to_the_last_bit(tmp_path, mask, suffix):
    image = sitk.GetImageFromArray(mask.T)
    image.SetSpacing((0.1, 1 / 3, 0.7))
    image.SetOrigin((1 / 7, 2 / 7, 3 / 7))
    image.SetDirection(rotation(0.3, 0.2, 0.1).ravel().tolist())
    sitk.WriteImage(image, str(tmp_path / f"image.{suffix}"))
    formats.write(tmp_path / f"mask.{suffix}", mask, like=tmp_path / f"image.{suffix}")
    before, after = (sitk.ReadImage(str(tmp_path / f"{name}.{suffix}")) for name in ("image", "mask"))
    # NRRD stores the product of spacing and direction: taking it apart costs the last bit, in any program.
    tolerance = 0 if suffix == "mha" else 1e-15
    for question in ("GetSpacing", "GetOrigin", "GetDirection"):
        assert getattr(after, question)() == pytest.approx(getattr(before, question)(), rel=0, abs=tolerance)


def test_a_flat_nifti_gives_a_flat_mask(tmp_path):
    nib.save(nib.Nifti1Image(np.zeros((4, 5), np.int16), np.eye(4)), tmp_path / "image.nii")
    assert formats.read(tmp_path / "image.nii").array.shape == (4, 5, 1)
    formats.write(tmp_path / "mask.nii", np.ones((4, 5, 1), bool), like=tmp_path / "image.nii")
    assert nib.load(tmp_path / "mask.nii").shape == (4, 5)


def test_scaled_and_foreign_endian_nifti_become_numbers_of_this_machine(tmp_path):
    header = nib.Nifti1Header(endianness=">")
    header.set_data_dtype(np.int16)
    nib.save(nib.Nifti1Image(np.arange(8, dtype=">i2").reshape(2, 2, 2), np.eye(4), header), tmp_path / "a.nii")
    array = formats.read(tmp_path / "a.nii").array
    assert array.dtype.isnative
    assert array.ravel().tolist() == list(range(8))


def test_a_png_is_read_with_x_first_and_without_a_spacing(tmp_path):
    array = np.arange(12, dtype=np.uint8).reshape(4, 3, 1)
    formats.write(tmp_path / "a.png", array)
    assert sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "a.png"))).shape == (3, 4)
    volume = formats.read(tmp_path / "a.png")
    assert (volume.array == array).all()
    assert not volume.spacing_known
    with pytest.raises(MixsegError, match="one slice"):
        formats.write(tmp_path / "b.png", np.zeros((4, 3, 2), np.uint8))


def test_a_grey_picture_in_colour_is_read_and_a_coloured_one_refused(tmp_path):
    grey = np.repeat(np.arange(12, dtype=np.uint8).reshape(3, 4, 1), 3, axis=2)
    sitk.WriteImage(sitk.GetImageFromArray(grey, isVector=True), str(tmp_path / "grey.png"))
    assert (grey[..., 0] == formats.read(tmp_path / "grey.png").array[..., 0].T).all()
    grey[0, 0, 0] = 200
    sitk.WriteImage(sitk.GetImageFromArray(grey, isVector=True), str(tmp_path / "colour.png"))
    with pytest.raises(MixsegError, match=r"colour\.png is in colour"):
        formats.read(tmp_path / "colour.png")


@pytest.mark.parametrize("channels", ["RGB", "RGBA"])
def test_a_grey_nifti_in_colour_is_read_and_a_coloured_one_refused(tmp_path, channels):
    voxels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    colour = np.zeros(voxels.shape, [(name, np.uint8) for name in channels])
    for name in "RGB":
        colour[name] = voxels
    nib.save(nib.Nifti1Image(colour, np.eye(4)), tmp_path / "grey.nii.gz")
    assert (formats.read_ids(tmp_path / "grey.nii.gz").array == voxels).all()
    colour["G"][0, 0, 0] = 200
    nib.save(nib.Nifti1Image(colour, np.eye(4)), tmp_path / "colour.nii.gz")
    for read in (formats.read_image, formats.read_ids):
        with pytest.raises(MixsegError, match=r"colour\.nii\.gz is in colour: save it with one grey channel"):
            read(tmp_path / "colour.nii.gz")


def test_complex_voxels_are_no_grey_values(tmp_path):
    nib.save(nib.Nifti1Image(np.zeros((2, 2, 2), np.complex64), np.eye(4)), tmp_path / "k.nii.gz")
    with pytest.raises(MixsegError, match=r"k\.nii\.gz holds complex64 instead of grey values"):
        formats.read_image(tmp_path / "k.nii.gz")


def test_slices_in_files_of_their_own_are_stacked_in_the_order_given(tmp_path):
    paths = tuple(tmp_path / f"{index}.png" for index in (2, 0, 1))
    for index, path in enumerate(paths):
        formats.write(path, np.full((4, 3), index, np.uint8))
    source = Source(paths)
    assert formats.read(source).array[0, 0].tolist() == [0, 1, 2]
    assert formats.read_geometry(source).shape == (4, 3, 3)
    formats.write(tmp_path / "stack.nii.gz", np.zeros((4, 3, 3), np.uint8), like=source)
    formats.write(paths[1], np.zeros((5, 3), np.uint8))
    for function in (formats.read, formats.read_geometry):
        with pytest.raises(MixsegError, match=r"0\.png has 5 x 3 pixels"):
            function(source)


def test_h5_arrays_are_found_by_name_and_transposed_on_request(tmp_path):
    array = np.arange(24).reshape(2, 3, 4)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"], file["label"], file["line"] = array, array[0], np.arange(3)
    assert formats.h5_keys(tmp_path / "a.h5") == ("image", "label", "line")
    assert (formats.read(tmp_path / "a.h5").array == array).all()
    assert (formats.read(Source((tmp_path / "a.h5",), key="image.T")).array == array.T).all()
    flat = formats.read(Source((tmp_path / "a.h5",), key="label.T"))
    assert flat.array.shape == (4, 3, 1)
    assert not flat.spacing_known
    with pytest.raises(MixsegError, match=r"no array 'scribble' \(it holds image, label, line\)"):
        formats.read(Source((tmp_path / "a.h5",), key="scribble"))
    with pytest.raises(MixsegError, match="1 axes"):
        formats.read(Source((tmp_path / "a.h5",), key="line"))


def test_segments_are_numbered_in_file_order_and_known_by_name(tmp_path):
    array = np.zeros((3, 2, 2), np.uint8)
    array[0], array[1] = 7, 3
    formats.write(tmp_path / "a.seg.nrrd", array, affine=affine(), names={7: "LV", 3: "Myo"})
    assert formats.segment_names(tmp_path / "a.seg.nrrd") == {1: "Myo", 2: "LV"}
    assert formats.read(tmp_path / "a.seg.nrrd").array[:, 0, 0].tolist() == [2, 1, 0]
    assert formats.segment_names(tmp_path / "a.nii.gz") == {}


def layered(path: Path, layers: np.ndarray) -> None:
    """A .seg.nrrd with one layer per segment, as Slicer writes it where segments may overlap."""
    count, i, j, k = layers.shape
    lines = ["NRRD0004", "type: unsigned char", "dimension: 4", "space: left-posterior-superior"]
    lines += [f"sizes: {count} {i} {j} {k}", "space directions: none (2,0,0) (0,2,0) (0,0,3)"]
    lines += ["kinds: list domain domain domain", "encoding: raw", "space origin: (1,2,3)"]
    for n, name in enumerate(["LV", "RV"]):
        lines += [f"Segment{n}_ID:=S{n}", f"Segment{n}_Name:={name}", f"Segment{n}_LabelValue:=1"]
        lines += [f"Segment{n}_Layer:={n}"]
    path.write_bytes(("\n".join(lines) + "\n\n").encode() + layers.astype(np.uint8).tobytes(order="F"))


def test_a_segment_of_a_layer_that_is_not_there_is_one_sentence(tmp_path):
    layered(tmp_path / "a.seg.nrrd", np.ones((1, 3, 3, 2)))
    with pytest.raises(MixsegError, match=r"Segment 'RV' of .*a\.seg\.nrrd should lie in layer 1, which is not there"):
        formats.read(tmp_path / "a.seg.nrrd")


def test_layers_of_segments_become_one_map_unless_they_overlap(tmp_path):
    layers = np.zeros((2, 4, 3, 2), np.uint8)
    layers[0, 1, 2, 1] = layers[1, 3, 0, 0] = 1
    layered(tmp_path / "a.seg.nrrd", layers)
    volume = formats.read(tmp_path / "a.seg.nrrd")
    assert volume.array.shape == (4, 3, 2)
    assert np.argwhere(volume.array == 1).tolist() == [[1, 2, 1]]
    assert np.argwhere(volume.array == 2).tolist() == [[3, 0, 0]]
    assert volume.spacing == (2, 2, 3)
    layers[1, 1, 2, 1] = 1
    layered(tmp_path / "b.seg.nrrd", layers)
    with pytest.raises(MixsegError, match=r"'LV' and 'RV' of .*b\.seg\.nrrd overlap"):
        formats.read(tmp_path / "b.seg.nrrd")


def test_voxels_that_no_segment_claims_are_refused_and_not_background(tmp_path):
    layers = np.zeros((2, 4, 3, 2), np.uint8)
    layers[0, 1, 2, 1] = layers[1, 3, 0, 0] = 1
    layers[1, 1, 2, 1] = 5  # below a voxel of the other layer's segment
    layered(tmp_path / "a.seg.nrrd", layers)
    with pytest.raises(MixsegError, match=r"a\.seg\.nrrd holds 5 where none of its segments is: .* rename it"):
        formats.read(tmp_path / "a.seg.nrrd")
    formats.write(tmp_path / "plain.nrrd", np.arange(8, dtype=np.uint8).reshape(2, 2, 2), affine=affine())
    (tmp_path / "plain.nrrd").rename(tmp_path / "plain.seg.nrrd")
    with pytest.raises(MixsegError, match=r"plain\.seg\.nrrd holds 1, 2, 3, 4, \.\.\. where none"):
        formats.read(tmp_path / "plain.seg.nrrd")


@pytest.mark.parametrize("suffix", [*VOLUMES, "png"])
def test_truncated_and_empty_files_are_one_sentence_with_the_file(tmp_path, suffix):
    path = tmp_path / f"scan.{suffix}"
    noise = np.random.default_rng(0).integers(0, 255, (30, 20, 1), dtype=np.uint8)
    formats.write(path, noise, affine=affine())
    whole = path.read_bytes()
    for size in (10, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:size])
        with pytest.raises(
            MixsegError, match=rf"scan\.{suffix} cannot be read, it is truncated or damaged: .*again\.$"
        ):
            formats.read(path)
    path.write_bytes(b"")
    for function in (formats.read, formats.read_geometry):
        with pytest.raises(MixsegError, match=rf"scan\.{suffix} is empty \(zero bytes\)"):
            function(path)


@pytest.mark.parametrize("suffix", ["nii", "nii.gz", "nrrd", "mha", "h5"])
def test_a_file_that_is_too_large_for_the_memory_is_not_called_damaged(tmp_path, suffix):
    path, side = tmp_path / f"scan.{suffix}", 30_000  # 27 TB
    formats.write(path, np.zeros((2, 2, 2), np.uint8), affine=affine())
    if suffix == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("image", (side, side, side), np.uint8, chunks=True)
    elif suffix.startswith("nii"):
        content = bytearray(gzip.decompress(path.read_bytes()) if suffix == "nii.gz" else path.read_bytes())
        content[42:48] = np.full(3, side, "<i2").tobytes()
        path.write_bytes(gzip.compress(content) if suffix == "nii.gz" else content)
    else:
        key = "sizes:" if suffix == "nrrd" else "DimSize ="
        path.write_bytes(path.read_bytes().replace(f"{key} 2 2 2".encode(), f"{key} {side} {side} {side}".encode()))
    with pytest.raises(MixsegError, match=rf"scan\.{suffix} takes more memory than there is: end other programs"):
        formats.read(path)


def test_missing_looping_forbidden_and_foreign_files_are_one_sentence_each(tmp_path, monkeypatch):
    (tmp_path / "loop.nii").symlink_to(tmp_path / "loop.nii")
    (tmp_path / "folder.nii").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    for name, sentence in {
        "missing.nii": "does not exist",
        "loop.nii": "leads back to itself",
        "folder.nii": "cannot be read|is a folder",
        "notes.txt": "of no known format",
    }.items():
        with pytest.raises(MixsegError, match=rf"{name} .*({sentence})"):
            formats.read(tmp_path / name)

    def forbidden(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    formats.write(tmp_path / "a.nii", np.zeros((2, 2, 2), np.uint8))
    for what in ("open", "stat"):  # a file of another user; one in a folder of another user
        monkeypatch.setattr(Path, what, forbidden)
        with pytest.raises(MixsegError, match=r"a\.nii may not be read \(no permission\)"):
            formats.read(tmp_path / "a.nii")


def test_four_dimensional_and_degenerate_files_are_refused_by_name(tmp_path):
    nib.save(nib.Nifti1Image(np.zeros((2, 2, 2, 9), np.uint8), np.eye(4)), tmp_path / "cine.nii")
    with pytest.raises(MixsegError, match=r"cine\.nii holds 4 axes"):
        formats.read(tmp_path / "cine.nii")
    flat = nib.Nifti1Image(np.zeros((2, 2, 2), np.uint8), None)
    flat.set_sform(np.diag([1.0, 1, 0, 1]), code=1)
    nib.save(flat, tmp_path / "flat.nii")
    with pytest.raises(MixsegError, match=r"flat\.nii gives no valid voxel size"):
        formats.read_geometry(tmp_path / "flat.nii")


def test_nan_and_fractions_are_no_labels_but_whole_floats_are(tmp_path):
    values = np.array([[[0.0, 1.0, 3.0]]], np.float32)
    for name, wrong, sentence in [
        ("nan", np.nan, "holds nan or inf in 1 of its 3 voxels"),
        ("half", 0.5, "holds 0.5, which is no label id"),
        ("near", 1000.0005, r"holds 1000\.0005, which is no label id"),
    ]:
        bad = values.copy()
        bad[0, 0, 0] = wrong
        formats.write(tmp_path / f"{name}.nii.gz", bad)
        with pytest.raises(MixsegError, match=rf"{name}\.nii\.gz {sentence}"):
            formats.read_ids(tmp_path / f"{name}.nii.gz")
    formats.write(tmp_path / "whole.nii.gz", values)
    assert formats.read_ids(tmp_path / "whole.nii.gz").array.dtype == np.int32
    assert formats.count_ids(tmp_path / "whole.nii.gz") == {0: 1, 1: 1, 3: 1}


def test_ids_that_the_scale_of_a_header_rounds_are_whole(tmp_path):
    image = nib.Nifti1Image(np.array([[[0, 255]]], np.uint8), np.eye(4))
    image.header.set_slope_inter(1 / 255, 0)
    nib.save(image, tmp_path / "scaled.nii")
    assert (formats.read(tmp_path / "scaled.nii").array % 1).any()
    assert formats.read_ids(tmp_path / "scaled.nii").array.ravel().tolist() == [0, 1]


def test_labels_are_mapped_and_an_undeclared_id_is_named(tmp_path):
    formats.write(tmp_path / "a.nii", np.array([[[0, 2, 5, -1, 70000]]], np.int32))
    ids = {0: 0, 2: 1, 5: 2, -1: IGNORE, 70000: 3}
    labels = formats.read_labels(Source((tmp_path / "a.nii",), ids=ids)).array
    assert labels.dtype == np.uint8
    assert labels.ravel().tolist() == [0, 1, 2, IGNORE, 3]
    del ids[5]
    with pytest.raises(MixsegError, match=r"a\.nii holds the undeclared label 5 "):
        formats.read_labels(Source((tmp_path / "a.nii",), ids=ids))
    with pytest.raises(ValueError, match="no ids"):
        formats.read_labels(Source((tmp_path / "a.nii",)))


def test_header_noise_is_the_same_place_and_another_spacing_is_not():
    first = Volume(np.zeros((10, 10, 3)), affine())
    for factor, clause in [(1 + 1e-8, ""), (1.01, "the spacings are"), (0.99, "the spacings are")]:
        second = Volume(first.array, affine(spacing=(1.25 * factor, 0.7, 8.0)))
        assert formats.same_geometry(first, second).startswith(clause)
        assert bool(formats.same_geometry(first, second)) == bool(clause)
    assert "apart" in formats.same_geometry(first, Volume(first.array, affine(origin=(0, 0, 0))))
    assert "apart" in formats.same_geometry(first, Volume(first.array, affine(flips=(-1, 1, 1))))
    assert "10 x 10 x 4" in formats.same_geometry(first, Volume(np.zeros((10, 10, 4)), affine()))
    assert formats.same_geometry(first, Volume(first.array, spacing_known=False)) == ""


def test_writing_refuses_what_it_cannot_do_and_leaves_nothing_behind(tmp_path, mask):
    with pytest.raises(MixsegError, match=r"a\.jpg cannot be written"):
        formats.write(tmp_path / "a.jpg", mask)
    formats.write(tmp_path / "a.nii", mask)
    with pytest.raises(ValueError, match="cannot lie like"):
        formats.write(tmp_path / "b.nii", mask[1:], like=tmp_path / "a.nii")
    assert [path.name for path in tmp_path.iterdir()] == ["a.nii"]


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint64, np.float16])
def test_types_that_formats_lack_are_stored_in_one_that_they_have(tmp_path, dtype):
    array = np.array([[[0, 1, 1]]]).astype(dtype)
    for suffix in ("nii.gz", "nrrd"):
        formats.write(tmp_path / f"a.{suffix}", array)
        assert (formats.read(tmp_path / f"a.{suffix}").array == array).all()


def test_suffix_and_stem_know_double_endings():
    assert [formats.suffix(Path(name)) for name in ("a.b.nii.gz", "x.seg.nrrd", "y.NRRD", "z.txt", ".nii")] == [
        ".nii.gz",
        ".seg.nrrd",
        ".nrrd",
        "",
        "",
    ]
    assert [formats.stem(Path(name)) for name in ("a.b.nii.gz", "x.seg.nrrd", "z.txt")] == ["a.b", "x", "z.txt"]
