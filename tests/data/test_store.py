"""The store: an entry for each array of a scan, made when what it is made from is new, and checked when it is read."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Source
from mixseg.data.prepare import entries
from mixseg.data.prepare.files import PrepareOptions, prepare
from mixseg.data.prepare.store import Prepared
from mixseg.data.prepare.upkeep import AT_WORK, damages, indexes
from mixseg.datasets import formats
from scans import AFFINE, write_case, write_cases
from stores import array_files, file_of, flip_a_bit, same_arrays

SMALL = PrepareOptions(size=(32, 28))
PARTS = ("image", "full", "partial")


@pytest.fixture
def cases(tmp_path):
    return write_cases(tmp_path / "in", 2)


@pytest.fixture
def store(cases, tmp_path):
    return prepare(cases, tmp_path / "out", SMALL, workers=1)


def again(cases, store, options=SMALL, **more):
    """The store of these cases, and which arrays of it were made anew."""
    before = array_files(store.folder)
    made = prepare(cases, store.folder, options, workers=1, **more)
    after = array_files(store.folder)
    return made, {path for path, state in after.items() if before.get(path) != state}


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    arrays(np.uint8, array_shapes(min_dims=3, max_dims=3, max_side=9), elements=st.sampled_from([0, 1, 2, IGNORE])),
    st.integers(0, 3),
)
def test_labels_of_any_kind_come_back_as_they_were(tmp_path_factory, labels, beyond):
    store = tmp_path_factory.mktemp("store")
    cropped = np.arange(4 * beyond, dtype=np.int32).reshape(beyond, 4) - 2
    for number, one in enumerate((labels, np.where(labels == 1, labels, np.uint8(IGNORE)))):
        key = f"{number}abc"
        facts = entries.write_labels(store, key, one, {"thin": (1,)}, cropped)
        entry = entries.Entry(key, facts["checksum"])
        found, outside = entries.read_labels(store, entry, one.shape, verify=True)
        assert np.array_equal(found, one)
        assert found.dtype == np.uint8
        assert np.array_equal(outside, cropped)
        assert entries.read_facts(store, "full", key) == {"checksum": facts["checksum"], "thin": [1]}
    assert entries.listed(store) == {"0abc", "1abc"}


def test_a_changed_label_is_prepared_alone(cases, store):
    drawn = cases[2].partial.path
    labels = np.full((20, 24, 3), 4, np.uint8)
    labels[3, 4:9] = 1
    formats.write(drawn, labels, affine=AFFINE)
    made, new = again(cases, store)
    assert new == {file_of(made, made.cases[2], "partial")}
    assert (made.partial(made.cases[2]) != IGNORE).sum() < (store.partial(store.cases[2]) != IGNORE).sum()
    for number in (0, 1, 3):
        assert np.array_equal(made.partial(made.cases[number]), store.partial(store.cases[number]))
    assert made.content != store.content
    assert made.content == prepare(cases, store.folder.with_name("fresh"), SMALL, workers=1).content


def test_a_new_label_a_new_scan_and_one_that_is_gone_cost_no_more_than_themselves(cases, store, tmp_path):
    unlabeled = [*cases[:3], replace(cases[3], full=None, partial=None)]
    fewer, new = again(unlabeled, store)
    assert new == set()
    assert fewer.cases[3].kind == "unlabeled"
    assert (fewer.full(fewer.cases[3]) == IGNORE).all()
    _, new = again(cases, store)
    assert new == set(), "the entries are still there"
    made, new = again([*cases, write_case(tmp_path / "in", "z")], store)
    assert new == {file_of(made, made.cases[4], part) for part in PARTS}
    made, new = again(cases[1:], store)
    assert new == set()
    assert [case.id for case in made.cases] == [case.id for case in cases[1:]]
    assert same_arrays(made, prepare(cases[1:], tmp_path / "fresh", SMALL, workers=1))


def test_files_that_are_copied_or_touched_are_the_same(cases, store, tmp_path):
    for path in (tmp_path / "in").iterdir():
        os.utime(path, ns=(1, 1))
    made, new = again(cases, store)
    assert (new, made.hash) == (set(), store.hash)
    shutil.copytree(tmp_path / "in", tmp_path / "elsewhere")

    def moved(source):
        return replace(source, files=tuple(tmp_path / "elsewhere" / path.name for path in source.files))

    there = [
        replace(case, image=tuple(map(moved, case.image)), full=moved(case.full), partial=moved(case.partial))
        for case in cases
    ]
    made, new = again(there, store)
    assert (new, made.hash) == (set(), store.hash)


def test_only_what_depends_on_an_option_is_made_anew(cases, store):
    def kinds(**changes):
        made, new = again(cases, store, replace(SMALL, **changes), index=f"index-{len(indexes(store.folder))}.json")
        return {part for part in PARTS for case in made.cases if file_of(made, case, part) in new}

    assert kinds(partial="erosion-3x3") == {"partial"}
    assert kinds(clip=(1.0, 99.0)) == {"image"}
    assert kinds(target=("LV",)) == {"full", "partial"}
    assert kinds(seed=3) == set(), "drawn labels depend on no seed"
    assert kinds(spacing=(1.0, 1.0)) == set(PARTS)
    assert len(indexes(store.folder)) == 6
    assert same_arrays(Prepared(store.folder), store), "each index keeps what it names"


def test_an_id_that_means_something_else_is_another_label(cases, store):
    swapped = replace(cases[0], full=Source(cases[0].full.files, ids={0: 0, 1: 2, 2: 1, 3: 3}))
    made, new = again([swapped, *cases[1:]], store)
    assert new == {file_of(made, made.cases[0], "full")}


@pytest.mark.parametrize("part", PARTS)
def test_one_flipped_bit_is_one_sentence_and_the_others_can_be_used(cases, store, part):
    hurt = store.cases[1]
    path, told = file_of(store, hurt, part), []
    for seed in range(12):
        whole = path.read_bytes()
        flip_a_bit(path, seed)
        fresh = Prepared(store.folder)
        try:
            values = getattr(fresh, part)(hurt)
        except MixsegError as error:
            told.append((error.code, error.fields["file"]))
        else:  # a bit that fills up the last byte of what is compressed, say
            assert np.array_equal(values, getattr(store, part)(hurt))
        for read in set(PARTS) - {part}:
            assert np.array_equal(getattr(fresh, read)(hurt), getattr(store, read)(hurt))
        assert np.array_equal(getattr(fresh, part)(fresh.cases[0]), getattr(store, part)(store.cases[0]))
        path.write_bytes(whole)
    assert set(told) == {("broken-entry", path)}
    assert len(told) == 12 if part == "image" else len(told) >= 10
    assert list(damages(store.folder)) == []


def test_verify_finds_what_is_damaged_and_the_next_prepare_makes_it_anew(cases, store, capsys):
    broken = {("image", 0), ("full", 2), ("partial", 3)}
    paths = {file_of(store, store.cases[number], part) for part, number in broken}
    for path in paths:
        flip_a_bit(path)
    folder = str(store.folder)
    assert main(["store", "verify", folder, "--json"]) == 3
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["part"], row["scan"]) for row in told if "part" in row} == {
        (part, store.cases[number].id) for part, number in broken
    }
    assert again(cases, store)[1] == set(), "nobody knows yet"
    assert main(["store", "verify", folder, "--drop"]) == 3
    made, new = again(cases, store)
    assert new == paths
    assert made.content == store.content
    capsys.readouterr()
    assert main(["store", "verify", folder]) == 0


def test_a_half_copied_store_says_what_is_missing_and_is_completed(cases, store, tmp_path):
    half = shutil.copytree(store.folder, tmp_path / "half")
    gone = [file_of(store, store.cases[number], "image") for number in (0, 1)]
    missing = [half / path.relative_to(store.folder) for path in gone]
    missing[0].unlink()
    missing[1].write_bytes(missing[1].read_bytes()[:100])
    copied = Prepared(half)
    for number in (0, 1):
        with pytest.raises(MixsegError) as caught:
            copied.image(copied.cases[number])
        assert (caught.value.code, caught.value.fields["file"]) == ("broken-entry", missing[number])
    assert np.array_equal(copied.image(copied.cases[2]), store.image(store.cases[2]))
    made, new = again(cases, copied)
    assert new == {missing[0]}, "what is short is found by verify, or when it is read"
    assert main(["store", "verify", str(half), "--drop"]) == 3
    made, new = again(cases, copied)
    assert new == {missing[1]}
    assert same_arrays(made, store)


def test_what_no_index_names_is_collected_unless_somebody_may_be_about_to(cases, store, capsys):
    before = array_files(store.folder)
    kept, _ = again(cases[:2], store)
    folder = str(store.folder)
    (store.folder / "entries" / "00").mkdir(exist_ok=True)
    assert main(["store", "gc", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 0
    for file in entries.files(store.folder):
        os.utime(file.path, (file.stat().st_mtime - 2 * AT_WORK,) * 2)
    assert main(["store", "gc", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 6
    assert len(array_files(store.folder)) == len(before) - 6
    assert all(array.any() for array in kept.slices())
    again(cases, store)
    again(cases[:2], store)
    assert main(["store", "gc", folder, "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 6


def test_a_store_is_listed_scan_by_scan(cases, tmp_path, capsys):
    some = [cases[0], replace(cases[1], full=None), replace(cases[2], full=None, partial=None)]
    made = prepare(some, tmp_path / "out", SMALL, workers=1)
    assert main(["store", "ls", str(made.folder), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["scan"], row["kind"], sorted(row["bytes"])) for row in told] == [
        (cases[0].id, "full", ["full", "image", "partial"]),
        (cases[1].id, "partial", ["image", "partial"]),
        (cases[2].id, "unlabeled", ["image"]),
    ]
    on_disk = {path: path.stat().st_size for path in array_files(made.folder)}
    assert sum(sum(row["bytes"].values()) for row in told) == sum(on_disk.values())


@pytest.mark.parametrize(
    ("words", "code"),
    [(["ls", "nowhere"], 4), (["verify", "in"], 4), (["gc", "in"], 4), (["ls", "out", "--drop"], 2)],
)
def test_what_is_no_store_is_one_sentence(store, tmp_path, monkeypatch, capsys, words, code):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["store", *words]) == code
    assert capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_store_of_a_later_version_is_left_alone(cases, store):
    path = store.folder / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 3}))
    for read in (Prepared, indexes):
        with pytest.raises(MixsegError) as caught:
            read(store.folder)
        assert caught.value.code == "other-version"
    assert main(["store", "gc", str(store.folder), "--all"]) == 4
    made, new = again(cases, store)
    assert (new, made.content) == (set(), store.content)
