"""The files of an experiment's report: what is on the page, what is said to be missing, and which command makes it."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from PIL import Image

from found_runs import cell, row, run_of, write_experiment, write_pictures, write_run
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.datasets.split import Split
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.plan import Cell, write_plan
from mixseg.experiments.planner import Request, make_plan
from mixseg.experiments.protocol import Scans
from mixseg.experiments.states import record_failure
from mixseg.report.experiment import report
from mixseg.report.experiment.figures import FIGURES
from mixseg.report.experiment.missing import command
from mixseg.report.experiment.results import read_results
from mixseg.report.experiment.tables import score_table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two finished rows with pictures, one that failed, one for which there are too few scans."""
    tmp_path = tmp_path_factory.mktemp("made")
    kl, kl_ent, failed = cell("kl", ("bottom", "top")), cell("kl-ent", ("bottom", "top")), cell("single", seeds=(0, 1))
    short = Cell("kl-ent", "set-10", ("bottom",), missing="not enough scans")
    folder = write_experiment(tmp_path / "out", [failed, kl, kl_ent, short], seeds=(0, 1))
    for each, dsc in ((kl, 0.5), (kl_ent, 0.75)):
        run = run_of(tmp_path / "out", each)
        write_run(run, {"bottom": {"a": dsc, "b": dsc}, "top": {"a": 0.4, "b": 0.4}}, method=each.row)
        write_pictures(run, {"bottom": {"a": 6, "b": 7}, "top": {"a": 5, "b": 5}})
    record_failure(run_of(tmp_path / "out", failed), "the disk was full & <b>.")
    return folder


@pytest.fixture(scope="module")
def page(made):
    return report.write_experiment(made).read_text(encoding="utf-8")


def test_the_page_holds_every_cell_of_the_table(made, page):
    for group in score_table(read_results(made)).groups:
        assert f"<h3>{group.heading}</h3>" in page
        for line in group.lines:
            for text in line:
                assert re.search(rf">{re.escape(text)}<", page), text


def test_the_first_sentence_says_how_the_method_stands_and_how_much_is_finished(page):
    assert "Set-3: kl-ent has 75.0 % DSC (95 % interval 75.0 to 75.0; 2 test patients, 1 seed). " in page
    assert (
        "kl-ent is ahead of kl by 25.0 points of DSC (95 % interval 25.0 to 25.0; 2 test patients, 1 seed each;" in page
    )
    assert "2 of 4 runs of this table are" in page


def test_missing_runs_are_named_with_the_reason(page):
    assert "<td>single-set-3-0</td>" in page
    assert "the disk was full &amp; &lt;b&gt;." in page
    assert "<td>single-set-3-1</td>" in page
    assert "kl-ent, set-10: not enough scans" in page


def test_every_kind_of_figure_is_shown_or_named_with_the_command_that_makes_it(made, page):
    shown = {name for name, kind in FIGURES.items() if kind.draw(read_results(made))}
    assert shown == {"qualitative", "probabilities", "confidence"}
    for name, kind in FIGURES.items():
        assert (f"<td>{kind.about}</td>" in page) == (name not in shown), name
    out = shlex.quote(str(made.parent))
    assert f"mixseg experiment self-training --dataset scans --seeds 0 1 --test --out {out}" in page
    assert "<td>needs finished runs of kl-ent and upper-bound-set</td>" in page


@pytest.fixture
def copied(made, page, tmp_path):
    return shutil.copytree(made.parent, tmp_path / "out") / made.name


def test_the_figures_lie_beside_as_files_and_old_ones_go(copied, page):
    names = {"qualitative-set-3.png", "probabilities.png", "confidence.png"}
    assert {path.name for path in (copied / "figures").iterdir()} == names
    for name in names:
        with Image.open(copied / "figures" / name) as picture:
            picture.verify()
    (copied / "figures" / "terms.png").write_bytes(b"of an earlier report")
    report.write_experiment(copied)
    assert {path.name for path in (copied / "figures").iterdir()} == names
    assert page.count("<img ") == 3
    assert not re.search(r'(src|href)="(?!data:|#)', page), "nothing is loaded from elsewhere"


def test_the_tables_are_written_in_markdown_and_latex_too(made, page):
    assert "| kl-ent | student | 1 | 75.00 (-11.94) |" in (made / "table.md").read_text(encoding="utf-8")
    text = (made / "table.tex").read_text(encoding="utf-8")
    assert re.findall(r"\\label\{(.*?)\}", text) == ["tab:acdc-main", "tab:acdc-main-tests"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"dataset": "phantom", "preset": "quick", "quick": True, "seeds": (0,), "scans": "out/scans"},
            "--dataset phantom --quick --methods kl",
        ),
        (
            {"dataset": "phantom", "preset": "quick", "quick": True, "seeds": (0,), "scans": "hearts"},
            "--dataset hearts --quick --methods kl --test",
        ),
        ({"test": False}, "--dataset scans --sets 3 --methods kl"),
        ({"preset": "strong"}, "--dataset scans --preset strong --sets 3 --methods kl --test"),
        (
            {"seeds": (4,), "split": "my split.json"},
            "--dataset scans --seeds 4 --sets 3 --methods kl --split 'my split.json' --test",
        ),
        (
            {"test": False, "labels": {"unlabeled": 4, "foreground_only": True}},
            "--dataset scans --sets 3 --methods kl --unlabeled 4 --foreground-only",
        ),
    ],
)
def test_the_command_repeats_what_was_asked_for(tmp_path, monkeypatch, changes, words):
    monkeypatch.chdir(tmp_path)
    results = read_results(write_experiment(Path("out"), [cell("kl")], **changes))
    assert command(results) == f"mixseg experiment main {words} --out out"


def test_the_command_of_a_table_whose_columns_are_no_settings_names_the_setting(tmp_path):
    request = Request(seeds=(0,), sets=(5,), preset="quick")
    scans = Scans("hearts", tmp_path, "phantom", (), {"dims": 2, "partial": "erosion-3x3"})
    split = Split(tuple(f"p{number}" for number in range(40)))
    folder = write_plan(tmp_path, make_plan(EXPERIMENTS["glmi-weights"], request, scans, split))
    assert "--seeds 0 --sets 5 --out" in command(read_results(folder))


def test_sets_are_named_only_where_they_are_not_the_experiments_own(tmp_path):
    cells = [cell("kl", column=f"set-{n}") for n in (3, 5, 10)]
    assert "--sets" not in command(read_results(write_experiment(tmp_path, cells)))
    assert "--sets" not in command(read_results(write_experiment(tmp_path, cells[:1])), "proposals")


def test_an_experiment_of_which_nothing_is_finished_has_a_page_too(tmp_path):
    folder = write_experiment(tmp_path, [cell("kl"), cell("kl-ent")])
    page = report.write_experiment(folder).read_text(encoding="utf-8")
    assert "Nothing is finished yet. 0 of 2 runs of this table are finished." in page


def test_an_experiment_on_validation_scans_reports_those(tmp_path):
    ours = cell("kl-ent", ("bottom",))
    folder = write_experiment(tmp_path, [ours], test=False)
    write_run(run_of(tmp_path, ours), {"bottom": {"a": 0.5}}, test=False, rows=[row("z", 0.9, 1, "bottom", "last")])
    page = report.write_experiment(folder).read_text(encoding="utf-8")
    assert "kl-ent has 50.0 % DSC (no interval; 1 validation patient, 1 seed)." in page
    assert "Validation scans (1)" in page


def test_complexity_has_a_table_of_its_own(tmp_path):
    folder = write_experiment(tmp_path, [], experiment="complexity", measured=True)
    with pytest.raises(MixsegError, match=r"complexity\.json does not exist"):
        report.write_experiment(folder)
    about = {"network": "unet", "grid": [256, 256], "precision": "fp32", "device": "cpu: made"}
    numbers = {"parameters": 41_137_220 + 5, "heads": 0, "all_ms": 7.04, "answer_ms": 3.0}
    ours = {"row": "dual-branch", "method": "kl-ent", **numbers}
    write_json(folder / "complexity.json", {**about, "rows": [ours, {**ours, "row": "another"}]})
    page = report.write_experiment(folder).read_text(encoding="utf-8")
    for text in ("41,137,225 (+5)", "41,137,220", "7.0", "7.1", "3.0"):
        assert f">{text}<" in page


@pytest.mark.usefixtures("unpainted")
def test_the_verb_knows_an_experiment_and_a_folder_of_experiments(copied, capsys):
    assert main(["report", str(copied)]) == 0
    assert f"Written: {copied / 'report.html'}" in capsys.readouterr().out
    mine = copied.parent.parent / "mine.html"
    assert main(["report", str(copied), "-o", str(mine)]) == 0
    assert mine.read_text(encoding="utf-8") == (copied / "report.html").read_text(encoding="utf-8")
    write_experiment(copied.parent, [cell("kl")], experiment="proposals")
    assert main(["report", str(copied.parent)]) == 0
    assert capsys.readouterr().out.count("Written: ") == 3
    assert main(["report", str(copied.parent), "-o", str(mine)]) == 2
    assert "holds 2 experiments, each with its own page: name one" in capsys.readouterr().err


def test_a_folder_that_is_neither_a_run_nor_an_experiment_is_one_sentence(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 4
    assert "is no run folder" in capsys.readouterr().err
