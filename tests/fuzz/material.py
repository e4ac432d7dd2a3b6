"""Small, valid files of every kind that we read, made once: scans in every format, a run, a store, an archive."""

import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import SimpleITK as sitk  # noqa: N813

from dicom_files import noise, oblique, write_series
from mixseg.cli import main
from mixseg.datasets import formats
from mixseg.training.pseudo_labels import Proposals, write_proposals

TINY = ["--preset=quick", "--steps=2", "--validate_every=2", "--width=4", "--depth=2"]


def call(*words):
    """A verb, in silence; its exit code and what it said."""
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:  # of a command line that was not understood
            code = end.code
    return code, said.getvalue()


def done(*words):
    code, said = call(*words)
    assert code == 0, said


def make(root: Path) -> None:
    """Everything that ``entry_points`` reads."""
    images(root / "images")
    done("simulate", root / "scans", "--phantom", "heart", "--patients", 5, "--val", 1, "--test", 1, "--size", 32)
    settings = [word for each in TINY for word in ("--set", each.removeprefix("--"))]
    done("train", root / "scans", "--out", root / "run", *settings)
    for folder in ("native", "predictions"):
        shutil.rmtree(root / "run" / folder, ignore_errors=True)
    config(root / "config.json")
    done("prepare", root / "scans", root / "store", "--dims", "2", "--size", "32", "32")
    done("prepare", root / "scans", root / "scans.zip", "--pack")
    few = root / "few"
    few.mkdir()
    shutil.copy(next((root / "scans" / "imagesTr").iterdir()), few)
    done("predict", root / "run", "-i", few, "-o", root / "predictions")
    shutil.copytree(root / "scans" / "labelsTr", root / "masks")
    for extra in sorted((root / "masks").iterdir())[2:]:
        extra.unlink()
    own(root / "own", root / "scans")
    write_proposals(
        root / "proposals.npz", Proposals({"a": np.ones((2, 4, 4), np.uint8)}, {"methods": ["kl"], "checkpoint": "x"})
    )


def config(path):
    given = {"method": "kl-ent", "preset": "quick", "steps": 2, "batch": {"full": 2}, "weights": {"weak": 1e-3}}
    path.write_text(json.dumps({**given, "size": [32, 32], "lr": 0.01}))


def own(folder, scans):
    """A folder of files in pairs, as labs have them."""
    (folder / "images").mkdir(parents=True)
    (folder / "labels").mkdir()
    for path in sorted((scans / "labelsTr").iterdir())[:3]:
        shutil.copy(path, folder / "labels" / path.name)
        shutil.copy(scans / "imagesTr" / path.name.replace(".nii.gz", "_0000.nii.gz"), folder / "images" / path.name)
    names = [path.name for path in sorted((folder / "images").iterdir())]
    listed = {
        name.removesuffix(".nii.gz"): {"images": [f"images/{name}"], "labels": f"labels/{name}"} for name in names
    }
    about = {"version": 1, "classes": [{"name": "LV", "id": 3, "colour": "#FF0000"}], "scans": listed}
    (folder / "mixseg.json").write_text(json.dumps(about, indent=1))


def images(folder):
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 3, (9, 8, 4)).astype(np.int16)
    affine = np.diag([1.5, 1.25, 8.0, 1.0])
    for suffix in ("nii", "nii.gz", "nrrd", "seg.nrrd", "mha", "h5"):
        formats.write(folder / suffix / f"a.{suffix}", mask, affine=affine)
    formats.write(folder / "png" / "a.png", mask[..., 0].astype(np.uint8))
    flat = sitk.GetImageFromArray(mask[..., 0].astype(np.uint8))
    for suffix in ("tif", "bmp", "jpg"):
        (folder / suffix).mkdir()
        sitk.WriteImage(flat, str(folder / suffix / f"a.{suffix}"))
    for suffix in ("mhd", "nhdr"):
        (folder / suffix).mkdir()
        sitk.WriteImage(sitk.GetImageFromArray(mask), str(folder / suffix / f"a.{suffix}"))
    (folder / "nifti2").mkdir()
    nib.save(nib.Nifti2Image(mask, affine), folder / "nifti2" / "a.nii.gz")
    (folder / "others-h5").mkdir()
    with h5py.File(folder / "others-h5" / "a.h5", "w") as file:
        file["image"], file["label"] = mask.astype(np.float32), mask
    write_series(folder / "dicom", noise((6, 5, 3)), oblique())
