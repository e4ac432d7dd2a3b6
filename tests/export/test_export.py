"""Models handed over: one file for mixseg, and a network that a program without torch and mixseg segments with."""

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile

import nibabel
import numpy as np
import pytest
from scipy import ndimage

import mixseg
from grids import write_scans
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.export import FORMATS, export, runner
from mixseg.export.exported import hash_of
from mixseg.runs.model_file import MEMBERS, ModelFile

SETTINGS = {
    "stretched slices": {"dims": 2, "size": [24, 40], "width": 2, "depth": 2},
    "resampled slices": {"dims": 2, "spacing": [7.0, 9.0], "size": [32, 24], "width": 2, "depth": 2, "largest": [3]},
    "volumes": {"dims": 3, "patch": [16, 24, 4], "width": 2, "depth": 2, "spacing": [8.0, 8.0, 9.0], "largest": [1]},
}


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    return write_scans(tmp_path_factory.mktemp("data") / "scans")


@pytest.fixture(scope="module")
def images(scans, tmp_path_factory):
    """Two scans of another size than those of the training."""
    folder = tmp_path_factory.mktemp("images")
    for name in ("patient001_frame01", "patient005_frame10"):
        image = nibabel.load(scans / "imagesTr" / f"{name}_0000.nii.gz").slicer[3:, :29]
        nibabel.save(image, folder / f"{name}.nii.gz")
    return folder


@pytest.fixture(scope="module")
def run_of(scans, tmp_path_factory):
    """A run with settings of SETTINGS, trained once, and hardly: it marks all classes by chance."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run(name):
        if name not in made:
            settings = {**SETTINGS[name], "steps": 1, "precision": "fp32", "lr": 1e-5}
            words = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
            out = folder / name.replace(" ", "-")
            assert main(["train", str(scans), "--out", str(out), "--preset", "quick", *words]) == 0
            made[name] = out
        return made[name]

    return run


@pytest.fixture(scope="module")
def model(run_of, tmp_path_factory):
    """A model file."""
    return export(run_of("stretched slices"), "model", tmp_path_factory.mktemp("models") / "heart", licence="CC0-1.0")


def labels_in(folder):
    return {path.name: np.asarray(nibabel.load(path).dataobj) for path in sorted(folder.glob("*.nii.gz"))}


def test_a_model_file_predicts_what_its_run_does(run_of, model, images, tmp_path):
    run = run_of("stretched slices")
    for source, out in ((run, "of-run"), (model, "of-model")):
        assert main(["predict", str(source), "-i", str(images), "-o", str(tmp_path / out)]) == 0
    of_run, of_model = labels_in(tmp_path / "of-run"), labels_in(tmp_path / "of-model")
    assert of_run.keys() == of_model.keys() != set()
    assert all(np.array_equal(of_run[name], of_model[name]) for name in of_run)
    image = np.random.default_rng(0).normal(size=(20, 30, 2))
    assert np.array_equal(mixseg.load(model).predict(image), mixseg.load(run).predict(image))


def test_a_model_file_names_nobody_and_tells_who_was_learnt_from(run_of, model):
    run = run_of("stretched slices")
    protocol = json.loads((run / "environment.json").read_text())["protocol"]
    content = b"".join(zipfile.ZipFile(model).read(name) for name in MEMBERS)
    assert b"patient0" not in content
    assert protocol["full"][0].startswith("patient0")
    assert str(run.parent).encode() not in content
    about = ModelFile(model).about["trained_on"]
    assert about["scans"]["full"] == len(protocol["full"])
    assert sorted(hash_of(name, about["salt"]) for name in protocol["full"]) == about["hashes"]["full"]


def test_the_card_has_a_head_that_hubs_read_and_the_scores(run_of, model):
    card = zipfile.ZipFile(model).read("README.md").decode()
    head = card.split("---")[1]
    assert "license: CC0-1.0" in head
    assert "library_name: mixseg" in head
    summary = json.loads((run_of("stretched slices") / "finished.json").read_text())["summary"]
    wanted = ModelFile(model).checkpoint
    (dsc,) = [
        each["dsc"]["mean"]
        for each in summary
        if (each["checkpoint"], each["class"], each["branch"]) == (wanted, "LV", "bottom")
    ]
    assert f"| val | LV | 2 | {100 * dsc:.2f}" in card


def test_an_exported_model_is_exported_again_as_it_is(model, tmp_path):
    again = export(model, "model", tmp_path / "again", licence="CC0-1.0")
    assert again.read_bytes() == model.read_bytes()


def changed(model, path, name, change):
    """A copy of a model file of which one member is changed; the checksums stay."""
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.namelist():
            content = old.read(member)
            new.writestr(member, change(content) if member == name else content)
    return path


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("name", MEMBERS[:2])
def test_one_flipped_bit_is_refused(name, model, tmp_path):
    with pytest.raises(MixsegError) as refused:
        mixseg.load(changed(model, tmp_path / "m.zip", name, flipped))
    assert refused.value.code == "broken-file"


def test_what_is_no_model_file_is_refused(model, tmp_path):
    cut, other, text = tmp_path / "cut.zip", tmp_path / "other.zip", tmp_path / "text.zip"
    cut.write_bytes(model.read_bytes()[:-40])
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("../model.json", "{}")
    text.write_text("model")
    for path, code in ((cut, "broken-file"), (other, "not-a-run"), (text, "broken-file")):
        with pytest.raises(MixsegError) as refused:
            mixseg.load(path)
        assert refused.value.code == code
    assert main(["predict", str(cut), "-i", str(tmp_path), "-o", str(tmp_path / "out")]) == 4


def test_a_model_of_a_later_version_is_refused(model, tmp_path):
    later, content = tmp_path / "later.zip", {}
    with zipfile.ZipFile(model) as old:
        content = {name: old.read(name) for name in MEMBERS}
    about = {**json.loads(content["model.json"]), "format": 2}
    content["model.json"] = json.dumps(about).encode()
    sums = {name: hashlib.sha256(of).hexdigest() for name, of in content.items() if name != "checksums.json"}
    with zipfile.ZipFile(later, "w") as new:
        for name in MEMBERS[:-1]:
            new.writestr(name, content[name])
        new.writestr("checksums.json", json.dumps(sums))
    with pytest.raises(MixsegError) as refused:
        mixseg.load(later)
    assert (refused.value.code, refused.value.fields["format"]) == ("other-version", 2)


def test_unfinished_runs_are_not_exported(run_of, tmp_path):
    shutil.copytree(run_of("stretched slices"), tmp_path / "run")
    (tmp_path / "run" / "finished.json").unlink()
    for to in FORMATS:
        with pytest.raises(MixsegError) as refused:
            export(tmp_path / "run", to, tmp_path / "out")
        assert refused.value.code == "run-unfinished"
    assert not list(tmp_path.glob("out*"))


WITHOUT_TORCH = (
    "import sys; sys.modules.update(torch=None, mixseg=None, scipy=None); import runner; sys.exit(runner.main({}))"
)


@pytest.mark.parametrize("name", SETTINGS)
def test_onnx_runtime_marks_what_mixseg_predicts(name, run_of, images, tmp_path):
    pytest.importorskip("onnxruntime")
    run = run_of(name)
    path = export(run, "onnx", tmp_path / "net")
    assert main(["predict", str(run), "-i", str(images), "-o", str(tmp_path / "ours")]) == 0
    ours = labels_in(tmp_path / "ours")
    for case, labels in ours.items():
        image = images / case
        words = [str(path), str(image), str(tmp_path / case)]
        if case == next(iter(ours)):
            subprocess.run([sys.executable, "-c", WITHOUT_TORCH.format(words)], cwd=tmp_path, check=True)
        else:
            assert runner.main(words) == 0
        theirs = nibabel.load(tmp_path / case)
        assert np.mean(np.asarray(theirs.dataobj) == labels) >= 0.999
        assert np.array_equal(theirs.affine, nibabel.load(image).affine)
    assert len({*np.unique(np.concatenate([labels.ravel() for labels in ours.values()]))}) > 1


def test_a_network_for_onnx_runtime_says_what_it_takes(run_of, tmp_path):
    onnx = pytest.importorskip("onnx")
    path = export(run_of("stretched slices"), "onnx", tmp_path / "net")
    properties = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    about = json.loads(properties["mixseg"])
    assert (about["dims"], about["size"], about["multiple"]) == (2, [24, 40], 4)
    assert about["classes"] == ["background", "RV", "Myo", "LV"]
    assert about["opset"] in (17, 20)


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_component_is_that_of_scipy(seed):
    mask = np.random.default_rng(seed).random((12, 9, 7)) < 0.15
    found, _ = ndimage.label(mask, np.ones((3, 3, 3)))
    sizes = np.bincount(found.ravel())[1:]
    ours = runner.largest(mask)
    assert ours.sum() == sizes.max()
    assert len(np.unique(found[ours])) == 1
    assert not runner.largest(np.zeros((2, 2, 2), bool)).any()
