"""The verb that looks at the machine rather than at scans."""

from __future__ import annotations

import os
import platform
import shutil
import sysconfig
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from mixseg.core.errors import enumerated
from mixseg.core.messages import result, say
from mixseg.runs.provenance import commit

LIBRARIES = (
    "lightning-fabric",
    "numpy",
    "scipy",
    "scikit-image",
    "nibabel",
    "SimpleITK",
    "h5py",
    "pydicom",
    "matplotlib",
    "tyro",
)
IN_A_PAPER = ("lightning-fabric", "numpy", "scipy", "scikit-image", "nibabel", "SimpleITK")
"""What figures depend on."""
EXTRAS = {
    "tensorboard": "curves in TensorBoard",
    "mlflow": "curves in MLflow",
    "ray": "experiments in a Ray cluster",
    "slurm": "experiments under SLURM",
    "dicom": "DICOM segmentations",
    "onnx": "networks for ONNX Runtime",
    "pandas": "tables in Python",
}
"""Extras of ours, and what each is for."""
LIBRARY_OF = {"mlflow": "mlflow-skinny", "slurm": "submitit", "dicom": "highdicom"}
"""The library that an extra brings, where it has another name."""
DRIVER = Path("/proc/driver/nvidia/version")
LITTLE_DISK_GIB = 5.0


@dataclass(frozen=True)
class Gpu:
    """One CUDA device."""

    name: str
    memory_gib: float
    bf16: bool


@dataclass(frozen=True)
class Machine:
    """What matters for speed.

    Attributes:
        torch: Its version.
        cuda_build: The CUDA version that torch was built for, or "".
        driver: Whether an NVIDIA driver is installed.
        gpus: What torch sees of CUDA.
        mps: Whether torch sees an Apple GPU.
        compiler_lacks: What torch.compile would miss here, or "".
        cores: That this process may use.
        threads: That torch uses.
        free_gib: Free disk space in the current folder.
    """

    torch: str
    cuda_build: str = ""
    driver: bool = False
    gpus: tuple[Gpu, ...] = field(default=())
    mps: bool = False
    compiler_lacks: str = ""
    cores: int = 1
    threads: int = 1
    free_gib: float = 100.0


def doctor(*, report: bool = False) -> None:
    """Print versions, devices, what torch sees, and what is known to be slow here.

    $ mixseg doctor

    is the first thing to run when something is slow, and to quote when something is wrong.

    $ mixseg doctor --report

    prints the sentences about hardware and software that a paper needs.

    Args:
        report: A paragraph for a paper, in place of the table.
    """
    from mixseg.cli.printing import print_list, print_table

    machine = examine()
    if report:
        result({"paragraph": paragraph(machine)})
        say(paragraph(machine))
        return
    found = [*_software(), *_hardware(machine)]
    print_table(found)
    result({**dict(found), "remarks": remarks(machine)})
    print_list(remarks(machine), "Good to know:")


def paragraph(machine: Machine) -> str:
    """Hardware and software as the methods section of a paper has them."""
    gpus = [f"{count} x {gpu.name} ({gpu.memory_gib:.0f} GiB)" for gpu, count in Counter(machine.gpus).items()]
    where = enumerated(gpus, " and ") or ("an Apple GPU" if machine.mps else "the CPU alone")
    cuda = f", CUDA {machine.cuda_build}" if machine.cuda_build and machine.gpus else ""
    libraries = (f"{name} {found}" for name in IN_A_PAPER if (found := installed(name)))
    source = commit()
    version = f"{installed('mixseg') or 'unknown'}{f' (commit {source[:12]})' if source else ''}"
    return (
        f"Experiments ran on {where} in a machine with {processor()}, of which {machine.cores} cores were used, under "
        f"{platform.system()} {platform.release()}. The software was mixseg {version} with Python "
        f"{platform.python_version()}, PyTorch {machine.torch}{cuda}, {', '.join(libraries)}."
    )


def processor() -> str:
    """What the processor is called, or its kind where the system does not say."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def examine() -> Machine:
    """This machine."""
    import torch

    from mixseg.core.workers import cores

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = []
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        # 8.0 is the first that multiplies in bfloat16; older ones only pretend to.
        gpus.append(Gpu(properties.name, properties.total_memory / 2**30, bf16=properties.major >= 8))
    return Machine(
        torch=torch.__version__,
        cuda_build=torch.version.cuda or "",
        driver=DRIVER.exists() or shutil.which("nvidia-smi") is not None,
        gpus=tuple(gpus),
        mps=torch.backends.mps.is_available(),
        compiler_lacks=compiler_lacks(),
        cores=cores(),
        threads=torch.get_num_threads(),
        free_gib=shutil.disk_usage(Path.cwd()).free / 2**30,
    )


def compiler_lacks() -> str:
    """What is missing of what Triton builds its kernels with: "" if nothing is."""
    if find_spec("triton") is None:
        return "the package triton"
    if not any(map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))):
        return "a C compiler (gcc or clang)"
    headers = {sysconfig.get_path("include"), str(Path(sysconfig.get_config_h_filename()).parent)}
    if not any(Path(folder, "Python.h").exists() for folder in headers):
        return "Python.h (the package python3-dev)"
    return ""


def remarks(machine: Machine) -> list[str]:
    """What is slow or missing on ``machine``, and the remedy."""
    found = []
    if machine.torch.startswith("2.9."):
        found.append("torch 2.9 runs 3D convolutions in mixed precision about 4 times slower: install another version.")
    if machine.driver and not machine.cuda_build:
        found.append("An NVIDIA driver is here, but this torch is built for the CPU alone: install a CUDA build of it.")
    if machine.driver and machine.cuda_build and not machine.gpus:
        found.append(
            f"torch is built for CUDA {machine.cuda_build} but sees no GPU: the driver may be too old, or "
            "CUDA_VISIBLE_DEVICES may hide it."
        )
    found += [
        f"{gpu.name} has no fast bfloat16: it trains in fp32, which is slow." for gpu in machine.gpus if not gpu.bf16
    ]
    if machine.gpus and machine.compiler_lacks:
        found.append(
            f"Networks cannot be compiled for the GPU, so that trainings take about twice as long: "
            f"install {machine.compiler_lacks}."
        )
    if not machine.gpus and not machine.mps:
        found.append("No GPU: --preset quick is made for a CPU; the others are made for a GPU.")
    if machine.threads < machine.cores:
        found.append(f"torch uses {machine.threads} of {machine.cores} cores: unset OMP_NUM_THREADS to use all.")
    if machine.free_gib < LITTLE_DISK_GIB:
        found.append(f"Only {machine.free_gib:.1f} GiB are free here: runs and prepared arrays need some.")
    return found


def _software() -> list[tuple[str, str]]:
    lines = [("mixseg", installed("mixseg") or "not installed"), ("Python", platform.python_version())]
    lines += [(name, installed(name) or "missing") for name in LIBRARIES]
    for extra, use in EXTRAS.items():
        library = LIBRARY_OF.get(extra, extra)
        lines.append((library, installed(library) or f"not installed ({use}): pip install mixseg[{extra}]"))
    return lines


def _hardware(machine: Machine) -> list[tuple[str, str]]:
    gpus = [f"{gpu.name}, {gpu.memory_gib:.0f} GiB" for gpu in machine.gpus]
    gpus += ["Apple GPU (mps)"] if machine.mps else []
    return [
        ("torch", f"{machine.torch}, built for {f'CUDA {machine.cuda_build}' if machine.cuda_build else 'the CPU'}"),
        ("GPUs that torch sees", "; ".join(gpus) or "none"),
        ("system", platform.platform()),
        ("cores", f"{machine.cores}, torch uses {machine.threads} threads"),
        ("free disk", f"{machine.free_gib:.0f} GiB in {Path.cwd()}"),
    ]


def installed(library: str) -> str | None:
    """The version of a library, or None."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None
