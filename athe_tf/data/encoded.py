"""The base of sets whose images stay encoded until they are needed."""

import functools
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from athe_tf.data.augment import RandomResizedCrop
from athe_tf.data.folder_layout import LARGEST_PIXELS
from athe_tf.data.images import ImageSource, parallel_map, to_float, with_options, without_autograph
from athe_tf.data.resize import central_view, resize
from athe_tf.utils.errors import check, check_integer
from athe_tf.utils.graph_checks import checked, readable_errors
from athe_tf.utils.images_and_labels import check_classes, check_labels
from athe_tf.utils.label_checks import checked_labels
from athe_tf.utils.machine import available_memory

# Pillow decodes so too; TensorFlow's default trades quality for speed.
_DCT = "INTEGER_ACCURATE"


class ImageDecoder:
    """Decodes JPEG, PNG, GIF and BMP files to uint8, whatever their names say.

    Gray images get three channels where three are wanted, CMYK becomes RGB, and transparency is dropped.

    Example:

    >>> import tensorflow as tf
    >>> decode = ImageDecoder(channels=3)
    >>> decode(tf.io.encode_jpeg(tf.zeros([8, 9, 1], tf.uint8))).shape
    TensorShape([8, 9, 3])

    Args:
        channels: 1 or 3.
    """

    def __init__(self, channels: int):
        self.channels = channels

    def __call__(self, encoded):
        """The whole image `[H, W, C]`."""
        encoded = _not_too_large(encoded)
        of_jpeg = functools.partial(tf.io.decode_jpeg, encoded, self.channels, dct_method=_DCT)
        return self._shaped(tf.cond(tf.io.is_jpeg(encoded), of_jpeg, lambda: self._other(encoded)))

    def crop(self, encoded, box: Callable):
        """A box of the image; of a JPEG file, little more than that is decoded.

        Args:
            encoded: The bytes.
            box: From the height and width of the image to `(top, left, height, width)`.
        """
        encoded = _not_too_large(encoded)

        def of_jpeg():
            height, width, _ = tf.unstack(tf.io.extract_jpeg_shape(encoded))
            return tf.image.decode_and_crop_jpeg(encoded, box(height, width), self.channels, dct_method=_DCT)

        return self._shaped(tf.cond(tf.io.is_jpeg(encoded), of_jpeg, lambda: _cut(self._other(encoded), box)))

    def _other(self, encoded):
        return tf.io.decode_image(encoded, self.channels, expand_animations=False)

    def _shaped(self, image):
        return tf.ensure_shape(image, [None, None, self.channels])


def _not_too_large(encoded):
    """The bytes of a file, unless they declare more pixels than any photograph has."""

    def of_jpeg():
        return tf.cast(tf.io.extract_jpeg_shape(encoded)[:2], tf.int64)

    def of_others():
        first = tf.io.decode_raw(tf.strings.substr(encoded, 0, 26), tf.uint8)

        def side(place, powers):
            values = tf.cast(first[place : place + len(powers)], tf.int64)
            return tf.reduce_sum(values * tf.constant(powers, tf.int64)[: tf.size(values)])

        large, small = [2**24, 2**16, 2**8, 1], [1, 2**8, 2**16, 2**24]
        png, gif = [side(16, large), side(20, large)], [side(6, small[:2]), side(8, small[:2])]
        bmp = [tf.minimum(value, 2**32 - value) for value in (side(18, small), side(22, small))]
        letter = first[0]
        return tf.where(letter == 0x89, png, tf.where(letter == ord("G"), gif, bmp))

    height, width = tf.unstack(tf.cond(tf.io.is_jpeg(encoded), of_jpeg, of_others))
    return checked(encoded, height * width <= LARGEST_PIXELS, "An image declares too many pixels.")


def _cut(image, box: Callable):
    """A box of a decoded image; see `ImageDecoder.crop`."""
    shape = tf.shape(image)
    top, left, height, width = tf.unstack(box(shape[0], shape[1]))
    return image[top : top + height, left : left + width]


class EncodedSource(ImageSource):
    """Base class of `StreamedSet` and `FileSet`.

    A subclass implements `_ordered` (some examples in order), `_encoded` (the bytes and the label of an
    example), `fingerprint` and a length. Images are decoded one at a time, on all cores; a `decode` that is
    an `ImageDecoder` can decode crops only. `StreamedSet` describes the arguments.
    """

    def __init__(self, decode: Callable, image_shape, num_classes: int, image_size=None, resize_size=None):
        self.image_shape = image_shape
        self.num_classes = num_classes
        self.image_size = image_size
        self.resize_size = resize_size
        self._decode = decode

    def _ordered(self, ids: np.ndarray) -> tf.data.Dataset:
        """Dataset of `(id, payload)` of these examples; the ids are rising."""
        raise NotImplementedError

    def _encoded(self, payload):
        """`(bytes of the image, label)` of one payload of `_shuffled` or `_ordered`."""
        raise NotImplementedError

    def rows(self, ids) -> tuple[np.ndarray, np.ndarray]:
        """Reads the images at some positions, in one pass over the files."""
        wanted, places = np.unique(np.asarray(ids), return_inverse=True)
        size = len(places) * math.prod(self.image_shape)
        check(
            size < available_memory(),
            f"{len(places)} images do not fit in memory: {size / 2**30:.1f} GiB. Give `max_examples`, or "
            "divide the evaluation among machines with `shard`.",
        )
        images, labels = np.empty([len(wanted), *self.image_shape], np.uint8), np.empty(len(wanted), np.int64)
        done = 0
        with readable_errors():
            for x, y in self._in_order(256, wanted).as_numpy_iterator():
                images[done : done + len(x)], labels[done : done + len(x)] = x, y
                done += len(x)
        check_labels(labels, done)
        check_classes(labels, self.num_classes)
        # Without a copy if they are in order, each once.
        return (images, labels) if np.array_equal(wanted, ids) else (images[places], labels[places])

    def batches(self, batch_size: int) -> tf.data.Dataset:
        check_integer("batch_size", batch_size, 1)
        dataset = self._in_order(batch_size, np.arange(len(self)))
        dataset = dataset.map(without_autograph(lambda x, y: self._checked(to_float(x), y)))
        # Without its length, Keras warns at the end of the first validation that the data ran out.
        count = -(-len(self) // batch_size)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
        return with_options(dataset.prefetch(tf.data.AUTOTUNE))

    def _in_order(self, batch_size, ids):
        def read(index, payload):
            encoded, label = self._encoded(payload)
            return index, self._view(encoded), tf.cast(label, tf.int32)

        batches = self._map(self._ordered(ids), read).batch(batch_size)
        return batches.map(without_autograph(lambda ids, images, labels: (images, labels)))

    def _finished(self, dataset, augment):
        crop = augment if isinstance(augment, RandomResizedCrop) else None

        @without_autograph
        def rows(key, ids, payload):
            # Random numbers of a batch at once: one by one, the many small operations would take longer.
            draws = tf.zeros_like(ids) if crop is None else crop.draws(key, ids)
            return ids, tf.fill(tf.shape(ids), key), draws, payload

        def read(index, key, draws, payload):
            encoded, label = self._encoded(payload)
            if crop is None:
                image = self._view(encoded)
            else:
                pixels = self._cropped(encoded, crop, draws)
                image = crop.finish(pixels[tf.newaxis], key, index[tf.newaxis])[0]
            return index, image, tf.cast(label, tf.int32), key

        @without_autograph
        def finish(ids, images, labels, keys):
            images = augment(images, keys[0], ids) if crop is None else images
            return self._checked(to_float(images), labels)

        size = dataset.element_spec[1].shape[0]
        dataset = self._map(dataset.map(rows).unbatch(), read)
        return dataset.batch(size, drop_remainder=True).map(finish)

    def _map(self, dataset, read: Callable):
        """Applies `read` to tuples that begin with the id, as its results do.

        A subclass may say which image it failed at.
        """
        return parallel_map(dataset, read)

    def _view(self, encoded):
        """An image as it is evaluated."""
        image = central_view(self._decode(encoded), self.image_size, self.resize_size)
        return tf.ensure_shape(image, self.image_shape)

    def _cropped(self, encoded, crop, draws):
        """A random crop of the image in its full size, resized."""

        def box(height, width):
            return crop.boxes_of(draws[tf.newaxis], height[tf.newaxis], width[tf.newaxis])[0]

        if isinstance(self._decode, ImageDecoder):
            pixels = self._decode.crop(encoded, box)
        else:
            pixels = _cut(self._decode(encoded), box)
        return tf.ensure_shape(resize(pixels, *self.image_shape[:2]), self.image_shape)

    def _checked(self, images, labels):
        """The same images and labels; fails on a label outside of `[0, num_classes)`."""
        return images, checked_labels(labels, self.num_classes)
