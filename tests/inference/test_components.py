"""One piece is kept of what is one piece, and nothing else is touched."""

import numpy as np

from mixseg.inference.predictor import keep_largest_component, single_component


def volume():
    labels = np.zeros((6, 20, 20), np.uint8)
    labels[1:5, 4:9, 4:9] = 1  # 100 voxels
    labels[0, 0, 0] = 1
    labels[2, 15, 15:18] = 2
    labels[3, 16, 18] = 2  # touches by a corner
    labels[5, 0:2, 0:2] = 2
    return labels


def test_crumbs_become_background_and_corners_connect():
    labels = volume()
    kept = keep_largest_component(labels, [1, 2])
    expected = labels.copy()
    expected[0, 0, 0] = 0
    expected[5, 0:2, 0:2] = 0
    # Both pieces of class 2 have four voxels: the first in the file's order stays.
    assert np.array_equal(kept, expected)
    assert labels[0, 0, 0] == 1, "the map that was given is left alone"


def test_classes_that_were_not_asked_for_and_empty_ones_stay_as_they_are():
    labels = volume()
    assert np.array_equal(keep_largest_component(labels, []), labels)
    assert np.array_equal(keep_largest_component(labels, [3]), labels)


def test_a_class_is_one_piece_if_it_is_so_in_every_mask_that_shows_it():
    whole = volume()
    whole[labels_of(whole, 2)] = 0
    empty = np.zeros_like(whole)
    assert single_component([whole, empty], 4) == (1,), "one voxel of a hundred is a slip of the hand"
    assert single_component([whole, volume()], 4) == (1,), "class 2 has two halves"
    torn = whole.copy()
    torn[0:3, 15:18, 15:18] = 1
    assert single_component([whole, torn], 4) == ()


def labels_of(labels, index):
    return labels == index
