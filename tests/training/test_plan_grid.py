"""The plan: slices or volumes, voxel size, size and batch follow from the scans and the memory; what is given stays."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.data.prepare.files import read_header
from mixseg.data.resample import size_at
from mixseg.data.scan import spacing_unknown
from mixseg.datasets import load
from mixseg.training.plan.grid import MemoryBudget, WholeScans, near_cube
from mixseg.training.plan.settings import choose_dims, make_plan
from scans import header

DEFAULTS = {"size": (256, 256), "patch": (112, 112, 80), "batch": {"full": 8, "partial": 16, "unlabeled": 0}}
PLENTY = MemoryBudget(80e9, "a GPU", channels=64, held=33, number=2)
VOLUMES = MemoryBudget(80e9, "a GPU", channels=16, held=22, number=2)
quiet = settings(deadline=None, derandomize=True, max_examples=60)

CINE = [
    header((216, 256, 10), (1.5, 1.5, 10.0)),
    header((200, 180, 9), (1.4, 1.4, 10.0)),
    header((320, 288, 12), (1.25, 1.25, 8.0)),
]
CT = [header((512, 512, k), (mm, mm, 1.5)) for k, mm in ((120, 0.7), (200, 0.8), (160, 0.9))]


def plan(scans, means=PLENTY, **given_keys):
    return make_plan(scans, given_keys, DEFAULTS, means)


@pytest.mark.parametrize(
    ("shape", "spacing", "dims"),
    [
        ((216, 256, 10), (1.4, 1.4, 10.0), 2),
        ((216, 256, 60), (1.4, 1.4, 5.0), 2),
        ((190, 142, 88), (0.625, 0.625, 0.625), 3),
        ((512, 512, 120), (0.8, 0.8, 2.0), 3),
        ((256, 256, 1), (1.0, 1.0, 1.0), 2),
    ],
)
def test_thick_or_few_slices_are_learned_one_by_one(shape, spacing, dims):
    chosen, why = choose_dims([header(shape, spacing)] * 3)
    assert chosen == dims
    assert why.startswith("Volumes" if dims == 3 else "Slices")


def test_pixels_that_are_not_square_are_told_as_they_are():
    _, why = choose_dims([header((12, 40, 40), (6.0, 0.8, 0.8))] * 3)
    assert "they are 0.8 mm apart and pixels 6 x 0.8 mm wide" in why
    _, why = choose_dims([header((190, 142, 88), (0.625, 0.625, 0.625))] * 3)
    assert "pixels 0.625 mm wide" in why


def test_slices_get_the_median_pixel_and_a_size_that_holds_every_scan():
    chosen = plan(CINE).settings
    assert (chosen["dims"], chosen["spacing"], chosen["long_side"]) == (2, (1.4, 1.4), None)
    fields = [size_at(scan.shape[:2], scan.spacing[:2], chosen["spacing"]) for scan in CINE]
    assert chosen["size"] == (288, 288)  # 320 pixels of 1.25 mm are 286 of 1.4 mm
    assert all(side <= most for field in fields for side, most in zip(field, chosen["size"], strict=True))
    assert "batch" not in chosen  # as usual


@quiet
@given(
    st.lists(st.tuples(st.integers(40, 700), st.integers(40, 700), st.floats(0.3, 3)), min_size=1, max_size=6),
    st.sampled_from([None, (192, 224), (320, 256)]),
)
def test_no_plan_cuts_a_field_of_view_off_without_saying_so(sizes, size):
    scans = [header((i, j, 10), (mm, mm, 8.0)) for i, j, mm in sizes]
    found = make_plan(scans, {} if size is None else {"size": size}, DEFAULTS, PLENTY)
    settled = {"size": size, **found.settings}
    fields = [size_at(scan.shape[:2], scan.spacing[:2], settled["spacing"], settled["long_side"]) for scan in scans]
    cut = [field for field in fields if any(np.greater(field, settled["size"]))]
    assert not (cut and size)
    assert bool(cut) == any("lose their rim" in reason for reason in found.reasons)
    assert all(side % 16 == 0 and side <= 512 for side in settled["size"]) or size


def test_scans_without_a_voxel_size_keep_their_proportions():
    scans = [header((216, 256, 10), (1.0, 1.0, 1.0)), header((428, 512, 8), (1.0, 1.0, 1.0))] * 2
    assert spacing_unknown(scans)
    assert plan(scans[:2] + scans[:1]).settings == {
        "dims": 2,
        "spacing": None,
        "long_side": 256,
        "size": (224, 256),
    }
    assert plan(scans[:1], size=(192, 192)).settings["long_side"] == 192
    assert spacing_unknown([header((9, 9, 90), (1.0, 1.0, 1.0), spacing_known=False)])
    assert not spacing_unknown([header((90, 90, 90), (1.0, 1.0, 1.0))])


def test_volumes_are_resampled_to_the_median_and_left_alone_where_they_agree():
    chosen = plan(CT, VOLUMES).settings
    assert chosen["spacing"] == (0.8, 0.8, 1.5)
    same = plan([header((400, 300, 280), (0.6, 0.6, 0.6))] * 3, VOLUMES)
    assert same.settings == {"dims": 3, "spacing": (0.6, 0.6, 0.6), "patch": (96, 96, 96)}
    assert "Voxels stay 0.6x0.6x0.6 mm large" in same.reasons[1]
    unknown = [header(scan.shape, scan.spacing, spacing_known=False) for scan in CT]
    assert plan(unknown, VOLUMES).settings["spacing"] is None


def test_voxels_become_coarser_where_a_patch_then_holds_a_whole_scan():
    atria = [header((190, 142, 88), (0.625, 0.625, 0.625))] * 3
    found = plan(atria, VOLUMES)
    assert found.settings == {"dims": 3, "spacing": (0.92, 0.92, 0.92), "patch": (144, 96, 64)}
    assert "so that a patch of the usual size holds a whole scan" in found.reasons[1]
    assert "the whole of every scan" in found.reasons[2]
    # The long axis of a voxel stays as it is; what is chosen is left alone; without a voxel size nothing can be.
    long = plan([header((200, 200, 60), (0.7, 0.7, 1.5))] * 3, VOLUMES).settings
    assert long == {"dims": 3, "spacing": (1.1, 1.1, 1.5), "patch": (128, 128, 64)}
    assert plan(atria, VOLUMES, patch=(96, 96, 64)).settings == {"dims": 3, "spacing": (0.625, 0.625, 0.625)}
    assert plan(atria, VOLUMES, spacing=None).settings == {"dims": 3, "patch": (112, 112, 80)}
    unknown = [replace(scan, spacing_known=False) for scan in atria]
    assert plan(unknown, VOLUMES).settings == {"dims": 3, "spacing": None, "patch": (112, 112, 80)}
    small = plan([header((88, 72, 60), (1.0, 1.0, 1.0))] * 3, VOLUMES).settings
    assert small == {"dims": 3, "spacing": (1.0, 1.0, 1.0), "patch": (96, 80, 64)}  # fits as it is: padded, not cut
    # Memory takes from the patch, not from the voxels: methods that are compared have one grid.
    tight = plan(atria, replace(VOLUMES, memory=8e9))
    assert tight.settings["spacing"] == (0.92, 0.92, 0.92)
    assert prod(tight.settings["patch"]) < prod(found.settings["patch"])
    assert "near to a cube" in tight.reasons[2]
    # Voxels between two steps are tried as they are; no field is halved for the length of a rod.
    between = plan([header((150, 117, 60), (1.151, 1.151, 1.151))] * 4, VOLUMES).settings
    assert between == {"dims": 3, "spacing": (1.3, 1.3, 1.3), "patch": (144, 112, 64)}
    assert plan([header((60, 60, 900), (1.0, 1.0, 1.0))] * 2, VOLUMES).settings["spacing"] == (1.0, 1.0, 1.0)


def test_a_plan_tells_how_many_scans_a_patch_holds():
    scans = [header(shape, (1.0, 1.0, 1.0)) for shape in [(72, 70, 66)] * 16 + [(100, 70, 66), (72, 100, 66)]]
    found = plan(scans, VOLUMES)
    assert found.settings["patch"] == (112, 112, 80)
    assert found.reasons[2] == "Patches have 112x112x80 voxels, 112x112x80 mm: the whole of every scan."
    more = plan(scans[1:16] * 3 + scans[16:], VOLUMES)
    assert more.settings["patch"] == (80, 80, 80)
    assert more.reasons[2] == "Patches have 80x80x80 voxels, 80x80x80 mm: the whole of 45 of 47 scans."
    unknown = plan([replace(scan, spacing_known=False) for scan in scans], VOLUMES)
    assert unknown.reasons[1:3] == (
        "Voxels stay as they are: not all scans have a known voxel size.",
        "Patches have 112x112x80 voxels: the whole of every scan.",
    )


@quiet
@given(
    st.lists(st.tuples(*[st.integers(40, 400)] * 3), min_size=1, max_size=12),
    st.tuples(*[st.floats(0.3, 2)] * 3),
)
def test_coarser_voxels_are_as_fine_as_whole_scans_allow(shapes, spacing):
    scans = [header(shape, spacing) for shape in shapes]
    chosen = make_plan(scans, {"dims": 3}, DEFAULTS, VOLUMES).settings
    if chosen["spacing"] in (None, tuple(float(f"{mm:.4g}") for mm in spacing)):
        return
    assert max(chosen["spacing"]) <= max(2.05 * min(spacing), max(spacing) * 1.001)
    assert all(mm >= usual * 0.999 for mm, usual in zip(chosen["spacing"], spacing, strict=True))
    sizes = np.array([size_at(shape, spacing, chosen["spacing"]) for shape in shapes])
    assert (sizes <= chosen["patch"]).all(axis=1).mean() >= 0.9
    finer = [max(usual, mm / 1.2) for mm, usual in zip(chosen["spacing"], spacing, strict=True)]
    volume = prod(DEFAULTS["patch"])
    assert WholeScans(scans, 1.1 * volume, 16).patch(finer) is None
    assert prod(chosen["patch"]) <= 1.1 * volume


@quiet
@given(
    st.floats(1e5, 4e6),
    st.tuples(*[st.floats(0.3, 3)] * 3),
    st.tuples(*[st.integers(32, 600)] * 3),
    st.sampled_from([4, 8, 16]),
)
def test_patches_are_multiples_within_the_scan_and_about_as_large_as_asked(volume, spacing, shape, multiple):
    patch = near_cube(volume, spacing, shape, multiple)
    assert all(side % multiple == 0 and side >= multiple for side in patch)
    most = [side // multiple * multiple for side in shape]
    assert all(side <= max(limit, multiple) for side, limit in zip(patch, most, strict=True))
    if all(side < limit for side, limit in zip(patch, most, strict=True)):  # room in every direction: a cube
        edges = np.multiply(patch, spacing)
        assert edges.max() - edges.min() <= multiple * max(spacing) + 1e-6
    assert prod(patch) <= volume * 1.6 + 4 * multiple * max(patch) ** 2


def test_little_memory_takes_smaller_patches_first_and_then_fewer():
    roomy, tight, tiny = (plan(CT, replace(VOLUMES, memory=memory)).settings for memory in (80e9, 12e9, 3e9))
    assert prod(roomy["patch"]) > prod(tight["patch"]) >= 0.8 * 64**3
    assert "batch" not in roomy
    assert "batch" not in tight
    assert prod(tiny["patch"]) == pytest.approx(64**3, rel=0.35)
    assert tiny["batch"]["full"] < 8
    assert tiny["batch"]["unlabeled"] == 0


def test_slices_that_do_not_fit_are_fewer_not_smaller():
    small = replace(PLENTY, memory=8e9)
    chosen = plan(CINE, small)
    assert chosen.settings["size"] == (288, 288)
    assert chosen.settings["batch"] == {"full": 4, "partial": 8, "unlabeled": 0}
    assert "24, as usual, would not fit" in chosen.reasons[-1]
    assert small.fits(12, (288, 288))
    assert not small.fits(24, (288, 288))


def test_what_is_given_stays_as_it_is():
    assert plan(CINE, dims=3).settings["dims"] == 3
    assert "spacing" not in plan(CINE, spacing=(1.25, 1.25)).settings
    assert plan(CINE, spacing=(1.25, 1.25), size=(224, 224)).settings == {"dims": 2}
    stretched = plan(CINE, spacing=None)
    assert stretched.settings == {"dims": 2, "size": (256, 256)}
    assert "Every slice is stretched to one size." in stretched.reasons
    batch = {"full": 30, "partial": 0, "unlabeled": 0}
    crowded = plan(CINE, replace(PLENTY, memory=4e9, number=4), batch=batch)
    assert "batch" not in crowded.settings
    assert "may not fit" in crowded.reasons[-1]
    assert plan(CT, VOLUMES, patch=(32, 32, 32)).settings == {"dims": 3, "spacing": (0.8, 0.8, 1.5)}


def test_several_devices_share_a_batch():
    one, two = (replace(PLENTY, devices=devices) for devices in (1, 2))
    assert one.bytes(12, (256, 256)) == two.bytes(24, (256, 256)) == two.bytes(23, (256, 256))


@pytest.mark.real
def test_acdc_is_learned_slice_by_slice_and_the_atrium_as_volumes(real_data):
    acdc, la = ([read_header(case) for case in load(real_data / name)] for name in ("acdc", "la"))
    assert plan(acdc).settings == {"dims": 2, "spacing": None, "long_side": 256, "size": (256, 256)}
    assert plan(la, VOLUMES).settings == {"dims": 3, "spacing": (1.0, 1.0, 1.0), "patch": (144, 96, 64)}
