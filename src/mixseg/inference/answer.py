"""One scan from its image to its files: what is wanted of every scan, and what one of them got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.messages import result
from mixseg.core.progress import Progress
from mixseg.core.types import ENTROPY, PROBABILITY, Case
from mixseg.data.input_check import Ranges, remarks
from mixseg.data.intensity import GreyRange
from mixseg.data.prepare.files import check_geometry, read_header, read_native
from mixseg.data.scan import Native, Scan
from mixseg.datasets import formats
from mixseg.datasets.formats.label_files import Segmented
from mixseg.inference.predictor import Predictor
from mixseg.inference.sidecar import Sidecar, about, begin_maps
from mixseg.inference.sliding_window import OnProgress
from mixseg.inference.targets import Target, endings
from mixseg.inference.volumes import volumes_ml


@dataclass
class Job:
    """What is wanted of every scan.

    Attributes:
        predictor: Who answers.
        classes: Names by index, the background first.
        nested: Inner -> outer structure: the outer one includes the other's voxels.
        probabilities: Whether the probability of each class is wanted too.
        entropy: Likewise.
        trained_on: The ranges of what the run was trained on: see ``data.input_check``; nothing if it did not say.
        plan: What the scan before took: said once for scans of one size.
    """

    predictor: Predictor
    classes: Sequence[str]
    nested: Mapping[str, str]
    probabilities: bool = False
    entropy: bool = False
    trained_on: Ranges = field(default_factory=dict)
    plan: str = ""

    @property
    def endings(self) -> list[str]:
        """Those of the names of the maps of a scan."""
        return endings(self.classes, probabilities=self.probabilities, entropy=self.entropy)

    @property
    def inside(self) -> dict[int, int]:
        """The nesting, by class index."""
        return {self.classes.index(inner): self.classes.index(outer) for inner, outer in self.nested.items()}

    def answer(self, target: Target, bar: Progress) -> Answer:
        """What the predictor makes of a scan.

        Raises:
            MixsegError: The image cannot be read, or has other channels.
        """
        predictor, case = self.predictor, target.case
        scan = predictor.prepare(read_image(case, grey=predictor.config.data.prepare_options.grey_range))
        plan = predictor.memory_plan(scan, outputs=1, probabilities=self.probabilities or self.entropy)
        warnings = (*scan.placed.remarks(), *remarks(scan, self.trained_on))
        for sentence in (*warnings, *([plan] if plan != self.plan else [])):
            bar.say(sentence)
        self.plan = plan
        unit = "slices" if predictor.config.data.dims == 2 else "windows"
        maps = self._maps(scan, partial(show_progress, bar, case.id, unit))
        volumes = volumes_ml(np.asarray(maps[""], np.uint8), self.classes, scan.placed, self.nested)
        sidecar = about(target, predictor.origin, maps=list(maps), volumes=volumes, nested=self.nested)
        return Answer(maps, sidecar, warnings)

    def _maps(self, scan: Scan, on_progress: OnProgress) -> dict[str, NDArray[np.generic]]:
        """The label map of a scan on its own grid, under "", and what else is asked for, by the ending of its name."""
        answer = self.predictor.answer
        if not (self.probabilities or self.entropy):
            return {"": self.predictor.on_source(scan, outputs=[answer], on_progress=on_progress)[answer]}
        probs = self.predictor.probabilities_on_source(scan, outputs=[answer], on_progress=on_progress)[answer]
        maps: dict[str, NDArray[np.generic]] = {"": self.predictor.decided(probs)}
        if self.probabilities:
            maps |= {f"{PROBABILITY}{name}": probs[index] for index, name in enumerate(self.classes)}
        if self.entropy:
            safe = np.clip(probs, 1e-12, 1)
            maps[ENTROPY] = -(safe * np.log(safe)).sum(axis=0)
        return maps


class Answer(NamedTuple):
    """What a scan got.

    Attributes:
        maps: By the ending of their names: "" is the label map.
        sidecar: What they were made from.
        warnings: What to know about the scan, in sentences.
    """

    maps: Mapping[str, NDArray[np.generic]]
    sidecar: Sidecar
    warnings: tuple[str, ...]

    def write(self, job: Job, target: Target) -> list[Path]:
        """Write the maps of a scan after what there is to say about them; returns them."""
        begin_maps(target, list(self.maps), self.sidecar)
        image = target.case.image[0]
        for ending, values in self.maps.items():
            if ending:
                formats.write(target.file(ending), values, like=image)
            else:
                labels = np.asarray(values, np.uint8)
                target.row.write(target.file(), Segmented(labels, job.classes, image, job.inside))
        files = list(map(target.file, self.maps))
        result(
            {
                "scan": target.case.id,
                "image": str(image.path),
                "file": str(files[0]),
                "maps": list(map(str, files[1:])),
                "volumes_ml": self.sidecar.volumes_ml,
                "warnings": self.warnings,
            }
        )
        return files


def read_image(case: Case, *, grey: GreyRange) -> Native:
    """The image of a case in 8 bits, without any labels."""
    case = replace(case, full=None, partial=None)
    header = read_header(case)
    check_geometry(case, header)
    return read_native(case, header, grey=grey)


def show_progress(bar: Progress, name: str, unit: str, done: int, count: int) -> None:
    """Say how far one scan is."""
    bar.partly(f"{name}, {done} of {count} {unit}", done / count)
