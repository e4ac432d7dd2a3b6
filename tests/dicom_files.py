"""DICOM files for tests, made with pydicom: series of slices, and enhanced files of many frames."""

import numpy as np
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

MR, CT, ENHANCED_MR = (f"1.2.840.10008.5.1.4.1.1.{end}" for end in ("4", "2", "4.1"))
RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
PATIENT = "Doe^Jane"


def oblique(spacing=(0.9, 0.7, 3.2), origin=(-30.5, 12.25, 7.0), angles=(0.3, -0.2, 0.1)):
    """A right-handed affine in LPS, as stacks of slices have: the third axis is the normal of the first two."""
    (cx, sx), (cy, sy), (cz, sz) = ((np.cos(a), np.sin(a)) for a in angles)
    x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    result = np.eye(4)
    result[:3, :3] = x @ y @ np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]]) @ np.diag(spacing)
    result[:3, 3] = origin
    return result


def noise(shape=(7, 6, 5), seed=0):
    return np.random.default_rng(seed).integers(-500, 1500, shape).astype(np.int16)


def text(numbers):
    return [f"{number:.10f}"[:16] for number in numbers]


def blank(path, sop_class, *, study, series, patient="42", number=1, modality="MR", frame=None):
    """A file without an image: what all kinds of them say."""
    data = FileDataset(str(path), {}, file_meta=FileMetaDataset(), preamble=b"\0" * 128)
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = sop_class
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = generate_uid()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.PatientName, data.PatientID, data.PatientBirthDate, data.PatientSex = PATIENT, patient, "", ""
    data.StudyInstanceUID, data.SeriesInstanceUID, data.FrameOfReferenceUID = study, series, frame or f"{study[:60]}.7"
    data.StudyID, data.StudyDate, data.StudyTime, data.AccessionNumber = "1", "20200101", "120000", ""
    data.ReferringPhysicianName, data.PositionReferenceIndicator = "", ""
    data.SeriesNumber, data.InstanceNumber, data.Modality, data.Manufacturer = number, 1, modality, "none"
    return data


def fill(data, frames):
    """Pixels ``(K, J, I)``, of 16 bits with a sign."""
    data.Rows, data.Columns = frames.shape[-2:]
    data.SamplesPerPixel, data.PhotometricInterpretation, data.PixelRepresentation = 1, "MONOCHROME2", 1
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 16, 15
    data.PixelData = np.ascontiguousarray(frames, "<i2").tobytes()


def directions(affine):
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    row, column = (affine[:3, :3] / spacing).T[:2]
    return text([*row, *column]), text(spacing[1::-1]), text(spacing[2:])[0]


def write_series(folder, array, affine, *, name="IM{:04}", scale=(1, 0), change=None, seed=0, **about):
    """``array`` as slices called in a random order; ``change(data, k)`` may change one, or return False to leave it."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"study": generate_uid(), "series": generate_uid(), **about}
    called = np.random.default_rng(seed).permutation(array.shape[2])
    for k in range(array.shape[2]):
        path = folder / name.format(int(called[k]))
        data = blank(path, CT if about.get("modality") == "CT" else MR, **about)
        fill(data, array[:, :, k].T)
        data.ImageOrientationPatient, data.PixelSpacing, data.SliceThickness = directions(affine)
        data.ImagePositionPatient = text(affine[:3] @ [0, 0, k, 1])
        data.InstanceNumber, (data.RescaleSlope, data.RescaleIntercept) = int(called[k]) + 1, scale
        if change is None or change(data, k) is not False:
            data.save_as(path)
    return about


def inside(**elements):
    """A sequence of one item."""
    item = Dataset()
    for name, value in elements.items():
        setattr(item, name, value)
    return Sequence([item])


def write_enhanced(path, array, affine, *, scales=None, **about):
    """``array`` as one file of frames in a random order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = blank(path, ENHANCED_MR, **{"study": generate_uid(), "series": generate_uid(), **about})
    order = np.random.default_rng(1).permutation(array.shape[2])
    fill(data, array.T[order])
    data.NumberOfFrames = array.shape[2]
    both, pixel, thickness = directions(affine)
    shared = Dataset()
    shared.PlaneOrientationSequence = inside(ImageOrientationPatient=both)
    shared.PixelMeasuresSequence = inside(PixelSpacing=pixel, SliceThickness=thickness)
    data.SharedFunctionalGroupsSequence = Sequence([shared])
    groups = []
    for k in order:
        group = Dataset()
        group.PlanePositionSequence = inside(ImagePositionPatient=text(affine[:3] @ [0, 0, int(k), 1]))
        slope, intercept = scales[k] if scales else (1, 0)
        group.PixelValueTransformationSequence = inside(
            RescaleSlope=slope, RescaleIntercept=intercept, RescaleType="US"
        )
        groups.append(group)
    data.PerFrameFunctionalGroupsSequence = Sequence(groups)
    data.save_as(path)
