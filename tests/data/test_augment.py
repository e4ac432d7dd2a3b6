"""Augmentation: identities, closed forms, agreement of labels with images and of 2D with 3D."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mixseg.core.types import IGNORE
from mixseg.data.augment import AUGMENTATIONS, NONE, PAPER_3D, STRONG, Augmentation, Chance, apply, augment, draw
from mixseg.data.augment.separable import CELLS, CONTROL_POINTS, along, gaussian, spline, subsampling

GEOMETRIC = Augmentation(
    flip=0.5,
    rotation=Chance(1, -45, 45),
    tilt=Chance(1, -10, 10),
    scale=Chance(1, 0.7, 1.4),
    shear=Chance(1, -0.1, 0.1),
    shift=Chance(1, -0.1, 0.1),
    elastic=Chance(1, 0.1, 0.3),
)
INTENSITY = Augmentation(
    gamma=Chance(0.7, 0.6, 1.6),
    contrast=Chance(0.7, 0.7, 1.4),
    brightness=Chance(0.7, -0.4, 0.4),
    blur=Chance(0.7, 0.5, 1.2),
    low_resolution=Chance(0.7, 0.5, 1.0),
    noise=Chance(0.7, 0.02, 0.15),
)
SHAPES = [(24, 20), (16, 14, 10)]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(shape, count=6, channels=2, seed=0):
    """Noise images and random labels of all kinds: background, classes, IGNORE."""
    rng = generator(seed)
    image = torch.rand((count, channels, *shape), generator=rng)
    labels = torch.tensor([0, 1, 2, IGNORE], dtype=torch.uint8)[torch.randint(0, 4, (count, *shape), generator=rng)]
    return image, labels


def ball(shape, count=1, radius=0.5):
    """A ball in the middle, as image and as labels."""
    grids = torch.meshgrid(*(torch.linspace(-1 + 1 / n, 1 - 1 / n, n) for n in shape), indexing="ij")
    mask = sum(grid**2 for grid in grids) < radius**2
    labels = mask.to(torch.uint8).expand(count, *shape).contiguous()
    return labels[:, None].float(), labels


def grids_mm(shape, spacing):
    """The position of each voxel in mm, from the middle."""
    axes = [(torch.arange(n) - (n - 1) / 2) * step for n, step in zip(shape, spacing, strict=True)]
    return torch.meshgrid(*axes, indexing="ij")


def sure(amount):
    """This amount for every image."""
    return Chance(1, amount, amount)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_strength_is_the_identity_bit_for_bit(shape):
    image, labels = batch(shape)
    changed, (same,) = augment(image, (labels,), NONE, generator())
    assert torch.equal(changed, image)
    assert torch.equal(same, labels)


@pytest.mark.parametrize("shape", SHAPES)
def test_neutral_amounts_change_no_label_and_images_only_by_rounding(shape):
    still = Augmentation(
        rotation=sure(0), tilt=sure(0), scale=sure(1), shear=sure(0), shift=sure(0), elastic=sure(0), gamma=sure(1),
        contrast=sure(1), brightness=sure(0), blur=sure(0), low_resolution=sure(1), noise=sure(0),
    )  # fmt: skip
    image, labels = batch(shape)
    changed, (same,) = augment(image, (labels,), still, generator())
    assert torch.equal(same, labels)
    torch.testing.assert_close(changed, image, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_images_that_draw_nothing_are_spared(shape):
    """With a probability of one half some images change and the others stay."""
    image, labels = batch(shape, count=40)
    half = Augmentation(rotation=Chance(0.5, 20, 30), noise=Chance(0.5, 0.1, 0.2))
    changed, _ = augment(image, (labels,), half, generator())
    difference = (changed - image).flatten(1).abs().amax(dim=1)
    spared = difference < 1e-5
    assert 3 <= int(spared.sum()) <= 20  # a quarter is expected
    assert (difference[~spared] > 1e-3).all()


@pytest.mark.parametrize("strength", AUGMENTATIONS.values(), ids=AUGMENTATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_generator_state_gives_the_same_result(shape, strength):
    image, labels = batch(shape)
    first, (first_labels,) = augment(image, (labels,), strength, generator(3))
    again, (again_labels,) = augment(image, (labels,), strength, generator(3))
    assert torch.equal(first, again)
    assert torch.equal(first_labels, again_labels)
    if strength != NONE:
        other, _ = augment(image, (labels,), strength, generator(4))
        assert not torch.equal(first, other)


@pytest.mark.parametrize("strength", AUGMENTATIONS.values(), ids=AUGMENTATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_inputs_stay_untouched_and_no_new_ids_appear(shape, strength):
    image, labels = batch(shape)
    before = image.clone(), labels.clone()
    changed, (moved,) = augment(image, (labels,), strength, generator())
    assert torch.equal(image, before[0])
    assert torch.equal(labels, before[1])
    assert changed.shape == image.shape
    assert changed.dtype == image.dtype
    assert changed.isfinite().all()
    assert moved.dtype == torch.uint8
    assert set(moved.unique().tolist()) <= {0, 1, 2, IGNORE}


@pytest.mark.parametrize("shape", [(48, 40), (28, 24, 20)])
def test_labels_follow_the_image(shape):
    """A ball drawn as an image agrees with its label wherever interpolation does not blur the border."""
    image, labels = ball(shape, count=8)
    changed, (moved, twin) = augment(image, (labels, labels), GEOMETRIC, generator())
    assert torch.equal(moved, twin)
    inside, clear = moved != IGNORE, (changed[:, 0] - 0.5).abs() > 0.499
    assert torch.equal((changed[:, 0] > 0.5)[clear & inside], (moved == 1)[clear & inside])
    assert (clear & inside).float().mean() > 0.5
    agreement = ((changed[:, 0] > 0.5) == (moved == 1))[inside].float().mean()
    assert agreement > 0.98


@pytest.mark.parametrize("shape", SHAPES)
def test_all_label_values_survive(shape):
    labels = torch.arange(256).repeat(math.prod(shape) // 256 + 1)[: math.prod(shape)].view(1, *shape)
    labels = labels.to(torch.uint8).flip(1)
    _, (moved,) = augment(labels[:, None].float(), (labels,), Augmentation(rotation=sure(180)), generator())
    assert torch.equal(moved, labels.flip(1, 2))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_shift_moves_by_a_fraction_of_the_size_and_leaves_ignore_behind(axis):
    shape = (10, 20, 30)
    image, labels = batch(shape, count=1)
    strength = Augmentation(shift=sure(0.1))
    changed, (moved,) = augment(image, (labels,), strength, generator())
    cut = tuple(slice(n // 10, None) for n in shape)
    kept = tuple(slice(None, n - n // 10) for n in shape)
    torch.testing.assert_close(changed[(0, 0, *kept)], image[(0, 0, *cut)], rtol=0, atol=1e-5)
    assert torch.equal(moved[(0, *kept)], labels[(0, *cut)])
    assert (moved[0].select(axis, shape[axis] - 1) == IGNORE).all()


@pytest.mark.parametrize("shape", [(17, 17), (9, 9, 5)])
def test_a_rotation_by_ninety_degrees_is_a_quarter_turn(shape):
    image, labels = batch(shape)
    changed, (moved,) = augment(image, (labels,), Augmentation(rotation=sure(90)), generator())
    quarter = torch.rot90(labels, 1, (1, 2))
    assert torch.equal(moved, quarter) or torch.equal(moved, torch.rot90(labels, -1, (1, 2)))
    turns = 1 if torch.equal(moved, quarter) else -1
    torch.testing.assert_close(changed, torch.rot90(image, turns, (2, 3)), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("shape", "spacing"), [((40, 40), (1, 1)), ((40, 20), (1, 2)), ((40, 40, 12), (1, 1, 1))])
def test_a_rotation_keeps_shapes_whatever_the_aspect(shape, spacing):
    """A disc in mm is a disc after any rotation, also on a patch or a voxel that is not square."""
    grids = grids_mm(shape, spacing)
    labels = ((grids[0] ** 2 + grids[1] ** 2) < 14**2).to(torch.uint8)[None]
    strength = Augmentation(rotation=sure(33))
    _, (moved,) = augment(labels[:, None].float(), (labels,), strength, generator(), spacing=spacing)
    known = moved != IGNORE
    assert ((moved == labels) | ~known).float().mean() > 0.97
    _, (wrong,) = augment(labels[:, None].float(), (labels,), strength, generator())
    if len(set(spacing)) > 1:
        assert (wrong == labels)[wrong != IGNORE].float().mean() < 0.95


def test_tilts_keep_shapes_on_thick_slices():
    """A ball in mm stays a ball when voxels of 1 x 1 x 3 mm are tilted; counted in voxels it would not."""
    shape, spacing = (40, 40, 18), (1.0, 1.0, 3.0)
    labels = (sum(grid**2 for grid in grids_mm(shape, spacing)) < 16**2).to(torch.uint8)[None]
    image, strength = labels[:, None].float(), Augmentation(tilt=sure(30))
    overlap = {}
    for steps in (spacing, None):
        _, (moved,) = augment(image, (labels,), strength, generator(), spacing=steps)
        overlap[steps] = 2 * ((moved == 1) & (labels == 1)).sum() / ((moved == 1).sum() + labels.sum())
    assert overlap[spacing] > 0.94
    assert overlap[None] < 0.85


@pytest.mark.parametrize("shape", [(60, 60), (30, 30, 30)])
def test_a_scale_of_two_doubles_every_length(shape):
    image, labels = ball(shape, radius=0.4)
    _, (large,) = augment(image, (labels,), Augmentation(scale=sure(2)), generator())
    expected = ball(shape, radius=0.8)[1]
    assert (large == expected).float().mean() > 0.96
    assert (large != IGNORE).all()
    _, (small,) = augment(image, (labels,), Augmentation(scale=sure(0.5)), generator())
    inside = small != IGNORE
    assert (small == ball(shape, radius=0.2)[1])[inside].float().mean() > 0.97
    assert inside.float().mean() == pytest.approx(0.5 ** len(shape), rel=0.1)


def test_the_deformation_never_folds_at_its_largest_advised_size():
    """Every output line visits increasing coordinates: the Jacobian's determinant stays positive."""
    n = 60
    position = torch.linspace(-1 + 1 / n, 1 - 1 / n, n)
    ramps = torch.stack(torch.meshgrid(position, position, indexing="ij")).expand(32, -1, -1, -1).contiguous()
    changed, _ = augment(ramps, (), Augmentation(elastic=sure(0.4)), generator())
    inner = changed[..., 12:-12, 12:-12]  # at the edge the image is drawn out, and its gradient vanishes
    along_first, along_second = inner.diff(dim=2)[..., :-1], inner.diff(dim=3)[..., :-1, :]
    determinant = along_first[:, 0] * along_second[:, 1] - along_first[:, 1] * along_second[:, 0]
    assert determinant.min() > 0
    assert (inner - ramps[..., 12:-12, 12:-12]).abs().max() > 0.02


def reference_symmetry(array, quarters, flip_axis):
    return np.flip(np.rot90(array, quarters, (0, 1)), flip_axis)


def test_the_paper_draws_every_quarter_turn_followed_by_one_flip():
    """Each volume is one of the results of rot90 and one flip in the first two axes, and all of them occur."""
    volume = torch.rand((1, 1, 4, 4, 3), generator=generator())
    labels = (255 * volume[:, 0]).to(torch.uint8)
    expected = {reference_symmetry(volume[0, 0].numpy(), k, axis).tobytes() for k in range(4) for axis in (0, 1)}
    changed, (moved,) = augment(volume.repeat(200, 1, 1, 1, 1), (labels.repeat(200, 1, 1, 1),), PAPER_3D, generator())
    assert {item[0].numpy().tobytes() for item in changed} == expected
    assert torch.equal(moved, (255 * changed[:, 0]).to(torch.uint8))


def test_a_plane_that_is_not_square_is_only_turned_upside_down():
    volume = torch.rand((1, 1, 4, 3, 2), generator=generator())
    expected = {reference_symmetry(volume[0, 0].numpy(), k, axis).tobytes() for k in (0, 2) for axis in (0, 1)}
    changed, _ = augment(volume.repeat(64, 1, 1, 1, 1), (), PAPER_3D, generator())
    assert {item[0].numpy().tobytes() for item in changed} == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_flips_reach_every_combination_of_axes(shape):
    image = torch.rand((1, 1, *shape), generator=generator())
    changed, _ = augment(image.repeat(128, *(1,) * (len(shape) + 1)), (), Augmentation(flip=0.5), generator())
    assert len({item.numpy().tobytes() for item in changed}) == 2 ** len(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("factor", "offset"), [(255.0, 0.0), (3.0, -1.5)])
def test_intensities_do_not_depend_on_the_scale_of_grey_values(shape, factor, offset):
    """An image in 0..1 and the same one z-scored are changed alike."""
    image, _ = batch(shape)
    image = image.double()
    plain, _ = augment(image, (), INTENSITY, generator())
    scaled, _ = augment(factor * image + offset, (), INTENSITY, generator())
    torch.testing.assert_close(scaled, factor * plain + offset, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(plain, image)


def test_gamma_keeps_the_extremes_and_bends_what_lies_between():
    image = torch.rand((3, 1, 8, 8), generator=generator(), dtype=torch.float64)
    changed, _ = augment(image, (), Augmentation(gamma=sure(2)), generator())
    low, high = image.amin((2, 3), keepdim=True), image.amax((2, 3), keepdim=True)
    torch.testing.assert_close(changed, low + (high - low) * ((image - low) / (high - low)) ** 2)


def test_contrast_brightness_and_noise_have_their_stated_units():
    image = torch.rand((3, 2, 64, 64), generator=generator(), dtype=torch.float64)
    std, mean = torch.std_mean(image, (2, 3), keepdim=True, correction=0)
    contrast, _ = augment(image, (), Augmentation(contrast=sure(1.5)), generator())
    torch.testing.assert_close(contrast, mean + 1.5 * (image - mean))
    brighter, _ = augment(image, (), Augmentation(brightness=sure(0.3)), generator())
    torch.testing.assert_close(brighter, image + 0.3 * std)
    noisy, _ = augment(image, (), Augmentation(noise=sure(0.1)), generator())
    torch.testing.assert_close(
        (noisy - image).std((2, 3), keepdim=True) / std, torch.full_like(std, 0.1), rtol=0.05, atol=0
    )


def test_an_inversion_mirrors_grey_values_about_the_mean_of_as_many_images_as_asked_for():
    image = torch.rand((400, 2, 6, 6), generator=generator(), dtype=torch.float64)
    mirrored = 2 * image.mean((2, 3), keepdim=True) - image
    always, _ = augment(image, (), Augmentation(invert=1.0), generator())
    torch.testing.assert_close(always, mirrored)
    some, _ = augment(image, (), Augmentation(invert=0.3), generator())
    inverted = (some - mirrored).abs().amax((1, 2, 3)) < 1e-12
    spared = (some - image).abs().amax((1, 2, 3)) == 0
    assert (inverted ^ spared).all(), "each image is one or the other, all of its channels alike"
    assert 0.2 < inverted.double().mean() < 0.4


def test_a_constant_image_stays_constant():
    image = torch.full((4, 1, 12, 12), 0.3)
    changed, _ = augment(image, (), STRONG, generator())
    torch.testing.assert_close(changed, image)


def test_blur_is_a_convolution_with_a_gaussian():
    image = torch.zeros((1, 1, 31, 31), dtype=torch.float64)
    image[0, 0, 15, 15] = 1
    changed, _ = augment(image, (), Augmentation(blur=sure(1.5)), generator())
    index = torch.arange(31, dtype=torch.float64) - 15
    bell = torch.exp(-0.5 * (index / 1.5) ** 2)
    bell = bell / bell.sum()
    torch.testing.assert_close(changed[0, 0], bell[:, None] * bell, rtol=1e-6, atol=1e-9)


def test_blur_is_as_wide_in_mm_along_thick_slices():
    image = torch.zeros((1, 1, 31, 31), dtype=torch.float64)
    image[0, 0, 15, 15] = 1
    changed, _ = augment(image, (), Augmentation(blur=sure(3.0)), generator(), spacing=(1, 2))
    index = torch.arange(31, dtype=torch.float64) - 15
    widths = [float((changed[0, 0].sum(1 - axis) * index**2).sum().sqrt()) for axis in (0, 1)]
    assert widths == pytest.approx([3.0, 1.5], rel=0.01)


def test_half_the_resolution_keeps_every_second_sample():
    matrix = subsampling(8, torch.tensor([2.0], dtype=torch.float64))[0]
    assert matrix.sum(dim=1).tolist() == pytest.approx([1.0] * 8)
    assert int((matrix.sum(dim=0) > 0).sum()) == 4


@pytest.mark.parametrize("matrix", [gaussian(9, torch.zeros(1)), subsampling(9, torch.ones(1))])
def test_operators_with_a_neutral_amount_are_exactly_the_identity(matrix):
    assert torch.equal(matrix[0], torch.eye(9))


@pytest.mark.parametrize("size", [1, 4, 33])
def test_spline_weights_sum_to_one_and_reproduce_a_line(size):
    weights = spline(size, torch.zeros((), dtype=torch.float64))
    assert weights.sum(dim=1).tolist() == pytest.approx([1.0] * size)
    knots = torch.arange(CONTROL_POINTS, dtype=torch.float64) - 1
    position = (torch.arange(size, dtype=torch.float64) + 0.5) * CELLS / size
    torch.testing.assert_close(weights @ knots, position)


def test_along_multiplies_one_axis():
    array = torch.rand((2, 3, 4, 5, 6), generator=generator())
    shared = torch.rand((7, 5), generator=generator())
    each = torch.rand((2, 7, 5), generator=generator())
    torch.testing.assert_close(along(1, shared, array), torch.einsum("nm,bcimk->bcink", shared, array))
    torch.testing.assert_close(along(1, each, array), torch.einsum("bnm,bcimk->bcink", each, array))


def test_a_slice_is_changed_as_a_volume_of_one_slice():
    """Without tilts, and with a deformation that the third axis cannot feel, 2D and 3D are one code path."""
    image, labels = batch((24, 24))
    flat = Augmentation(
        flip_one=0.5, turn=0.5, rotation=Chance(0.8, -45, 45), scale=Chance(0.8, 0.99, 1.4),
        gamma=Chance(0.5, 0.6, 1.6), contrast=Chance(0.5, 0.7, 1.4), brightness=Chance(0.5, -0.4, 0.4),
        blur=Chance(0.5, 0.5, 1.2),
    )  # fmt: skip
    draws = draw(image, flat, generator())
    plain, (plain_labels,) = apply(image, (labels,), draws, flat)
    volume, (volume_labels,) = apply(image[..., None], (labels[..., None],), draws, flat)
    torch.testing.assert_close(volume[..., 0], plain, rtol=0, atol=1e-5)
    assert torch.equal(volume_labels[..., 0], plain_labels)


def test_switching_one_change_off_does_not_reroll_the_others():
    image, labels = batch((20, 20))
    both = Augmentation(rotation=Chance(0.7, -30, 30), gamma=Chance(0.5, 0.5, 2))
    alone = Augmentation(rotation=Chance(0.7, -30, 30))
    _, (first,) = augment(image, (labels,), both, generator())
    _, (second,) = augment(image, (labels,), alone, generator())
    assert torch.equal(first, second)


def test_an_empty_batch_and_a_batch_without_labels_pass():
    image, labels = batch((12, 12))
    changed, (moved,) = augment(image[:0], (labels[:0],), STRONG, generator())
    assert (len(changed), len(moved)) == (0, 0)
    assert augment(image, (), STRONG, generator())[1] == ()


def test_it_compiles_without_a_graph_break():
    image, labels = batch((12, 12), count=2)
    draws = draw(image, STRONG, generator())
    compiled = torch.compile(apply, fullgraph=True, backend="eager")
    changed, (moved,) = compiled(image, (labels,), draws, STRONG)
    expected, (expected_labels,) = apply(image, (labels,), draws, STRONG)
    torch.testing.assert_close(changed, expected)
    assert torch.equal(moved, expected_labels)


def test_edges_are_drawn_out_where_the_image_shows_nothing():
    image = torch.ones((1, 1, 16, 16))
    labels = torch.ones((1, 16, 16), dtype=torch.uint8)
    changed, (moved,) = augment(image, (labels,), Augmentation(scale=sure(0.5)), generator())
    torch.testing.assert_close(changed, image)
    assert (moved[0, 4:12, 4:12] == 1).all()
    assert int((moved == IGNORE).sum()) == 16 * 16 - 8 * 8


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
@pytest.mark.parametrize("shape", SHAPES)
def test_cuda_needs_no_synchronisation_and_agrees_with_the_cpu(shape):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    image, labels = batch(shape)
    draws = draw(image, STRONG, generator())
    expected, (expected_labels,) = apply(image, (labels,), draws, STRONG)
    there = image.cuda(), labels.cuda(), type(draws)(*(part.cuda() for part in draws))
    on_device = torch.Generator("cuda").manual_seed(0)
    try:
        torch.cuda.set_sync_debug_mode("error")
        changed, (moved,) = apply(there[0], (there[1],), there[2], STRONG)
        augment(there[0], (there[1],), STRONG, on_device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(changed.cpu(), expected, rtol=0, atol=1e-3)
    assert (moved.cpu() == expected_labels).float().mean() > 0.999


def test_labels_agree_with_grid_sample_of_one_hot_maps():
    """Counting down from IGNORE is nearest sampling of each class, and of the outside, by itself."""
    _, labels = batch((18, 22))
    strength = Augmentation(rotation=Chance(1, -40, 40), shift=Chance(1, -0.2, 0.2))
    draws = draw(labels[:, None].float(), strength, generator())
    _, (moved,) = apply(labels[:, None].float(), (labels,), draws, strength)
    one_hot = F.one_hot(labels.long(), 256).permute(0, 3, 1, 2)[:, [0, 1, 2]].to(torch.uint8)
    _, sampled = apply(labels[:, None].float(), tuple(one_hot.unbind(1)), draws, strength)
    for index, each in enumerate(sampled):
        assert torch.equal(each == 1, moved == index)
        assert ((each == IGNORE) <= (moved == IGNORE)).all()
