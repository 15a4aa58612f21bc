"""ImageNet's input: random and central crops of streamed JPEG files, resume, and what can be wrong."""

import base64
import math
import shutil

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import data
from athe_tf.data import augment, folder
from athe_tf.data.augment import RandomResizedCrop
from athe_tf.data.encoded import ImageDecoder
from athe_tf.data.resize import resize, resize_and_center_crop
from athe_tf.utils.errors import InputError
from athe_tf.utils.graph_checks import readable_errors
from tests.data.jpeg_folder import photograph, write_jpeg_folder

# 4 x 4 pixels of Adobe's inverted CMYK (40, 80, 120, 0), written by Pillow; it reads them as (215, 175, 135).
CMYK = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwACAQEBAQECAQEBAgICAgIEAwICAgIFBAQDBAYFBgYGBQYGBgcJCAYHCQcGBggLCAkKCgoK"
    "CgYICwwLCgwJCgoK/8AAFAgABAAEBEMRAE0RAFkRAEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIB"
    "AwMCBAMFBQQEAAABfQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZH"
    "SElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV"
    "1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+v/aAA4EQwBNAFkASwAAPwD9XK+vK3K/fyv/2Q=="
)


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory):
    root = tmp_path_factory.mktemp("jpegs")
    write_jpeg_folder(root)
    return root


@pytest.fixture
def root(jpegs, tmp_path):
    shutil.copytree(jpegs, tmp_path, dirs_exist_ok=True)
    return tmp_path


def triangle_weights(size, new):
    """`[new, size]`: Pillow's bilinear filter, in float64, from its definition."""
    scale = size / new
    support = max(scale, 1.0)
    centers = (np.arange(new) + 0.5) * scale
    weights = np.maximum(0, 1 - np.abs(np.arange(size) + 0.5 - centers[:, None]) / support)
    return weights / weights.sum(axis=1, keepdims=True)


def resized_in_numpy(image, height, width):
    columns = np.einsum("vw,hwc->hvc", triangle_weights(image.shape[1], width), image.astype(float))
    columns = np.floor(columns + 0.5)
    return np.floor(np.einsum("uh,hvc->uvc", triangle_weights(image.shape[0], height), columns) + 0.5)


@pytest.mark.parametrize("height, width", [(50, 71), (20, 9)])
def test_resize_is_the_filter_of_pillow(height, width):
    image = np.random.RandomState(0).randint(0, 256, [height, width, 3]).astype(np.uint8)
    found = resize(tf.constant(image), 24, 30).numpy().astype(int)
    # A level apart where float32 falls on the other side of a half.
    difference = np.abs(found - resized_in_numpy(image, 24, 30))
    assert difference.max() <= 1 and difference.mean() < 0.1


def test_resize_equals_pillow_itself():
    pillow = pytest.importorskip("PIL.Image")
    image = np.random.RandomState(2).randint(0, 256, [95, 141, 3]).astype(np.uint8)
    expected = np.asarray(pillow.fromarray(image).resize((48, 40), pillow.Resampling.BILINEAR)).astype(int)
    difference = np.abs(resize(tf.constant(image), 40, 48).numpy() - expected)
    assert difference.max() <= 1 and difference.mean() < 0.02


@pytest.mark.parametrize("height, width", [(50, 71), (71, 50), (20, 33), (40, 40)])
def test_evaluation_resizes_the_shorter_side_and_crops_the_center(height, width):
    image = np.random.RandomState(1).randint(0, 256, [height, width, 3]).astype(np.uint8)
    short = min(height, width)
    tall, wide = (32 if side == short else int(32 * side / short) for side in (height, width))
    top, left = round((tall - 28) / 2), round((wide - 28) / 2)
    expected = resized_in_numpy(image, tall, wide)[top : top + 28, left : left + 28]
    found = resize_and_center_crop(tf.constant(image), 32, 28).numpy().astype(int)
    difference = np.abs(found - expected)
    assert difference.max() <= 1 and difference.mean() < 0.1


def box_in_python(draws, height, width, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """torchvision's loop over ten tries, with given random numbers."""
    for area, shape, vertical, horizontal in draws:
        pixels = height * width * (scale[0] + area * (scale[1] - scale[0]))
        aspect = math.exp(math.log(ratio[0]) + shape * (math.log(ratio[1]) - math.log(ratio[0])))
        w, h = round(math.sqrt(pixels * aspect)), round(math.sqrt(pixels / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(vertical * (height - h + 1)), int(horizontal * (width - w + 1)), h, w
    w = round(height * ratio[1]) if width / height > ratio[1] else width
    h = round(width / ratio[0]) if width / height < ratio[0] else height
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("height, width", [(375, 500), (100, 900), (900, 100), (1, 1)])
def test_boxes_are_those_of_a_loop_over_ten_tries(height, width):
    ids = np.arange(200)
    found = RandomResizedCrop().boxes(3, ids, np.full(200, height), np.full(200, width)).numpy()
    draws = tf.constant(augment.rng.uniform(3, ids, (10, 4), 0.0, 1.0, stream=4, dtype=tf.float64))
    expected = [box_in_python(rows, height, width) for rows in draws.numpy()]
    np.testing.assert_array_equal(found, expected)
    if height / width in (9, 1 / 9):
        # Some of the thin images need the central box, and some do not.
        assert 0 < sum(tuple(box) == box_in_python([], height, width) for box in found) < 200


def test_areas_and_ratios_have_their_distribution():
    boxes = RandomResizedCrop().boxes(0, np.arange(4000), np.full(4000, 1000), np.full(4000, 1000)).numpy()
    areas = boxes[:, 2] * boxes[:, 3] / 1e6
    # Nearly uniform in [0.08, 1]: some large boxes do not fit and are drawn again.
    assert 0.08 < areas.min() < 0.082 and areas.max() > 0.98 and 0.48 < areas.mean() < 0.54
    logs = np.log(boxes[:, 3] / boxes[:, 2])
    assert np.abs(logs).max() < math.log(4 / 3) + 0.005 and abs(logs.mean()) < 0.02


def test_an_image_in_memory_is_cropped_and_keeps_its_size():
    images = np.stack([photograph(seed, 16, 20) for seed in range(6)])
    ids = np.arange(6)
    crop = RandomResizedCrop()
    boxes = crop.boxes(5, ids, np.full(6, 16), np.full(6, 20)).numpy()
    for floats in (False, True):
        found = crop(tf.constant(images / np.float32(255) if floats else images), 5, ids).numpy()
        assert found.shape == images.shape
        for image, made, (top, left, rows, columns) in zip(images, found, boxes, strict=True):
            expected = resized_in_numpy(image[top : top + rows, left : left + columns], 16, 20)
            np.testing.assert_allclose(made * (255 if floats else 1), expected, atol=1.1)


def test_a_streamed_crop_is_that_of_the_original_file(root):
    train = data.load(f"folder:{root}", image_size=24, streamed=True, validation_size=0).train
    images, labels = next(iter(train.stream(8, seed=2, augmentation="random_resized_crop")))
    key = augment.rng.fold(2, 0)
    order = np.argsort(augment.rng.bits(key, tf.range(8), ()).numpy(), kind="stable")
    assert labels.numpy().tolist() == train.labels[order].tolist()
    for made, index in zip(images.numpy() * 255, order, strict=True):
        image = tf.io.decode_jpeg(tf.io.read_file(train.paths[index]), dct_method="INTEGER_ACCURATE").numpy()
        box = RandomResizedCrop().boxes(key, [index], image.shape[:1], image.shape[1:2]).numpy()[0]
        top, left, rows, columns = box
        expected = resized_in_numpy(image[top : top + rows, left : left + columns], 24, 24)
        # Colors at the border of a decoded box are interpolated without their neighbors.
        assert np.abs(made - expected).mean() < 1


def test_streams_of_files_resume_exactly_and_differ_from_epoch_to_epoch(root):
    train = data.load(f"folder:{root}", image_size=24, streamed=True, validation_size=0).train
    assert isinstance(train, data.FileSet)
    settings = {"seed": 4, "augmentation": "random_resized_crop_flip"}
    whole = [(x.numpy(), y.numpy()) for x, y in train.stream(3, epochs=2, **settings)]
    late = [(x.numpy(), y.numpy()) for x, y in train.stream(3, epochs=2, start_step=3, **settings)]
    assert len(whole) == 4 and len(late) == 1
    for (x, y), (other_x, other_y) in zip(whole[3:], late, strict=True):
        np.testing.assert_array_equal(x, other_x)
        np.testing.assert_array_equal(y, other_y)
    half = next(iter(train.stream(2, part=(1, 2), **settings)))[0]
    np.testing.assert_array_equal(half, next(iter(train.stream(2, **settings)))[0][1:])
    assert not np.array_equal(whole[0][0], whole[2][0])


def test_a_folder_is_streamed_if_it_does_not_fit_in_memory_and_has_the_same_images(root, monkeypatch):
    sizes = {"image_size": 24, "resize_size": 28, "validation_size": 2}
    memory = data.load(f"folder:{root}", **sizes)
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 1000)
    streamed = data.load(f"folder:{root}", **sizes)
    assert isinstance(memory.test, data.ImageSet) and isinstance(streamed.test, data.FileSet)
    assert streamed.image_shape == memory.image_shape and streamed.class_names == ("n0", "n1")
    for part in ("train", "validation", "test"):
        ours, theirs = getattr(streamed, part), getattr(memory, part)
        # Keras asks for it, and warns where it is unknown.
        assert len(ours.batches(3)) == len(theirs.batches(3))
        images, labels = (np.concatenate(parts) for parts in zip(*ours.batches(3), strict=True))
        order = np.lexsort(images.reshape(len(images), -1).T)
        other_images, other_labels = theirs.arrays()
        other = np.lexsort(other_images.reshape(len(images), -1).T)
        np.testing.assert_array_equal(images[order], other_images[other])
        np.testing.assert_array_equal(labels[order], other_labels[other])
    np.testing.assert_allclose(streamed.mean, memory.mean, atol=1e-6)
    # The first images are not those of the first class.
    assert len(set(streamed.train.labels[:4].tolist())) == 2
    assert streamed.train.fingerprint() != streamed.test.fingerprint()


def test_gray_and_transparent_files_become_rgb(root):
    folder_of = root / "test" / "n0"
    (folder_of / "0.JPEG").write_bytes(tf.io.encode_jpeg(photograph(1, 60, 50, 1)).numpy())
    rgba = np.concatenate([photograph(2, 60, 50), np.full([60, 50, 1], 7, np.uint8)], axis=-1)
    (folder_of / "1.JPEG").write_bytes(tf.io.encode_png(rgba).numpy())
    images = data.load(f"folder:{root}", image_size=50, streamed=True).test
    assert images.image_shape == (50, 50, 3)
    named = {
        path.rsplit("/", 1)[1]: x
        for path, x in zip(images.paths, images.arrays(9)[0], strict=True)
        if "/n0/" in path
    }
    np.testing.assert_array_equal(named["0.JPEG"][..., 0], named["0.JPEG"][..., 2])
    np.testing.assert_allclose(named["1.JPEG"] * 255, rgba[5:55, :, :3], atol=1e-4)


def test_cmyk_is_converted_as_pillow_does():
    decode = ImageDecoder(channels=3)
    np.testing.assert_allclose(decode(tf.constant(CMYK)), np.broadcast_to([215, 175, 135], [4, 4, 3]), atol=1)
    crop = decode.crop(tf.constant(CMYK), lambda height, width: [1, 1, height - 2, width - 1])
    np.testing.assert_allclose(crop, np.broadcast_to([215, 175, 135], [2, 3, 3]), atol=1)


def test_an_image_smaller_than_the_crop_is_enlarged(root):
    (root / "test" / "n0" / "0.JPEG").write_bytes(tf.io.encode_jpeg(photograph(1, 3, 2)).numpy())
    splits = data.load(f"folder:{root}", image_size=24, resize_size=28, streamed=True)
    assert splits.test.arrays(4)[0].shape == (4, 24, 24, 3)
    batch = next(iter(splits.test.stream(4, seed=0, augmentation="random_resized_crop_flip")))
    assert batch[0].shape == (4, 24, 24, 3)


@pytest.mark.parametrize("damage", ["cut", "text"])
def test_a_corrupt_file_is_named_or_skipped(root, damage):
    bad = root / "train" / "n1" / "2.JPEG"
    bad.write_bytes(bad.read_bytes()[:300] if damage == "cut" else b"no image at all")
    message = r"The file .*n1/2.JPEG .*is not a PNG or JPEG image, or .* truncated.*skip_corrupt=True"
    # It may be the last of all.
    good = str(root / "train" / "n1" / "1.JPEG")
    images = data.FileSet([good, good, str(bad)], [0, 1, 1], (24, 24, 3), 2, image_size=24)
    for augmentation in ("none", "random_resized_crop_flip"):
        with pytest.raises(InputError, match=message), readable_errors():
            list(images.stream(1, seed=0, augmentation=augmentation, epochs=1))
    with pytest.raises(InputError, match=message), readable_errors():
        list(images.batches(2))
    with pytest.raises(InputError, match=message):
        data.load(f"folder:{root}", image_size=24, streamed=True, validation_size=0)
    with pytest.warns(UserWarning, match="Left out 1 files of .*n1/2.JPEG"):
        splits = data.load(f"folder:{root}", image_size=24, streamed=True, skip_corrupt=True)
    assert len(splits.train) + len(splits.validation) == 7
    with pytest.raises(InputError, match=message):
        data.load(f"folder:{root}", image_size=24, streamed=False)


def test_arguments_that_do_not_go_together_are_refused(root):
    with pytest.raises(InputError, match=r"Received: resize_size=20, image_size=24. Give, for example"):
        data.load(f"folder:{root}", image_size=24, resize_size=20)
    with pytest.raises(InputError, match=r"`image_size`, at most as large. Received: .*image_size=None"):
        data.load(f"folder:{root}", resize_size=20)
    with pytest.raises(InputError, match="`skip_corrupt` is about files in folders"):
        data.load("digits", skip_corrupt=True)
    with pytest.raises(InputError, match="'digits' is in memory.*Received: streamed=True"):
        data.load("digits", streamed=True)
    with pytest.raises(InputError, match=r"differ in size. Expected `image_size`"):
        data.load(f"folder:{root}", streamed=True)
    with pytest.raises(InputError, match=r"argument `scale`.*at most 1. Received: scale=\(0.5, 2\)"):
        RandomResizedCrop(scale=(0.5, 2))
