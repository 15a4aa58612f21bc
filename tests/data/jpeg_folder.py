"""A folder of small photographs in JPEG files, as ImageNet's but for their number."""

import pathlib

import numpy as np
import tensorflow as tf


def photograph(seed: int, height: int, width: int, channels: int = 3) -> np.ndarray:
    """A smooth random image: JPEG keeps it nearly as it is."""
    coarse = np.random.RandomState(seed).randint(0, 256, [4, 5, channels])
    return tf.cast(tf.image.resize(coarse, [height, width], "bicubic"), tf.uint8).numpy()


def write_jpeg_folder(root: pathlib.Path, classes: int = 2, train: int = 4, test: int = 2) -> None:
    """Writes `train/n0/0.JPEG` and its neighbors; every image has its own size, from 48 to 80 pixels."""
    for part, count in (("train", train), ("test", test)):
        for label in range(classes):
            folder = root / part / f"n{label}"
            folder.mkdir(parents=True)
            for place in range(count):
                seed = 1000 * (part == "test") + 100 * label + place
                image = photograph(seed, 48 + seed % 7 * 5, 48 + seed % 5 * 8)
                (folder / f"{place}.JPEG").write_bytes(tf.io.encode_jpeg(image, quality=95).numpy())
