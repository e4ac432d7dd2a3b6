"""The ReLU as it is written for a compiler, against torch's own."""

import torch
import torch.nn.functional as F

from mixseg.networks.layers import ReLU

INPUTS = torch.tensor([-2.0, -0.0, 0.0, 1e-30, 3.0, float("inf"), float("-inf"), float("nan")], dtype=torch.float64)


def learned(function, values):
    """What a function answers, and its gradient for a loss of weights 1, 2, 3 and so on."""
    given = values.clone().requires_grad_()
    found = function(given * 1)  # a copy that may be written over
    (found * torch.arange(1.0, len(values) + 1)).sum().backward()
    return found.detach(), given.grad


def test_both_ways_of_writing_it_are_torchs(monkeypatch):
    finite = INPUTS[:5]
    expected = learned(F.relu, finite)
    plain = learned(ReLU(), finite)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    compiled = learned(ReLU(), finite)
    for found in (plain, compiled):
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_what_is_not_a_number_is_not_hidden(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(ReLU()(INPUTS), F.relu(INPUTS), equal_nan=True, rtol=0, atol=0)


def test_it_is_compiled_with_the_sign_of_its_input():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    compiled = torch.compile(ReLU(), backend=backend)
    torch.testing.assert_close(compiled(INPUTS[:5].clone()), F.relu(INPUTS[:5]))
    assert "relu" not in graphs[0].code
    assert "where" in graphs[0].code
