"""Common corruptions against closed forms, SciPy, Pillow and the color formulas of Python."""

import colorsys
import io

import numpy as np
import pytest
from scipy import ndimage, stats

from athe_tf.data import corruptions
from athe_tf.data.corruptions import apply, functions, names, resampling
from athe_tf.data.corruptions.apply import Draws
from athe_tf.data.corruptions.textures import plasma, power_of_two, textures
from athe_tf.utils.errors import InputError

ALL = (*corruptions.STANDARD, *corruptions.EXTRA)


def draws(count=1, name="test", seed=0):
    return Draws(seed, name, 1, np.arange(count))


def flat(value, count=4, size=48, channels=3):
    return np.full([count, size, size, channels], value, np.float32)


def scenes(count=8, size=32, channels=3):
    """Smooth images with edges, a little like photographs."""
    fields = [
        plasma(draws(count, f"scene {channel}"), power_of_two(size), 1.5) for channel in range(channels)
    ]
    images = np.stack(fields, axis=-1)[:, :size, :size]
    images[:, size // 4 : size // 2, size // 3 :] *= 0.3
    # Edges at other places in each.
    images = [np.roll(image, (3 * n, 5 * n), (0, 1)) for n, image in enumerate(images)]
    return np.rint(np.stack(images) * 255).astype(np.uint8)


@pytest.fixture(scope="module")
def photos():
    return scenes()


# -- noise --------------------------------------------------------------------------------------------------


def test_gaussian_noise_has_the_published_deviation():
    difference = functions.gaussian_noise(flat(0.5), 0.08, draws(4)) - 0.5
    # 27,648 numbers: a mean has the standard error 0.0005, a deviation has 0.4% of itself.
    assert abs(difference.mean()) < 0.002
    assert difference.std() == pytest.approx(0.08, rel=0.02)


def test_speckle_noise_grows_with_the_brightness():
    for value in (0.2, 0.8):
        difference = functions.speckle_noise(flat(value), 0.1, draws(4)) - value
        assert difference.std() == pytest.approx(0.1 * value, rel=0.02)


def test_impulse_noise_is_half_salt_and_half_pepper():
    images = flat(0.5)
    noisy = functions.impulse_noise(images, 0.1, draws(4))
    # The standard error of a share of 0.05 is 0.0013.
    assert np.mean(noisy == 0) == pytest.approx(0.05, abs=0.006)
    assert np.mean(noisy == 1) == pytest.approx(0.05, abs=0.006)
    assert set(np.unique(noisy)) == {0, 0.5, 1}


@pytest.mark.parametrize("photons, level", [(3, 128), (5, 255), (60, 40), (500, 200)])
def test_shot_noise_follows_the_poisson_distribution(photons, level):
    images = flat(level / 255)
    counts = np.rint(functions.shot_noise(images, photons, draws(4)) * photons).astype(int).ravel()
    expected = stats.poisson(level / 255 * photons)
    assert counts.mean() == pytest.approx(expected.mean(), abs=5 * expected.std() / np.sqrt(counts.size))
    assert counts.var() == pytest.approx(expected.var(), rel=0.06)
    likely = np.arange(expected.ppf(0.01), expected.ppf(0.99) + 1).astype(int)
    shares = np.array([(counts == count).mean() for count in likely])
    error = np.sqrt(expected.pmf(likely) / counts.size)
    assert np.all(np.abs(shares - expected.pmf(likely)) < 5 * error)


def test_shot_noise_leaves_darkness_dark():
    assert not functions.shot_noise(flat(0.0), 5, draws(4)).any()


# -- blur ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [*corruptions.GROUPS["blur"], "gaussian_blur", "pixelate", "elastic_transform"]
)
@pytest.mark.parametrize("size", [9, 100])
def test_blur_leaves_a_constant_image_alone(name, size):
    images = flat(0.4, count=2, size=size)
    for severity in (1, 5):
        blurred = corruptions.CORRUPTIONS.get(name)(
            images, names.setting(name, severity, (size, size)), draws(2)
        )
        np.testing.assert_allclose(blurred, images, atol=1e-5)


def test_blur_moves_light_and_loses_none():
    point = np.zeros([1, 41, 41, 1], np.float32)
    point[0, 20, 20] = 1
    for blurred in (
        functions.gaussian_blur(point, 3, draws()),
        functions.defocus_blur(point, (6, 0.5), draws()),
        functions.motion_blur(point, (6, 2), draws()),
    ):
        assert blurred.sum() == pytest.approx(1, rel=1e-4)
        assert blurred.min() >= 0 and blurred.max() < 0.9


def test_defocus_spreads_a_point_over_a_disc():
    kernel = functions.disc(6, 1e-3)  # a sharp rim
    place = np.arange(-7, 8)
    inside = place**2 + place[:, None] ** 2 <= 36
    np.testing.assert_allclose(kernel, inside / inside.sum(), atol=1e-12)


def test_motion_blur_is_half_a_gaussian_along_the_line():
    point = np.zeros([2, 15, 15, 1], np.float32)
    point[:, 7, 7] = 1
    across, down = resampling.line_blur(point, 3, 2.0, [0.0, 90.0])[..., 0]
    weights = stats.norm(0, 2).pdf(np.arange(7))
    weights /= weights.sum()
    np.testing.assert_allclose(across[7, 7::-1][:7], weights, rtol=1e-5)
    np.testing.assert_allclose(down[7::-1, 7][:7], weights, rtol=1e-5)
    assert np.count_nonzero(across) == np.count_nonzero(down) == 7


# What `scipy.ndimage` and `numpy.pad` call the same border.
BORDERS = [("nearest", "edge"), ("reflect", "symmetric"), ("mirror", "reflect")]


def padded(images, reach, mode):
    return np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode)


def weighted_neighbors(images, kernel, mode):
    """The sum of shifted images, one for each weight."""
    height, width = images.shape[1:3]
    wide = padded(images, len(kernel) // 2, mode)
    return sum(
        weight * wide[:, row : row + height, column : column + width]
        for (row, column), weight in np.ndenumerate(kernel)
    )


@pytest.mark.parametrize("border, mode", BORDERS)
def test_gaussian_blur_is_a_sum_of_shifted_images(border, mode):
    images = np.random.RandomState(0).rand(2, 12, 9, 3)
    # 1.7 * 3.0 is 5 whole pixels.
    weights = stats.norm(0, 1.7).pdf(np.arange(-5, 6))
    weights /= weights.sum()
    expected = weighted_neighbors(images, np.outer(weights, weights), mode)
    ours = resampling.gaussian(images, 1.7, truncate=3.0, border=border)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("kernel", [functions.disc(3, 0.5), functions._RELIEF])
def test_correlation_is_a_sum_of_shifted_images(kernel):
    images = np.random.RandomState(1).rand(2, 14, 11, 1)
    expected = weighted_neighbors(images, kernel, "reflect")
    np.testing.assert_allclose(resampling.correlate(images, kernel), expected, atol=1e-6)


@pytest.mark.parametrize("size, factor", [(32, 1.05), (32, 1.26), (33, 1.75), (8, 2.25), (50, 1.0)])
def test_zoom_agrees_with_scipy(size, factor):
    images = np.random.RandomState(2).rand(2, size, size, 1)
    crop = int(np.ceil(size / factor))
    top = (size - crop) // 2
    middle = images[:, top : top + crop, top : top + crop]
    theirs = ndimage.zoom(middle, (1, factor, factor, 1), order=1)
    trim = (theirs.shape[1] - size) // 2
    theirs = theirs[:, trim : trim + size, trim : trim + size]
    np.testing.assert_allclose(resampling.zoom(images, factor), theirs, atol=1e-6)


@pytest.mark.parametrize("border, mode", BORDERS)
def test_sampling_between_pixels_is_bilinear(border, mode):
    random = np.random.RandomState(3)
    images = random.rand(2, 9, 12, 2)
    rows, columns = random.uniform(-8, 16, [2, 9, 12]), random.uniform(-8, 20, [2, 9, 12])
    ours = resampling.sample(images, rows, columns, border)
    wide = padded(images, 10, mode)
    for place in np.ndindex(rows.shape):
        row, column = rows[place] + 10, columns[place] + 10
        top, left = int(row), int(column)
        down, right = row - top, column - left
        corners = wide[place[0], top : top + 2, left : left + 2]
        expected = np.array([1 - down, down]) @ np.moveaxis(corners, -1, 0) @ np.array([1 - right, right])
        np.testing.assert_allclose(ours[place], expected, atol=1e-6)


@pytest.mark.parametrize("size, reach", [((9, 8), 1), ((14, 17), 2), ((19, 20), 4), ((2, 2), 1)])
def test_glass_scatters_as_a_plain_loop_does(size, reach):
    height, width = size
    moves = draws(3).integers((height * width, 2), -reach, reach)
    origin = np.tile(np.arange(height * width), [3, 1])
    expected = origin.reshape(3, height, width).copy()
    for n in range(3):
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                down, right = moves[n, row * width + column]
                expected[n, row, column] = expected[n, row + down, column + right]
    functions.scatter(origin, moves, size, reach)
    np.testing.assert_array_equal(origin, expected.reshape(3, -1))


def test_zoom_blur_is_the_mean_over_all_factors(photos):
    images = photos[:2] / np.float32(255)
    # NumPy's arange ends at 1.06 here, for 0.06 / 0.01 is a little more than 6.
    factors = [1 + 0.01 * step for step in range(7)]
    expected = sum([resampling.zoom(images, factor) for factor in factors], images) / 8
    np.testing.assert_allclose(functions.zoom_blur(images, (1.06, 0.01), draws(2)), expected, atol=1e-5)


# -- weather ------------------------------------------------------------------------------------------------


def test_fog_on_a_gray_wall():
    # (v + a * cloud) * v / (v + a), for clouds from 0 to 1.
    foggy = functions.fog(flat(0.6, size=32), (1.5, 1.75), draws(4))
    np.testing.assert_allclose(foggy.min(axis=(1, 2, 3)), 0.6 * 0.6 / 2.1, rtol=1e-5)
    np.testing.assert_allclose(foggy.max(axis=(1, 2, 3)), 0.6, rtol=1e-5)
    np.testing.assert_array_equal(foggy[..., 0], foggy[..., 2])


def test_clouds_are_smoother_with_more_decay_and_continue_at_the_edges():
    rough, smooth = (plasma(draws(6), 32, decay) for decay in (1.4, 3.0))

    def step(fields):
        return np.abs(np.diff(fields, axis=1)).mean()

    assert step(smooth) < 0.7 * step(rough)
    for clouds in (rough, smooth):
        np.testing.assert_array_equal(clouds.min(axis=(1, 2)), 0)
        np.testing.assert_array_equal(clouds.max(axis=(1, 2)), 1)
    assert np.abs(smooth[:, 0] - smooth[:, -1]).mean() < 2 * step(smooth)


def test_snow_only_brightens(photos):
    images = photos / np.float32(255)
    for constants in names.CIFAR_10_C["snow"]:
        assert (functions.snow(images, constants, draws(8)) >= images - 1e-6).all()


def test_frost_is_a_cut_of_a_texture():
    ice = textures(512)
    # The mean colors and contrasts of the photographs behind the published images.
    np.testing.assert_allclose(ice[4].mean(axis=(0, 1)), (0.441, 0.484, 0.528), atol=0.01)
    np.testing.assert_allclose(ice.mean(axis=-1).std(axis=(1, 2)), (0.08, 0.09, 0.09, 0.11, 0.17), rtol=0.1)
    images = np.random.RandomState(0).rand(3, 8, 8, 3).astype(np.float32)
    cover = (functions.frost(images, (0.75, 0.45, 5), draws(3)) - np.float32(0.75) * images) / 0.45
    small = ice[:, ::5, ::5]
    for cut in cover:
        distance = np.abs(small[:, :-7, :-7] - cut[0, 0]).max(axis=-1)
        places = np.argwhere(distance < 1e-5)
        assert any(np.allclose(small[t, y : y + 8, x : x + 8], cut, atol=1e-5) for t, y, x in places)


def pixels():
    colors = np.random.RandomState(0).rand(1, 10, 10, 3).astype(np.float32)
    colors[0, 0, :3] = [[0, 0, 0], [0.5, 0.5, 0.5], [1, 1, 1]]
    return colors


def test_brightness_adds_to_the_value_and_keeps_hue_and_saturation():
    images = pixels()
    brighter = functions.brightness(images, 0.3, draws())
    for before, after in zip(images.reshape(-1, 3), brighter.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before.tolist())
        expected = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.3, 1))
        np.testing.assert_allclose(after, expected, atol=1e-5)


# -- digital ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constants", [(0.3, 0), (2.5, 0.2)])
def test_saturation_changes_and_hue_and_value_stay(constants):
    images = pixels()
    vivid = functions.saturate(images, constants, draws())
    for before, after in zip(images.reshape(-1, 3), vivid.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before.tolist())
        wanted = min(saturation * constants[0] + constants[1], 1)
        np.testing.assert_allclose(after, colorsys.hsv_to_rgb(hue, wanted, value), atol=1e-5)


def test_contrast_keeps_the_mean_of_each_channel(photos):
    images = photos / np.float32(255)
    dull = functions.contrast(images, 0.3, draws(8))
    np.testing.assert_allclose(dull.mean(axis=(1, 2)), images.mean(axis=(1, 2)), atol=1e-5)
    np.testing.assert_allclose(dull.std(axis=(1, 2)), 0.3 * images.std(axis=(1, 2)), atol=1e-5)


def test_pixelate_makes_blocks_of_their_mean():
    images = np.random.RandomState(0).rand(2, 12, 8, 3).astype(np.float32)
    blocks = images.reshape(2, 6, 2, 4, 2, 3).mean(axis=(2, 4))
    expected = blocks.repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_allclose(functions.pixelate(images, 0.5, draws(2)), expected, atol=1e-6)


@pytest.mark.parametrize("severity", corruptions.SEVERITIES)
def test_pixelate_and_jpeg_agree_with_pillow(photos, severity):
    image = pytest.importorskip("PIL.Image")
    photo = image.fromarray(photos[0])
    small = int(32 * names.CIFAR_10_C["pixelate"][severity - 1])
    resized = photo.resize((small, small), image.Resampling.BOX).resize((32, 32), image.Resampling.BOX)
    ours = corruptions.corrupt(photos[:1], "pixelate", severity)[0].astype(int)
    # Pillow rounds to whole levels in between.
    assert np.abs(ours - np.asarray(resized)).max() <= 1
    file = io.BytesIO()
    photo.save(file, "JPEG", quality=names.CIFAR_10_C["jpeg_compression"][severity - 1])
    ours = corruptions.corrupt(photos[:1], "jpeg_compression", severity)[0].astype(int)
    # Builds of the library may round differently.
    assert np.abs(ours - np.asarray(image.open(file))).mean() < 0.5


class Fixed:
    """Moves that are not random."""

    def __init__(self, moves):
        self.moves = np.asarray(moves, np.float32)[np.newaxis]

    def uniform(self, shape, low, high):
        return self.moves


def test_affine_map_of_a_shift_is_a_shift():
    rows, columns = functions.affine_places((1, 12, 10, 3), 3, Fixed([[2, 1]] * 3))
    np.testing.assert_allclose(rows[0], np.arange(12)[:, None] - np.ones([12, 10]), atol=1e-9)
    np.testing.assert_allclose(columns[0], np.arange(10) - 2 * np.ones([12, 10]), atol=1e-9)


def test_affine_map_takes_moved_corners_back():
    moves = [[1, 0], [0, 2], [-1, 1]]
    rows, columns = functions.affine_places((1, 30, 30, 3), 3, Fixed(moves))
    # The corners (column, row) of a square of half side 10 about (15, 15).
    for corner, move in zip([(25, 25), (25, 5), (5, 5)], moves, strict=True):
        column, row = corner[0] + move[0], corner[1] + move[1]
        assert (columns[0, row, column], rows[0, row, column]) == pytest.approx(corner, abs=1e-6)


def test_spatter_is_water_that_shines_or_mud_that_covers(photos):
    images = photos / np.float32(255)
    wet = functions.spatter(images, names.CIFAR_10_C["spatter"][2], draws(8))
    assert (wet >= images).all() and np.mean(wet > images + 0.02) > 0.02
    muddy = functions.spatter(flat(1.0, size=32), names.CIFAR_10_C["spatter"][4], draws(4))
    covered = muddy[muddy.min(axis=-1) < 0.9]
    assert len(covered) > 0
    # Between mud brown and white, in every channel alike.
    shares = (1 - covered) / (1 - np.array([63, 42, 20]) / 255)
    np.testing.assert_allclose(shares.min(axis=-1), shares.max(axis=-1), atol=1e-5)


# -- all of them --------------------------------------------------------------------------------------------


# Glass, frost, elastic, motion, saturation and spatter have constants that are not ordered.
ORDERED = sorted(
    set(ALL) - {"glass_blur", "frost", "elastic_transform", "motion_blur", "saturate", "spatter"}
)


@pytest.mark.parametrize("name", ORDERED)
def test_damage_grows_with_the_severity(photos, name):
    clean = photos.astype(float)
    damage = [np.mean((corruptions.corrupt(photos, name, s) - clean) ** 2) for s in corruptions.SEVERITIES]
    assert damage[0] > 0 and (np.diff(damage) > 0).all()


@pytest.mark.parametrize("name", ALL)
def test_an_image_is_corrupted_alike_in_every_batch(name):
    photos = scenes(5, size=12)
    whole = corruptions.corrupt(photos, name, 4, seed=7)
    parts = [corruptions.corrupt(photos[i : i + 1], name, 4, seed=7, ids=[i]) for i in range(5)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert whole.dtype == np.uint8 and (whole != photos).any()
    floats = corruptions.corrupt(photos / np.float32(255), name, 4, seed=7)
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats, whole / np.float32(255))


@pytest.mark.parametrize(
    "name", ["gaussian_noise", "shot_noise", "glass_blur", "motion_blur", "snow", "frost", "fog", "spatter"]
)
def test_seeds_and_ids_change_what_is_random(name):
    photos = np.repeat(scenes(1, size=16), 6, axis=0)
    corrupted = corruptions.corrupt(photos, name, 3, seed=0)
    assert len(np.unique(corrupted.reshape(6, -1), axis=0)) > 3
    assert (corrupted != corruptions.corrupt(photos, name, 3, seed=1)).any()


@pytest.mark.parametrize("name", [name for name in ALL if name != "saturate"])
@pytest.mark.parametrize("size", [(8, 8), (7, 5), (1, 1)])
def test_gray_and_odd_images_can_be_corrupted(name, size):
    images = np.random.RandomState(0).randint(0, 256, [2, *size, 1]).astype(np.uint8)
    for severity in (1, 5):
        corrupted = corruptions.corrupt(images, name, severity)
        assert corrupted.shape == images.shape and corrupted.dtype == np.uint8


def test_memory_is_used_a_chunk_at_a_time(monkeypatch, photos):
    whole = corruptions.corrupt(photos, "gaussian_noise", 2)
    monkeypatch.setattr(apply, "_CHUNK_PIXELS", 3 * 32 * 32)
    np.testing.assert_array_equal(corruptions.corrupt(photos, "gaussian_noise", 2), whole)


@pytest.mark.parametrize("side, sigma", [(95, 0.04), (96, 0.08)])
def test_large_images_take_the_constants_of_imagenet(side, sigma):
    noisy = corruptions.corrupt(flat(0.5, count=1, size=side), "gaussian_noise", 1)
    assert (noisy - 0.5).std() == pytest.approx(sigma, rel=0.02)


def test_every_corruption_has_five_severities_for_both_sizes():
    for table in (names.CIFAR_10_C, names.IMAGENET_C):
        assert sorted(table) == sorted(ALL) == sorted(corruptions.CORRUPTIONS)
        assert {len(values) for values in table.values()} == {5}
    assert len(corruptions.STANDARD) == 15


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"name": "frog"}, r"Unknown corruption 'frog'. Did you mean 'fog'\?"),
        ({"severity": 0}, r"Expected an integer from 1 to 5. Received: severity=0"),
        ({"severity": 2.5}, r"Received: severity=2.5"),
        ({"images": np.zeros([2, 8, 8, 2], np.uint8)}, r"1 or 3 channels. Received: shape=\(2, 8, 8, 2\)"),
        ({"images": np.full([2, 8, 8, 3], 7.0)}, r"Images must lie in \[0, 1\]. Received: min=7"),
        ({"ids": [1, 2, 3]}, r"Invalid shape of `ids`. Expected \(2,\).*Received: \(3,\)"),
        ({"images": np.zeros([2, 8, 8, 1], np.uint8), "name": "saturate"}, r"'saturate' needs color images"),
    ],
)
def test_what_cannot_be_corrupted_is_refused(arguments, message):
    given = {"images": np.zeros([2, 8, 8, 3], np.uint8), "name": "fog", "severity": 1, **arguments}
    with pytest.raises(InputError, match=message):
        corruptions.corrupt(**given)
