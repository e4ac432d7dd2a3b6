"""The verb that looks at the machine rather than at scans."""

from __future__ import annotations

import os
import platform
import shutil
import sysconfig
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from mixseg.core.messages import result

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


def doctor() -> None:
    """Print versions, devices, what torch sees, and what is known to be slow here.

    $ mixseg doctor

    is the first thing to run when something is slow, and to quote when something is wrong.
    """
    from mixseg.cli.printing import print_list, print_table

    machine = examine()
    found = [*_software(), *_hardware(machine)]
    print_table(found)
    result({**dict(found), "remarks": remarks(machine)})
    print_list(remarks(machine), "Good to know:")


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
