"""Recall@1 of embeddings of digits, for softmax, CosFace and ArcFace: docs/cosine_head.md.

    python -m benchmarks.digits_retrieval

Trains small_cnn on the training images of the digits 0 to 5 with a plain `fit`, and looks for the nearest
neighbors among the test images of the digits 6 to 9, which it has never seen, and of 0 to 5.
"""

import argparse
import statistics

import keras
import numpy as np

import athe_tf
from benchmarks.timing import table

SEEN = 6
SCALE = 15.0
LOSSES = {
    "softmax, linear head": None,
    "CosFace, m = 0.35": {"margin": 0.35},
    "ArcFace, m = 0.5": {"margin": 0.5, "form": "arc"},
}


def trained(splits, settings: dict | None, seed: int, epochs: int) -> keras.Model:
    """A classifier of the first digits."""
    keras.utils.set_random_seed(seed)
    head = "linear" if settings is None else "he"
    net = athe_tf.models.build(
        "small_cnn", SEEN, head=head, scale=SCALE, input_shape=splits.image_shape, seed=seed
    )
    loss = (
        keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if settings is None
        else athe_tf.MarginCrossentropy.for_head(net, **settings)
    )
    net.compile(keras.optimizers.Adam(1e-3), loss=loss)
    images, labels = splits.train.arrays()
    net.fit(images[labels < SEEN], labels[labels < SEEN], batch_size=64, epochs=epochs, verbose=0)
    return net


def recalls(net: keras.Model, splits) -> tuple[float, float]:
    """Recall@1 in percent among test images of unseen and of seen digits."""
    images, labels = splits.test.arrays()
    embeddings = athe_tf.models.embedding_model(net).predict(images, verbose=0)
    unseen = labels >= SEEN
    return tuple(
        100 * athe_tf.evaluation.recall_at_k(embeddings[chosen], labels[chosen])
        for chosen in (unseen, ~unseen)
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    splits = athe_tf.data.load("digits")
    rows = [("loss", "unseen digits 6-9", "seen digits 0-5")]
    for name, settings in LOSSES.items():
        found = np.array(
            [recalls(trained(splits, settings, seed, arguments.epochs), splits) for seed in seeds]
        )
        cells = [f"{statistics.mean(column):.1f} ± {statistics.stdev(column):.1f}" for column in found.T]
        rows.append((name, *cells))
    print(table(rows))


if __name__ == "__main__":
    main()
