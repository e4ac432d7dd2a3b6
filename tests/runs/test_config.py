"""Configs: what JSON may say, what presets fill in, and that nothing else gets through."""

import json
import re

import numpy as np
import pytest

from conftest import ROOT
from mixseg.core.errors import MixsegError
from mixseg.methods import METHODS, terms_of
from mixseg.runs.build import build
from mixseg.runs.config import (
    KEYS,
    Config,
    flat,
    from_dict,
    grouped,
    keys_where,
    make_config,
    read_config,
    to_dict,
)
from mixseg.runs.config_groups import BatchSizes
from mixseg.runs.presets import METHOD_WEIGHTS, PRESETS

every_preset = pytest.mark.parametrize("preset", list(PRESETS))
every_method = pytest.mark.parametrize("method", list(METHODS))
in_2d_and_3d = pytest.mark.parametrize("dims", [2, 3])


@every_preset
@every_method
@in_2d_and_3d
def test_a_preset_makes_a_config_that_json_carries_there_and_back(preset, method, dims):
    config = make_config(method=method, preset=preset, dims=dims)
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config
    assert (config.method.name, config.preset, config.data.dims) == (method, preset, dims)
    assert tuple(config.training.batch.counts.values()) == METHODS[method].batch[dims]
    settled = dict(PRESETS[preset][dims])
    weighed = {term: weight for term, weight in settled.pop("weights", {}).items() if term in terms_of(method)}
    assert config.method.weights == {**weighed, **METHOD_WEIGHTS.get((preset, method), {})}
    for key, value in settled.items():
        assert config.value(key) == value


@every_preset
@every_method
@in_2d_and_3d
def test_every_preset_builds_every_method(preset, method, dims):
    config = make_config(method=method, preset=preset, dims=dims, width=2)
    assert build(config, channels=1, classes=3).outputs
    side = 2 ** (config.network.depth or 4)
    assert all(length % side == 0 for length in config.data.grid), "the network can halve the grid as often as it does"


def test_changed_values_of_every_type_survive_json():
    config = make_config(
        preset="paper",
        size=(48, 32),
        target=("LV", "RV"),
        set=3,
        weights={"distill": 5},
        batch={"full": 1},
        compile=False,
        width=None,
    )
    again = from_dict(json.loads(json.dumps(to_dict(config))))
    assert again == config
    assert again.data.size == (48, 32)
    assert again.method.weights == {"distill": 5.0}


def test_a_change_of_one_batch_size_or_weight_leaves_the_others():
    config = make_config(method="kl-ent", preset="quick", batch={"partial": 4}, weights={"distill": 10})
    assert config.training.batch == BatchSizes(full=8, partial=4, unlabeled=None)
    assert config.method.weights == {"weak": 1.0, "distill": 10.0}, "the preset's and the changed one"
    method = build(config.changed(width=2, depth=1), channels=1, classes=2)
    assert method.weights == {**METHODS["kl-ent"].weights, "weak": 1.0, "distill": 10.0}
    assert make_config(batch=BatchSizes(1, 2, 3)).training.batch == BatchSizes(1, 2, 3)


def test_a_preset_may_weigh_the_terms_of_one_method_alone():
    assert make_config(method="glmi", preset="quick").method.weights == {
        "global": 0.01,
        "local": 0.01,
        "consistency": 0.1,
    }
    assert make_config(method="glmi", preset="quick", weights={"local": 1}).method.weights["local"] == 1.0
    assert make_config(method="ssco", preset="quick").method.weights == {}
    assert make_config(method="glmi", preset="paper").method.weights == {}


def test_the_readme_default_is_the_strong_preset_of_the_method():
    config = make_config()
    assert (config.method.name, config.preset, config.data.dims) == ("kl-ent", "strong", 2)
    assert config.ablation.passes == "separate"
    assert config.ablation.detach
    assert config.ablation.entropy_on == "partial"


def test_numbers_of_numpy_are_numbers():
    told = make_config(steps=np.int64(4), lr=np.float32(0.5), size=np.array([32, 48]), batch={"full": np.uint8(3)})
    assert told == make_config(steps=4, lr=0.5, size=[32, 48], batch={"full": 3})
    assert json.loads(json.dumps(to_dict(told)))["data"]["size"] == [32, 48]
    with pytest.raises(MixsegError, match=r"'steps' in .* is 4\.5, which is not a whole number"):
        make_config(steps=np.float64(4.5))


def test_the_paper_preset_is_the_papers_protocol():
    two, three = (make_config(preset="paper", dims=dims) for dims in (2, 3))
    assert (two.training.optimizer, two.training.lr, two.training.schedule) == ("adam", 1e-4, "constant")
    assert (two.training.augment, two.method.weights) == ("none", {})
    assert (two.training.batch.full, two.training.batch.partial, two.data.size) == (8, 16, (256, 256))
    assert (three.network.name, three.training.optimizer) == ("vnet", "sgd")
    assert (three.training.schedule, three.training.steps) == ("drops", 6000)
    assert (three.training.batch.full, three.training.batch.partial, three.data.patch) == (4, 8, (112, 112, 80))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"metod": "kl"}, ["'metod'", "did you mean 'method'?"]),
        ({"Batch": {}}, ["'Batch'", "did you mean 'batch'?"]),
        ({"batch": {"fulll": 3}}, ["'fulll'", "'batch'", "did you mean 'full'?"]),
        ({"weights": {"distil": 3}}, ["'distil'", "'weights'", "did you mean 'distill'?"]),
        ({"zzz": 1}, ["'zzz'", "choose one of"]),
        ({"method": "kl-net"}, ["'kl-net'", "did you mean 'kl-ent'?"]),
        ({"network": "u-net"}, ["'u-net'", "did you mean 'unet'?"]),
        ({"divergence": "KL"}, ["'KL'", "did you mean 'kl'?"]),
        ({"passes": "both"}, ["'passes'", "'both'", "separate, joint"]),
        ({"dims": 4}, ["'dims'", "2, 3"]),
        ({"steps": "many"}, ["'steps'", "'many'", "not a whole number:"]),
        ({"steps": 10.5}, ["'steps'", "10.5", "not a whole number:"]),
        ({"steps": 0}, ["'steps'", "at least 1"]),
        ({"steps": True}, ["'steps'", "True"]),
        ({"seed": -1}, ["'seed'", "at least 0"]),
        ({"seed": 2**63}, ["'seed'", "between 0 and 9223372036854775807"]),
        ({"set": 0}, ["'set'", "at least 1"]),
        ({"lr": "fast"}, ["'lr'", "'fast'", "not a number:"]),
        ({"lr": 0}, ["'lr'", "positive"]),
        ({"lr": float("nan")}, ["'lr'", "positive"]),
        ({"dropout": 1.5}, ["'dropout'", "between 0 and 1"]),
        ({"size": [64]}, ["'size'", "2 numbers"]),
        ({"size": 64}, ["'size'", "64", "not a list:"]),
        ({"patch": [8, 8]}, ["'patch'", "3 numbers"]),
        ({"target": {"LV": 1}}, ["'target'", "not a list:"]),
        ({"target": [1]}, ["'target'", "not text:"]),
        ({"batch": 8}, ["'batch'", "8", "not a group of keys:"]),
        ({"batch": {"full": 0}}, ["'batch'", "at least 1 of 'full'"]),
        ({"batch": {"partial": -1}}, ["'batch'", "below 0"]),
        ({"weights": 3}, ["'weights'", "not a group of keys:"]),
        ({"weights": {"distill": "much"}}, ["'weights'", "'much'", "not a number:"]),
        ({"compile": 1}, ["'compile'", "1", "not true or false:"]),
        ({"precision": "fp16"}, ["'precision'", "bf16"]),
    ],
)
def test_what_no_run_can_have_is_one_sentence_with_the_remedy(content, words):
    with pytest.raises(MixsegError) as caught:
        from_dict(content)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        {"preset": "quick", "method": "glmi", "network": "vnet", "dims": 3, "weights": {"local": 2}, "seed": 4},
        {"preset": "quick", "method": {"name": "glmi", "weights": {"local": 2}}, "network": {"name": "vnet"}}
        | {"data": {"dims": 3}, "training": {"seed": 4}},
        {"preset": "quick", "method": "glmi", "network": {"name": "vnet"}, "data": {"dims": 3}, "seed": 4}
        | {"weights": {"local": 2}, "average": 0.0, "init": "xavier"},
    ],
)
def test_keys_are_read_in_their_groups_and_without_and_of_earlier_versions(content, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(content))
    config = make_config(**content)
    assert make_config(**read_config(path)) == config
    assert (config.preset, config.method.name, config.network.name) == ("quick", "glmi", "vnet")
    assert (config.data.dims, config.data.patch, config.training.seed) == (3, (32, 32, 32), 4)
    assert config.method.weights == {"global": 0.01, "local": 2.0, "consistency": 0.1}


def test_a_config_is_written_in_groups_and_names_every_key_once():
    content = to_dict(make_config(preset="paper", batch={"full": 3}))
    assert list(content) == ["preset", "data", "method", "ablation", "network", "training", "inference", "runtime"]
    assert content["method"] | {"weights": {}} == {
        **{"name": "kl-ent", "divergence": "kl", "ramp": 0.0, "weights": {}, "proposals_from": ""},
    }
    assert content["training"]["batch"] == {"full": 3, "partial": 16, "unlabeled": None}
    assert list(flat(content)) == list(KEYS)
    assert grouped(flat(content)) == content
    assert sum(len(group) for group in content.values() if isinstance(group, dict)) == len(KEYS) - 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"training": {"stps": 3}}, "Unknown key 'stps' in 'training' in the config: did you mean 'steps'?"),
        ({"data": {"steps": 3}}, "Unknown key 'steps' in 'data' in the config: it is a key of 'training'."),
        ({"method": {"method": "kl"}}, "Unknown key 'method' in 'method' in the config: choose one of name,"),
        ({"trainng": {}}, "Unknown key 'trainng' in the config: did you mean 'training'?"),
        ({"name": "kl"}, "Unknown key 'name' in the config"),
        ({"data": 3}, "'data' in the config is 3, which is not a group of keys"),
        ({"steps": 3, "training": {"steps": 3}}, "'steps' is set twice in the config"),
        ({"training": {"steps": "many"}}, "'steps' in the config is 'many', which is not a whole number"),
        ({"average": 0.9}, "the config has average=0.9, and this version knows no average but 0.0: leave the key out"),
        ({"init": "kaiming"}, "the config has init='kaiming', and this version knows no init but 'xavier'"),
    ],
)
def test_a_key_that_is_not_where_it_belongs_is_one_sentence(content, sentence):
    for make in (from_dict, lambda content: make_config(**content)):
        with pytest.raises(MixsegError) as caught:
            make(content)
        assert sentence in str(caught.value)


def test_a_changed_config_has_other_values_and_is_another_one():
    config = make_config()
    other = config.changed(method="kl", steps=7, preset="paper")
    assert (other.method.name, other.training.steps, other.preset) == ("kl", 7, "paper")
    assert (config.method.name, config.training.steps, config.preset) == ("kl-ent", 3000, "strong")
    assert other.method.weights == config.method.weights
    assert {key for key in KEYS if other.value(key) != config.value(key)} == {"method", "steps", "preset"}


def test_what_is_known_of_a_key_stands_at_its_field():
    def where(wanted):
        return set(keys_where(wanted))

    grid = {"dims", "size", "spacing", "long_side", "patch"}
    quiet = {"compile", "validate_every", "on_collapse", "tensorboard", "mlflow"}
    assert where(lambda key: not key.effect) == quiet
    assert where(lambda key: not key.fixed) == quiet | {"steps", "window", "stride", "split"}
    assert where(lambda key: key.planned) == grid | {"clip", "clip_by", "batch"}
    assert where(lambda key: key.dims == 2) == {"size", "long_side"}
    assert where(lambda key: key.dims == 3) == {"patch", "stride"}
    assert where(lambda key: key.flag) == {"dataset", "method", "preset", "seed", "set"}
    in_common = where(lambda key: key.inherited == "always")
    assert in_common == {key for key, of in KEYS.items() if of.group == "data"} - {"dataset", "patch", "intensity"}
    assert where(lambda key: key.inherited == "never") == {"method", "dataset", "batch", "weights", "proposals_from"}


def test_the_page_names_the_keys_that_may_differ_when_a_run_goes_on():
    page = (ROOT / "docs" / "reference" / "config.md").read_text()
    told = page.split("A run folder continues the run that it holds. ")[1].split(" may name another file")[0]
    assert set(re.findall(r"`(\w+)`", told)) == set(keys_where(lambda key: not key.fixed))


@pytest.mark.parametrize("changes", [{"method": "kln"}, {"preset": "strnog"}, {"dims": 4}, {"steps": {"a": 1}}])
def test_making_a_config_of_nonsense_is_one_sentence(changes):
    with pytest.raises(MixsegError):
        make_config(**changes)


def test_a_config_file_is_named_in_its_error(tmp_path):
    path = tmp_path / "mine.json"
    for text, words in [('{"stps": 3}', "did you mean 'steps'?"), ("[1]", "JSON object"), ("{", "not valid JSON")]:
        path.write_text(text)
        with pytest.raises(MixsegError, match=r"mine\.json") as caught:
            read_config(path)
        assert words in str(caught.value)


def test_a_config_file_sets_what_it_says_and_the_preset_the_rest(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"preset": "quick", "batch": {"full": 3}, "seed": 2}')
    config = make_config(**read_config(path))
    assert config == make_config(preset="quick", batch={"full": 3}, seed=2)
    assert config.training.batch.partial == 16


@pytest.mark.parametrize(
    ("steps", "every", "interval"), [(3000, 0, 30), (6000, 0, 50), (600, 0, 6), (50, 0, 1), (1, 0, 1), (600, 50, 50)]
)
def test_validation_comes_every_hundredth_of_training_and_at_least_every_50_steps(steps, every, interval):
    assert make_config(steps=steps, validate_every=every).training.validation_interval == interval


def test_a_config_cannot_be_changed_in_place():
    with pytest.raises(AttributeError):
        Config().training.steps = 3


def test_a_whole_number_may_be_written_with_an_exponent():
    steps = from_dict({"steps": 1e4}).training.steps
    assert (steps, type(steps)) == (10000, int)


def test_the_page_of_the_run_folder_tells_how_often_each_preset_looks():
    page = " ".join((ROOT / "docs" / "reference" / "run-folder.md").read_text().split())
    assert "where that is 0, every 1 % of the steps, and every 50 if that is more" in page
    assert [make_config(preset="paper", steps=steps).training.validation_interval for steps in (50, 3000, 6000)] == [
        1,
        30,
        50,
    ]
    own = {name: [of.get("validate_every", 0) for of in PRESETS[name].values()] for name in PRESETS}
    assert own == {"paper": [0, 0], "strong": [0, 100], "quick": [50, 50]}
    assert "`quick` says 50, `strong` 100 for volumes, whose looks take long, and the others 0" in page
