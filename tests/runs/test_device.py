"""Where a run computes: what "auto" comes to, and that the run says so."""

from types import SimpleNamespace

import pytest
import torch

from made_runs import config, data
from mixseg.runs.device import Hardware, make_fabric, settle_precision
from mixseg.training.train import train


@pytest.mark.parametrize("instruction", ["_is_avx512_bf16_supported", "_is_amx_tile_supported"])
def test_auto_is_bf16_on_a_cpu_that_has_it_and_the_run_says_so(tmp_path, monkeypatch, instruction):
    assert settle_precision("auto", "cpu", dims=2) == "fp32", "no test is told of such a CPU"
    monkeypatch.setattr(torch.cpu, instruction, lambda: True)
    assert settle_precision("auto", "cpu", dims=2) == "bf16"
    assert settle_precision("auto", "cpu", dims=3) == "fp32", "where torch's gradients may be nan"
    assert settle_precision("tf32", "cpu", dims=2) == "tf32"
    run = train(config(precision="auto", steps=5), data(), tmp_path / "run", hardware=Hardware("cpu"))
    assert run.facts["precision"] == "bf16"


def test_a_run_by_itself_in_a_job_of_several_tasks_trains_alone(monkeypatch):
    for name, value in {"JOB_ID": "7", "JOB_NAME": "job", "NTASKS": "2", "PROCID": "1", "LOCALID": "1"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    fabric = make_fabric(Hardware("cpu"), "fp32")
    assert (fabric.world_size, fabric.is_global_zero) == (1, True)


@pytest.mark.parametrize(("major", "precision"), [(7, "fp32"), (8, "bf16")])
def test_auto_is_bf16_on_a_gpu_that_does_not_only_pretend_to_have_it(monkeypatch, major, precision):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major))
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda device: True)
    assert settle_precision("auto", "cuda", dims=3) == precision


def test_half_precision_learns_what_single_precision_learns(tmp_path):
    scores = {}
    for precision in ("fp32", "bf16"):
        run = train(config(precision=precision, steps=60), data(), tmp_path / precision, hardware=Hardware("cpu"))
        [score] = [
            entry["dsc"]["mean"]
            for entry in run.finished["summary"]
            if (entry["checkpoint"], entry["branch"]) == ("last", "bottom")
        ]
        scores[precision] = score
    assert scores["fp32"] > 0.8
    assert scores["bf16"] == pytest.approx(scores["fp32"], abs=0.1)
