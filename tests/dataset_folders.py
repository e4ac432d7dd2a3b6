"""Small folders in each layout, made by other means than the code under test where that is possible."""

import json
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import SimpleITK as sitk  # noqa: N813

SHAPE = (8, 7, 4)
AFFINE = np.diag([1.5, 1.5, 8.0, 1.0])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def image() -> np.ndarray:
    return rng().integers(0, 1000, SHAPE).astype(np.int16)


def mask(classes: int = 4) -> np.ndarray:
    array = rng().integers(0, classes, SHAPE).astype(np.uint8)
    array.ravel()[:classes] = range(classes)
    return array


def strokes(classes: int = 4, unlabeled: int = 4) -> np.ndarray:
    array = mask(classes)
    array[:, 1:, :] = unlabeled
    return array


def nifti(path: Path, array: np.ndarray, affine: np.ndarray = AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, affine), path)
    return path


def nrrd(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    sitk.WriteImage(sitk.GetImageFromArray(array.T), str(path))
    return path


def picture(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    sitk.WriteImage(sitk.GetImageFromArray(array.T), str(path))
    return path


def h5(path: Path, **arrays: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key] = array
    return path


def dataset_json(root: Path, **entries: object) -> None:
    content = {
        "channel_names": {"0": "MRI"},
        "labels": {"background": 0, "RV": 1, "Myo": 2, "LV": 3, "ignore": 4},
        "numTraining": 1,
        "file_ending": ".nii.gz",
    }
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.json").write_text(json.dumps(content | entries))


def make_acdc(root: Path) -> Path:
    for patient in ("patient001", "patient010"):
        (root / patient).mkdir(parents=True)
        (root / patient / "Info.cfg").write_text("ED: 1\nES: 12\n")
        nifti(root / patient / f"{patient}_4d.nii.gz", np.zeros((2, 2, 2, 3), np.int16))
        for frame in ("frame01", "frame12"):
            stem = root / patient / f"{patient}_{frame}"
            nifti(Path(f"{stem}.nii.gz"), image())
            nifti(Path(f"{stem}_gt.nii.gz"), mask())
            nifti(Path(f"{stem}_scribble.nii.gz"), strokes())
    return root


def make_la(root: Path) -> Path:
    for name in ("AAA", "BBB"):
        nrrd(root / name / "lgemri.nrrd", image())
        nrrd(root / name / "laendo.nrrd", mask(2) * np.uint8(255))
    return root


def make_nnunet(root: Path) -> Path:
    """a: full; b: partial; c: unlabeled, without ``_0000``; d: test; e: partial with a hidden reference."""
    dataset_json(root)
    for name in ("a_0000", "b_0000", "c", "e_0000"):
        nifti(root / "imagesTr" / f"{name}.nii.gz", image())
    nifti(root / "labelsTr" / "a.nii.gz", mask())
    nifti(root / "labelsTr" / "b.nii.gz", strokes())
    nifti(root / "labelsTr" / "e.nii.gz", strokes())
    nifti(root / "labelsTr_dense" / "e.nii.gz", mask())
    nifti(root / "imagesTs" / "d_0000.nii.gz", image())
    nifti(root / "labelsTs" / "d.nii.gz", mask())
    return root


def make_h5(root: Path) -> Path:
    """SSL4MIS: a volume, and the slices of another scan, in a folder beside the lists."""
    arrays = {"image": image().T.astype(np.float32), "label": mask().T, "scribble": strokes().T.astype(np.uint16)}
    h5(root / "data" / "patient001_frame01.h5", **arrays)
    for index in range(SHAPE[2]):
        one = {key: array[index] for key, array in arrays.items()}
        h5(root / "data" / "slices" / f"patient002_frame01_slice_{index}.h5", **one)
        h5(root / "data" / "slices" / f"patient001_frame01_slice_{index}.h5", **one)
    (root / "train_slices.list").write_text("patient002_frame01_slice_0\npatient002_frame01_slice_1\n")
    (root / "test.list").write_text("patient001_frame01\n")
    return root


def make_png(root: Path) -> Path:
    for part, patient in [("trainFull", 1), ("trainSemi", 2), ("val", 3), ("test", 4)]:
        for index in range(11):
            name = f"patient{patient:04}_01_{index}.png"
            picture(root / part / "Img" / name, np.full(SHAPE[:2], index, np.uint8))
            picture(root / part / "GT" / name, mask(2)[..., 0] * np.uint8(255))
            if part.startswith("train"):
                picture(root / part / "WeaklyAnnotations" / name, mask(2)[..., 0] * np.uint8(255))
    return root


def make_phantom(root: Path) -> Path:
    from mixseg.datasets import phantom

    return phantom.write(root, patients=4, val=1, test=1, size=(32, 32), slices=3)


def make_own(root: Path) -> Path:
    """A folder per patient: 1 finished, 2 strokes with a painted background, 3 nothing."""
    inside = np.zeros((24, 22, 12), np.uint8)
    inside[5:19, 5:18, 2:10] = 1
    inside[8:15, 6:13, 3:9] = 2
    drawn = np.zeros_like(inside)
    drawn[6:17, 7:9, 2::3], drawn[1:3, 3:18, 2::3] = inside[6:17, 7:9, 2::3], 3
    grey = rng().integers(0, 1000, (4, *inside.shape)).astype(np.int16)
    for number, labels in enumerate([inside, drawn, None], start=1):
        name = f"Patient {number:02}"
        nifti(root / name / f"{name} T2.nii.gz", grey[number])
        if labels is not None:
            nifti(root / name / f"{name} T2-label.nii.gz", labels)
    (root / "labels.txt").write_text(
        '    0     0    0    0        0  0  0    "Clear Label"\n'
        '    1   255    0    0        1  1  1    "liver"\n'
        '    2     0  255    0        1  1  1    "lesion"\n'
        '    3     0    0  255        1  1  1    "background"\n'
    )
    return root


MAKERS = {
    "phantom": make_phantom,
    "acdc": make_acdc,
    "la": make_la,
    "nnunet": make_nnunet,
    "h5": make_h5,
    "png": make_png,
    "own": make_own,
}
