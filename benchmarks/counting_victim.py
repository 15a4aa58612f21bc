"""The victim of attackbench: it counts the passes of every image, and keeps the nearest adversarial query.

How it knows an image in any batch: each carries its number as bright and dark pixels in one more row, which
the network does not see.
"""

import threading

import numpy as np
import tensorflow as tf

#: Forward and backward passes per image, and the p of each norm.
BUDGET = 2000
ORDERS = {"linf": np.inf, "l2": 2, "l1": 1}


class CountingVictim:
    """A network that counts the passes of every image, and keeps the nearest adversarial query.

    Args:
        net: A Keras model that outputs logits.
        x: Images `[N, H, W, C]`.
        y: Their labels.
        norm: Measures distances.
        budget: Passes per image.
    """

    def __init__(self, net, x: np.ndarray, y: np.ndarray, norm: str, budget: int = BUDGET):
        self.net, self.x, self.y, self.order, self.budget = net, x, y, ORDERS[norm], budget
        self.classes = int(net.output_shape[-1])
        self.bits = max(1, int(len(x) - 1).bit_length())
        self._lock = threading.Lock()
        self.images = np.concatenate([x, self._tags()], axis=1)
        # Peers call it eagerly: compiled, it is several times as fast.
        signature = [tf.TensorSpec([None, *self.images.shape[1:]], tf.float32)]
        self.compiled = tf.function(self.__call__, input_signature=signature)
        self.reset()

    def reset(self) -> None:
        """Forgets what was counted."""
        self.forward = np.zeros(len(self.x), np.int64)
        self.backward = np.zeros(len(self.x), np.int64)
        self.distance = np.full(len(self.x), np.inf)

    def _tags(self) -> np.ndarray:
        """A row of pixels per image: the bits of its number, as often as they fit."""
        count, _, width, channels = self.x.shape
        places = np.arange(width * channels) % self.bits
        bits = (np.arange(count)[:, np.newaxis] >> places) & 1
        return bits.astype(np.float32).reshape(count, 1, width, channels)

    def numbers(self, images):
        """The number of each image, by the majority of its pixels."""
        pixels = self.x.shape[2] * self.x.shape[3]
        row = tf.reshape(images[:, -1], [-1, pixels])
        places = tf.one_hot(np.arange(pixels) % self.bits, self.bits)
        votes = tf.cast(row > 0.5, tf.float32) @ places > tf.reduce_sum(places, axis=0) / 2
        number = tf.reduce_sum(tf.cast(votes, tf.int32) * [1 << bit for bit in range(self.bits)], axis=1)
        return tf.minimum(number, len(self.x) - 1)

    def __call__(self, images):
        """Logits; after the budget, the true class without a gradient."""
        images = tf.cast(images, tf.float32)
        numbers = tf.stop_gradient(self.numbers(images))
        seen = self._gated(images, numbers)[:, :-1]
        logits = self.net(seen, training=False)
        wrong = tf.argmax(logits, axis=1, output_type=tf.int32) != tf.gather(self.y.astype("int32"), numbers)
        allowed = tf.numpy_function(self._asked, [numbers, seen, wrong], tf.bool, stateful=True)
        allowed = tf.ensure_shape(allowed, [None])[:, tf.newaxis]
        return tf.where(allowed, logits, 100.0 * tf.one_hot(tf.gather(self.y, numbers), self.classes))

    def _gated(self, images, numbers):
        @tf.custom_gradient
        def gate(inner):
            def backward(upstream):
                allowed = tf.numpy_function(self._differentiated, [numbers], tf.float32, stateful=True)
                return upstream * tf.reshape(tf.ensure_shape(allowed, [None]), [-1, 1, 1, 1])

            return tf.identity(inner), backward

        return gate(images)

    def _asked(self, numbers, seen, wrong):
        with self._lock:
            allowed = self._left(numbers) > 0
            np.add.at(self.forward, numbers[allowed], 1)
            inside = (seen >= -1e-6).all(axis=(1, 2, 3)) & (seen <= 1 + 1e-6).all(axis=(1, 2, 3))
            rows = np.flatnonzero(allowed & wrong & inside)
            if len(rows):
                moved = (seen[rows].astype(np.float64) - self.x[numbers[rows]]).reshape(len(rows), -1)
                lengths = np.linalg.norm(moved, self.order, axis=1)
                np.minimum.at(self.distance, numbers[rows], lengths)
            return allowed

    def _differentiated(self, numbers):
        with self._lock:
            allowed = self._left(numbers) > 0
            np.add.at(self.backward, numbers[allowed], 1)
            return allowed.astype(np.float32)

    def _left(self, numbers):
        return self.budget - self.forward[numbers] - self.backward[numbers]
