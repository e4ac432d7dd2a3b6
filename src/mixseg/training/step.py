"""The optimiser, its learning rate, and one step: done plainly, or recorded once as a CUDA graph and replayed."""

from __future__ import annotations

import math

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from mixseg.core.types import Batch, Part
from mixseg.data.batches import Feed
from mixseg.methods import Number, Term
from mixseg.runs.build import recordable
from mixseg.runs.config import Config

PLAIN_FIRST = 4
"""Steps before the recording: libraries tune themselves, the optimiser makes its state, compilation happens."""


class PlainStep:
    """``step(number)`` trains on the batch of that number; returns the loss and its terms."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, feed: Feed, config: Config, fabric: Fabric
    ) -> None:
        self.model, self.optimizer, self.feed, self.config, self.fabric = model, optimizer, feed, config, fabric

    def __call__(self, step: int) -> tuple[Tensor, dict[str, Term]]:
        """One step. Order and noise depend on the seed and the step's number alone."""
        self._settle(step)
        return self._train(self.feed(step), step / self.config.training.steps)

    def _settle(self, step: int) -> None:
        """The learning rate and the random state of this step."""
        lr = self.config.training.lr * lr_factor(self.config.training.schedule, step / self.config.training.steps)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        seeds = np.random.SeedSequence((self.config.training.seed, step, self.fabric.global_rank))
        torch.manual_seed(int(seeds.generate_state(1, np.uint32)[0]))

    def _train(self, batch: Batch, progress: Number) -> tuple[Tensor, dict[str, Term]]:
        terms = self.model(batch, progress)
        loss = torch.stack([term.weight * term.value for term in terms.values()]).sum()
        self.fabric.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach(), {name: Term(term.value.detach(), term.weight) for name, term in terms.items()}


class GraphedStep(PlainStep):
    """The same step replayed as one CUDA graph: the host launches one thing instead of a thousand.

    For methods that ``replays``, since what a recording computed on the host is never computed again. What changes
    from step to step lies on the device: the batch, the learning rate, the progress.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, feed: Feed, config: Config, fabric: Fabric
    ) -> None:
        super().__init__(model, optimizer, feed, config, fabric)
        for group in optimizer.param_groups:
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=fabric.device)
            group["capturable"] = True
        self.progress = torch.zeros((), device=fabric.device)
        self.batch: Batch | None = None
        self.done = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, step: int) -> tuple[Tensor, dict[str, Term]]:
        """One step; the first few are plain ones."""
        self._settle(step)
        self.progress.fill_(step / self.config.training.steps)
        batch = self._keep(self.feed(step))
        if self.done < PLAIN_FIRST:
            self.done += 1
            return self._aside(batch)
        if self.graph is None:
            self._record(batch)
        assert self.graph is not None
        self.graph.replay()
        return self._found()

    def _keep(self, fresh: Batch) -> Batch:
        """``fresh`` in the tensors that every step reads.

        The plain steps too: nothing may look new to the compiler while the step is recorded.
        """
        if self.batch is None:
            self.batch = Batch(*(Part(*(tensor.clone() for tensor in part)) for part in fresh))
            return self.batch
        for kept, tensor in zip(_tensors(self.batch), _tensors(fresh), strict=True):
            kept.copy_(tensor)
        return self.batch

    def _aside(self, batch: Batch) -> tuple[Tensor, dict[str, Term]]:
        """A plain step on a stream of its own, as a recording will be: autograd then ties nothing to another one."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            found = self._train(batch, self.progress)
        torch.cuda.current_stream().wait_stream(stream)
        return found

    def _record(self, batch: Batch) -> None:
        self.graph = torch.cuda.CUDAGraph()
        # Threads of their own, such as one that pins memory, may go on meanwhile.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            loss, self.terms = self._train(batch, self.progress)
            values = [term.value for term in self.terms.values()]
            weights = [term.weight for term in self.terms.values() if isinstance(term.weight, Tensor)]
            self.numbers = torch.stack([loss, *values, *weights])

    def _found(self) -> tuple[Tensor, dict[str, Term]]:
        """What the last replay found, copied in one piece: the next one writes over it."""
        loss, *rest = self.numbers.clone().unbind()
        values, weights = rest[: len(self.terms)], iter(rest[len(self.terms) :])
        terms = {
            name: Term(value, next(weights) if isinstance(term.weight, Tensor) else term.weight)
            for (name, term), value in zip(self.terms.items(), values, strict=True)
        }
        return loss, terms


def make_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, feed: Feed, config: Config, fabric: Fabric
) -> PlainStep:
    """The fastest step that the method and the device allow. ``model`` is the method, or Fabric's wrapper of it."""
    kind = GraphedStep if recordable(model, fabric) else PlainStep  # type: ignore[arg-type]
    return kind(model, optimizer, feed, config, fabric)


def _tensors(batch: Batch) -> list[Tensor]:
    return [tensor for part in batch for tensor in part]


def make_optimizer(method: nn.Module, config: Config) -> torch.optim.Optimizer:
    """The config's optimiser over everything that learns."""
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    of = config.training
    if of.optimizer == "sgd":
        return torch.optim.SGD(parameters, of.lr, momentum=0.9, weight_decay=of.weight_decay, fused=True)
    kind = torch.optim.AdamW if of.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, of.lr, (0.9, config.ablation.beta2), weight_decay=of.weight_decay, fused=True)


def lr_factor(schedule: str, progress: float) -> float:
    """What the learning rate is multiplied by at ``progress``."""
    if schedule == "drops":
        return 1.0 if progress < 5 / 12 else 0.1 if progress < 10 / 12 else 0.01
    if schedule == "poly":
        return float((1 - progress) ** 0.9)
    if schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    return 1.0
