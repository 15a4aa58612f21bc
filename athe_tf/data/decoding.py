"""From the bytes of an image file to pixels."""

from collections.abc import Callable

import tensorflow as tf

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
        return self._shaped(
            tf.cond(
                tf.io.is_jpeg(encoded),
                lambda: tf.io.decode_jpeg(encoded, self.channels, dct_method=_DCT),
                lambda: self._other(encoded),
            )
        )

    def crop(self, encoded, box: Callable):
        """A box of the image; of a JPEG file, little more than that is decoded.

        Args:
            encoded: The bytes.
            box: From the height and width of the image to `(top, left, height, width)`.
        """

        def of_jpeg():
            height, width, _ = tf.unstack(tf.io.extract_jpeg_shape(encoded))
            return tf.image.decode_and_crop_jpeg(
                encoded, box(height, width), channels=self.channels, dct_method=_DCT
            )

        def of_other():
            image = self._other(encoded)
            shape = tf.shape(image)
            top, left, height, width = tf.unstack(box(shape[0], shape[1]))
            return image[top : top + height, left : left + width]

        return self._shaped(tf.cond(tf.io.is_jpeg(encoded), of_jpeg, of_other))

    def _other(self, encoded):
        return tf.io.decode_image(encoded, self.channels, expand_animations=False)

    def _shaped(self, image):
        return tf.ensure_shape(image, [None, None, self.channels])
