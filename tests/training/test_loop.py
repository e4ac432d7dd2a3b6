"""The loop: it learns, keeps the best and the last, says what went wrong, and never spoils a good checkpoint."""

import errno
import io
import logging
import math
import os
import signal
import threading
import time
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch._inductor
from torch._dynamo.exc import TorchDynamoException
from torch._functorch import config as functorch
from torch._inductor import codecache

from discs import batch, tiny_method, total
from made_runs import checkpoint, config, data, differences
from mixseg.core.errors import MixsegError, Terminated
from mixseg.core.files import replacing
from mixseg.core.types import Batch, Part
from mixseg.data.augment import NONE
from mixseg.data.batches import Feed
from mixseg.evaluation.scores import read_metrics
from mixseg.inference.predictor import Predictor
from mixseg.inference.report_slices import write_examples
from mixseg.methods import METHODS, Method, Term
from mixseg.networks.redundant_biases import drop_idle_biases
from mixseg.runs import build as building
from mixseg.runs import checkpoint as checkpoints
from mixseg.runs import device
from mixseg.runs.build import build, evaluating, load, speed_up
from mixseg.runs.checkpoint import State, Writer, load_weights
from mixseg.runs.device import Hardware, make_fabric, settle_precision
from mixseg.runs.log import read_log
from mixseg.training import loop
from mixseg.training import train as runs
from mixseg.training.loop import fit
from mixseg.training.step import lr_factor, make_optimizer
from mixseg.training.train import settle_batch, train

CPU = Hardware("cpu")


def start(folder, *, method=None, look=None, scans=None, writer=None, **changes):
    """``fit`` on tiny data with a look that scores nothing in particular."""
    folder.mkdir(exist_ok=True)
    chosen = config(**changes)
    fabric = make_fabric(CPU, settle_precision(chosen.runtime.precision, "cpu", dims=chosen.data.dims))
    feed = Feed(
        (scans or data()).train,
        {"full": 2, "partial": 2},
        grid=chosen.data.grid,
        seed=chosen.training.seed,
        augmentation=NONE,
        device=fabric.device,
    )
    method = method or build(chosen, channels=1, classes=2)
    return fit(method, feed, look or quiet, config=chosen, folder=folder, fabric=fabric, writer=writer)


def quiet(method, progress, before, terms):
    return {"score": progress}


class Breaks(Method):
    """One weight, and a term that is ``broken`` from step ``at`` on."""

    outputs = ("top",)

    def __init__(self, at, broken=math.nan):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.at, self.broken, self.steps = at, broken, 0

    def forward(self, batch, progress):
        value = (self.weight * batch.full.image.mean()).sum().square()
        return {"full": Term(value * (self.broken if self.steps >= self.at else 1.0))}

    def predict(self, image, outputs=()):
        return {"top": image.new_full((len(image), 2, *image.shape[2:]), 0.5)}

    def after_step(self, step, progress):
        self.steps = step + 1


@pytest.mark.parametrize(
    ("settings", "layout"),
    [
        ({"norm": "batch"}, torch.channels_last),
        ({"norm": "instance"}, torch.contiguous_format),
        ({"norm": "instance", "dims": 3}, torch.channels_last_3d),
    ],
)
def test_a_loaded_run_predicts_in_the_memory_layout_that_suits_its_network(tmp_path, settings, layout):
    run = train(config(steps=2, **settings), data(dims=settings.get("dims", 2)), tmp_path / "run", hardware=CPU)
    weight = max(Predictor.of(run, device="cpu").method.parameters(), key=torch.numel)
    assert weight.is_contiguous(memory_format=layout)


def test_training_lowers_the_loss_and_leaves_what_a_run_folder_holds(tmp_path):
    folder = train(config(steps=40), data(), tmp_path / "run", hardware=CPU, test=True)
    log = read_log(folder.path / "log.jsonl")
    assert [entry["step"] for entry in log] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert log[-1]["loss"] < 0.7 * log[0]["loss"]
    assert log[-1]["score"] > 0.8
    names = {path.name for path in folder.path.iterdir()}
    assert {"last.pt", "best.pt", "config.json", "environment.json", "metrics.csv", "finished.json"} <= names
    for entry in log:
        weighted = sum(entry["terms"][name] * entry["weights"][name] for name in entry["terms"])
        assert entry["loss"] == pytest.approx(weighted, rel=1e-4)
        assert set(entry["terms"]) == set(METHODS["kl-ent"].weights)
        assert entry["watch"]["expected"] == pytest.approx(log[0]["watch"]["expected"])
    last, best = (checkpoint(folder.path / f"{name}.pt") for name in ("last", "best"))
    scores = [entry["score"] for entry in log]
    assert last["step"] == 40
    assert best["step"] == log[int(np.argmax(scores))]["step"]
    assert best["score"] == max(scores)


class Notes(Breaks):
    """Draws a random number a step and notes it, and the progress."""

    def __init__(self):
        super().__init__(at=math.inf)
        self.drawn, self.progress = [], []

    def forward(self, batch, progress):
        self.drawn.append(torch.rand(1).item())
        self.progress.append(progress)
        return super().forward(batch, progress)


def test_the_noise_of_a_step_is_its_own_and_that_of_the_seed(tmp_path):
    runs = []
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        torch.manual_seed(len(runs))  # nothing outside has a say
        method = Notes()
        start(tmp_path / name, method=method, seed=seed)
        runs.append(method.drawn)
    assert runs[0] == runs[1]
    assert len({*runs[0], *runs[2]}) == 40, "no two steps and no two seeds share it"
    assert method.progress == [step / 20 for step in range(20)]


def test_the_best_checkpoint_is_the_first_with_the_highest_score(tmp_path):
    scores = iter([0.2, 0.7, 0.5, 0.7, math.nan, 0.1])
    seen = []

    def look(method, progress, before, terms):
        seen.append({key: value.clone() for key, value in method.state_dict().items()})
        return {"score": next(scores)}

    start(tmp_path, look=look, steps=30)
    best = checkpoint(tmp_path / "best.pt")
    assert (best["step"], best["score"]) == (10, 0.7)
    assert not differences(best["method"], seen[1])
    assert not differences(checkpoint(tmp_path / "last.pt")["method"], seen[-1])


def test_without_validation_scans_there_is_no_best_checkpoint_and_no_error(tmp_path):
    folder = train(config(steps=10), data(val=0), tmp_path / "run", hardware=CPU)
    assert folder.finished
    assert not (folder.path / "best.pt").exists()
    assert read_log(folder.path / "log.jsonl")[-1]["score"] is None


def test_without_partly_labelled_scans_their_terms_are_off(tmp_path):
    folder = train(config(steps=5), data(partial=0), tmp_path / "run", hardware=CPU)
    (entry,) = read_log(folder.path / "log.jsonl")
    assert "entropy" not in entry["terms"]
    assert "watch" not in entry


def test_validation_masks_without_any_object_are_no_warning(tmp_path):
    scans = data()
    empty = [replace(scan, full=np.zeros_like(scan.full)) for scan in scans.val]
    folder = train(config(steps=5), replace(scans, val=empty), tmp_path / "run", hardware=CPU)
    assert {entry["score"] for entry in read_log(folder.path / "log.jsonl")} <= {0, None}
    assert {str(row.dsc) for row in read_metrics(folder.path / "metrics.csv")} <= {"0.0", "nan"}
    assert {entry["cases"] for entry in folder.finished["summary"]} == {len(empty)}


def test_no_fully_labelled_scan_is_one_sentence(tmp_path):
    with pytest.raises(MixsegError, match="No fully labelled scan to train on"):
        train(config(), data(full=0), tmp_path / "run", hardware=CPU)


@pytest.mark.parametrize(
    ("there", "asked", "settled"),
    [
        ({"partial": 1, "unlabeled": 1}, (8, 16, None), (8, 8, 8)),
        ({"partial": 1, "unlabeled": 1}, (8, 15, None), (8, 8, 7)),
        ({"partial": 1, "unlabeled": 1}, (8, 16, 0), (8, 16, 0)),
        ({"partial": 1, "unlabeled": 1}, (8, 12, 4), (8, 12, 4)),
        ({"partial": 1, "unlabeled": 1}, (8, 0, 4), (8, 0, 4)),
        ({"partial": 1, "unlabeled": 0}, (8, 16, None), (8, 16, 0)),
        ({"partial": 0, "unlabeled": 1}, (8, 16, None), (8, 0, 16)),
        ({"partial": 1, "unlabeled": 0}, (4, 0, 4), (4, 4, 0)),
        ({"partial": 0, "unlabeled": 1}, (8, 16, 0), (8, 0, 16)),
        ({"partial": 0, "unlabeled": 0}, (8, 16, 0), (8, 0, 0)),
    ],
)
def test_rows_of_a_kind_that_is_absent_go_to_the_other(there, asked, settled):
    full, partial, unlabeled = asked
    sizes = config(batch={"full": full, "partial": partial, "unlabeled": unlabeled}).training.batch
    found = settle_batch(sizes, data(**there))
    assert (found.full, found.partial, found.unlabeled) == settled
    assert settle_batch(found, data(**there)) == found, "as a run that goes on asks for it"


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        ("constant", {0: 1, 0.5: 1, 1: 1}),
        ("drops", {0: 1, 0.4: 1, 5 / 12: 0.1, 0.8: 0.1, 10 / 12: 0.01, 0.999: 0.01}),
        ("poly", {0: 1, 0.5: 0.5**0.9, 0.99: 0.01**0.9, 1: 0}),
        ("cosine", {0: 1, 1 / 3: 0.75, 0.5: 0.5, 2 / 3: 0.25, 1: 0}),
    ],
)
def test_the_learning_rate_at_named_points(schedule, factors):
    for progress, factor in factors.items():
        assert lr_factor(schedule, progress) == pytest.approx(factor, abs=1e-12)


def test_the_log_tells_the_learning_rate_of_the_schedule(tmp_path):
    start(tmp_path, steps=20, schedule="poly", lr=0.1)
    for entry in read_log(tmp_path / "log.jsonl"):
        assert entry["lr"] == pytest.approx(0.1 * (1 - (entry["step"] - 1) / 20) ** 0.9)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_one_step_of_an_optimiser_is_its_closed_form(name):
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(2.0)
    optimizer = make_optimizer(layer, config(optimizer=name, lr=0.1, weight_decay=0.5))
    layer.weight.grad = torch.tensor([[3.0]])
    optimizer.step()
    # Adam's first step has the length of the learning rate; its weight decay is part of the gradient, AdamW's is not.
    expected = {"adam": 2 - 0.1, "adamw": 2 * (1 - 0.1 * 0.5) - 0.1, "sgd": 2 - 0.1 * (3 + 0.5 * 2)}
    assert layer.weight.item() == pytest.approx(expected[name], abs=1e-5)


@pytest.mark.parametrize("beta2", [0.5, 0.999])
@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_after_a_gradient_of_1_and_one_of_0_the_step_is_what_beta2_remembers(name, beta2):
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.zero_()
    optimizer = make_optimizer(layer, config(optimizer=name, lr=0.1, beta2=beta2))
    for gradient in (1.0, 0.0):
        layer.weight.grad = torch.tensor([[gradient]])
        optimizer.step()
    mean, square = 0.9 * 0.1 / (1 - 0.9**2), beta2 / (1 + beta2)
    assert layer.weight.item() == pytest.approx(-0.1 - 0.1 * mean / square**0.5, abs=1e-5)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_with_step_and_batch_and_keeps_the_good_checkpoint(
    tmp_path, monkeypatch, broken
):
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    with pytest.raises(MixsegError) as caught:
        start(tmp_path, method=Breaks(at=12, broken=broken), steps=30)
    sentence = str(caught.value)
    assert "at step 13," in sentence
    assert "full" in sentence
    assert "slice" in sentence
    last = checkpoint(tmp_path / "last.pt")
    assert last["step"] == 12
    assert last["method"]["weight"].isfinite().all()
    assert [entry["step"] for entry in read_log(tmp_path / "log.jsonl")] == [5, 10]


class Bursts(Breaks):
    """A loss that stays finite, and weights that do not after step ``at``."""

    def after_step(self, step, progress):
        if step + 1 == self.at:
            self.weight.data.fill_(math.nan)


def test_weights_that_are_not_finite_never_reach_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    with pytest.raises(
        MixsegError, match=r"no longer finite numbers after step 10: the last good checkpoint in .* is kept"
    ):
        start(tmp_path / "run", method=Bursts(at=10), steps=10)
    last = checkpoint(tmp_path / "run" / "last.pt")
    assert last["step"] == 9
    assert last["method"]["weight"].isfinite().all()
    with pytest.raises(MixsegError, match="after step 1: no checkpoint yet; start again"):
        start(tmp_path / "new", method=Bursts(at=1), steps=10)
    assert not (tmp_path / "new" / "last.pt").exists()


class Interrupted(Breaks):
    """Somebody presses Ctrl-C in the step after ``at``."""

    def forward(self, batch, progress):
        if self.steps == self.at:
            raise KeyboardInterrupt
        return super().forward(batch, progress)


def test_an_interrupt_names_the_step_and_the_checkpoint_that_is_kept(tmp_path):
    with pytest.raises(KeyboardInterrupt) as caught:
        start(tmp_path, method=Interrupted(at=3), steps=20)
    assert str(caught.value) == "Stopped at step 3 of 20; there is no checkpoint yet: the same command begins anew."
    for at in (7, 6):  # the second time, the checkpoint is that of the first
        with pytest.raises(KeyboardInterrupt) as caught:
            start(tmp_path, method=Interrupted(at=at), steps=20)
        kept = "the checkpoint of step 5 is kept: the same command goes on from there."
        assert str(caught.value) == f"Stopped at step {at} of 20; {kept}"
        assert checkpoint(tmp_path / "last.pt")["step"] == 5


class Signalled(Breaks):
    """Signals come in the step after ``at``."""

    def __init__(self, at, *numbers):
        super().__init__(at=math.inf)
        self.when, self.numbers = at, numbers

    def forward(self, batch, progress):
        if self.steps == self.when:
            for number in self.numbers:
                signal.raise_signal(number)
        return super().forward(batch, progress)


@pytest.fixture
def interruptible():
    """Ctrl-C as a command in the foreground has it: a shell lets those behind an & ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
@pytest.mark.parametrize("at", [7, 9])  # 10 is a look
def test_a_signal_waits_for_its_step_which_is_kept_and_nothing_is_lost(tmp_path, number, kind, at):
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(kind) as caught:
        start(tmp_path / "ended", method=Signalled(at, number), steps=20)
    assert type(caught.value) is kind
    kept = f"the checkpoint of step {at + 1} is kept: the same command goes on from there."
    assert str(caught.value) == f"Stopped at step {at + 1} of 20; {kept}"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    for name in ("ended", "whole"):
        start(tmp_path / name, method=Breaks(at=math.inf), steps=20)
    ended, whole = (checkpoint(tmp_path / name / "last.pt") for name in ("ended", "whole"))
    assert not differences(ended["method"], whole["method"])
    ended, whole = (read_log(tmp_path / name / "log.jsonl") for name in ("ended", "whole"))
    assert [(entry["step"], entry["loss"]) for entry in ended] == [(entry["step"], entry["loss"]) for entry in whole]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
def test_a_second_signal_waits_for_nothing_and_what_others_handle_is_left_to_them(tmp_path):
    with pytest.raises(Terminated, match="Stopped at step 7 of 20; the checkpoint of step 5 is kept"):
        start(tmp_path / "twice", method=Signalled(7, signal.SIGINT, signal.SIGTERM), steps=20)
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        start(tmp_path / "theirs", method=Signalled(7, signal.SIGTERM), steps=20)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert checkpoint(tmp_path / "theirs" / "last.pt")["step"] == 20


def test_an_interrupt_names_no_checkpoint_that_could_not_be_written(finished, monkeypatch):
    monkeypatch.setattr(checkpoints.torch, "save", full_disk)
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", math.inf)

    def impatient(method, progress, before, terms):
        if progress == 1:
            raise KeyboardInterrupt
        return {"score": 0.0}

    with pytest.raises(KeyboardInterrupt, match="of step 20 is kept"):
        start(finished, look=impatient, steps=30)


def collapsing(method, progress, before, terms):
    away = 0.2 < progress < 0.7
    return {"score": 0.0, "collapsed": away, "warning": "It runs away." if away and not before.get("collapsed") else ""}


def test_a_collapse_stops_the_run_where_that_is_asked_and_it_can_go_on(tmp_path, capsys):
    with pytest.raises(MixsegError, match=r"Stopped at step 5.*It runs away\."):
        start(tmp_path, look=collapsing, steps=20, on_collapse="stop")
    assert checkpoint(tmp_path / "last.pt")["step"] == 5
    with pytest.raises(MixsegError, match=r"Stopped at step 10.*still collapsed"):
        start(tmp_path, look=collapsing, steps=20, on_collapse="stop")
    assert start(tmp_path, look=collapsing, steps=20, on_collapse="warn").step == 20
    assert capsys.readouterr().err.count("It runs away.") == 1


def test_a_collapse_is_only_said_where_that_is_asked(tmp_path, capsys):
    assert start(tmp_path, look=collapsing, steps=20, on_collapse="warn").step == 20
    assert capsys.readouterr().err.count("It runs away.") == 1
    assert [bool(entry["warning"]) for entry in read_log(tmp_path / "log.jsonl")] == [True, False, False, False]


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_puts_everything_back_even_after_an_error(training):
    method, fabric = tiny_method("kl-ent").train(training), make_fabric(CPU, "fp32")
    tuned = torch.backends.cudnn.benchmark
    with pytest.raises(KeyError), evaluating(method, fabric):  # noqa: PT012 - what holds inside is the point
        assert not method.training
        assert not torch.is_grad_enabled()
        raise KeyError
    assert method.training == training
    assert all(module.training == training for module in method.modules())
    assert torch.is_grad_enabled()
    assert torch.backends.cudnn.benchmark == tuned


def test_weights_of_a_run_begun_without_a_gpu_answer_the_same_with_one():
    begun, went_on = (tiny_method("kl-ent", seed=seed).double() for seed in (0, 1))
    for bias in (each.bias for each in begun.modules() if getattr(each, "bias", None) is not None):
        torch.nn.init.normal_(bias)  # it is 0 at first
    drop_idle_biases(went_on)  # as on a GPU
    went_on.load_state_dict(begun.state_dict())
    image, answers = torch.rand(2, 1, 16, 16, dtype=torch.float64), []
    for method in (begun, went_on):
        with evaluating(method, make_fabric(CPU, "fp64")):
            answers.append(method.predict(image)["bottom"])
    torch.testing.assert_close(*answers)


def test_looking_changes_neither_the_model_nor_the_training(tmp_path):
    often = train(config(validate_every=1), data(), tmp_path / "often", hardware=CPU)
    seldom = train(config(validate_every=20), data(), tmp_path / "seldom", hardware=CPU)
    one, other = (checkpoint(run.path / "last.pt") for run in (often, seldom))
    assert not differences(one["method"], other["method"])


@pytest.mark.parametrize("method", ["kl-ent", "ua-mt"])
def test_double_precision_is_double_throughout(tmp_path, method):
    scans = data() if method == "kl-ent" else data(partial=0, unlabeled=2)
    folder = train(config(precision="fp64", method=method), scans, tmp_path / "run", hardware=CPU)
    content = checkpoint(folder.path / "last.pt")
    floats = [tensor for tensor in content["method"].values() if tensor.is_floating_point()]
    assert all(tensor.dtype == torch.float64 for tensor in floats)
    moments = content["optimizer"]["state"][0]
    assert moments["exp_avg"].dtype == torch.float64


@pytest.mark.parametrize("precision", ["fp64", "fp32", "tf32", "bf16", "auto"])
def test_every_precision_trains_on_the_cpu(tmp_path, precision):
    state = start(tmp_path, precision=precision, steps=5)
    assert state.step == 5
    assert all(p.dtype == (torch.float64 if precision == "fp64" else torch.float32) for p in state.method.parameters())


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("name", ["kl-ent", "ua-mt", "glmi", "ssco"])
def test_the_fast_memory_layout_learns_what_the_plain_one_learns(name, dims):
    fabric = make_fabric(CPU, "fp32")
    plain, fast = (tiny_method(name, dims, dropout=0.0).double() for _ in range(2))
    speed_up(fast, config(dims=dims), fabric)
    weights = [p for p in fast.parameters() if p.dim() == dims + 2 and p.shape[1] > 1]
    layout = torch.channels_last if dims == 2 else torch.channels_last_3d
    assert all(weight.is_contiguous(memory_format=layout) for weight in weights)
    seen = batch(2, 0, 2, dims=dims, side=16 if dims == 2 else 8)
    seen = seen._make(part._replace(image=part.image.double()) for part in seen)
    for method in (plain, fast):
        optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 0.1)
        for step in range(3):
            torch.manual_seed(step)
            total(method(seen, 0.3)).backward()
            optimizer.step()
            optimizer.zero_grad()
            method.after_step(step, 0.3)
    torch.testing.assert_close(fast.state_dict(), plain.state_dict(), rtol=1e-7, atol=1e-9)


def test_a_device_that_is_not_there_is_one_sentence():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(MixsegError, match="torch sees no cuda device"):
        make_fabric(Hardware("cuda"), "fp32")


def test_fabric_is_quiet():
    make_fabric(CPU, "fp32")
    assert logging.getLogger("lightning_fabric").level == logging.WARNING


@pytest.fixture
def finished(tmp_path):
    start(tmp_path / "run")
    return tmp_path / "run"


def test_a_checkpoint_of_another_architecture_is_one_sentence(finished):
    other = build(config(width=8), channels=1, classes=2)
    with pytest.raises(MixsegError, match=r"last\.pt is of another architecture \(\d+ tensors differ"):
        load_weights(other, finished / "last.pt")
    other = build(config(method="lower-bound"), channels=1, classes=2)
    with pytest.raises(MixsegError, match="another architecture"):
        load_weights(other, finished / "best.pt")
    with pytest.raises(MixsegError, match="another architecture"):
        start(finished, width=8, steps=40)


def test_a_checkpoint_for_which_the_memory_does_not_suffice_is_not_called_damaged(finished, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(checkpoints.torch, "load", full)
    with pytest.raises(MixsegError, match=r"last\.pt takes more memory than this machine has left: end other programs"):
        start(finished, steps=40)


def broken_files(good):
    content = good.read_bytes()
    with_code = {"method": {}, "step": 1, "code": os.system}
    yield "cut short", content[: len(content) // 2]
    yield "empty", b""
    yield "text", b"hello"
    yield "a zip of something", zip_of({"mask.txt": b"1"})
    yield "garbage in a zip", content[:200] + b"\0" * 200 + content[400:]
    for name, held in {
        "an unlabeled state dict": checkpoint(good)["method"],
        "a tensor": torch.zeros(3),
        "code": with_code,
        "a best.pt": {"method": {}, "step": 1},
    }.items():
        with replacing(good.with_name("foreign.pt")) as path:
            torch.save(held, path)
        yield name, good.with_name("foreign.pt").read_bytes()


def zip_of(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_a_broken_or_foreign_checkpoint_is_one_sentence(finished):
    last = finished / "last.pt"
    for name, content in broken_files(last):
        before = last.read_bytes()
        last.write_bytes(content)
        with pytest.raises(MixsegError, match=r"last\.pt") as caught:
            start(finished, steps=40)
        assert "\n" not in str(caught.value), name
        assert "weights_only" not in str(caught.value), f"{name}: no advice to trust the file"
        last.write_bytes(before)
    assert start(finished, steps=40).step == 40


def test_a_checkpoint_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(MixsegError, match=r"best\.pt does not exist: train the run first"):
        load_weights(tiny_method("kl-ent"), tmp_path / "best.pt")


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def opening(*, instead, then):
    """``Path.open`` but for one mode, in which ``then`` happens."""
    as_ever = Path.open
    return lambda path, mode="r", *rest, **more: then() if mode == instead else as_ever(path, mode, *rest, **more)


@pytest.mark.parametrize("where", ["saving", "moving", "logging"])
def test_a_full_disk_is_one_sentence_and_leaves_the_old_checkpoint(finished, monkeypatch, where):
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    if where == "saving":
        monkeypatch.setattr(checkpoints.torch, "save", full_disk)
    elif where == "moving":
        monkeypatch.setattr(type(finished), "replace", full_disk)
    else:
        monkeypatch.setattr(type(finished), "open", opening(instead="a", then=full_disk))
    with pytest.raises(MixsegError, match="No space left to write"):
        start(finished, steps=40)
    monkeypatch.undo()
    assert (finished / "last.pt").read_bytes() == before["last.pt"]
    assert not [path for path in finished.iterdir() if path.name.startswith(".writing-")]
    assert start(finished, steps=40).step == 40


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_disk_that_is_really_full_is_told_as_such(tmp_path, monkeypatch):
    method = tiny_method("kl-ent")
    state = State(method, make_optimizer(method, config()))
    monkeypatch.setattr(type(tmp_path), "open", opening(instead="wb", then=lambda: open("/dev/full", "wb")))  # noqa: PTH123, SIM115
    with pytest.raises(MixsegError, match=r"No space left to write .*last\.pt"), Writer() as writer:
        writer.save(state, tmp_path)


class FullAfter(io.FileIO):
    """A file on a disk with little room: what is too much is refused, and what still fits is taken."""

    room = 3000

    def write(self, data):
        if self.tell() + len(data) > self.room:
            full_disk()
        return super().write(data)


def test_a_disk_that_fills_up_on_the_way_is_told_as_such_and_leaves_the_old_checkpoint(finished, monkeypatch):
    before = (finished / "last.pt").read_bytes()
    assert len(before) > FullAfter.room
    place = finished / "on-the-way"
    monkeypatch.setattr(type(finished), "open", opening(instead="wb", then=lambda: FullAfter(place, "w")))
    with pytest.raises(MixsegError, match=r"No space left to write .*/(last|best)\.pt: free some"):
        start(finished, steps=40)
    monkeypatch.undo()
    assert place.stat().st_size > 0
    assert (finished / "last.pt").read_bytes() == before


@pytest.mark.parametrize(
    ("device", "room"),
    [
        ("cpu", False),
        *(
            pytest.param(
                *("cuda", room),
                marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")],
            )
            for room in (False, True)
        ),
    ],
)
def test_a_checkpoint_is_of_the_moment_it_was_asked_for(tmp_path, monkeypatch, device, room):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2**40 if room else 0, 2**40))
    method = tiny_method("kl-ent").to(device)
    state = State(method, make_optimizer(method, config()), step=3)
    state.keep_if_best(0.5)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    go, write = threading.Event(), checkpoints._write

    def wait_and_write(path, content):
        go.wait(timeout=60)
        write(path, content)

    monkeypatch.setattr(checkpoints, "_write", wait_and_write)
    with Writer() as writer:
        writer.save(state, tmp_path)
        there = Batch(*(Part(*(tensor.to(device) for tensor in part)) for part in batch()))
        total(method(there, 0.5)).backward()
        state.optimizer.step()
        state.step = 4
        assert not list(tmp_path.iterdir()), "training goes on before anything is written"
        go.set()
    last, best = (checkpoint(tmp_path / f"{name}.pt") for name in ("last", "best"))
    assert (last["step"], best["step"]) == (3, 3)
    for content in (last, best):
        assert not differences(content["method"], {name: tensor.cpu() for name, tensor in before.items()})
    assert last["optimizer"]["state"] == {}
    assert differences(dict(method.state_dict()), before)


def test_scoring_does_not_wait_for_the_last_checkpoint_but_the_end_does(tmp_path, monkeypatch):
    scored, order, write = threading.Event(), [], checkpoints._write

    def wait_and_write(path, content):
        if path.name == "last.pt" and content["step"] == 4:
            assert scored.wait(timeout=60)
            order.append("written")
        write(path, content)

    def score(*arguments, **settings):
        write_examples(*arguments, **settings)
        assert not (tmp_path / "run" / "finished.json").exists()
        order.append("scored")
        scored.set()

    monkeypatch.setattr(checkpoints, "_write", wait_and_write)
    monkeypatch.setattr(runs, "write_examples", score)
    folder = train(config(steps=4), data(), tmp_path / "run", hardware=CPU)
    assert order == ["scored", "written"]
    assert folder.finished["steps"] == checkpoint(folder.path / "last.pt")["step"] == 4


def test_a_run_whose_last_checkpoint_could_not_be_written_is_not_finished(tmp_path, monkeypatch):
    write = checkpoints._write

    def refuse_the_end(path, content):
        if path.name == "last.pt" and content["step"] == 6:
            raise MixsegError("No space left.", "disk-full")
        write(path, content)

    monkeypatch.setattr(checkpoints, "_write", refuse_the_end)
    with pytest.raises(MixsegError, match="No space left"):
        train(config(steps=6), data(), tmp_path / "run", hardware=CPU)
    assert not (tmp_path / "run" / "finished.json").exists()
    monkeypatch.undo()
    assert train(config(steps=6), data(), tmp_path / "run", hardware=CPU).finished["steps"] == 6


def test_an_interrupt_names_the_checkpoint_that_was_on_its_way(tmp_path, monkeypatch):
    write = checkpoints._write

    def slowly(path, content):
        time.sleep(0.5)
        write(path, content)

    monkeypatch.setattr(checkpoints, "_write", slowly)
    with Writer() as writer, pytest.raises(KeyboardInterrupt, match="the checkpoint of step 5 is kept"):
        start(tmp_path, method=Interrupted(at=5), steps=20, writer=writer)


def test_best_weights_that_are_on_disk_are_not_written_again(tmp_path):
    method = tiny_method("kl-ent")
    state = State(method, make_optimizer(method, config()))
    for step, score in ((1, 0.5), (2, 0.4), (3, 0.6)):
        state.step = step
        state.keep_if_best(score)
        assert list(state.files()) == (["last.pt"] if step == 2 else ["best.pt", "last.pt"])
        with Writer() as writer:
            writer.save(state, tmp_path)
        again = State(method, make_optimizer(method, config()))
        again.resume(tmp_path)
        assert list(again.files()) == ["last.pt"]


def test_a_trained_run_is_loaded_ready_to_predict(tmp_path):
    folder = train(config(), data(), tmp_path / "run", hardware=CPU)
    for name in ("last", "best"):
        method = load(folder, channels=1, classes=2, checkpoint=name).method
        assert not method.training
        assert not differences(dict(method.state_dict()), checkpoint(folder.path / f"{name}.pt")["method"])


def test_this_torch_has_the_switches_that_make_compiled_steps_fast():
    assert all(hasattr(functorch, switch) for switch in device.FUNCTORCH)
    assert set(building.COMPILER) <= set(torch._inductor.list_options())


def test_this_torch_has_the_hashes_that_are_taken_beside_other_work():
    assert callable(codecache.torch_key)
    assert callable(codecache.CacheBase.get_system)


def test_the_compiler_is_imported_once_and_beside_other_work(monkeypatch):
    go_on, imported = threading.Event(), []

    def slowly(name):
        assert go_on.wait(60)
        imported.append(name)

    monkeypatch.setattr(building, "import_module", slowly)
    building.fetch_compiler.cache_clear()
    try:
        begun = building.fetch_compiler()
        assert building.fetch_compiler() is begun
        assert not begun.done()
        go_on.set()
        begun.result(60)
        assert imported[0] == "torch._inductor.compile_fx"
    finally:
        building.fetch_compiler.cache_clear()


def test_on_a_gpu_in_half_precision_normalisations_are_folded_while_nothing_trains(monkeypatch):
    method = build(config(), channels=1, classes=2)
    gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"), autocast=nullcontext)
    blocks = [part for part in method.modules() if isinstance(part, torch.nn.Sequential)]
    with evaluating(method, gpu):
        assert not any("forward" in vars(block) for block in blocks), "fp32 is computed as it is"
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
    with evaluating(method, gpu):
        assert all("forward" in vars(block) for block in blocks)
    assert not any("forward" in vars(block) for block in blocks)


def test_a_machine_without_a_compiler_trains_without_it(tmp_path, monkeypatch, capfd):
    def no_compiler(graph, inputs):
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")

    plain = start(tmp_path / "plain", steps=6)

    def compiled(method, *settings):
        speed_up(method, *settings)
        method.compile(backend=no_compiler)

    monkeypatch.setattr(loop, "speed_up", compiled)
    without = start(tmp_path / "without", steps=6)
    said = capfd.readouterr()
    assert (said.out + said.err).count("cannot be compiled here (RuntimeError: Failed to find C compiler") == 1
    assert not differences(plain.method.state_dict(), without.method.state_dict())
    # What others compile in this process is compiled as before.
    with pytest.raises(TorchDynamoException, match="Failed to find C compiler"):
        torch.compile(lambda image: image + 1, backend=no_compiler)(torch.zeros(2))
