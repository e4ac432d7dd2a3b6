"""A method of another package: one file, one row, and every verb knows it."""

import json
import sys
import textwrap

import pytest

from grids import Here, write_scans
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.registry import Registry
from mixseg.methods import METHODS, ROWS, MethodRow, terms_of
from mixseg.runs.config import make_config
from mixseg.training.plan.memory import count_held, numbers_held

METHOD = """
    from mixseg.methods import MethodRow, Term
    from mixseg.methods.dual_branch import DualBranch

    class Calm(DualBranch):
        '''single, whose student changes little from voxel to voxel.'''

        def __init__(self, build, weights, options):
            super().__init__(build, weights, options, branches=1)

        def forward(self, batch, progress):
            terms = super().forward(batch, progress)
            slopes = self.predict(batch.full.image)["top"].diff(dim=-1).abs().mean()
            return {**terms, "calm": Term(slopes, self.weights["calm"])}

    ROW = MethodRow(Calm, "single, made smooth", "mixed", {"full": 1.0, "weak": 1e-3, "calm": 0.1},
                    {2: (8, 16, 0), 3: (4, 8, 0)})
    NO_ROW = {"about": "not a row"}
"""
SMALL = {"steps": 2, "size": "[32,32]", "width": 2, "depth": 2}


def install(folder, monkeypatch, entries, code=METHOD):
    """A package beside its metadata, as pip leaves it."""
    (folder / "calm_method.py").write_text(textwrap.dedent(code))
    metadata = folder / "calm_method-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: calm-method\nVersion: 0.1\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[mixseg.methods]", *lines, ""]))
    monkeypatch.syspath_prepend(str(folder))
    METHODS.forget()


@pytest.fixture(autouse=True)
def as_before():
    """The packages of a test are gone when it ends."""
    yield
    METHODS.forget()
    sys.modules.pop("calm_method", None)


def test_a_method_of_another_package_trains_predicts_and_is_reported(tmp_path, monkeypatch, unpainted):
    scans = write_scans(tmp_path / "scans")
    install(tmp_path, monkeypatch, {"calm": "calm_method:ROW"})
    run = tmp_path / "run"
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    words = ["train", str(scans), "--out", str(run), "--preset", "quick", "--method", "calm", *settings]
    assert main(words) == 0
    entry = json.loads((run / "log.jsonl").read_text().splitlines()[-1])
    assert entry["terms"]["calm"] > 0
    assert json.loads((run / "config.json").read_text())["method"]["name"] == "calm"
    assert main(["predict", str(run), "-i", str(scans / "imagesTr"), "-o", str(tmp_path / "maps")]) == 0
    assert len(list((tmp_path / "maps").glob("*.nii.gz"))) == len(list((scans / "imagesTr").iterdir()))
    assert main(["report", str(run)]) == 0


def test_a_method_of_another_package_is_compared_with_ours(tmp_path, monkeypatch, unpainted):
    scans = write_scans(tmp_path / "scans")
    install(tmp_path, monkeypatch, {"calm": "calm_method:ROW"})
    monkeypatch.setattr("mixseg.experiments.run_experiment.make_executor", lambda name, place: Here(place))
    monkeypatch.setattr("mixseg.experiments.scheduler.SECONDS_BETWEEN_REFRESHES", 0.0)
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    words = ["experiment", "--dataset", str(scans), "--preset", "quick", "--seeds", "0", *settings]
    words += ["--sets", "1", "--set", "ratio=1"]
    assert main([*words, "--methods", "calm", "single", "-o", str(tmp_path / "out")]) == 0
    methods = [json.loads(path.read_text())["method"]["name"] for path in (tmp_path / "out").rglob("config.json")]
    assert sorted(methods) == ["calm", "single"]
    (page,) = (tmp_path / "out").rglob("report.html")
    assert "calm" in page.read_text("utf-8")


def test_what_a_package_leaves_out_of_its_row_is_settled(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, {"calm": "calm_method:ROW"})
    row = METHODS["calm"]
    assert (row.outputs, row.role("calm"), row.role("weak")) == (("top",), "consistency", "partial labels")
    assert terms_of("calm") == ("full", "weak", "calm", "dice", "cutmix")
    own, similar = numbers_held("calm", 2), METHODS["single"].held[2]
    assert similar <= own < 2 * similar, "it runs its network once more on the full masks"
    assert make_config(method="calm").training.batch.full == 8


@pytest.mark.parametrize(("entry", "words"), [("calm_method:NO_ROW", "not a"), ("calm_method:GONE", "imported")])
def test_a_package_that_cannot_be_used_takes_no_other_method_with_it(entry, words, tmp_path, monkeypatch, caplog):
    install(tmp_path, monkeypatch, {"calm": entry, "single": "calm_method:ROW"})
    with caplog.at_level("WARNING", "mixseg"), pytest.raises(MixsegError) as refused:
        make_config(method="calm")
    assert refused.value.code == "unknown-name"
    assert set(METHODS) == set(ROWS)
    assert METHODS["single"] is ROWS["single"], "nobody replaces a method of ours"
    of_calm, of_single = sorted(record.getMessage() for record in caplog.records)
    assert words in of_calm
    assert "calm-method" in of_calm
    assert "'single'" in of_single


@pytest.mark.parametrize(("name", "dims"), [("lower-bound", 2), ("kl-ent", 3), ("ssco", 2)])
def test_what_a_step_holds_is_counted_as_the_rows_have_it(name, dims):
    assert count_held(name, dims) == pytest.approx(ROWS[name].held[dims], rel=0.15)


def test_a_step_that_cannot_be_counted_is_planned_for_as_the_greediest(monkeypatch):
    def make(build, weights, options):
        raise RuntimeError("it asks the device for a number")

    odd = MethodRow(make, "odd", "full", {"full": 1.0}, {2: (8, 0, 0), 3: (4, 0, 0)})
    monkeypatch.setitem(METHODS._ours, "odd", odd)
    assert numbers_held("odd", 2) == max(row.held[2] for row in ROWS.values())


def test_every_row_declares_the_outputs_that_its_method_has(tmp_path):
    from discs import tiny_method

    for name, row in ROWS.items():
        assert tiny_method(name, 2).outputs == row.outputs, name


def test_a_registry_is_a_mapping_of_its_rows():
    rows = Registry({"a": 1, "b": 2}, group="mixseg.nobody-has-such", kind=int)
    assert dict(rows) == {"a": 1, "b": 2}
    assert ("a" in rows, "c" in rows, len(rows), rows.get("c")) == (True, False, 2, None)
    with pytest.raises(KeyError):
        rows["c"]
