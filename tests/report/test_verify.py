"""Runs beside published ones: matched by their settings, judged by the range in which one more training would lie."""

import json

import numpy as np
import pytest
from scipy import stats

from found_runs import cell, run_of, write_experiment, write_run
from mixseg.core.errors import MixsegError
from mixseg.core.text_files import read_json
from mixseg.report.experiment.results import read_results
from mixseg.report.experiment.verify import NO_SPREAD, OUTSIDE, UNKNOWN, WITHIN, verified_table, verify


def published(folder, config, scores, **changes):
    """runs.jsonl with a line for each of ``scores``."""
    lines = []
    for seed, dsc in enumerate(scores):
        content = json.loads(json.dumps(config))
        content["training"] |= {"seed": 10 + seed, **changes}
        content["data"]["split"] = "elsewhere.json"
        figure = {"part": "test", "checkpoint": "last", "branch": "top", "class": "LV", "dsc": {"mean": dsc, "sd": 0.1}}
        lines.append(
            json.dumps({"config": content, "figures": [{**figure, "branch": "bottom", "dsc": {"mean": 0.0}}, figure]})
        )
    (folder / "runs.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "runs.jsonl"


@pytest.fixture
def ours(tmp_path):
    one = cell("lower-bound")
    folder = write_experiment(tmp_path, [one])
    write_run(run_of(tmp_path, one), {"top": {"a": 0.5, "b": 0.6}}, method="lower-bound")
    return read_results(folder), read_json(run_of(tmp_path, one) / "config.json")


@pytest.mark.parametrize(
    ("scores", "standing"),
    [((0.5, 0.56, 0.6), WITHIN), ((0.8, 0.81, 0.82), OUTSIDE), ((0.55,), NO_SPREAD)],
)
def test_a_run_is_within_where_one_more_of_the_published_would_lie(ours, tmp_path, scores, standing):
    results, config = ours
    (found,) = verify(results, published(tmp_path, config, scores))
    assert (found.standing, found.ours, found.published) == (standing, pytest.approx(0.55), scores)
    if len(scores) > 1:
        spread = np.std(scores, ddof=1) * np.sqrt(1 + 1 / len(scores))
        expected = stats.t.interval(0.95, len(scores) - 1, np.mean(scores), spread)
        assert found.span == pytest.approx(expected)
    (line,) = verified_table([found]).groups[0].lines
    assert line[-1] == standing


def test_runs_of_other_settings_are_no_match(ours, tmp_path):
    results, config = ours
    (found,) = verify(results, published(tmp_path, config, (0.5, 0.6), lr=0.5))
    assert (found.standing, found.published) == (UNKNOWN, ())


@pytest.mark.parametrize(
    ("content", "code"), [(None, "file-missing"), ('{"a": 1}\n', "wrong-content"), ("", "wrong-content")]
)
def test_a_file_without_published_runs_is_one_sentence(ours, tmp_path, content, code):
    if content is not None:
        (tmp_path / "runs.jsonl").write_text(content)
    with pytest.raises(MixsegError) as refused:
        verify(ours[0], tmp_path / "runs.jsonl")
    assert refused.value.code == code
