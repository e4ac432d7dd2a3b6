"""``mixseg complete`` from the command line: what was drawn stays, what was corrected stays, nothing is lost."""

import csv
import json
import shutil

import nibabel
import numpy as np
import pytest

from mixseg.annotate.corrections import FOLDER
from mixseg.annotate.refinement import CORRECTED, DRAWN
from mixseg.cli import main
from mixseg.core.text_files import read_json
from mixseg.core.types import Source
from mixseg.datasets import formats, phantom
from mixseg.datasets.formats.label_files import FORMATS, Segmented

TINY = ["--preset", "quick", "--set", "steps=2", "--set", "size=[32,32]", "--set", "width=2", "--set", "depth=2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Scans of which three patients have strokes, and a run on them that has hardly learnt anything."""
    folder = tmp_path_factory.mktemp("made")
    phantom.write(folder / "all", patients=8, val=1, test=1, size=(32, 32), slices=3)
    words = ["simulate", str(folder / "scans"), "--from", str(folder / "all"), "--partial", "scribbles"]
    assert main([*words, "--keep-full", "3"]) == 0
    assert main(["train", str(folder / "scans"), "--out", str(folder / "run"), *TINY]) == 0
    return folder


@pytest.fixture
def complete(made, tmp_path):
    """Complete the scans; the exit code."""

    def call(*words, scans="scans", run="run", out=None):
        return main(
            ["complete", str(made / scans), "--run", str(made / run), "-o", str(out or tmp_path / "out"), *words]
        )

    return call


def read(path):
    return np.asarray(nibabel.load(path).dataobj)


def strokes_of(made):
    """Case -> ids in the files of those that have unlabeled voxels."""
    found = {path.name[: -len(".nii.gz")]: read(path) for path in (made / "scans" / "labelsTr").glob("*.nii.gz")}
    return {case: ids for case, ids in found.items() if (ids == 4).any()}


def test_every_stroke_stays_and_full_masks_are_left_alone(made, complete, tmp_path, capsys):
    assert complete("--json") == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    strokes = strokes_of(made)
    out = tmp_path / "out"
    maps = {path.name[: -len(".nii.gz")] for path in out.glob("*_frame??.nii.gz")}
    assert maps == set(strokes) == {each["scan"] for each in said}
    for case, ids in strokes.items():
        labels, origin = read(out / f"{case}.nii.gz"), read(out / f"{case}_provenance.nii.gz")
        known = ids != 4
        assert np.array_equal(labels[known], ids[known])
        assert np.array_equal(origin == DRAWN, known)
        sidecar = read_json(out / f"{case}.mixseg.json")
        assert sidecar["provenance"]["LV"]["drawn"] == int((ids == 3).sum())
        assert np.array_equal(
            nibabel.load(out / f"{case}.nii.gz").affine,
            nibabel.load(made / "scans/imagesTr" / f"{case}_0000.nii.gz").affine,
        )
    with (out / "trust.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["scan"] for row in rows} == maps
    of_scan = {row["scan"]: [each for each in rows if each["scan"] == row["scan"]] for row in rows}
    least = [min(float(row["soft_dice"] or 0) for row in own) for own in of_scan.values()]
    assert least == sorted(least)


def test_the_same_command_leaves_the_same_bytes(complete, tmp_path):
    assert complete() == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert complete() == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def correct(path, index=1):
    """Change a corner of a label map, as a viewer saves it; returns where."""
    image = nibabel.load(path)
    labels = np.asarray(image.dataobj).copy()
    where = np.zeros(labels.shape, bool)
    where[:4, :4] = True
    where &= labels != index
    labels[where] = index
    nibabel.save(nibabel.Nifti1Image(labels, image.affine, image.header), path)
    return where


def test_what_was_corrected_stays_with_the_same_run_and_with_another(made, complete, tmp_path):
    assert complete() == 0
    case, ids = next(iter(strokes_of(made).items()))
    path = tmp_path / "out" / f"{case}.nii.gz"
    where = correct(path)
    assert where.any()
    if not (made / "other").exists():
        assert main(["train", str(made / "scans"), "--out", str(made / "other"), *TINY, "--set", "seed=1"]) == 0
    for run in ("run", "other", "other"):
        assert complete(run=run) == 0
        labels, origin = read(path), read(tmp_path / "out" / f"{case}_provenance.nii.gz")
        assert (labels[where] == 1).all()
        assert np.array_equal(origin == CORRECTED, where)
        rest = (ids != 4) & ~where
        assert np.array_equal(labels[rest], ids[rest])
    assert len(list((tmp_path / "out" / FOLDER).glob(f"{case}.*"))) == 1


@pytest.mark.parametrize("cut", ["before the map", "after the map"])
def test_a_kill_between_two_files_makes_no_corrections(cut, made, complete, tmp_path, monkeypatch):
    assert complete() == 0
    case = next(iter(strokes_of(made)))
    where = correct(tmp_path / "out" / f"{case}.nii.gz")
    if not (made / "other").exists():
        assert main(["train", str(made / "scans"), "--out", str(made / "other"), *TINY, "--set", "seed=1"]) == 0
    shutil.copytree(tmp_path / "out", tmp_path / "undisturbed")
    assert complete(run="other", out=tmp_path / "undisturbed") == 0

    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    if cut == "before the map":
        monkeypatch.setattr(FORMATS["nii.gz"].__class__, "write", property(lambda self: killed), raising=False)
        monkeypatch.setattr("mixseg.annotate.folder.formats.write", killed)
    else:
        monkeypatch.setattr("mixseg.annotate.folder.forget_others", killed)
    with pytest.raises(Killed):
        complete(run="other")
    monkeypatch.undo()
    assert complete(run="other") == 0
    for name in (f"{case}.nii.gz", f"{case}_provenance.nii.gz"):
        assert np.array_equal(read(tmp_path / "out" / name), read(tmp_path / "undisturbed" / name))
    assert (read(tmp_path / "out" / f"{case}_provenance.nii.gz") == CORRECTED).sum() == where.sum()


def test_segments_come_back_by_their_names(made, complete, tmp_path):
    assert complete("--format", "seg.nrrd") == 0
    case = next(iter(strokes_of(made)))
    path = tmp_path / "out" / f"{case}.seg.nrrd"
    names = formats.segment_names(path)
    assert set(names.values()) <= {"RV", "Myo", "LV"}
    labels = np.asarray(formats.read_ids(path).array)
    index = {number: ["background", "RV", "Myo", "LV"].index(name) for number, name in names.items()} | {0: 0}
    found = np.vectorize(index.get)(labels).astype(np.uint8)
    found[:3, :3] = 2
    image = next(source for source in (made / "scans/imagesTr").glob(f"{case}_*"))
    FORMATS["seg.nrrd"].write(path, Segmented(found, ("background", "RV", "Myo", "LV"), Source((image,))))
    assert complete("--format", "seg.nrrd") == 0
    names = formats.segment_names(path)
    again = np.asarray(formats.read_ids(path).array)
    assert {names[number] for number in np.unique(again[:3, :3])} == {"Myo"}


def test_label_maps_of_others_are_not_overwritten(made, complete, tmp_path):
    case = next(iter(strokes_of(made)))
    foreign = tmp_path / "out" / f"{case}.nii.gz"
    foreign.parent.mkdir()
    shutil.copy(made / "scans" / "labelsTr" / f"{case}.nii.gz", foreign)
    before = foreign.read_bytes()
    assert complete() == 4
    assert foreign.read_bytes() == before
    assert list(foreign.parent.iterdir()) == [foreign]


def test_label_maps_do_not_lie_beside_images(made, complete):
    assert complete(out=made / "scans" / "imagesTr") == 4


def test_a_folder_without_anything_to_finish_is_told(made, complete, capsys):
    assert complete("--json", scans="all") == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "nothing-to-complete"


def test_a_class_that_the_run_does_not_know_is_told_scan_by_scan(made, complete, tmp_path, capsys):
    other = made / "renamed"
    if not other.exists():
        shutil.copytree(made / "scans", other)
        description = read_json(other / "dataset.json")
        description["labels"] = {name.replace("LV", "scar"): index for name, index in description["labels"].items()}
        (other / "dataset.json").write_text(json.dumps(description))
    assert complete("--json", scans="renamed") == 3
    codes = [json.loads(line)["error"]["code"] for line in capsys.readouterr().out.splitlines()]
    assert set(codes[:-1]) == {"class-unknown"}
    assert codes[-1] == "some-failed"


def test_a_correction_on_another_grid_is_told(made, complete, tmp_path, capsys):
    assert complete("-q") == 0
    case = next(iter(strokes_of(made)))
    path = tmp_path / "out" / f"{case}.nii.gz"
    nibabel.save(nibabel.load(path).slicer[1:], path)
    capsys.readouterr()
    assert complete("--json") == 3
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["error"]["code"] for each in found if each.get("scan") == case] == ["geometry-differs"]
