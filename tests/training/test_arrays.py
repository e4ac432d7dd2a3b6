"""mixseg from Python: the tutorial's example as it is printed, arrays of any dtype, and a light import."""

import json
import math
import re
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pytest
import torch
from torch._dynamo import config as dynamo
from torch._functorch import config as functorch

import mixseg
from conftest import ROOT
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.data.intensity import to_8_bits
from mixseg.evaluation.scores import read_metrics
from mixseg.runs.config import read_config
from mixseg.runs.device import COMPILED_RUNS, FUNCTORCH, configure_tracer, torch_as_it_was
from mixseg.runs.folder import RunFolder

TUTORIAL = (ROOT / "docs" / "tutorials" / "python.md").read_text()
EXAMPLE = re.search(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)[1]
TINY = {"preset": "quick", "width": 4, "depth": 2, "size": (16, 16), "device": "cpu"}
CLASSES = ("background", "blob")


def blob(seed, shape=(20, 18, 3)):
    """A bright square in noise and its mask."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(shape, np.uint8)
    i, j = rng.integers(2, 8, size=2)
    mask[i : i + 8, j : j + 8] = 1
    return mask + rng.normal(0, 0.2, shape), mask


def scans(count=6):
    """Two with full masks, two with strokes, the others without labels."""
    made = []
    for seed in range(count):
        image, mask = blob(seed)
        drawn = np.where(np.arange(20)[:, None, None] == 10, mask, IGNORE)
        labels = {"full": mask} if seed < 2 else {"partial": drawn} if seed < 4 else {}
        made.append(mixseg.scan(f"s{seed}", image, **labels))
    return made


def validation():
    return [mixseg.scan(f"v{seed}", image, full=mask) for seed in (20, 21) for image, mask in [blob(seed)]]


def ball(seed):
    """A volume with a bright ball in it, and where that is."""
    rng = np.random.default_rng(seed)
    where = np.stack(np.indices((36, 34, 32)), -1) - rng.uniform(14, 20, 3)
    mask = (where**2).sum(-1) < 49
    return mask * 2.0 + rng.standard_normal(mask.shape), mask


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("api") / "run"
    return mixseg.train(scans(), val=validation(), classes=CLASSES, out=out, steps=6, **TINY)


def test_the_example_is_under_20_lines_and_runs_as_printed(tmp_path, monkeypatch, capsys):
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) < 20
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(re.sub(r"steps=\d+", "steps=4, width=4, device='cpu'", EXAMPLE), namespace)
    assert namespace["labels"].shape == namespace["images"][15].shape
    assert "left ventricle" in capsys.readouterr().out
    assert (tmp_path / "run" / "finished.json").exists()


@pytest.mark.slow
def test_the_example_finds_most_of_the_left_ventricle_in_half_its_steps(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(EXAMPLE.replace("steps=150", "steps=75"), {})
    assert float(re.search(r"left ventricle: ([\d.]+)", capsys.readouterr().out)[1]) > 0.5


def test_importing_mixseg_imports_neither_torch_nor_numpy():
    code = "import sys, mixseg; dir(mixseg); print([name for name in ('torch', 'numpy') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_what_dir_promises_is_there_and_nothing_else_is():
    public = {"train", "predict", "scan", "load", "Model", "Native", "MixsegError", "__version__"}
    public |= {"open_run", "Run", "compare", "Compared", "experiment", "Experiment", "evaluate", "write_report"}
    public |= {"inspect", "ScanTable"}
    assert set(dir(mixseg)) == set(mixseg.__all__) == public
    assert all(getattr(mixseg, name) is not None for name in public)
    assert mixseg.MixsegError is MixsegError
    with pytest.raises(AttributeError, match="tarin"):
        _ = mixseg.tarin


def test_the_version_is_the_same_wherever_it_is_written():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == mixseg.__version__
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == mixseg.__version__


def test_a_run_folder_and_its_model_predict_the_same_on_the_grid_of_the_image(trained):
    image, _ = blob(30, shape=(24, 21, 2))
    labels = mixseg.predict(trained, image)
    assert labels.dtype == np.uint8
    assert labels.shape == image.shape
    assert np.array_equal(labels, mixseg.predict(trained.run, image))
    assert np.array_equal(labels, mixseg.predict(str(trained.run), image))


def test_a_model_answers_with_the_branch_that_is_asked_for(trained):
    image, _ = blob(31)
    student, teacher, both = (
        mixseg.load(trained.run, branch=name).probabilities(image) for name in ("student", "teacher", "both")
    )
    assert np.array_equal(student, trained.probabilities(image))
    assert not np.allclose(student, teacher)
    assert np.allclose(both, (student + teacher) / 2, atol=1e-6)


def test_probabilities_sum_to_one_and_their_largest_is_the_label(trained):
    image, _ = blob(31)
    probabilities = trained.probabilities(image)
    assert probabilities.shape == (2, *image.shape)
    assert np.allclose(probabilities.sum(axis=0), 1, atol=1e-5)
    assert np.array_equal(probabilities.argmax(axis=0), trained.predict(image))


def test_one_slice_is_predicted_as_one_slice(trained):
    image, _ = blob(32)
    labels = trained.predict(image[..., 1])
    assert labels.shape == image.shape[:2]
    assert np.array_equal(labels, trained.predict(image[..., 1:2])[..., 0])


def test_prediction_does_not_depend_on_the_unit_of_the_image(trained):
    image, _ = blob(33)
    whole = np.rint(image * 1000)
    assert np.array_equal(trained.predict(whole.astype(np.int16)), trained.predict(whole.astype(np.float64) / 8))


def test_the_same_call_again_trains_nothing(trained):
    finished = (trained.run / "finished.json").stat().st_mtime_ns
    again = mixseg.train(scans(), val=validation(), classes=CLASSES, out=trained.run, steps=6, **TINY)
    assert (trained.run / "finished.json").stat().st_mtime_ns == finished
    assert again.classes == CLASSES


def test_scans_and_classes_may_come_from_generators(trained):
    finished = (trained.run / "finished.json").stat().st_mtime_ns
    made = {"val": (each for each in validation()), "classes": (name for name in CLASSES)}
    mixseg.train((each for each in scans()), **made, out=trained.run, steps=6, **TINY)
    assert (trained.run / "finished.json").stat().st_mtime_ns == finished, "they are the same as in lists"


def test_other_scans_need_another_folder(trained):
    with pytest.raises(MixsegError, match="other data"):
        mixseg.train(scans(5), val=validation(), classes=CLASSES, out=trained.run, steps=6, **TINY)


def test_a_run_sees_just_the_labels_that_its_method_may_see(tmp_path):
    for method, kinds in {"kl-ent": (2, 2, 2), "lower-bound": (2, 0, 0), "ua-mt": (2, 0, 4)}.items():
        model = mixseg.train(scans(), classes=CLASSES, out=tmp_path / method, method=method, steps=2, **TINY)
        protocol = RunFolder(model.run).facts["protocol"]
        assert tuple(len(protocol[kind]) for kind in ("full", "partial", "unlabeled")) == kinds


def test_without_validation_scans_the_last_checkpoint_predicts(tmp_path):
    model = mixseg.train(scans(), classes=CLASSES, out=tmp_path / "run", steps=2, **TINY)
    assert not (tmp_path / "run" / "best.pt").exists()
    assert model.predict(blob(0)[0]).shape == (20, 18, 3)


def test_test_scans_are_scored_and_volumes_and_channels_train(tmp_path):
    def two(seed, **labels):
        image, mask = blob(seed, shape=(20, 18, 17))
        return mixseg.scan(f"s{seed}", np.stack([image, -image]), full=mask, spacing=(1, 1, 2), **labels)

    settings = {**TINY, "dims": 3, "patch": (16, 16, 16), "batch": {"full": 1}, "steps": 2}
    model = mixseg.train([two(0)], val=[two(1)], test=[two(2)], classes=CLASSES, out=tmp_path / "run", **settings)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert {row.part for row in rows} == {"val", "test"}
    assert not any(math.isnan(row.hd95_mm) for row in rows), "the spacing is known, so there are distances in mm"
    assert model.predict(np.zeros((2, 20, 18, 17))).shape == (20, 18, 17)
    with pytest.raises(MixsegError, match="1 channels"):
        model.predict(np.zeros((20, 18, 17)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float32, bool])
def test_labels_of_any_dtype_are_class_indices(dtype):
    image, mask = blob(0)
    made = mixseg.scan("s", image, full=mask.astype(dtype))
    assert made.full.dtype == np.uint8
    assert np.array_equal(made.full, mask)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_tensor_of_any_precision_is_an_image_even_if_it_has_gradients(dtype):
    given = torch.linspace(0, 1, 16).reshape(4, 4).to(dtype)
    made = [mixseg.scan("s", image).image for image in (given.requires_grad_(), given.detach().float().numpy())]
    assert np.array_equal(*made)


def test_images_become_8_bits_as_prepare_makes_them():
    image, _ = blob(0)
    made = mixseg.scan("s", image)
    assert np.array_equal(made.image[0], to_8_bits(image)[0])
    assert (made.image.min(), made.image.max()) == (0, 255)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.float16, np.float64])
def test_minus_one_is_unlabelled(dtype):
    image, mask = blob(0)
    made = mixseg.scan("s", image, partial=np.where(mask == 1, 1, -1).astype(dtype))
    assert np.array_equal(made.drawn, np.where(mask == 1, 1, IGNORE))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"image": np.zeros(3)}, r"s: an image is an array of numbers .* \(3,\)"),
        ({"image": np.zeros((2, 2, 2), complex)}, "not complex128"),
        ({"image": np.zeros((4, 4, 2)), "full": np.zeros((4, 4, 3))}, r"s: full labels have the shape \(4, 4, 3\)"),
        ({"image": np.zeros((4, 4)), "partial": np.full((4, 4), 0.5)}, "s: partial labels hold values"),
        ({"image": np.zeros((4, 4)), "full": np.full((4, 4), 300)}, "s: full labels hold values"),
        ({"image": np.zeros((4, 4)), "full": np.full((4, 4), np.nan)}, "s: full labels hold values"),
        ({"image": np.zeros((4, 4)), "full": np.eye(4) - 1}, "s: full .* 75.00% of these are 255 or -1.* partial="),
        ({"image": np.zeros((4, 4)), "full": np.eye(4) * 255}, "s: full .* 25.00% of these are 255 or -1.* partial="),
        ({"image": np.full((4, 4), np.inf)}, "s: the image holds nan, inf or what float32 cannot hold"),
        ({"image": np.eye(4) * 1e300}, "s: the image holds nan, inf or what float32 cannot hold"),
        ({"image": np.ma.masked_equal(np.eye(4), 0)}, "s: the image: a masked array would lose its mask"),
        ({"image": np.eye(4), "partial": np.ma.masked_equal(np.eye(4), 0)}, "s: partial labels: a masked array"),
        ({"image": np.zeros((4, 4)), "spacing": (1, 1, 1e300)}, "s: spacing .* between 0 and 10000"),
        ({"image": [[1, 2], [3]]}, "s: the image: rows of different lengths make no array"),
        ({"image": np.zeros((4, 4)), "full": [[1, 2], [3]]}, "s: full labels: rows of diff"),
        ({"image": np.zeros((4, 4)), "spacing": [1, [1, 1], 1]}, "s: spacing: rows of diff"),
        ({"image": np.zeros((4, 4)), "spacing": 1.5}, "s: spacing is the voxel size along I, J, K, .* not 1.5"),
        ({"image": np.zeros((4, 4)), "spacing": (1, 1)}, "s: spacing"),
        ({"image": np.zeros((4, 4)), "spacing": (1, 1, 0)}, "s: spacing"),
    ],
)
def test_arrays_that_make_no_scan_are_told_in_a_sentence(arguments, sentence):
    with pytest.raises(MixsegError, match=sentence):
        mixseg.scan("s", **arguments)


def test_a_scan_is_called_by_a_text():
    with pytest.raises(MixsegError, match=r"A scan is called by a text, .*: this is <class 'int'>"):
        mixseg.scan(3, np.zeros((4, 4)))


def test_a_label_beyond_the_named_classes_is_told_with_the_scan(tmp_path):
    image, mask = blob(0)
    with pytest.raises(MixsegError, match="s9 has the label 3, and 2 classes are named"):
        mixseg.train([mixseg.scan("s9", image, full=3 * mask)], classes=CLASSES, out=tmp_path, **TINY)


def test_volumes_of_other_voxels_than_those_learned_are_resampled(tmp_path):
    scans = [mixseg.scan(f"v{seed}", ball(seed)[0], full=ball(seed)[1], spacing=(1, 1, 1)) for seed in range(3)]
    tiny = {"width": 2, "depth": 2, "steps": 2, "batch": {"full": 1, "partial": 0}, "device": "cpu"}
    model = mixseg.train(
        scans[:2], val=scans[2:], classes=CLASSES, out=tmp_path / "run", method="lower-bound", dims=3, **tiny
    )
    assert model.config.data.spacing == (1.0, 1.0, 1.0)
    image, _ = ball(4)
    coarse = image[::2, ::2, ::2]
    seen = model.probabilities(coarse, spacing=(2, 2, 2))
    assert seen.shape[1:] == coarse.shape
    assert not np.allclose(seen, model.probabilities(coarse, spacing=(1, 1, 1)))
    with pytest.raises(MixsegError, match="spacing"):
        model.predict(image)


def test_a_spacing_may_be_an_array():
    image, mask = blob(0)
    made = mixseg.scan("s", image, full=mask, spacing=np.array([1.4, 1.4, 8]))
    assert made.header.spacing == (1.4, 1.4, 8.0)


@pytest.mark.parametrize(
    ("slip", "sentence"),
    [
        ({"scans": [blob(0)[0]]}, r"made by mixseg\.scan.*ndarray"),
        ({"scans": blob(0)[0]}, r"made by mixseg\.scan.*ndarray"),
        ({"scans": scans(1)[0]}, r"scans is a list of scans, .* not .*Native"),
        ({"val": scans(1)[0]}, r"val is a list of scans, .* not .*Native"),
        ({"test": None}, r"test is a list of scans, .* not .*NoneType"),
        ({"classes": "background"}, "classes is 'background': give a list of names"),
        ({"classes": [0, 1]}, r"classes is \[0, 1\]: give a list of names"),
        ({"classes": 2}, "classes is 2: give a list of names"),
        ({"classes": ()}, r"classes is \(\): give a list of names"),
        ({"classes": ("background", "blob", "blob")}, "Two classes are called blob: rename one"),
        ({"split": "splits.json"}, "by the caller, as scans, val and test: leave the key split out"),
        ({"fold": 0}, "leave the key fold out"),
        ({"out": None}, "out is the path of a run's folder, not .*NoneType"),
    ],
)
def test_what_cannot_be_trained_with_is_told_in_a_sentence(tmp_path, slip, sentence):
    with pytest.raises(MixsegError, match=sentence):
        mixseg.train(**{"scans": scans(), "classes": CLASSES, "out": tmp_path / "run", **TINY, **slip})
    assert not list(tmp_path.iterdir())


def test_a_model_is_the_path_of_a_run_and_one_of_its_checkpoints(trained):
    with pytest.raises(MixsegError, match=r"run is the path of a run's folder, not .*ndarray"):
        mixseg.load(np.zeros(3))
    with pytest.raises(MixsegError, match="Unknown checkpoint 'first': choose one of best, last"):
        mixseg.load(trained.run, checkpoint="first")


def test_a_misspelt_device_is_told(trained):
    with pytest.raises(MixsegError, match="Unknown device 'gpu': choose one of auto, cuda, mps, cpu"):
        mixseg.load(trained.run, device="gpu")


def test_without_a_scan_there_is_nothing_to_train_on(tmp_path):
    with pytest.raises(MixsegError, match="no scan to train on"):
        mixseg.train([], val=validation(), classes=CLASSES, out=tmp_path / "run", **TINY)


@pytest.mark.parametrize(("name", "classes"), [("../s", CLASSES), ("s", ("background", "GTV/CTV"))])
def test_a_name_that_leads_to_another_folder_is_refused(tmp_path, name, classes):
    image, mask = blob(0)
    with pytest.raises(MixsegError, match="cannot be part of a file name: rename it"):
        mixseg.train([mixseg.scan(name, image, full=mask)], classes=classes, out=tmp_path / "run", **TINY)


def test_proposals_of_a_run_are_learnt_from(trained):
    settings = {"method": "proposals", "proposals_from": "run", "steps": 2, **TINY}
    model = mixseg.train(scans(), val=validation(), classes=CLASSES, out=trained.run.parent / "next", **settings)
    protocol = RunFolder(model.run).facts["protocol"]
    assert (protocol["full"], protocol["proposed"]) == (["s0", "s1"], ["s2", "s3", "s4", "s5"])
    with np.load(model.run / "proposals.npz") as kept:
        assert sorted(kept.files) == [*(f"mask/{name}" for name in protocol["proposed"]), "origin"]


def test_a_model_whose_run_clips_the_grey_values_clips_those_of_an_image(trained, tmp_path):
    shutil.copytree(trained.run, tmp_path / "run")
    content = read_config(tmp_path / "run" / "config.json")
    (tmp_path / "run" / "config.json").write_text(json.dumps(content | {"clip": [1, 99]}))
    image, _ = blob(34)
    image[0, 0, 0] = 1e4  # of which nothing but this voxel would be left
    clipped = image.clip(*np.percentile(image.astype(np.float32), (1, 99)))
    assert np.array_equal(mixseg.load(tmp_path / "run").predict(image), trained.predict(clipped))
    assert not np.array_equal(trained.predict(image), trained.predict(clipped))
    with pytest.raises(MixsegError, match="leave clip and clip_by out"):
        mixseg.train(scans(), classes=CLASSES, out=tmp_path / "other", clip=(1, 99), **TINY)


def test_a_scan_that_trains_and_validates_is_refused(tmp_path):
    with pytest.raises(MixsegError, match=r"s0.*train.*val|Two scans are called s0"):
        mixseg.train(scans(), val=scans(1), classes=CLASSES, out=tmp_path / "run", **TINY)


def test_what_the_caller_told_torch_stays_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    torch.set_float32_matmul_precision("high")
    try:
        model = mixseg.train(scans(), classes=CLASSES, out=tmp_path / "run", steps=2, **TINY)
        mixseg.predict(model, blob(30)[0])
        assert torch.get_float32_matmul_precision() == "high"
        assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32) == (False, True)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_how_the_caller_compiles_stays_as_it_was():
    def told():
        return dynamo.recompile_limit, {switch: getattr(functorch, switch) for switch in FUNCTORCH}

    before = told()
    with torch_as_it_was():
        configure_tracer()  # as a training on a GPU does
        assert told() == (COMPILED_RUNS, FUNCTORCH)
        assert told() != before
    assert told() == before


@pytest.mark.parametrize(
    ("shape", "settings", "sentence"),
    [
        ((20, 18, 3), {"patch": (16, 16, 16)}, "patch is a setting of volumes, and this run learns slices"),
        ((20, 18, 64), {"size": (16, 16)}, "size is a setting of slices, and this run learns volumes"),
        ((20, 18, 64), {"size": (16, 16), "preset": "strong"}, "size is a setting of slices, and this run learns"),
    ],
)
def test_a_grid_that_does_not_suit_what_is_learnt_from_these_scans_is_refused(tmp_path, shape, settings, sentence):
    image, mask = blob(0, shape)
    asked = {"preset": "quick", "width": 4, "depth": 2, "device": "cpu", **settings}
    with pytest.raises(MixsegError, match=sentence):
        mixseg.train([mixseg.scan("s", image, full=mask)], classes=CLASSES, out=tmp_path / "run", steps=1, **asked)
    assert not (tmp_path / "run").exists()


def test_test_scans_without_masks_are_one_sentence_in_words_of_python_too(tmp_path):
    seen, asked = scans(), {"classes": CLASSES, "out": tmp_path / "run", "steps": 1, **TINY}
    with pytest.raises(MixsegError, match=r"nothing to score; leave the test out \(--test, or test= in Python\)\."):
        mixseg.train(seen[:3], test=seen[4:], **asked)
