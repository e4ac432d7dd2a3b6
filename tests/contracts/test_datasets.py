"""What every layout promises, over each row of ``DATASETS``."""

from pathlib import Path

import pytest

from dataset_folders import MAKERS
from mixseg.core.types import KINDS
from mixseg.datasets import DATASETS, check, formats, load, load_images, recognise


@pytest.fixture(scope="module", params=list(DATASETS))
def dataset(request, tmp_path_factory):
    name = request.param
    root = MAKERS[name](tmp_path_factory.mktemp(name) / "data")
    return name, root, load(root, name)


def sources(case):
    return [*case.image, *(label for label in (case.full, case.partial, case.hidden) if label is not None)]


def test_it_is_recognised_by_its_folder(dataset):
    name, root, _ = dataset
    assert recognise(root) == name


def test_its_images_are_found_without_its_labels(dataset):
    _, root, cases = dataset
    assert [(case.id, case.image) for case in load_images(root)] == [(case.id, case.image) for case in cases]


def test_ids_are_unique_and_can_name_files(dataset):
    ids = [case.id for case in dataset[2]]
    assert len(set(ids)) == len(ids) > 0
    assert all(name and "/" not in name for name in ids)


def test_patients_are_named_and_never_cross_splits(dataset):
    splits = {}
    for case in dataset[2]:
        assert case.patient
        assert splits.setdefault(case.patient, case.split) == case.split
        assert case.split in ("", "train", "val", "test")


def test_files_exist_and_their_contents_are_sound(dataset):
    for case in dataset[2]:
        assert all(path.is_file() for source in sources(case) for path in source.files)
        assert check(case) == []


def test_labels_lie_on_the_grid_of_the_image(dataset):
    for case in dataset[2]:
        place = formats.read_geometry(case.image[0])
        assert len(place.shape) == 3
        for source in sources(case):
            assert not formats.same_geometry(place, formats.read_geometry(source))
            assert formats.read_geometry(source).shape == formats.read(source).array.shape


def test_classes_are_named_and_labels_stay_within_them(dataset):
    for case in dataset[2]:
        assert case.classes[0] == "background"
        assert len(set(case.classes)) == len(case.classes) > 1
        assert all(case.classes)
        for source in sources(case)[len(case.image) :]:
            assert source.ids is not None
            assert set(formats.read_labels(source).array.ravel().tolist()) <= {*range(len(case.classes)), 255}


def test_the_kind_tells_whether_voxels_are_unlabelled(dataset):
    for case in dataset[2]:
        assert case.kind in KINDS
        if case.full is not None:
            assert (formats.read_labels(case.full).array != 255).all()
        if case.partial is not None:
            labels = formats.read_labels(case.partial).array
            assert (labels == 255).any()
            assert (labels != 255).any()


def test_loading_twice_gives_the_same_cases(dataset):
    name, root, cases = dataset
    assert load(root, name) == cases
    assert load(root) == cases


def test_every_folder_of_labels_is_explained_in_a_sentence(dataset):
    name, root, _ = dataset
    sentences: list[str] = []
    load(root, name, say=sentences.append)
    assert sentences
    assert all("0 = " in sentence and sentence.endswith(".") for sentence in sentences)


def test_every_layout_has_its_section_in_the_reference(dataset):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "layouts.md").read_text()
    assert f"## `{dataset[0]}`" in page
