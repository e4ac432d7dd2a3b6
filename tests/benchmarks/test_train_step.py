"""The benchmark of a step, at a size at which it says nothing about speed: all of it runs, and the page takes it in."""

import copy
import json
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import contenders
import floors
import speed_page
import train_step
from mixseg.runs.build import build
from mixseg.runs.config import make_config
from mixseg.runs.device import Hardware, make_fabric

SMALL = ["--device", "cpu", "--size", "16", "--width", "4", "--set", "depth=2", "--round-s", "0.01"]


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["train_step.py", *SMALL, *arguments])
    train_step.main()


def test_the_benchmark_runs_and_the_page_takes_it_in(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train_step, "ceilings", lambda *_: {"matmul_flops": 1e11, "copy_bytes_per_s": 1e10})
    run(monkeypatch, "--methods", "kl-ent", "--out", str(tmp_path / "speed.json"), "--tables", str(tmp_path))
    (entry,) = json.loads((tmp_path / "speed.json").read_text())["entries"]
    assert list(entry["versions"]) == ["plain fp32", "plain bf16", "mixseg"]
    for version in entry["versions"].values():
        assert not version["error"]
        assert version["times_attainable"] == pytest.approx(version["ms"] / entry["floors"]["attainable_ms"])
    assert set(entry["profile"]["mixseg"]["ms_by_kind"]) >= {"convolution", "normalisation"}
    assert (tmp_path / "kl-ent-mixseg.txt").exists()
    assert entry["look"]["ms"] > 0
    known = copy.deepcopy(speed_page.EMPTY)
    speed_page.add(known, [entry])
    assert f"{entry['versions']['mixseg']['ms']:.2f}" in speed_page.page(known)
    assert "kl-ent         mixseg" in capsys.readouterr().out


def test_what_there_is_no_time_for_is_left_out_and_said(monkeypatch, capsys):
    monkeypatch.setattr(train_step, "ceilings", lambda *_: {"matmul_flops": 1e11, "copy_bytes_per_s": 1e10})
    answers = iter([True, False])  # the clock of a busy machine would say anything
    monkeypatch.setattr(train_step.Deadline, "leaves", lambda self, seconds: next(answers))
    run(monkeypatch, "--methods", "lower-bound", "single", "--short")
    said = "".join(capsys.readouterr())
    assert "lower-bound    mixseg" in said
    assert "single: left out, for want of time" in said
    monkeypatch.setattr(train_step.Deadline, "leaves", lambda self, seconds: False)
    with pytest.raises(SystemExit, match="time"):
        run(monkeypatch, "--methods", "single")


def test_the_floors_count_every_operation_of_a_convolution():
    config = make_config(method="kl-ent", preset="quick", size=[16, 16], width=4, depth=2)
    fabric = make_fabric(Hardware("cpu"), "fp32")
    batch = contenders.make_feed(contenders.make_scans(config), config, fabric.device)(0)
    method = build(config, channels=1, classes=2)
    work = floors.observe(method, batch, autocast=fabric.autocast(), optimizer="adam")
    assert work.flop == sum(count * conv.flop for (conv, _), count in work.convolutions.items())
    assert work.bytes["optimizer"] == 28 * sum(parameter.numel() for parameter in method.parameters())
