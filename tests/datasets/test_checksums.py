"""Damage that a checksum shows is refused, whatever the format; and headers are read as SimpleITK reads them."""

import gzip

import h5py
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.core.errors import MixsegError
from mixseg.datasets import formats
from refusals import refused

CHECKED = ("nii.gz", "nrrd", "seg.nrrd", "mha", "h5", "png")
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])


def voxels(shape=(9, 8, 1)):
    return np.random.default_rng(0).integers(0, 3, shape).astype(np.uint8)


def written(path):
    formats.write(path, voxels(), affine=np.diag([1.5, 1.25, 8.0, 1.0]))
    return path.read_bytes()


@pytest.mark.parametrize("suffix", CHECKED)
def test_flipped_bits_are_refused_or_change_no_voxel(tmp_path, suffix):
    path = tmp_path / f"scan.{suffix}"
    whole = written(path)
    kept = formats.read(path).array
    rng = np.random.default_rng(1)
    # Where the header of a format is plain text, it has no checksum.
    first = whole.index(b"\n\n") if "nrrd" in suffix else whole.index(b"LOCAL") if suffix == "mha" else 0
    refusals = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for place in rng.integers(first, len(whole), 4):
            damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            array = formats.read(path).array
        except MixsegError:
            refusals += 1
        else:
            assert array.shape != kept.shape or (array == kept).all()
    assert refusals >= 40


@pytest.mark.parametrize("suffix", ["nii.gz", "nrrd", "seg.nrrd", "mha", "png"])
@pytest.mark.parametrize("missing", range(1, 9))
def test_a_checksum_that_is_not_all_there_is_refused(tmp_path, suffix, missing):
    path = tmp_path / f"scan.{suffix}"
    path.write_bytes(written(path)[:-missing])
    with refused("broken-file", file=path):
        formats.read(path)


def test_the_checksums_of_others_hdf5_files_are_compared(tmp_path):
    path = tmp_path / "scan.h5"
    array = np.arange(512, dtype=np.uint8).reshape(8, 8, 8)
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=array, chunks=array.shape, fletcher32=True)
    content = bytearray(path.read_bytes())
    content[content.index(bytes(range(64))) + 5] ^= 1
    path.write_bytes(content)
    with refused("broken-file", file=path):
        formats.read(path)


def members(data):
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(data[half:])


def test_several_gzip_members_are_one_file_and_padding_is_nothing(tmp_path):
    path = tmp_path / "scan.nrrd"
    header = b"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 9 8 1\nencoding: gzip\n\n"
    raw = voxels().tobytes(order="F")
    for data in (members(raw), gzip.compress(raw) + bytes(512), gzip.compress(raw + bytes(100))):
        path.write_bytes(header + data)
        assert (formats.read(path).array == voxels()).all()
    path.write_bytes(header + gzip.compress(raw + bytes(1 << 20)))
    with refused("broken-file", file=path):
        formats.read(path)


@pytest.mark.parametrize("suffix", ["nii", "nii.gz", "nrrd", "mha"])
def test_voxels_that_a_file_cannot_hold_are_refused_before_there_is_memory_for_them(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"scan.{suffix}"
    whole = written(path)
    claimed = (1000, 1000, 2000)
    if suffix.startswith("nii"):
        content = bytearray(gzip.decompress(whole) if suffix == "nii.gz" else whole)
        content[42:48] = np.array(claimed, "<i2").tobytes()
        path.write_bytes(gzip.compress(content) if suffix == "nii.gz" else content)
    else:
        sizes = {"nrrd": b"sizes: 9 8 1", "mha": b"DimSize = 9 8 1"}[suffix]
        path.write_bytes(whole.replace(sizes, sizes.replace(b"9 8 1", b"1000 1000 2000")))
    asked = []
    monkeypatch.setattr(np, "empty", lambda *shape, **_: asked.append(shape))
    with refused("broken-file", file=path):
        formats.read(path)
    assert not asked


def test_more_voxels_than_a_file_may_hold_are_refused(tmp_path):
    path = tmp_path / "scan.nrrd"
    with path.open("wb") as file:
        file.write(b"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2048 2048 1025\nencoding: raw\n\n")
        file.truncate(2048 * 2048 * 1025 + 1000)  # a hole, which takes no room on the disk
    with refused("scan-too-large", file=path, bytes=2048 * 2048 * 1025):
        formats.read(path)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(["uint8", "int16", "uint16", "int32", "float32", "float64", "int8", "uint32"]),
    suffix=st.sampled_from(["nrrd", "mha", "nhdr", "mhd"]),
    compressed=st.booleans(),
    sizes=st.sampled_from([(3, 4, 2), (5, 4), (1, 1, 1), (2, 2, 2, 1)]),
    numbers=st.lists(st.floats(0.1, 9), min_size=3, max_size=3),
    angle=st.floats(-3, 3),
)
def test_text_headers_and_voxels_are_read_as_simpleitk_does(
    tmp_path_factory, kind, suffix, compressed, sizes, numbers, angle
):
    path = tmp_path_factory.mktemp("same") / f"scan.{suffix}"
    image = sitk.GetImageFromArray(np.random.default_rng(0).integers(0, 100, sizes[::-1]).astype(kind), isVector=False)
    axes = len(sizes)
    image.SetSpacing([*numbers, 1.0][:axes])
    image.SetOrigin([*numbers[::-1], 1.0][:axes])
    turned = np.eye(axes)
    turned[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    image.SetDirection(turned.ravel().tolist())
    sitk.WriteImage(image, str(path), useCompression=compressed)
    again = sitk.ReadImage(str(path))
    found = formats.read(path)
    assert found.array.dtype == sitk.GetArrayFromImage(again).dtype
    assert (found.array == sitk.GetArrayFromImage(again).T.reshape(found.array.shape)).all()
    used = min(axes, 3)
    place = np.eye(4)
    direction = np.reshape(again.GetDirection(), (axes, axes))
    place[:used, :used] = (direction * again.GetSpacing())[:used, :used]
    place[:used, 3] = again.GetOrigin()[:used]
    np.testing.assert_allclose(found.affine, LPS_TO_RAS @ place, rtol=1e-13, atol=1e-13)


NRRD = {
    "a space that faces right": "type: short\ndimension: 3\nspace: right-anterior-superior\nsizes: 2 3 2\n"
    "space directions: (2,0,0) (0,1.5,0) (0,0,3)\nspace origin: (1,2,3)\nendian: little\nencoding: raw\n",
    "a space that faces left": "type: int16\ndimension: 3\nspace: LAS\nsizes: 2 3 2\n"
    "space directions: (2,0,0) (0,1.5,0) (0,0,3)\nspace origin: (1,2,3)\nendian: big\nencoding: raw\n",
    "no space": "type: short\ndimension: 3\nsizes: 2 3 2\nspacings: 2 1.5 nan\nendian: little\nencoding: raw\n",
    "skipped bytes": "type: short\ndimension: 3\nsizes: 2 3 2\nendian: little\nencoding: raw\nbyte skip: -1\n",
    "skipped lines": "type: short\ndimension: 3\nsizes: 2 3 2\nendian: little\nencoding: raw\nline skip: 1\n",
    "unit-like kinds": "type: short\ndimension: 2\nsizes: 2 6\nendian: little\nencoding: raw\nkinds: space ???\n",
}


@pytest.mark.parametrize("header", NRRD.values(), ids=NRRD)
def test_headers_of_other_programs_are_read_as_simpleitk_reads_them(tmp_path, header):
    path = tmp_path / "scan.nrrd"
    line = b"a line\n" if "skip" in header else b""
    path.write_bytes(b"NRRD0004\n" + header.encode() + b"\n" + line + np.arange(12, dtype="<i2").tobytes())
    image = sitk.ReadImage(str(path))
    found = formats.read(path)
    assert (found.array.squeeze() == sitk.GetArrayFromImage(image).T).all()
    used = image.GetDimension()
    place = np.eye(4)
    place[:used, :used] = np.reshape(image.GetDirection(), (used, used)) * image.GetSpacing()
    place[:used, 3] = image.GetOrigin()
    np.testing.assert_allclose(found.affine, LPS_TO_RAS @ place, atol=1e-13)


def test_text_and_hexadecimal_voxels_are_read(tmp_path):
    head = b"NRRD0004\ntype: uint8\ndimension: 2\nsizes: 3 2\nencoding: %s\n\n%s"
    for encoding, data in ((b"text", b"1 2 3\n4 5 6\n"), (b"hex", b"01020304 0506"), (b"raw", bytes(range(1, 7)))):
        (tmp_path / "a.nrrd").write_bytes(head % (encoding, data))
        assert formats.read(tmp_path / "a.nrrd").array[..., 0].T.ravel().tolist() == [1, 2, 3, 4, 5, 6]
    (tmp_path / "a.nrrd").write_bytes(head % (b"text", b"1 2 x\n4 5 6\n"))
    with refused("broken-file"):
        formats.read(tmp_path / "a.nrrd")


@pytest.mark.parametrize("listed", ["b0.raw", "b%d.raw 0 1 1", "LIST\nb0.raw\nb1.raw"])
@pytest.mark.parametrize("suffix", ["nhdr", "mhd"])
def test_voxels_in_files_beside_the_header_are_found_and_none_elsewhere(tmp_path, suffix, listed):
    raw = np.arange(12, dtype=np.uint8)
    parts = [raw] if listed == "b0.raw" else [raw[:6], raw[6:]]
    for number, part in enumerate(parts):
        (tmp_path / f"b{number}.raw").write_bytes(part.tobytes())
    head = {
        "nhdr": "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 3 2\nencoding: raw\ndata file: {}\n",
        "mhd": "NDims = 3\nDimSize = 2 3 2\nElementType = MET_UCHAR\nElementDataFile = {}\n",
    }[suffix]
    path = tmp_path / f"a.{suffix}"
    path.write_text(head.format(listed))
    assert formats.read(path).array.ravel(order="F").tolist() == raw.tolist()
    path.write_text(head.format(listed.replace("b0", "absent").replace("b%d", "absent%d")))
    with refused("file-missing", file=path):
        formats.read(path)
    for elsewhere in ("../b0.raw", str(tmp_path / "b0.raw")):
        path.write_text(head.format(listed.replace("b0.raw", elsewhere).replace("b%d.raw", elsewhere + "%d")))
        with refused("file-elsewhere", file=path):
            formats.read(path)
