"""The page on speed says what its JSON file says, and a new measurement takes the place of the old one."""

import copy
import json
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import speed_page


def entry(ms=10.0, method="kl-ent", **environment):
    env = {
        "device": "NVIDIA X",
        "device_type": "cuda",
        "threads": 4,
        "python": "3.12",
        "torch": "2.11",
        "cuda": "12.8",
        "cudnn": 9,
        "lightning_fabric": "2.6",
        "date": "2026-01-01",
        "preset": "paper",
        "dims": 2,
        "precision": "bfloat16",
        "compile": True,
        "network": "unet",
        "width": None,
        "depth": None,
    }
    times = {"start_s": 1.0, "peak_gib": 2.0, "error": ""}
    return {
        "method": method,
        "environment": env | environment,
        "ceilings": {"matmul_flops": 7e14, "copy_bytes_per_s": 4e12},
        "batch": {"full": 8, "partial": 16, "unlabeled": 0},
        "grid": [256, 256],
        "versions": {
            "plain fp32": {"ms": 200.0, **times},
            "plain bf16": {"ms": float("nan"), **times, "error": "out of memory"},
            "mixseg": {"ms": ms, **times, "times_arithmetic": ms / 5, "times_attainable": ms / 8},
        },
        "floors": {"error": "left out"},
    }


def test_the_page_is_the_one_that_the_file_makes():
    assert speed_page.page(speed_page.read()) == speed_page.PAGE.read_text()
    for shown in speed_page.read()["entries"]:
        assert not speed_page.drawable(shown) or (speed_page.PICTURES / speed_page.picture_of(shown)).exists()


def test_a_row_has_the_ratios_to_the_plain_loop_and_to_the_floors():
    known = copy.deepcopy(speed_page.EMPTY)
    speed_page.add(known, [entry()])
    rows = [line.split("|")[1:-1] for line in speed_page.page(known).splitlines() if line.startswith("|")]
    (ours,) = [[cell.strip() for cell in row] for row in rows if "mixseg" in row[2]]
    assert ours[2:7] == ["mixseg, paper, bfloat16", "10.00", "20.00 x", "2.00 x", "1.25 x"]
    assert not any("plain bf16" in row[2] for row in rows), "what failed has no row"


def test_a_new_measurement_takes_the_place_of_the_same_one_alone():
    known = copy.deepcopy(speed_page.EMPTY)
    speed_page.add(known, [entry(10), entry(20, method="single"), entry(30, device="NVIDIA Y")])
    speed_page.add(known, [entry(11), {"method": "kl-ent", "environment": entry()["environment"], "error": "broken"}])
    assert [each["versions"]["mixseg"]["ms"] for each in known["entries"]] == [20, 30, 11]


def test_floors_measured_by_themselves_change_the_ratios_of_what_is_known():
    known = copy.deepcopy(speed_page.EMPTY)
    speed_page.add(known, [entry(10), entry(20, method="single")])
    floors = {"arithmetic_ms": 4.0, "attainable_ms": 5.0, "recorded": True}
    newer = entry() | {"versions": {}, "floors": floors}
    speed_page.add(known, [newer, newer | {"method": "kl"}])  # nothing is known of kl
    assert [each["method"] for each in known["entries"]] == ["single", "kl-ent"]
    ours = known["entries"][1]
    assert ours["floors"] == floors
    assert ours["versions"]["mixseg"]["times_arithmetic"] == 2.5
    assert ours["versions"]["mixseg"]["times_attainable"] == 2.0
    assert ours["versions"]["plain fp32"]["times_attainable"] == 40.0


def again(ms, **changes):
    """mixseg alone, measured a second time."""
    newer = entry(ms) | {"floors": {"arithmetic_ms": 4.0, "attainable_ms": 5.0, "recorded": True}} | changes
    return newer | {"versions": {"mixseg": newer["versions"]["mixseg"]}}


def test_a_version_measured_again_stands_beside_those_that_were_not():
    known = copy.deepcopy(speed_page.EMPTY)
    speed_page.add(known, [entry(10) | {"profile": {"plain fp32": "a", "mixseg": "b"}, "look": {"ms": 99}}])
    speed_page.add(known, [again(8)])
    (found,) = known["entries"]
    times = {name: version["ms"] for name, version in found["versions"].items() if not version["error"]}
    assert times == {"plain fp32": 200, "mixseg": 8}
    assert found["versions"]["mixseg"]["times_attainable"] == 1.6
    assert found["versions"]["plain fp32"]["times_attainable"] == 40.0
    assert found["profile"] == {"plain fp32": "a"}, "the profile of another mixseg is gone"
    assert "look" not in found


def test_what_a_new_measurement_failed_in_or_left_out_stays():
    known = copy.deepcopy(speed_page.EMPTY)
    speed_page.add(known, [again(8)])
    speed_page.add(known, [again(10, floors={"error": "left out"}, feed={"error": "broken"})])
    assert known["entries"][0]["versions"]["mixseg"]["times_attainable"] == 2.0
    broken = again(1)
    broken["versions"]["mixseg"]["error"] = "out of memory"
    speed_page.add(known, [broken])
    assert known["entries"][0]["versions"]["mixseg"]["ms"] == 10
    assert "out of memory" not in speed_page.page(known)


def test_versions_measured_with_other_software_do_not_stay():
    known = copy.deepcopy(speed_page.EMPTY)
    speed_page.add(known, [entry(10)])
    speed_page.add(known, [again(8, environment=entry()["environment"] | {"torch": "2.13"})])
    assert list(known["entries"][0]["versions"]) == ["mixseg"]


def test_the_phases_of_a_run_are_taken_from_its_folder(tmp_path):
    content = {
        "config": {"method": "kl-ent", "preset": "paper", "set": 3, "dims": 2, "compile": True},
        "environment": {"device": "cuda: X", "versions": {"torch": "2.11"}},
        "finished": {"steps": 3000, "phases": {"start": 2.0, "steps": 80.0, "validation": 10.0, "assess": 4.0}},
    }
    for name, held in content.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(held))
    known = copy.deepcopy(speed_page.EMPTY)
    for _ in range(2):
        speed_page.add_run(known, tmp_path, "warm")
    assert len(known["runs"]) == 1
    (row,) = [line for line in speed_page.page(known).splitlines() if line.startswith("| `kl-ent`")]
    assert [cell.strip() for cell in row.split("|")[3:-1]] == (
        ["yes", "3000", "0.0", "2.0", "0.0", "80.0", "10.0", "0.0", "4.0", "1.20"]
    )
    speed_page.add_run(known, tmp_path, "cold")
    assert [run["cache"] for run in known["runs"]] == ["warm", "cold"]


@pytest.mark.parametrize(("kind", "threads", "name"), [("cuda", 16, "NVIDIA X"), ("cpu", 2, "NVIDIA X, 2 threads")])
def test_a_cpu_is_named_with_its_threads(kind, threads, name):
    assert speed_page.machine_of(entry(device_type=kind, threads=threads)) == name
