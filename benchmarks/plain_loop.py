"""The frozen baseline of train_step.py: a training loop as the script of a paper has it.

Host-side loaders over numpy arrays, one concatenated batch, both decoders on everything, eager fp32 or autocast, Adam,
``.item()`` of every term at every step. Nothing of mixseg is used where a loss or a network is computed, so that
making mixseg faster never moves what it is compared with. Do not tune this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from mixseg.data.scan import Scan
from mixseg.methods import METHODS
from mixseg.runs.config import Config

UNLABELED = 255
WORKERS = {"cuda": 4}
"""Loader processes by device; none on a CPU, where they would take the cores that compute."""

LAYERS = {
    2: (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.MaxPool2d, nn.Dropout2d),
    3: (nn.Conv3d, nn.ConvTranspose3d, nn.BatchNorm3d, nn.MaxPool3d, nn.Dropout3d),
}


def plain_family(method: str) -> bool:
    """Whether this file has a loop for the method: one or two branches, told apart by the weights of four terms."""
    return set(METHODS[method].weights) <= {"full", "weak", "distill", "entropy"} and not METHODS[method].batch[2][2]


class ScanDataset(Dataset):
    """Slices ``(C, H, W)``, or random patches ``(C, H, W, D)``, of numpy arrays, with both label maps."""

    def __init__(self, scans: Sequence[Scan], config: Config) -> None:
        self.scans, self.config = scans, config
        self.index = [
            (s, i) for s, scan in enumerate(scans) for i in range(len(scan.image) if config.data.dims == 2 else 1)
        ]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, item: int) -> tuple[Tensor, Tensor, Tensor]:
        at, i = self.index[item]
        scan = self.scans[at]
        image = scan.image[i] if self.config.data.dims == 2 else scan.image
        none = np.full(image.shape[1:], UNLABELED, np.uint8)
        masks = [none if mask is None else mask for mask in (scan.full, scan.partial)]
        labels = [mask[i] if self.config.data.dims == 2 and mask is not none else mask for mask in masks]
        if self.config.data.dims == 3:
            image, *labels = self.random_patch(image, *labels)
        image = image.astype(np.float32)
        image = image / 255 if self.config.data.intensity == "unit" else (image - scan.mean[0]) / scan.std[0]
        return torch.from_numpy(image), *(torch.from_numpy(label.astype(np.int64)) for label in labels)

    def random_patch(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """One place, quarter turn and mirroring for all arrays; the spatial axes are the last three."""
        patch = self.config.data.patch
        corner = [np.random.randint(0, n - p + 1) for n, p in zip(arrays[0].shape[1:], patch, strict=True)]  # noqa: NPY002
        box = tuple(slice(c, c + p) for c, p in zip(corner, patch, strict=True))
        arrays = tuple(array[(..., *box)] for array in arrays)
        if self.config.training.augment != "none":
            turns, axis = np.random.randint(0, 4), np.random.randint(-3, -1)  # noqa: NPY002
            turns = turns if self.config.data.patch[0] == self.config.data.patch[1] else 2 * (turns // 2)
            arrays = tuple(np.flip(np.rot90(array, turns, (-3, -2)), axis) for array in arrays)
        return [np.ascontiguousarray(array) for array in arrays]


def endless(loader: DataLoader) -> Iterator[list[Tensor]]:
    """One epoch after the other."""
    while True:
        yield from loader


def make_loaders(scans: Mapping[str, Sequence[Scan]], config: Config, device: torch.device) -> list[Iterator]:
    """A shuffling loader per kind of supervision that the batch has, the fully labelled one first."""
    return [
        endless(
            DataLoader(
                ScanDataset(scans[kind], config),
                batch_size=getattr(config.training.batch, kind),
                shuffle=True,
                drop_last=True,
                num_workers=WORKERS.get(device.type, 0),
                pin_memory=device.type == "cuda",
            )
        )
        for kind in ("full", "partial", "unlabeled")
        if getattr(config.training.batch, kind)
    ]


class PlainUNet(nn.Module):
    """U-Net whose decoders fork after the first up-convolution; all of them on every row."""

    def __init__(self, *, dims: int, width: int, depth: int, branches: int, classes: int = 2) -> None:
        super().__init__()
        conv, up, norm, pool, _ = LAYERS[dims]

        def double(inputs: int, outputs: int) -> nn.Sequential:
            first = [conv(inputs, outputs, 3, padding=1), norm(outputs), nn.ReLU(inplace=True)]
            return nn.Sequential(*first, conv(outputs, outputs, 3, padding=1), norm(outputs), nn.ReLU(inplace=True))

        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(double(i, o) for i, o in zip([1, *widths], widths[:-1], strict=False))
        self.dropout, self.pool = nn.Dropout(0.5), pool(2)
        self.bottleneck = double(widths[-2], widths[-1])
        self.first_up = up(widths[-1], widths[-2], 2, stride=2)
        self.decoders = nn.ModuleList()
        for _ in range(branches):
            blocks = nn.ModuleList(double(2 * w, w) for w in reversed(widths[:-1]))
            ups = nn.ModuleList(up(2 * w, w, 2, stride=2) for w in reversed(widths[:-2]))
            self.decoders.append(nn.ModuleList([blocks, ups, conv(width, classes, 1)]))

    def forward(self, image: Tensor) -> list[Tensor]:
        """The logits of each branch."""
        skips = []
        for level, block in enumerate(self.down):
            image = block(image)
            image = self.dropout(image) if level == len(self.down) - 1 else image
            skips.append(image)
            image = self.pool(image)
        raised = self.first_up(self.bottleneck(image))
        return [self.decode(decoder, raised, skips) for decoder in self.decoders]

    def decode(self, decoder: nn.ModuleList, feature: Tensor, skips: list[Tensor]) -> Tensor:
        """The logits of one branch."""
        blocks, ups, head = decoder
        for level, skip in enumerate(reversed(skips)):
            feature = ups[level - 1](feature) if level else feature
            feature = blocks[level](torch.cat([feature, skip], dim=1))
        return head(feature)


class PlainVNet(nn.Module):
    """V-Net whose decoders fork after the first up-convolution; all of them on every row."""

    def __init__(self, *, dims: int, width: int, depth: int, branches: int, classes: int = 2) -> None:
        super().__init__()
        conv, up, norm, _, dropout = LAYERS[dims]

        def active(layer: nn.Module, outputs: int) -> nn.Sequential:
            return nn.Sequential(layer, norm(outputs), nn.ReLU(inplace=True))

        def block(level: int, inputs: int, outputs: int) -> nn.Sequential:
            sizes = [inputs, *[outputs] * min(level + 1, 3)]
            return nn.Sequential(*(active(conv(i, o, 3, padding=1), o) for i, o in pairwise(sizes)))

        widths = [width * 2**level for level in range(depth + 1)]
        self.blocks = nn.ModuleList(block(i, widths[i] if i else 1, widths[i]) for i in range(depth))
        self.downs = nn.ModuleList(active(conv(w, 2 * w, 2, stride=2), 2 * w) for w in widths[:-1])
        self.bottleneck = block(depth, widths[-1], widths[-1])
        self.dropout = dropout(0.5)
        self.first_up = active(up(widths[-1], widths[-2], 2, stride=2), widths[-2])
        self.decoders = nn.ModuleList()
        for _ in range(branches):
            blocks = nn.ModuleList(block(i, widths[i], widths[i]) for i in reversed(range(depth)))
            ups = nn.ModuleList(active(up(2 * w, w, 2, stride=2), w) for w in reversed(widths[:-2]))
            self.decoders.append(nn.ModuleList([blocks, ups, conv(width, classes, 1)]))

    def forward(self, image: Tensor) -> list[Tensor]:
        """The logits of each branch."""
        skips = []
        for block, down in zip(self.blocks, self.downs, strict=True):
            skips.append(block(image))
            image = down(skips[-1])
        raised = self.first_up(self.dropout(self.bottleneck(image)))
        return [self.decode(decoder, raised, skips) for decoder in self.decoders]

    def decode(self, decoder: nn.ModuleList, feature: Tensor, skips: list[Tensor]) -> Tensor:
        """The logits of one branch."""
        blocks, ups, head = decoder
        for level, skip in enumerate(reversed(skips)):
            feature = ups[level - 1](feature) if level else feature
            feature = blocks[level](feature + skip)
        return head(self.dropout(feature))


class PlainLoop:
    """``loop()`` is one step of the script; ``bf16`` adds autocast round the network and the losses."""

    def __init__(
        self, scans: Mapping[str, Sequence[Scan]], config: Config, *, branches: int, device: torch.device, bf16: bool
    ) -> None:
        kind, own = (PlainVNet, (16, 4)) if config.network.name == "vnet" else (PlainUNet, (64, 4))
        width, depth = config.network.width or own[0], config.network.depth or own[1]
        self.net = kind(dims=config.data.dims, width=width, depth=depth, branches=branches).to(device).train()
        self.optimizer = (
            torch.optim.SGD(
                self.net.parameters(), config.training.lr, momentum=0.9, weight_decay=config.training.weight_decay
            )
            if config.training.optimizer == "sgd"
            else torch.optim.Adam(self.net.parameters(), config.training.lr, weight_decay=config.training.weight_decay)
        )
        self.weights, self.device, self.bf16 = METHODS[config.method.name].weights, device, bf16
        self.loaders = make_loaders(scans, config, device)
        self.log: list[dict[str, float]] = []

    def __call__(self) -> None:
        """Draw, compute, step, log."""
        parts = [[tensor.to(self.device) for tensor in next(loader)] for loader in self.loaders]
        image, partial = torch.cat([part[0] for part in parts]), torch.cat([part[2] for part in parts])
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            terms = self.terms(self.net(image), parts[0][1], partial)
            loss = sum(self.weights[name] * value for name, value in terms.items())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.log.append({"loss": loss.item(), **{name: value.item() for name, value in terms.items()}})

    def terms(self, logits: list[Tensor], full: Tensor, partial: Tensor) -> dict[str, Tensor]:
        """Cross-entropies, divergence and entropy of the paper, in the scripts' usual words."""
        top, bottom, rows = logits[0], logits[-1], len(full)
        terms = {"full": F.cross_entropy(top[:rows], full)}
        if "weak" in self.weights:
            terms["weak"] = F.cross_entropy(bottom, partial, ignore_index=UNLABELED)
        if "distill" in self.weights:
            teacher = torch.softmax(torch.softmax(top[:rows], dim=1), dim=1).detach()
            student = torch.softmax(torch.softmax(bottom[:rows], dim=1), dim=1)
            terms["distill"] = (teacher * (torch.log(teacher) - torch.log(student))).sum(dim=1).mean()
        if "entropy" in self.weights:
            probs = torch.softmax(bottom[rows:], dim=1)
            terms["entropy"] = -(probs * torch.log(probs + 1e-6)).sum(dim=1).mean()
        return terms
