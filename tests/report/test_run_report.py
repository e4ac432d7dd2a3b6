"""The report of a run: what it says is what the files say, and nothing in it is taken for HTML."""

import base64
import html
import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fake_runs import CLASSES, write_run
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.data.scan import Scan
from mixseg.data.supervision import Data
from mixseg.evaluation.scores import read_metrics, summarise, write_metrics
from mixseg.evaluation.statistics import estimate
from mixseg.inference.report_slices import read_examples
from mixseg.report.figures import curves
from mixseg.report.figures.scans import strips
from mixseg.report.run_files import RunFiles
from mixseg.report.run_report import write_report
from mixseg.report.wording import verdict
from mixseg.runs.config import make_config
from mixseg.runs.device import Hardware
from mixseg.runs.log import read_log
from mixseg.training.train import train


@pytest.fixture(scope="module")
def collapsed(tmp_path_factory):
    """A 2D run of two classes that collapsed for a while, with the test set opened; and its page."""
    folder = tmp_path_factory.mktemp("runs") / "collapsed"
    write_run(folder, collapse=True, test=True, scans=4)
    return folder, write_report(folder).read_text(encoding="utf-8")


def text_of(page):
    """The page without its tags and pictures."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.split("</style>")[1]))


def test_every_mean_and_sd_of_metrics_csv_is_in_the_page(collapsed):
    folder, page = collapsed
    entries = [entry for entry in summarise(read_metrics(folder / "metrics.csv")) if entry["class"] != "mean"]
    assert len(entries) == 2 * 2 * 3 * 2  # parts, checkpoints, outputs, classes
    for entry in entries:
        for metric, factor in (("dsc", 100), ("hd95_vox", 1), ("assd_vox", 1)):
            score = entry[metric]
            assert f">{factor * score['mean']:.2f} ± {factor * score['sd']:.2f}<" in page


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(("scores", "shown"), [((0.2, 0.9), {"last = best"}), ((0.9, 0.2), {"last", "best"})])
def test_a_last_checkpoint_that_is_the_best_one_too_has_one_row(collapsed, tmp_path, scores, shown):
    folder, _ = collapsed
    shutil.copytree(folder, tmp_path / "run")
    log = read_log(folder / "log.jsonl")
    *before, last = ({**entry, "score": scores[entry is log[-1]]} for entry in log)
    (tmp_path / "run" / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in (*before, last)))
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    first = re.findall(r"<tr><td[^>]*>((?:last|best)[^<]*)</td>", page)
    assert set(first) == shown
    assert len(first) == len(shown) * 2 * 3 * (1 + 2)  # parts, outputs, the overview and each class


@pytest.mark.usefixtures("unpainted")
def test_the_title_names_the_folder_that_was_trained_on_and_the_layout_is_a_detail(collapsed, tmp_path):
    folder, page = collapsed
    assert "<title>kl-ent on Dataset001_Heart, Set-3, seed 0</title>" in page
    assert f"Dataset001_Heart, layout phantom, hash {'5f2c' * 8}" in text_of(page)
    shutil.copytree(folder, tmp_path / "earlier")
    facts = RunFiles.read(folder).facts
    write_json(tmp_path / "earlier" / "environment.json", {key: facts[key] for key in facts if key != "folder"})
    assert "kl-ent on phantom, Set-3, seed 0" in write_report(tmp_path / "earlier").read_text(encoding="utf-8")


def test_the_first_sentence_is_about_the_test_set_once_it_is_open(collapsed):
    folder, page = collapsed
    rows = [row for row in read_metrics(folder / "metrics.csv") if (row.part, row.checkpoint) == ("test", "last")]
    mean = {
        branch: 100 * np.mean([np.mean([row.dsc for row in rows if (row.branch, row.label) == (branch, label)])
                               for label in CLASSES[1:]])
        for branch in ("bottom", "top")
    }  # fmt: skip
    said = re.search(
        r"reaches ([\d.]+) % .* on 4 test scans of 4 patients, .* ([\d.]+) to ([\d.]+); .* ([\d.]+) %\.", page
    )
    answer, low, high, teacher = map(float, said.groups())
    assert (answer, teacher) == (round(mean["bottom"], 1), round(mean["top"], 1))
    assert low < answer < high


@pytest.mark.usefixtures("unpainted")
def test_nobody_is_ahead_on_few_patients_or_where_the_interval_of_the_difference_holds_0(tmp_path):
    apart, alike = {"bottom": 0.05, "top": 0.4}, {"bottom": 0.05, "top": 0.05}
    for name, branches, scans, said in (
        ("clear", apart, 8, "above"),
        ("few", apart, 5, "its teacher is at"),
        ("alike", alike, 8, "cannot be told apart"),
        ("one", apart, 1, "says little of other patients"),
    ):
        write_run(tmp_path / name, branches=branches, classes=("background", "atrium"), scans=scans)
        sentence, page = verdict(RunFiles.read(tmp_path / name)), write_report(tmp_path / name).read_text("utf-8")
        assert said in sentence
        assert ("above" in sentence, "<strong>" in page) == (name == "clear", scans > 1)
        assert f"on {scans} validation scan" in sentence


@pytest.mark.usefixtures("unpainted")
def test_the_interval_of_a_run_is_over_patients_not_over_their_scans(tmp_path):
    rows = write_run(tmp_path, branches={"top": 0.2}, classes=("background", "atrium"), scans=6)
    whose = {name: f"p{number // 2}" for number, name in enumerate(sorted({row.case for row in rows}))}
    write_metrics(tmp_path / "metrics.csv", [replace(row, patient=whose[row.case]) for row in rows])
    chosen = [(whose[row.case], row.label, row.dsc) for row in rows if row.checkpoint == "last"]
    found = estimate([chosen], bounds=(0.0, 1.0))
    page = write_report(tmp_path).read_text("utf-8")
    assert f"{100 * found.low:.1f} to {100 * found.high:.1f}" in verdict(RunFiles.read(tmp_path))
    assert f'>[{100 * found.low:.1f}, {100 * found.high:.1f}]</td><td class="number">3</td>' in page


def test_a_plot_of_one_scan_is_left_out():
    assert strips([("DSC", [("student", {"a": 0.5}), ("teacher", {"a": 0.6})])]) is None
    figure = strips([("one", [("student", {"a": 0.5})]), ("two", [("student", {"a": 0.5, "b": 0.4})])])
    assert [axes.get_title(loc) for axes in figure.axes for loc in ("left",)] == ["two"]


def test_a_collapse_is_shown_with_its_step(collapsed):
    folder, page = collapsed
    warned = RunFiles.read(folder).warned
    assert [sentence.split()[0] for _, sentence in warned] == ["Collapse:", "The"]
    for step, sentence in warned:
        assert f'<p class="warning">Step {step}: {html.escape(sentence)}</p>' in page


def test_a_class_named_like_a_tag_is_shown_as_it_is_written(collapsed):
    _, page = collapsed
    assert "<b>" not in page
    assert "&lt;b&gt;cavity&lt;/b&gt;" in page
    assert "wall &amp; $rim$" in page


def test_the_page_needs_no_other_file(collapsed):
    _, page = collapsed
    sources = re.findall(r'src="([^"]*)"', page)
    assert len(sources) >= 6
    for source in sources:
        assert base64.b64decode(source.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert not re.findall(r'(?:href|src)="(?!#|data:)', page)
    assert "<script" not in page


def test_the_protocol_card_names_everybody(collapsed):
    folder, page = collapsed
    said = text_of(page)
    people = RunFiles.read(folder).facts["protocol"]
    for who in ("full", "partial", "val"):
        assert f"{len(people[who])} scans: {', '.join(people[who])}" in said
    assert "4 patients: patient100, patient101, patient102, patient103" in said
    assert "Opened by this run, after training: 4 scans scored." in said
    assert "never the split" in said


def test_the_best_checkpoint_is_that_of_the_first_highest_score(collapsed):
    folder, page = collapsed
    run = RunFiles.read(folder)
    highest = max(entry["score"] for entry in run.log)
    assert run.best == (next(entry["step"] for entry in run.log if entry["score"] == highest), highest)
    assert f"step {run.best.step}, {100 * highest:.2f} %" in page


def test_only_what_differs_from_the_preset_is_in_the_first_table_of_the_config(collapsed):
    _, page = collapsed
    config = page.split("<h2>Config</h2>")[1].split("</section>")[0]
    changed, whole = config.split("<details>")
    assert re.findall(r"<tr><td>(\w+)</td>", changed) == ["dataset", "set"]
    assert "&quot;lr&quot;: 0.002" in whole


def test_the_same_files_give_the_same_page(collapsed, tmp_path):
    folder, page = collapsed
    shutil.copytree(folder, tmp_path / folder.name)
    assert write_report(tmp_path / folder.name).read_text(encoding="utf-8") == page


@pytest.mark.usefixtures("unpainted")
def test_the_page_goes_where_it_is_asked_for(collapsed, tmp_path):
    folder, _ = collapsed
    run, mine = tmp_path / folder.name, tmp_path / "mine" / "page.html"
    shutil.copytree(folder, run, ignore=shutil.ignore_patterns("report.html"))
    assert main(["report", str(run), "-o", str(mine)]) == 0
    assert not (run / "report.html").exists()
    assert mine.read_text(encoding="utf-8") == write_report(run).read_text(encoding="utf-8")


def test_an_unopened_test_set_is_said_to_be_closed_and_a_volume_is_cut_in_three_planes(tmp_path):
    write_run(tmp_path, dims=3, classes=("background", "atrium"), scans=2)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Not opened by this run" in page
    assert "on 2 validation scans" in page
    assert "<h2>Worst scans</h2>" in page
    assert {example.plane.axis for example in read_examples(tmp_path / "examples.npz")} == {0, 1, 2}


def test_a_network_with_one_branch_has_no_teacher(tmp_path):
    write_run(tmp_path, method="lower-bound", branches={"top": 0.3}, classes=("background", "atrium"), scans=2)
    said = text_of(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "The network (top) reaches" in said
    assert "teacher" not in said
    assert "Collapse guard" not in said


def test_an_unfinished_run_has_a_report_too(tmp_path):
    write_run(tmp_path, finished=False)
    said = text_of(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "The run is not finished: 300 of 600 steps are in the log." in said
    assert "Nothing has been scored yet." in said
    assert "last: the newest weights that were kept; step 600 will be the end." in said


def test_a_run_before_its_first_look_does_not_say_that_there_are_no_validation_scans(tmp_path):
    write_run(tmp_path, finished=False)
    (tmp_path / "log.jsonl").write_text("")
    said = text_of(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "No validation has chosen a best one yet." in said
    assert "There were no validation scans" not in said


@pytest.mark.usefixtures("unpainted")
def test_validation_scans_that_could_choose_no_checkpoint_are_not_said_to_be_missing(tmp_path):
    write_run(tmp_path)
    log = [json.loads(line) | {"score": None} for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in log))
    said = text_of(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "No validation scan shows a structure to choose a best one on." in said


@pytest.mark.usefixtures("unpainted")
def test_patients_without_a_mask_to_be_scored_by_are_on_the_protocol_card(tmp_path):
    write_run(tmp_path)
    facts = json.loads((tmp_path / "environment.json").read_text())
    facts["protocol"]["unscored"] = ["patient104", "patient105_frame01"]
    write_json(tmp_path / "environment.json", facts)
    said = " ".join(text_of(write_report(tmp_path).read_text(encoding="utf-8")).split())
    assert "not scored, no full mask patient104, patient105_frame01" in said


@pytest.mark.usefixtures("unpainted")
def test_a_test_set_without_scans_is_not_said_to_be_closed(tmp_path):
    write_run(tmp_path, classes=("background", "atrium"), scans=2)
    path = tmp_path / "environment.json"
    facts = json.loads(path.read_text())
    facts["protocol"]["test patients"] = []
    write_json(path, facts)
    assert "Not opened by this run" not in write_report(tmp_path).read_text(encoding="utf-8")


def test_a_run_of_a_few_steps_has_no_half_steps_on_its_axes(tmp_path):
    write_run(tmp_path, finished=False, classes=("background", "atrium"), steps=2, validate_every=1)
    for figure in (curves.losses(RunFiles.read(tmp_path)), curves.validation(RunFiles.read(tmp_path))):
        assert all(tick == int(tick) for axes in figure.axes for tick in axes.get_xticks())


def test_the_name_of_the_worst_scan_is_not_written_over_the_mean():
    figure = strips([("DSC", [("student", {"easy": 0.12, "hard": 0.0})])])
    figure.canvas.draw()
    mean, name = (text.get_window_extent() for text in figure.axes[0].texts)
    assert figure.axes[0].texts[1].get_text() == "hard"
    assert not mean.overlaps(name)
    assert name.ymin >= figure.axes[0].get_window_extent().ymin


def test_long_names_of_methods_lie_beside_each_other():
    names = (
        "strong_kl-ent_set-3_distill-10_weak-0.001_seed-0",
        "strong_single_set-3_weak-0.001_entropy-0_seed-0",
        "kl",
    )
    figure = strips([("DSC", [(name, {"a": 0.5, "b": 0.7}) for name in names])], wide=True)
    figure.canvas.draw()
    labels = figure.axes[0].get_xticklabels()
    assert [label.get_text().replace("\n", "") for label in labels] == list(names)
    boxes = [label.get_window_extent() for label in labels]
    assert not any(left.overlaps(right) for left, right in pairwise(boxes))


@pytest.mark.usefixtures("unpainted")
def test_scores_of_a_run_that_is_trained_longer_are_said_to_be_old(tmp_path):
    write_run(tmp_path, classes=("background", "atrium"), scans=2)
    (tmp_path / "finished.json").unlink()
    assert "The scores are those of an earlier, shorter training." in write_report(tmp_path).read_text(encoding="utf-8")


def test_the_student_may_also_be_below_its_teacher(tmp_path):
    write_run(tmp_path, branches={"bottom": 0.4, "top": 0.05}, classes=("background", "atrium"), scans=6)
    assert verdict(RunFiles.read(tmp_path)).endswith("points below its teacher.")


def test_scans_without_the_class_are_counted_as_left_out(tmp_path):
    rows = write_run(tmp_path, classes=("background", "atrium"), scans=2)
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    nowhere = f"patient009,atrium,bottom,last,,,,,,{rows[0].part}"
    (tmp_path / "metrics.csv").write_text("\n".join([*lines, nowhere]) + "\n")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Left out: scans that have the class neither in the truth nor in the prediction." in page
    assert re.search(r'student \(bottom\)</td><td>atrium</td><td class="number">3</td><td class="number">1</td>', page)


@pytest.mark.usefixtures("unpainted")
def test_distances_in_mm_are_shown_where_they_are_known(tmp_path):
    write_run(tmp_path, classes=("background", "atrium"), scans=2)
    metrics = tmp_path / "metrics.csv"
    head, *lines = (line.split(",") for line in metrics.read_text().splitlines())
    for line in lines:
        line[head.index("hd95_mm")] = "12.5"
    metrics.write_text("\n".join(",".join(line) for line in (head, *lines)) + "\n")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "HD95 (mm)" in page
    assert "ASSD (mm)" not in page
    assert ">12.50 ± 0.00<" in page


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path):
    with pytest.raises(MixsegError, match="is no run folder"):
        write_report(tmp_path)


def test_a_config_with_an_unknown_key_is_one_sentence(tmp_path):
    write_run(tmp_path, finished=False)
    write_json(tmp_path / "config.json", {"metod": "kl-ent"})
    with pytest.raises(MixsegError, match="did you mean 'method'"):
        write_report(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny run that was really trained, on squares that are brighter than what is around them."""
    rng = np.random.default_rng(0)

    def scan(name, *, full, partial):
        mask = np.zeros((3, 32, 32), np.uint8)
        row, column = rng.integers(4, 16, 2)
        mask[:, row : row + 10, column : column + 10] = 1
        image = (60 + 120 * mask + rng.normal(0, 10, mask.shape)).clip(0, 255).astype(np.uint8)
        drawn = np.where(rng.random(mask.shape) < 0.1, mask, 255).astype(np.uint8)
        return Scan(name, image[:, None], mask if full else None, drawn if partial else None)

    data = Data(
        classes=("background", "square"),
        train={
            "full": [scan("full0", full=True, partial=True)],
            "partial": [scan(f"partial{i}", full=False, partial=True) for i in range(2)],
        },
        val=[scan(f"val{i}", full=True, partial=False) for i in range(3)],
        protocol={"full": ["full0"], "partial": ["partial0", "partial1"], "val": ["val0", "val1", "val2"]},
    )
    config = make_config(
        preset="quick", size=[32, 32], width=4, depth=2, steps=10, validate_every=5, batch={"full": 2, "partial": 4}
    )
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(config, data, folder, hardware=Hardware("cpu"))
    return folder, data


def test_a_run_that_was_trained_reports_its_own_numbers(trained):
    folder, _ = trained
    page = write_report(folder).read_text(encoding="utf-8")
    for entry in RunFiles.read(folder).finished["summary"]:
        assert f">{100 * entry['dsc']['mean']:.2f} ± {100 * entry['dsc']['sd']:.2f}<" in page
    assert "on 3 validation scans" in page
    assert "Collapse guard" in text_of(page)


def test_a_run_without_validation_scans_has_a_report_and_no_best_look(trained, tmp_path):
    folder, data = trained
    train(RunFiles.read(folder).config, replace(data, val=[]), tmp_path, hardware=Hardware("cpu"))
    assert RunFiles.read(tmp_path).best is None
    said = text_of(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "No scan with a full mask has been scored yet. Last checkpoint of 10 steps" in said


def test_the_examples_of_a_run_are_what_its_last_checkpoint_predicts(trained):
    folder, data = trained
    examples = read_examples(folder / "examples.npz")
    assert {example.case for example in examples} == {"val0", "val1", "val2"}
    truths = {scan.name: scan.full for scan in data.val}
    with np.load(folder / "predictions.npz") as held:
        for example in examples:
            assert np.array_equal(example.truth, example.plane.of(truths[example.case]))
            for branch, labels in example.labels.items():
                assert np.array_equal(labels, example.plane.of(held[f"last/{branch}/{example.case}"]))


@pytest.mark.usefixtures("unpainted")
def test_many_warnings_are_all_there_and_most_of_them_folded(tmp_path):
    write_run(tmp_path, finished=False, classes=("background", "atrium"), steps=20, validate_every=1)
    log = tmp_path / "log.jsonl"
    entries = [
        json.loads(line) | {"warning": f"warning {number}"} for number, line in enumerate(log.read_text().splitlines())
    ]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    warnings = write_report(tmp_path).read_text(encoding="utf-8").split("<h2>Warnings</h2>")[1].split("</section>")[0]
    shown, hidden = warnings.split("<details>")
    assert shown.count('class="warning"') == 5
    assert hidden.count('class="warning"') == len(entries) - 5


def test_a_run_of_many_classes_is_summed_up_in_one_panel_a_part(tmp_path):
    names = ("background", *(f"organ {number}" for number in range(9)))
    write_run(tmp_path, classes=names, scans=2)
    said = text_of(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "organ 8" in said
    assert "mean DSC (%)" in said


def test_what_was_no_number_in_the_log_is_a_gap_in_its_curve(tmp_path):
    write_run(tmp_path, finished=False)
    path = tmp_path / "log.jsonl"
    *lines, last = [json.loads(line) for line in path.read_text().splitlines()]
    last["loss"] = last["terms"]["weak"] = last["watch"]["entropy"] = last["watch"]["divergence"] = None
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, last]))
    assert "Collapse guard" in write_report(tmp_path).read_text()
