"""Adversarial perturbations of several sizes on photographs and on digits: docs/choosing_epsilon.md.

    python -m benchmarks.epsilon_pictures PHOTO PHOTO     # docs/pictures/epsilon_*.png

The photographs of the page are `chelsea.png` (S. van der Walt) and `coffee.png` (R. Michetti) of
scikit-image, both CC0. A robust CIFAR-10 network, which is convolutional, is attacked on 160 x 160 pixels;
on digits, a network that is trained first.
"""

import argparse
import pathlib

import numpy as np
from PIL import Image, ImageDraw

import athe_tf
from benchmarks.results_tables import ROOT

FOLDER = ROOT / "docs" / "pictures"
LEVELS = (0, 2, 4, 8, 16)
DIGIT_LEVELS = (0, 16, 32, 51, 77)
SIDE, GAP, CAPTION = 160, 6, 16


def photo(path: str) -> np.ndarray:
    """The largest square in the middle, at the size of the picture."""
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return np.asarray(image, np.float32) / 255


def photo_network():
    """A robust network of the zoo, for larger images."""
    small = athe_tf.zoo.load("cifar10-fast-at-he-wrn10-1")
    net = athe_tf.models.build("wrn-10-1", 10, head="he", input_shape=(SIDE, SIDE, 3))
    net.set_weights(small.get_weights())
    return net


def digits_network():
    """Trained for a few epochs at 0.2."""
    splits = athe_tf.data.load("digits")
    net = athe_tf.models.build(
        "small_cnn", 10, head="he", input_shape=splits.image_shape, mean=splits.mean, std=splits.std
    )
    trainer = athe_tf.training.FastAT(net, athe_tf.attacks.PGD(0.2, steps=1, step_size=0.25), margin=0.2)
    trainer.compile(athe_tf.training.TorchSGD(0.05, weight_decay=5e-4))
    steps = splits.train.steps_per_epoch(64)
    stream = splits.train.stream(64, seed=0, epochs=10)
    trainer.fit(stream, steps_per_epoch=steps, epochs=10, shuffle=False, verbose=0)
    x, y = splits.test.arrays(3)
    return net, x, y


def rows_of(net, images: np.ndarray, labels: np.ndarray, levels) -> list[list[np.ndarray]]:
    """For each image, the worst point that PGD found at each level."""
    columns = [
        images
        if level == 0
        else np.asarray(athe_tf.attacks.PGD(level / 255, steps=40, loss="margin")(net, images, labels))
        for level in levels
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def draw(rows: list[list[np.ndarray]], levels, path: pathlib.Path) -> None:
    """A grid with a caption above each column."""
    size = (len(levels) * (SIDE + GAP), CAPTION + len(rows) * (SIDE + GAP))
    grid = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(grid)
    for column, level in enumerate(levels):
        pen.text((column * (SIDE + GAP) + 2, 2), f"{level}/255" if level else "clean", fill="black")
        for number, row in enumerate(rows):
            image = np.rint(255 * np.broadcast_to(row[column], (*row[column].shape[:2], 3))).astype("uint8")
            place = (column * (SIDE + GAP), CAPTION + number * (SIDE + GAP))
            grid.paste(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.NEAREST), place)
    path.parent.mkdir(exist_ok=True)
    grid.save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="+")
    photos = np.stack([photo(path) for path in parser.parse_args().photos])
    net = photo_network()
    labels = np.asarray(net(photos)).argmax(-1)
    draw(rows_of(net, photos, labels, LEVELS), LEVELS, FOLDER / "epsilon_photos.png")
    net, digits, labels = digits_network()
    draw(rows_of(net, digits, labels, DIGIT_LEVELS), DIGIT_LEVELS, FOLDER / "epsilon_digits.png")


if __name__ == "__main__":
    main()
