"""The fast step does what the plain one does: told the progress by a tensor, traced whole, recorded, compiled."""

import math
import sys

import pytest
import torch

from conftest import ROOT
from discs import batch, tiny_method, total
from made_runs import config

sys.path.insert(0, str(ROOT / "benchmarks"))

from mixseg.methods import METHODS, MethodOptions, Term, TermOptions
from mixseg.methods.base import ramp_up
from mixseg.runs.device import Hardware, make_fabric
from mixseg.training.step import PLAIN_FIRST, GraphedStep, PlainStep, make_optimizer, make_step
from same_result import TOLERANCE, difference, small_config

RAMPED = MethodOptions(TermOptions(ramp=0.5))


@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (0.05, 0.5), (0.0, 0.2)])
def test_a_ramp_is_the_same_for_a_number_and_a_tensor(start, end):
    for position in (0.0, 0.04, 0.05, 0.1, 0.2, 0.275, 0.4999, 0.5, 1.0):
        found = ramp_up(torch.tensor(position, dtype=torch.float64), start, end)
        assert float(found) == pytest.approx(ramp_up(position, start, end), rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("progress", [0.0, 0.03, 0.3, 0.9])
def test_the_terms_are_the_same_when_the_progress_is_a_tensor(name, progress):
    method, seen = tiny_method(name, options=RAMPED), batch(2, 2, 2)
    found = []
    for told in (progress, torch.tensor(progress, dtype=torch.float64)):
        torch.manual_seed(0)
        found.append(method(seen, told))
    numbers, tensors = (
        {key: (term.value.item(), float(term.weight)) for key, term in terms.items()} for terms in found
    )
    assert list(numbers) == list(tensors)
    for key, pair in numbers.items():
        assert tensors[key] == pytest.approx(pair, rel=1e-5, abs=1e-7)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own tracing does it
@pytest.mark.parametrize(
    ("name", "weights"), [*((name, {}) for name in METHODS), ("kl-ent", {"cutmix": 1.0, "dice": 1.0})]
)
def test_a_method_that_replays_is_one_graph_without_a_question_to_the_host(name, weights):
    method, seen = tiny_method(name, weights=weights, options=RAMPED, dropout=0.0), batch(2, 2, 2)
    assert method.replays
    torch.manual_seed(0)
    plain = total(method(seen, torch.tensor(0.3)))
    torch.compiler.reset()
    torch.manual_seed(0)
    traced = torch.compile(method.forward, backend="eager", fullgraph=True, dynamic=False)
    whole = total(traced(seen, torch.tensor(0.3)))
    torch.testing.assert_close(whole, plain)


def test_what_was_compiled_for_one_seed_serves_another():
    graphs = []

    def note(graph, _):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    for seed in range(3):
        method = tiny_method("kl-ent", seed=seed, dropout=0.0)
        method.compile(dynamic=False, backend=note)
        total(method(batch(2, 2), torch.tensor(0.3))).backward()
    assert len(graphs) == 1


def test_the_step_on_a_cpu_is_the_plain_one():
    fabric = make_fabric(Hardware("cpu"), "fp32")
    method = tiny_method("kl-ent")
    assert type(make_step(method, make_optimizer(method, config()), None, config(), fabric)) is PlainStep


class Recording:
    """Stands for a CUDA graph: ``numbers`` are what it writes over at every replay."""

    def __init__(self, terms):
        self.terms = terms
        self.numbers = torch.zeros(1 + len(terms) + sum(isinstance(t.weight, torch.Tensor) for t in terms.values()))


def test_what_a_replay_found_stays_when_the_next_one_writes_over_it():
    none = torch.zeros(())
    step = Recording({"a": Term(none), "b": Term(none, torch.ones(())), "c": Term(none, 3)})
    step.numbers.copy_(torch.tensor([9.0, 1.0, 2.0, 3.0, 0.5]))
    loss, terms = GraphedStep._found(step)
    step.numbers.fill_(math.nan)
    assert loss == 9
    assert terms == {"a": (1, 1.0), "b": (2, 0.5), "c": (3, 3)}


def test_the_fast_step_on_a_cpu_trains_as_the_plain_one():
    chosen = small_config("kl-ent", optimizer="adam", precision="fp64")
    assert difference(chosen, Hardware("cpu"), 3) < TOLERANCE["fp64"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("method", ["lower-bound", "kl-ent", "ua-mt", "glmi", "ssco"])
def test_the_recorded_step_trains_as_the_plain_one(method, optimizer, compiled):
    chosen = small_config(method, optimizer=optimizer, precision="fp32", compiled=compiled)
    assert difference(chosen, Hardware("cuda"), 3 * PLAIN_FIRST) < TOLERANCE["fp32"]
