"""Files are whole or absent, and what the disk refuses is one sentence."""

import errno
import fcntl
import os
import subprocess
import sys

import numpy as np
import pytest

from mixseg.core.errors import MixsegError
from mixseg.core.files import WRITING, check_name, explained, replacing, sweep, write_json, writing_arrays
from mixseg.core.text_files import read_json


def leftovers(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".writing-")]


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "scan.nii.gz"
    with replacing(path) as temporary:
        assert temporary.parent == path.parent
        assert temporary.name.endswith(".nii.gz"), "writers that go by the suffix write the right format"
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert not leftovers(path.parent)


def test_what_is_no_file_is_not_replaced_by_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(MixsegError, match="pipe is no file that could be replaced: name another"):
        write_json(pipe, {})
    assert pipe.is_fifo()
    assert not leftovers(tmp_path)


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:  # noqa: PT012 - the first half succeeds
        temporary.write_text("half")
        _ = 1 / 0
    assert path.read_text() == "old"
    assert not leftovers(tmp_path)


def test_what_a_killed_process_was_writing_is_swept_and_nothing_else(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    write_json(tmp_path / "mine.json", {})
    (tmp_path / f"{WRITING}{dead.pid}-x.pt").write_text("half")
    kept = [f"{WRITING}{os.getpid()}-x.pt", f"{WRITING}other", ".writing-elsewhere-1-x.pt", "mine.json"]
    for name in kept:
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    sweep(tmp_path / "nowhere")


def test_a_written_file_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_json(tmp_path / "a.json", {})
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640


def test_a_file_is_synced_as_every_system_can(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE))
    write_json(tmp_path / "a.json", {})
    assert synced == [os.O_RDWR], "Windows syncs only what may be written"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left to write"),
        (errno.EDQUOT, "No space left to write"),
        (errno.EACCES, "No permission to write"),
        (errno.EROFS, "No permission to write"),
        (errno.EFBIG, "larger than a file may be"),
    ],
)
def test_what_the_disk_refuses_is_one_sentence_about_the_file(tmp_path, number, words):
    path = tmp_path / "mine.pt"
    with pytest.raises(MixsegError, match=words) as caught, explained(path):
        raise OSError(number, os.strerror(number))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["inner", "."])
def test_a_folder_is_not_replaced_by_a_file(tmp_path, name):
    (tmp_path / "inner").mkdir()
    with pytest.raises(MixsegError, match=r"is a folder: name a file"):
        write_json(tmp_path / name, {})
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]


def test_other_errors_are_not_dressed_up(tmp_path):
    with pytest.raises(OSError, match="it is broken"), explained(tmp_path):
        raise OSError(errno.EIO, "it is broken")


def test_json_goes_there_and_back_and_a_broken_one_is_named(tmp_path):
    path = tmp_path / "a.json"
    content = {"a": [1, 2.5, None, "ä"], "b": {}}
    write_json(path, content)
    assert read_json(path) == content
    path.write_text("{")
    with pytest.raises(MixsegError, match=r"a\.json is not valid JSON"):
        read_json(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MixsegError, match=r"a\.json is not valid JSON"):
        read_json(path)
    path.unlink()
    with pytest.raises(MixsegError, match=r"a\.json does not exist"):
        read_json(path)
    assert read_json(path, missing_ok=True) is None


def test_arrays_are_kept_one_by_one_and_read_as_one_archive(tmp_path):
    arrays = {"last/top/a": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "best/b/c.d": np.zeros((0, 2), np.uint8)}
    with writing_arrays(tmp_path / "maps.npz") as keep:
        for name, array in arrays.items():
            keep(name, array)
        assert not (tmp_path / "maps.npz").exists(), "whole or absent"
    with np.load(tmp_path / "maps.npz", allow_pickle=False) as held:
        assert held.files == list(arrays)
        for name, array in arrays.items():
            assert np.array_equal(held[name], array)
    np.savez_compressed(tmp_path / "numpys.npz", **arrays)
    assert (tmp_path / "maps.npz").stat().st_size < 1.5 * (tmp_path / "numpys.npz").stat().st_size


def test_an_array_for_which_the_disk_has_no_room_is_one_sentence_and_no_archive(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", refuse)
    with (
        pytest.raises(MixsegError, match=r"No space left to write .*maps\.npz"),
        writing_arrays(tmp_path / "maps.npz") as keep,
    ):
        keep("a", np.zeros(3, np.uint8))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/x", "a/b", "a\\b", "x\0"])
def test_a_name_that_leads_to_another_folder_is_one_sentence(name):
    with pytest.raises(MixsegError, match=r"^The scan .* in here cannot be part of a file name: rename it"):
        check_name("scan", name, "here")


@pytest.mark.parametrize("name", ["a", "patient001_frame01", "left ventricle", "a.b", "..a", "Größe (2)"])
def test_any_other_name_will_do(name):
    check_name("scan", name, "here")
