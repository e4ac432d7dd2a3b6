"""A folder of anisotropic scans is planned, trained on, continued and predicted; shapes come back where they were."""

import json
import weakref
from contextlib import nullcontext
from math import prod

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import mixseg
from discs import total
from mixseg import networks
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Batch, Case, Part, Source
from mixseg.data.intensity import MIN_MAX
from mixseg.data.prepare.files import PrepareOptions, prepare, read_header
from mixseg.data.resample import restore_cropped, to_source
from mixseg.data.scan import Scan
from mixseg.datasets import formats, load
from mixseg.evaluation.metrics import dice
from mixseg.inference.answer import read_image
from mixseg.inference.predictor import Predictor
from mixseg.methods import METHODS, Method
from mixseg.networks import NETWORKS
from mixseg.networks.instance_norm import InstanceNorm, leanly_normalised
from mixseg.runs.build import build
from mixseg.runs.config import make_config, read_config
from mixseg.runs.device import Hardware, make_fabric
from mixseg.runs.folder import RunFolder
from mixseg.training.plan import settings as planning
from mixseg.training.plan.grid import FIXED
from mixseg.training.plan.settings import budget_of, plan_for, planned, stretched
from mixseg.training.validation import Validation
from scans import header

TINY = (
    "steps=4",
    "width=4",
    "depth=2",
    "compile=false",
    "validate_every=2",
    'batch={"full":2,"partial":2,"unlabeled":0}',
)


def write_dataset(folder, spacings, shapes):
    """nnU-Net's layout: a bright ball per scan, outlined in all but the last, which has a stroke."""
    for number, (spacing, shape) in enumerate(zip(spacings, shapes, strict=True)):
        mask = ball(shape, spacing, radius_mm=14, centre=(0.5, 0.45, 0.5))
        image = 200 * mask + np.random.default_rng(number).normal(50, 10, shape)
        labels = mask.astype(np.uint8)
        if number == len(shapes) - 1:
            labels = np.full(shape, 2, np.uint8)
            row = shape[0] // 2
            labels[row] = mask[row]
        affine = np.diag([-spacing[0], spacing[1], spacing[2], 1.0])
        formats.write(folder / "imagesTr" / f"s{number}_0000.nii.gz", image.astype(np.int16), affine=affine)
        formats.write(folder / "labelsTr" / f"s{number}.nii.gz", labels, affine=affine)
    about = {
        "channel_names": {"0": "MR"},
        "labels": {"background": 0, "ball": 1, "ignore": 2},
        "numTraining": len(shapes),
        "file_ending": ".nii.gz",
    }
    (folder / "dataset.json").write_text(json.dumps(about))
    return folder


def ball(shape, spacing, radius_mm, centre):
    places = np.indices(shape).T * spacing
    middle = np.multiply(centre, np.multiply(shape, spacing)) - np.divide(spacing, 2)
    return (np.linalg.norm(places - middle, axis=-1) <= radius_mm).T


@pytest.fixture(scope="module")
def thick(tmp_path_factory):
    """Slices of 8 mm with pixels of 1.2 to 1.6 mm."""
    spacings = [(mm, mm, 8.0) for mm in (1.2, 1.4, 1.4, 1.6)]
    shapes = [(44, 40, 6), (36, 40, 5), (36, 36, 7), (30, 32, 6)]
    return write_dataset(tmp_path_factory.mktemp("scans") / "thick", spacings, shapes)


def train(folder, run, *flags):
    words = [word for setting in TINY for word in ("--set", setting)]
    return main(["train", str(folder), "--out", str(run), "-device", "cpu", *words, *flags])


def test_a_folder_of_thick_slices_is_planned_trained_on_and_predicted(thick, tmp_path, capsys):
    assert train(thick, tmp_path / "run", "--set", "validation=part") == 0
    said = capsys.readouterr().out
    assert "Plan:\n  - Slices are learned one by one: a scan has few of them (6)." in said
    assert "Pixels become 1.4 mm wide" in said
    config = read_config(tmp_path / "run" / "config.json")
    assert (config["dims"], config["spacing"], config["size"]) == (2, [1.4, 1.4], [40, 40])
    plan = json.loads((tmp_path / "run" / "environment.json").read_text())["plan"]
    assert plan[0] in said
    assert main(["predict", str(tmp_path / "run"), "-i", f"{thick}/imagesTr", "-o", str(tmp_path / "maps")]) == 0
    for path in sorted((tmp_path / "maps").glob("*.nii.gz")):
        image, labels = formats.read(thick / "imagesTr" / f"{formats.stem(path)}_0000.nii.gz"), formats.read(path)
        assert labels.array.shape == image.array.shape
        np.testing.assert_allclose(labels.affine, image.affine)
    assert list((tmp_path / "run" / "predictions").glob("last/bottom/*.nii.gz"))


def test_arrays_are_planned_as_their_files_are(thick, tmp_path, capsys):
    scans = []
    for case in load(thick):
        image, source = formats.read(case.image[0]), case.full or case.partial
        labels = np.where((found := formats.read(source.files[0]).array) == 2, IGNORE, found)
        kind = "full" if case.full else "partial"
        scans.append(mixseg.scan(case.id, image.array, **{kind: labels}, spacing=image.spacing))
    settings = {key: json.loads(value) for key, value in (word.split("=") for word in TINY)}
    called = {"classes": ("background", "ball"), "out": tmp_path / "arrays", "device": "cpu", **settings}
    model = mixseg.train([scans[0], scans[3]], val=scans[1:3], **called)
    assert "Plan:" in capsys.readouterr().out
    assert train(thick, tmp_path / "files", "--set", "validation=part") == 0
    files, arrays = (RunFolder(tmp_path / name) for name in ("files", "arrays"))
    assert arrays.config == files.config.changed(dataset="")
    assert arrays.facts["plan"] == files.facts["plan"]
    capsys.readouterr()
    assert mixseg.train([scans[0], scans[3]], val=scans[1:3], **called).config == model.config
    assert "Plan:" not in capsys.readouterr().out, "it goes on as it was planned"
    image = formats.read(load(thick)[0].image[0])
    assert model.predict(image.array, spacing=image.spacing).shape == image.array.shape
    with pytest.raises(MixsegError, match=r"trained at 1\.4x1\.4 mm: .* spacing="):
        model.predict(image.array)


def test_an_image_that_is_larger_than_the_grid_is_named_when_it_is_predicted(thick, tmp_path, capsys):
    assert train(thick, tmp_path / "run", "--spacing", "1.4", "1.4", "--size", "16", "40") == 0
    assert "Slices of 16x40 pixels cut off" in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "run"), "-i", f"{thick}/imagesTr", "-o", str(tmp_path / "maps")]) == 0
    said = capsys.readouterr()
    assert (
        "s0 has 38x34 pixels of the run's size: beyond the middle 16x40 all is called background."
        in said.err + said.out
    )
    labels = formats.read(tmp_path / "maps" / "s0.nii.gz").array
    assert labels.shape == (44, 40, 6)
    assert not labels[[0, 1, 2, -1, -2, -3]].any()


def test_a_system_that_does_not_tell_its_memory_gets_a_modest_plan(monkeypatch):
    monkeypatch.delattr("os.sysconf")
    monkeypatch.setattr(planning, "LIMITS", ())
    assert planning._ram() == 8 * 2**30


def test_a_run_goes_on_as_planned_whatever_memory_there_is_by_then(thick, tmp_path, capsys, monkeypatch):
    assert train(thick, tmp_path / "run") == 0
    config = read_config(tmp_path / "run" / "config.json")
    monkeypatch.setattr(planning, "_ram", lambda: 1e6)
    capsys.readouterr()
    assert train(thick, tmp_path / "run", "--set", "steps=6") == 0
    again = read_config(tmp_path / "run" / "config.json")
    assert "Plan:" not in capsys.readouterr().out
    assert {**config, "steps": 6} == again
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["plan"]


def test_flags_win_over_the_plan_and_other_presets_are_not_planned(thick, tmp_path):
    headers, hardware = [read_header(case) for case in load(thick)], Hardware("cpu")
    config, told = planned(lambda: headers, {"spacing": [2.0, 2.0]}, RunFolder(tmp_path / "run"), hardware)
    assert config.data.spacing == (2.0, 2.0)
    assert config.data.size == (32, 32)
    assert told
    for preset in ("paper", "quick"):
        unplanned = make_config(preset=preset, dims=2)
        assert planned(lambda: headers, {"preset": preset}, RunFolder(tmp_path / "run"), hardware) == (unplanned, [])
    assert main(["train", str(thick), "--out", str(tmp_path / "x"), "--spacing", "1", "1", "1", "--dims", "2"]) == 4


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "of 20x30 pixels for example, are stretched to 64x64 (preset quick), and distances are scored there.\n"),
        ({"size": [40, 40]}, "are stretched to 40x40 (as asked for), and distances are scored there.\n"),
        ({"size": [40, 16]}, "40x16 (as asked for), and distances are scored there: a larger --size, or --spacing, k"),
        ({"size": [20, 30]}, ""),
        ({"spacing": [1.0, 1.0]}, ""),
        ({"dims": 3}, ""),
    ],
)
def test_slices_that_a_preset_stretches_are_told(settings, told, tmp_path, capsys):
    headers = [header((20, 30, 10), (1.0, 1.0, 8.0))]
    planned(lambda: headers, {"preset": "quick", **settings}, RunFolder(tmp_path / "run"), Hardware("cpu"))
    assert told in capsys.readouterr().out
    assert bool(stretched(headers, make_config(preset="quick", **{"dims": 2, **settings}))) == bool(told)


@pytest.mark.parametrize(
    ("settings", "device", "gpu", "warned"),
    [
        ({}, "auto", False, True),
        ({}, "cpu", False, True),
        ({"preset": "strong"}, "auto", False, True),
        ({"preset": "strong"}, "cpu", False, False),
        ({"preset": "quick"}, "auto", False, False),
        ({}, "auto", True, False),
    ],
)
def test_without_a_gpu_the_plan_says_that_another_preset_is_made_for_a_cpu(
    thick, tmp_path, capsys, monkeypatch, settings, device, gpu, warned
):
    monkeypatch.setattr(planning, "accelerator_of", lambda device: "mps" if gpu else "cpu")
    planned(
        lambda: [read_header(case) for case in load(thick)], settings, RunFolder(tmp_path / "run"), Hardware(device)
    )
    lines = capsys.readouterr().out.splitlines()
    assert [number for number, line in enumerate(lines) if "--preset quick" in line] == [len(lines) - 1] * warned


def test_nearly_isotropic_volumes_are_resampled_and_come_back(tmp_path, capsys):
    spacings = [(1.2, 1.2, 2.0), (1.0, 1.0, 2.0), (1.0, 1.0, 1.8)]
    folder = write_dataset(tmp_path / "scans", spacings, [(30, 34, 36), (40, 36, 40), (40, 40, 34)])
    assert train(folder, tmp_path / "run", "--patch", "16", "16", "8") == 0
    assert "Voxels become 1x1x2 mm large" in capsys.readouterr().out
    config = read_config(tmp_path / "run" / "config.json")
    assert (config["dims"], config["spacing"], config["patch"]) == (3, [1.0, 1.0, 2.0], [16, 16, 8])
    for path in (tmp_path / "run" / "predictions" / "last" / "bottom").iterdir():
        image = formats.read(folder / "imagesTr" / f"{formats.stem(path)}_0000.nii.gz")
        assert formats.read(path).array.shape == image.array.shape


def test_a_fold_is_one_of_five_or_of_the_file(thick, tmp_path):
    assert train(thick, tmp_path / "one", "-f", "1") == 0
    assert train(thick, tmp_path / "none", "-f", "3") == 4  # three scans have full masks
    look = ["inspect", str(thick), "--out", f"{tmp_path}/page.html", "--write-split", f"{tmp_path}/s.json"]
    assert main([*look, "--folds", "3"]) == 0
    assert train(thick, tmp_path / "two", "-f", "1", "--set", f"split={tmp_path}/s.json") == 0
    first, second = (
        json.loads((tmp_path / name / "environment.json").read_text())["protocol"] for name in ("one", "two")
    )
    assert first == second
    assert (
        main(["inspect", str(thick), "--out", str(tmp_path / "page.html"), "--write-split", f"{tmp_path}/s.json"]) == 4
    )


def test_the_plan_can_be_prepared_alone(thick, tmp_path, capsys):
    assert main(["prepare", str(thick), str(tmp_path / "arrays"), "--plan", "--workers", "1"]) == 0
    side = budget_of(make_config(), Hardware("cpu")).multiple
    side *= -(-38 // side)  # 44 pixels of 1.2 mm are 38 of 1.4 mm
    assert f"Slices have {side}x{side} pixels" in capsys.readouterr().out
    options = json.loads((tmp_path / "arrays" / "index.json").read_text())["options"]
    assert (options["spacing"], options["size"]) == ([1.4, 1.4], [side, side])


def test_memory_is_that_of_the_device_and_numbers_take_what_the_precision_says():
    small = budget_of(make_config(precision="bf16", width=24, depth=3), Hardware("cpu"))
    assert (small.channels, small.halvings, small.number, small.multiple) == (24, 3, 2, 8)
    assert budget_of(make_config(preset="paper"), Hardware("cpu")).channels == 64
    assert budget_of(make_config(dims=3, precision="fp64"), Hardware("cpu", devices=2)).number == 8
    assert budget_of(make_config(), Hardware("cpu", devices=2)).memory == small.memory / 2
    assert 1e8 < small.memory < 1e14


class Holding(TorchDispatchMode):
    """Counts the bytes of all tensors that are there at once, and the most that there were."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self.seen = weakref.WeakSet()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (list, tuple)) else [made]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage() not in self.seen:
                self.take(tensor.untyped_storage())
        return made

    def take(self, storage):
        self.seen.add(storage)
        weakref.finalize(storage, self.drop, storage.nbytes())
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)

    def drop(self, count):
        self.now -= count


def held_by_a_step(config, rows, grid, device):
    """The most bytes that a step holds at once beside the weights, and the bytes of those, their moments included."""
    with torch.device(device):
        method = build(config, channels=1, classes=4)
        seen = Batch(*(Part(torch.zeros(n, 1, *grid), *torch.zeros(2, n, *grid, dtype=torch.uint8)) for n in rows))
    with Holding() as held:
        total(method(seen, 0.5)).backward()
    return held.most, sum(each.nbytes * (4 if each.requires_grad else 1) for each in method.parameters())


@pytest.mark.parametrize("name", list(METHODS))
@pytest.mark.parametrize("dims", [2, 3])
def test_the_rule_for_memory_is_what_a_step_of_the_method_holds(name, dims, monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # which "meta" does not know
    monkeypatch.setattr(networks, "initialise", lambda network: None)  # slow there, and without effect
    config = make_config(method=name, dims=dims, precision="fp32")
    rows = tuple(config.training.batch.counts.values())
    counted, weights = held_by_a_step(config, rows, config.data.grid, "meta")
    means = budget_of(config, Hardware("cpu"))
    assert 0.98 < (means.bytes(sum(rows), config.data.grid) - FIXED) / counted < 1.1
    assert weights < FIXED / 2, "the libraries want some of it too"
    assert NETWORKS[config.network.name].depth == means.halvings


def test_instance_normalisation_of_half_precision_holds_no_more_on_a_gpu_where_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(planning, "accelerator_of", lambda device: "cuda")
    monkeypatch.setattr(planning, "_gpu", lambda: (24e9, "a GPU"))
    config = make_config(method="lower-bound", dims=3, precision="bf16", patch=(64, 64, 64), compile=False)
    assert config.network.norm == "instance"
    monkeypatch.setattr(InstanceNorm, "forward", lambda self, x: leanly_normalised(x, self.weight, self.bias))
    # Nothing is computed, which takes minutes without instructions for bf16; what there is at once is the same.
    with FakeTensorMode(), torch.autocast("cpu", dtype=torch.bfloat16):
        counted, _ = held_by_a_step(config, (1, 0, 0), (64, 64, 64), "cpu")
    rule = budget_of(config, Hardware()).bytes(1, (64, 64, 64)) - FIXED
    assert rule == pytest.approx(counted, rel=0.2)


def test_a_method_that_holds_more_learns_from_smaller_patches_or_from_fewer_slices(monkeypatch):
    def plans(extent, **settings):
        asked = ({"method": name, "precision": "fp32", **settings} for name in ("ua-mt", "ssco"))
        return [plan_for([extent] * 3, each, Hardware("cpu")).settings for each in asked]

    monkeypatch.setattr(planning, "_ram", lambda: 12e9)
    fewer, more = plans(header((190, 142, 88), (0.625, 0.625, 0.625)), batch={"full": 4, "unlabeled": 4})
    assert prod(more["patch"]) < prod(fewer["patch"])
    monkeypatch.setattr(planning, "_ram", lambda: 5e9)
    fewer, more = plans(header((256, 256, 10), (1.5, 1.5, 10.0)))
    assert "batch" not in fewer
    assert more["batch"] == {"full": 2, "partial": 0, "unlabeled": 2}


class Bright(Method):
    """The share of the foreground is the brightness: what comes out is known beforehand."""

    outputs = ("top",)

    def __init__(self):
        super().__init__()
        self.nothing = torch.nn.Parameter(torch.zeros(1))

    def forward(self, batch, progress):
        raise NotImplementedError

    def predict(self, image, outputs=()):
        return {"top": torch.cat([1 - image, image], dim=1)}


TURN = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, -1.0]])
GRIDS = [
    ((61, 47, 12), (1.1, 1.1, 5.0)),
    ((40, 57, 33), (1.5, 1.2, 2.0)),
    ((50, 50, 50), (1.0, 1.0, 1.0)),
]


def shapes(size, spacing):
    box = np.zeros(size, bool)
    box[7:-12, 9:-8, 2:-3] = True
    half = np.zeros(size, bool)
    half[: size[0] // 2 - 2] = True
    return {"ball": ball(size, spacing, 17.3, (0.47, 0.53, 0.5)), "box": box, "half-space": half}


@pytest.mark.parametrize(("size", "spacing"), GRIDS)
@pytest.mark.parametrize("target", [(0.8, 0.8), (1.7, 1.7), (0.9, 0.9, 1.6), (1.9, 1.7, 2.3)])
def test_known_shapes_come_back_from_any_grid_without_a_shift(tmp_path, size, spacing, target):
    changes = {"dims": len(target), "spacing": target, "size": (112, 96), "patch": (32, 32, 16), "intensity": "unit"}
    config = make_config(method="lower-bound", preset="quick", **changes)
    fabric, method = make_fabric(Hardware("cpu"), "fp32"), Bright().eval()
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = TURN * spacing, (-31.5, 12.25, 90.0)
    for name, mask in shapes(size, spacing).items():
        source = tmp_path / f"{name}.nii.gz"
        formats.write(source, mask.astype(np.uint8), affine=affine)
        case = Case(name, name, (Source((source,)),))
        predictor = Predictor(method, config, fabric, ("background", name), 1)
        back = predictor.on_source(predictor.prepare(read_image(case, grey=MIN_MAX)))["top"]
        formats.write(tmp_path / "back.nii.gz", back, like=case.image[0])
        there, here = formats.read(tmp_path / "back.nii.gz"), formats.read(source)
        np.testing.assert_array_equal(there.affine, here.affine)
        shift = centre(there.array > 0) - centre(mask)
        world = affine[:3, :3] @ shift
        pitch = np.ones(3)
        pitch[: len(target)] = np.maximum(1, np.divide(target, spacing[: len(target)]))
        # A flat border lies half-way between two centres of a coarser grid now and then, and is then a voxel off.
        most = 0.05 if name == "ball" else 0.3 * (pitch.max() - 1) + 0.05
        assert np.abs(shift).max() < most, name
        assert np.linalg.norm(world) < 2 * most * max(spacing), name
        assert dice(there.array > 0, mask) > 1 - 0.05 * (pitch.max() - 1) - 0.005, name


def centre(mask):
    return np.argwhere(mask).mean(axis=0)


def test_volumes_without_a_voxel_size_are_not_resampled_to_one(tmp_path):
    formats.write(tmp_path / "a.png", np.zeros((16, 16), np.uint8))
    case = Case("a", "a", (Source((tmp_path / "a.png",)),))
    assert not read_header(case).spacing_known
    config = make_config(method="lower-bound", preset="quick", spacing=(1.0, 1.0))
    predictor = Predictor(Bright().eval(), config, make_fabric(Hardware("cpu"), "fp32"), ("background", "a"), 1)
    with pytest.raises(MixsegError, match=r"a\.png holds no voxel size"):
        predictor.prepare(read_image(case, grey=MIN_MAX))


def test_looks_during_training_and_scores_after_it_count_what_a_crop_cut_off():
    truth = np.zeros((2, 16, 16), np.uint8)
    truth[:, 4:9, 4:10] = 1
    beyond = np.array([[1, 0, -3, 5], [1, 1, 18, 2]], np.int32)
    scan = Scan("a", 255 * truth[:, None], truth, cropped=beyond)
    config = make_config(method="lower-bound", preset="quick", size=(16, 16))
    look = Validation([scan], [], [], classes=("background", "x"), config=config, device=torch.device("cpu"))
    expected = 2 * 60 / (2 * 60 + 2)
    assert look(Bright().eval(), 0.5, {}, {})["dsc"]["top"]["x"] == pytest.approx(expected)
    assert dice(*(labels == 1 for labels in restore_cropped(truth, truth, beyond))) == pytest.approx(expected)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "options", "least"),
    [
        ("la", PrepareOptions(dims=3, spacing=(1.0, 1.0, 1.0)), 0.97),
        ("la", PrepareOptions(dims=3, spacing=(0.5, 0.625, 0.5)), 0.999),
        ("acdc", PrepareOptions(size=(192, 192), long_side=256), 0.985),
    ],
)
def test_masks_of_real_scans_come_back_without_a_shift_and_whole(real_data, tmp_path, name, options, least):
    cases = load(real_data / name)[::40]
    prepared = prepare(cases, tmp_path / "arrays", options, workers=1)
    assert sum(entry.cropped_full for entry in prepared.cases) == 0
    for case, entry in zip(cases, prepared.cases, strict=True):
        truth = formats.read_labels(case.full).array > 0
        labels = prepared.full(entry)
        back = to_source(np.where(labels == IGNORE, 0, labels).astype(np.uint8), entry) > 0
        assert dice(back, truth) > least
        for axis in range(3):  # thin veins vanish on a coarse grid and move the centre; what stays must not move
            for step in (-1, 1):
                assert dice(back, np.roll(truth, step, axis)) < dice(back, truth) - 0.005
