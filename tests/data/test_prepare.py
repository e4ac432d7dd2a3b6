import dataclasses
import errno
import fcntl
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing_folder
from mixseg.core.types import IGNORE, Source
from mixseg.data.intensity import to_8_bits
from mixseg.data.prepare import build
from mixseg.data.prepare.files import PrepareOptions, prepare
from mixseg.data.prepare.options import PARTIAL_FROM
from mixseg.data.prepare.store import Prepared
from mixseg.data.resample import resize_image, resize_labels, resize_strokes, to_slices, to_source
from mixseg.datasets import formats
from mixseg.datasets.partial_labels import GENERATORS
from scans import AFFINE, CLASSES, discs, write_case, write_cases
from stores import array_files

SMALL = PrepareOptions(size=(32, 28))


def hidden_files(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("offset", "step"), [(0, 1), (1e6, 1), (1e9, 1), (-1e9, 1), (0, 1e-39), (1, 1e-9), (0, 1e-300), (1e30, 1e22)]
)
def test_grey_values_survive_a_large_offset_and_a_small_range(offset, step):
    shown = np.arange(256, dtype=np.float64).reshape(16, 16)
    assert np.array_equal(to_8_bits(offset + step * shown)[0], shown)


def test_a_scan_whose_range_a_voxel_takes_up_is_told(tmp_path):
    image = np.random.default_rng(0).integers(0, 100, (40, 40, 8)).astype(np.float32)
    place = dataclasses.replace(write_case(tmp_path / "in", "a"), full=None, partial=None)

    def prepared(name):
        formats.write(place.image[0].path, image, affine=np.eye(4))
        return prepare([place], tmp_path / name, PrepareOptions(size=(40, 40)), workers=1)

    assert prepared("whole").remarks() == prepared("whole").cases[0].remarks() == []
    image[0, 0, 0] = 30000
    made = prepared("outlier")
    assert made.remarks() == made.cases[0].remarks()
    assert "1 scan (a_01) is nearly of one grey, with an sd under 4 of 256 grey values" in made.remarks()[0]


def test_a_structure_that_is_too_thin_for_the_grid_is_told(tmp_path):
    case = dataclasses.replace(write_case(tmp_path / "in", "a", shape=(40, 40, 40)), partial=None)
    mask = np.zeros((40, 40, 40), np.uint8)
    mask[10:30, 10:30, 10:30] = 1
    mask[5, :, :] = 2  # a sheet of one voxel
    mask[32:38, 32:38, 32:38] = 3
    for source, array in ((case.image[0], mask * 50), (case.full, mask)):
        formats.write(source.path, array, affine=np.eye(4))
    fine, coarse = (
        prepare([case], tmp_path / str(mm), PrepareOptions(dims=3, spacing=(mm, mm, mm)), workers=1)
        for mm in (1.0, 1.9)
    )
    assert fine.cases[0].thin == ()
    assert fine.remarks() == []
    assert coarse.cases[0].thin == (2,)
    (told,) = coarse.remarks()
    assert told.startswith("The training grid is too coarse for Myo: 1 of 1 full masks keep less than 80% of it there")


def test_slices_masks_and_strokes_lie_on_the_asked_grid(tmp_path):
    case = write_case(tmp_path / "in", "p1")
    prepared = prepare([case], tmp_path / "out", SMALL, workers=1)
    image, mask, strokes = discs((20, 24, 3), seed=sum(map(ord, "p1_01")))
    strokes[strokes == 4] = IGNORE
    entry = prepared.cases[0]
    assert prepared.image(entry).shape == (3, 1, 32, 28)
    assert (prepared.image(entry)[:, 0] == resize_image(to_slices(to_8_bits(image)[0]), (32, 28))).all()
    assert (prepared.full(entry) == resize_labels(to_slices(mask), (32, 28))).all()
    assert (prepared.partial(entry) == resize_strokes(to_slices(strokes), (32, 28))).all()


def test_the_index_knows_the_way_back(tmp_path):
    case = write_case(tmp_path / "in", "p1", split="val")
    prepared = prepare([case], tmp_path / "out", SMALL, workers=1)
    entry = prepared["p1_01"]
    assert (entry.patient, entry.header.frame, entry.split, entry.header.source) == ("p1", "01", "val", "p1_01.nii.gz")
    assert (entry.shape, entry.header.shape) == ((3, 32, 28), (20, 24, 3))
    np.testing.assert_allclose(entry.header.affine, AFFINE)
    np.testing.assert_allclose(entry.spacing, (8, 1.5 * 20 / 32, 1.25 * 24 / 28))
    back = to_source(prepared.full(entry), entry)
    assert (back == formats.read_labels(case.full).array).all()
    image = prepared.image(entry)
    np.testing.assert_allclose((entry.mean[0], entry.std[0]), (image.mean(), image.std()))
    original = formats.read(case.image[0]).array
    assert (entry.low, entry.high) == ((original.min(),), (original.max(),))


def test_the_first_and_last_grey_value_are_the_minimum_and_maximum_of_the_volume():
    array = np.array([-5.0, 0, 5, 15])
    grey, low, high = to_8_bits(array)
    assert grey.tolist() == [0, 64, 128, 255]
    assert (low, high) == (-5, 15)


def test_percentiles_clip_outliers():
    array = np.append(np.linspace(0, 100, 1001), 1e6)
    grey, low, high = to_8_bits(array, (0.0, 99.0))
    assert low == 0
    assert 98 < high < 100
    assert grey[-1] == 255


def test_an_image_of_one_value_is_black():
    assert not to_8_bits(np.full((2, 2), 7.0))[0].any()


def test_all_slices_are_one_array(tmp_path):
    prepared = prepare(write_cases(tmp_path / "in", 2), tmp_path / "out", SMALL, workers=1)
    image, full, partial = prepared.slices()
    assert (image.shape, full.shape, partial.shape) == ((12, 1, 32, 28), (12, 32, 28), (12, 32, 28))
    assert (image[3:6] == prepared.image(prepared.cases[1])).all()
    assert (full[9:] == prepared.full(prepared.cases[3])).all()
    assert image.flags.writeable  # torch warns of arrays that are not


def test_volumes_keep_their_grid_whatever_their_size(tmp_path):
    cases = [write_case(tmp_path / "in", "a", shape=(9, 11, 4)), write_case(tmp_path / "in", "b", shape=(12, 8, 5))]
    prepared = prepare(cases, tmp_path / "out", PrepareOptions(dims=3), workers=1)
    for case, entry in zip(cases, prepared.cases, strict=True):
        assert prepared.image(entry).shape == (1, *entry.header.shape)
        assert (prepared.image(entry)[0] == to_8_bits(formats.read(case.image[0]).array)[0]).all()
        assert (prepared.full(entry) == formats.read_labels(case.full).array).all()
    with pytest.raises(MixsegError, match="differ in size"):
        prepared.slices()


def test_slices_may_keep_their_own_size(tmp_path):
    prepared = prepare([write_case(tmp_path / "in", "a")], tmp_path / "out", PrepareOptions(size=None), workers=1)
    assert prepared.full(prepared.cases[0]).shape == (3, 20, 24)


@pytest.mark.parametrize("dims", [2, 3])
def test_several_channels_lie_side_by_side(tmp_path, dims):
    first, second = (write_case(tmp_path / "in", name) for name in "ab")
    both = [
        dataclasses.replace(first, image=(*first.image, *second.image)),
        dataclasses.replace(second, image=second.image * 2),
    ]
    prepared = prepare(both, tmp_path / "out", PrepareOptions(dims=dims, size=(32, 28)), workers=1)
    image = prepared.image(prepared.cases[0])
    assert image.shape == ((3, 2, 32, 28) if dims == 2 else (2, 20, 24, 3))
    channels = np.moveaxis(image, 1 if dims == 2 else 0, 0)
    alone = prepare([second], tmp_path / "alone", PrepareOptions(dims=dims, size=(32, 28)), workers=1)
    assert (channels[1].ravel() == alone.image(alone.cases[0]).ravel()).all()
    assert prepared.cases[0].mean == pytest.approx([channel.mean() for channel in channels])
    assert prepared.full(prepared.cases[1]).shape == prepared.cases[1].shape


def test_a_target_makes_the_other_classes_background(tmp_path):
    case = write_case(tmp_path / "in", "p1")
    every = prepare([case], tmp_path / "all", SMALL, workers=1)
    target = prepare([case], tmp_path / "lv", dataclasses.replace(SMALL, target=("LV",)), workers=1)
    assert target.classes == ("background", "LV")
    entry = every.cases[0]
    assert (target.full(entry) == (every.full(entry) == CLASSES.index("LV"))).all()
    drawn, kept = every.partial(entry), target.partial(entry)
    assert ((kept == IGNORE) == (drawn == IGNORE)).all()
    assert (kept[drawn != IGNORE] == (drawn[drawn != IGNORE] == 3)).all()
    with pytest.raises(MixsegError, match="target spleen is no class"):
        prepare([case], tmp_path / "x", dataclasses.replace(SMALL, target=("spleen",)), workers=1)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_works_on_the_prepared_grid_and_never_contradicts_the_mask(tmp_path, name, dims):
    options = PrepareOptions(dims=dims, size=(48, 40), partial=name)
    prepared = prepare([write_case(tmp_path / "in", "p1")], tmp_path / "out", options, workers=1)
    entry = prepared.cases[0]
    full, partial = prepared.full(entry), prepared.partial(entry)
    labelled = partial != IGNORE
    assert labelled.any()
    assert not labelled.all()
    assert (partial[labelled] == full[labelled]).all()
    rng = np.random.default_rng([0, zlib.crc32(b"p1_01")])
    assert (GENERATORS[name](full, rng, axis=0 if dims == 2 else -1) == partial).all()


def test_generated_labels_of_a_scan_do_not_depend_on_the_other_scans(tmp_path):
    cases = write_cases(tmp_path / "in", 2)
    options = dataclasses.replace(SMALL, partial="points")
    alone = prepare(cases[2:3], tmp_path / "one", options, workers=1)
    among = prepare(cases, tmp_path / "all", options, workers=1)
    other = prepare(cases[2:3], tmp_path / "seed", dataclasses.replace(options, seed=1), workers=1)
    assert (alone.partial(alone.cases[0]) == among.partial(among.cases[2])).all()
    assert (alone.partial(alone.cases[0]) != other.partial(other.cases[0])).any()


def test_a_scan_without_a_full_mask_keeps_its_drawn_strokes_beside_a_generator(tmp_path):
    cases = [write_case(tmp_path / "in", "a"), write_case(tmp_path / "in", "b", full=False)]
    made = prepare(cases, tmp_path / "made", dataclasses.replace(SMALL, partial="points"), workers=1)
    drawn = prepare(cases, tmp_path / "drawn", SMALL, workers=1)
    assert (made.partial(made.cases[1]) == drawn.partial(drawn.cases[1])).all()
    assert (made.partial(made.cases[0]) != drawn.partial(drawn.cases[0])).any()


def test_what_a_scan_does_not_have_is_all_ignore(tmp_path):
    cases = [
        write_case(tmp_path / "in", "a", drawn=False),
        write_case(tmp_path / "in", "b", full=False),
        write_case(tmp_path / "in", "c", full=False, drawn=False),
    ]
    prepared = prepare(cases, tmp_path / "out", SMALL, workers=1)
    assert [case.kind for case in prepared.cases] == ["full", "partial", "unlabeled"]
    for entry in prepared.cases:
        assert (prepared.full(entry) != IGNORE).any() == entry.has_full
        assert (prepared.partial(entry) != IGNORE).any() == entry.has_partial
    unlabeled = prepare(cases, tmp_path / "none", dataclasses.replace(SMALL, partial="none"), workers=1)
    assert [case.kind for case in unlabeled.cases] == ["full", "unlabeled", "unlabeled"]
    assert (unlabeled.slices()[2] == IGNORE).all()


def test_a_second_call_returns_what_is_there(tmp_path):
    cases = write_cases(tmp_path / "in", 1)
    first = prepare(cases, tmp_path / "out", SMALL, workers=1)
    made = array_files(tmp_path / "out")
    again = prepare(cases, tmp_path / "out", SMALL, workers=1)
    assert array_files(tmp_path / "out") == made
    assert (again.hash, again.content) == (first.hash, first.content)


@pytest.mark.parametrize(
    "change",
    [
        {"size": (16, 16)}, {"size": None}, {"dims": 3}, {"target": ("LV",)}, {"partial": "points"}, {"seed": 1},
        {"clip": (1.0, 99.0)},
    ],
)  # fmt: skip
def test_every_option_changes_the_hash(tmp_path, change):
    cases = write_cases(tmp_path / "in", 1)
    before = prepare(cases, tmp_path / "out", SMALL, workers=1)
    after = prepare(cases, tmp_path / "out", dataclasses.replace(SMALL, **change), workers=1)
    assert before.hash != after.hash
    assert not hidden_files(tmp_path)


def test_a_changed_file_changes_the_hash_and_the_content(tmp_path):
    cases = write_cases(tmp_path / "in", 1)
    before = prepare(cases, tmp_path / "out", SMALL, workers=1)
    path = cases[0].full.path
    formats.write(path, np.zeros((20, 24, 3), np.uint8), affine=AFFINE)
    after = prepare(cases, tmp_path / "out", SMALL, workers=1)
    assert before.hash != after.hash
    assert before.content != after.content
    assert not after.full(after.cases[0]).any()


def test_other_cases_another_order_and_another_meaning_of_ids_change_the_hash(tmp_path):
    cases = write_cases(tmp_path / "in", 1)
    swapped = [dataclasses.replace(c, full=Source(c.full.files, ids={0: 0, 1: 2, 2: 1, 3: 3})) for c in cases]
    hashes = {
        prepare(some, tmp_path / "out", SMALL, workers=1).hash for some in (cases, cases[:1], cases[::-1], swapped)
    }
    assert len(hashes) == 4


def test_several_processes_make_the_same_arrays(tmp_path):
    cases = write_cases(tmp_path / "in", 3)
    options = dataclasses.replace(SMALL, partial="scribbles")
    one = prepare(cases, tmp_path / "one", options, workers=1)
    two = prepare(cases, tmp_path / "two", options, workers=2)
    assert one.index == two.index


def test_masks_that_do_not_lie_on_their_image_are_refused_by_name(tmp_path):
    case, other = write_case(tmp_path / "in", "a"), write_case(tmp_path / "in", "b", shape=(20, 20, 3))
    broken = dataclasses.replace(case, full=other.full)
    with pytest.raises(MixsegError, match=r"b_01_full.nii.gz does not lie on its image .*a_01.nii.gz: the sizes are"):
        prepare([broken], tmp_path / "out", SMALL)
    assert not (tmp_path / "out").exists()


def test_an_error_in_a_worker_names_the_file_and_leaves_what_is_finished(tmp_path):
    cases = write_cases(tmp_path / "in", 3)
    formats.write(cases[4].full.path, np.full((20, 24, 3), 9, np.uint8), affine=AFFINE)
    with pytest.raises(MixsegError, match=cases[4].full.path.name):
        prepare(cases, tmp_path / "out", SMALL, workers=2)
    assert not (tmp_path / "out" / "index.json").exists()
    finished = array_files(tmp_path / "out")
    whole = prepare(cases[:4], tmp_path / "out", SMALL, workers=1)
    assert len(whole.cases) == 4
    assert finished.items() <= array_files(tmp_path / "out").items()


def test_bad_requests_are_one_sentence(tmp_path):
    case = write_case(tmp_path / "in", "a")
    missing = dataclasses.replace(case, full=Source((tmp_path / "gone.nii.gz",), ids={0: 0}))
    for cases, message in [
        ([], "no scan to prepare"),
        ([case, case], "Two scans are called a_01"),
        ([case, dataclasses.replace(case, id="b", classes=("background", "LA"))], "b has the classes background, LA"),
        ([case, dataclasses.replace(case, id="b", image=case.image * 2)], "b has 2 channels"),
        ([missing], "gone.nii.gz cannot be read"),
    ]:
        with pytest.raises(MixsegError, match=message):
            prepare(cases, tmp_path / "out", SMALL)
    for options, message in [
        ({"dims": 4}, "dims is 4"),
        ({"size": (0, 3)}, "size is"),
        ({"partial": "scribble"}, f"choose {', '.join(PARTIAL_FROM[:2])}"),
        ({"clip": (99.0, 1.0)}, "clip is"),
        ({"seed": -1}, "seed is -1"),
    ]:
        with pytest.raises(MixsegError, match=message):
            PrepareOptions(**options)


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    case = write_case(tmp_path / "in", "a")
    with pytest.raises(MixsegError, match=r"in is no prepared folder .* not empty \(a_01.nii.gz\): choose a new"):
        prepare([case], tmp_path / "in", SMALL, workers=1)
    (tmp_path / "file").touch()
    with pytest.raises(MixsegError, match="is a file"):
        prepare([case], tmp_path / "file", SMALL, workers=1)
    assert case.image[0].path.is_file()


@pytest.mark.parametrize(("bad", "where"), [(1440, "all of its"), (7, "7 of its 1440")])
@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e300])
def test_an_image_with_voxels_that_are_no_numbers_is_refused_by_name(tmp_path, bad, where, value):
    case = write_case(tmp_path / "in", "a")
    array = np.ones((20, 24, 3))
    array.flat[:bad] = value
    formats.write(case.image[0].path, array, affine=AFFINE)
    with pytest.raises(MixsegError, match=rf"a_01\.nii\.gz holds nan or inf in {where} voxels: export"):
        prepare([case], tmp_path / "out", SMALL, workers=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("at", ["pathlib.Path.write_bytes", "os.fsync"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(tmp_path, monkeypatch, at):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    case = write_case(tmp_path / "in", "a")
    monkeypatch.setattr(at, full)
    with pytest.raises(MixsegError) as caught:
        prepare([case], tmp_path / "out", SMALL, workers=1)
    assert caught.value.code == "disk-full"
    assert (tmp_path / "out") in caught.value.fields["file"].parents
    assert not list((tmp_path / "out").rglob(".*"))
    monkeypatch.undo()
    assert prepare([case], tmp_path / "out", SMALL, workers=1).full


def test_a_file_that_grows_past_its_limit_is_one_sentence(tmp_path):
    case = write_case(tmp_path / "in", "a", shape=(64, 64, 8))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(MixsegError) as caught:
            prepare([case], tmp_path / "out", PrepareOptions(size=None), workers=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.code == "file-too-large"
    assert not array_files(tmp_path / "out")


def test_a_disk_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    case = write_case(tmp_path / "in", "a")

    def read_only(path, **_):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(MixsegError) as caught:
        prepare([case], tmp_path / "out", SMALL, workers=1)
    assert caught.value.code == "no-permission"


def test_arrays_are_synced_as_every_system_can(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE))
    prepare([write_case(tmp_path / "in", "a")], tmp_path / "out", SMALL, workers=1)
    assert len(synced) >= 4
    assert os.O_RDONLY not in synced, "Windows syncs only what may be written"


def test_of_two_processes_that_prepare_the_same_both_are_right(tmp_path, monkeypatch):
    cases = write_cases(tmp_path / "in", 1)
    out, theirs = tmp_path / "out", []

    def overtaken(job):
        if not theirs:
            other = multiprocessing.get_context("spawn").Process(target=prepare, args=(cases, out, SMALL))
            other.start()
            other.join()
            theirs.append(Prepared(out).content)
        return make(job)

    make = build._make
    monkeypatch.setattr(build, "_make", overtaken)
    prepared = prepare(cases, out, SMALL, workers=1)
    assert theirs == [prepared.content] == [Prepared(out).content]
    assert prepared.slices()[0].any()
    assert not list(out.rglob(".*"))


@pytest.mark.parametrize("worth", [True, False])
def test_a_folder_that_appears_at_the_last_moment_stays_if_it_is_as_good(tmp_path, worth):
    path = tmp_path / "out"
    with replacing_folder(path, marker="mark", is_there=lambda: worth) as ours:
        (ours / "mark").write_text("ours")
        path.mkdir()
        (path / "mark").write_text("theirs")
    assert (path / "mark").read_text() == ("theirs" if worth else "ours")
    assert not hidden_files(tmp_path)


@pytest.mark.parametrize("content", [b"broken", b"", b'{"format": 0}', b"[]", b'{"format": 2}'])
def test_a_damaged_index_is_one_sentence_and_is_made_again_from_what_is_there(tmp_path, content):
    cases = write_cases(tmp_path / "in", 1)
    whole = prepare(cases, tmp_path / "out", SMALL, workers=1).content
    made = array_files(tmp_path / "out")
    (tmp_path / "out" / "index.json").write_bytes(content)
    with pytest.raises(MixsegError, match=r"prepare the scans again|not valid JSON|remove"):
        Prepared(tmp_path / "out")
    assert prepare(cases, tmp_path / "out", SMALL, workers=1).content == whole
    assert array_files(tmp_path / "out") == made


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_kill_loses_the_scan_at_work_alone(tmp_path, how):
    cases = write_cases(tmp_path / "in", 2)
    old = prepare(cases[:1], tmp_path / "out", SMALL, workers=1)
    script = tmp_path / "slow.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from scans import write_cases
        from mixseg.core import files as core
        from mixseg.data.prepare import build, entries, files
        make, done = build._make, []
        def counted(job):
            if len(done) == 2:
                def slow(*_):
                    print("half of one is written", flush=True)
                    time.sleep(60)
                entries.checksum = slow
            done.append(job)
            return make(job)
        build._make = counted
        files.prepare(write_cases(Path({str(tmp_path / "in")!r}), 2), Path({str(tmp_path / "out")!r}),
                      files.PrepareOptions(size=(32, 28)), workers=1)
        """)
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half of one is written\n"
        process.send_signal(how)
        process.wait(timeout=20)
    assert Prepared(tmp_path / "out").content == old.content, "the index is the old one"
    made = array_files(tmp_path / "out")
    assert len(made) in (9, 10), "three scans of three arrays, and the image that was not finished"
    whole = prepare(cases, tmp_path / "out", SMALL, workers=1)
    after = array_files(tmp_path / "out")
    assert sum(after[path] == state for path, state in made.items()) == 9
    assert len(after) == 12
    assert whole.content == prepare(cases, tmp_path / "fresh", SMALL, workers=1).content
    assert not list((tmp_path / "out").rglob(".*"))


def test_prepared_arrays_are_read_with_numpy_alone(tmp_path):
    prepare([write_case(tmp_path / "in", "a")], tmp_path / "out", SMALL, workers=1)
    code = (
        "import sys; from pathlib import Path; from mixseg.data.prepare.store import Prepared; "
        "from mixseg.data import resample, supervision; from mixseg.data.prepare import archive; "
        f"p = Prepared(Path({str(tmp_path / 'out')!r})); p.image(p.cases[0]).sum(); "
        "print(sorted({'torch', 'nibabel', 'SimpleITK', 'h5py', 'skimage'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.slow
@pytest.mark.real
def test_all_acdc_patients_are_prepared_within_a_minute(real_data, tmp_path):
    datasets = pytest.importorskip("mixseg.datasets")
    cases = datasets.load(real_data / "acdc")
    started = time.monotonic()
    prepared = prepare(cases, tmp_path / "out", PrepareOptions(target=("LV",), partial="erosion-3x3"))
    assert time.monotonic() - started < 60
    assert len(prepared.cases) == 160
    _, full, partial = prepared.slices()
    positive = (full == 1).any(axis=(1, 2))
    share = (partial[positive] == 1).sum() / (full[positive] == 1).sum()
    assert share == pytest.approx(0.099, rel=0.05)
