"""`digits`: a data set small enough to ship, for experiments that take seconds.

The 1,797 handwritten digits of 8 x 8 pixels from the UCI repository (E. Alpaydin and C. Kaynak, 1998), with a
fixed, stratified division: 1,197 to train, 200 to validate, 400 to test. `files/DIGITS_LICENSE.md` has the
source and the licence.
"""

import pathlib

from athe_tf.data import npz
from athe_tf.data.splits import Splits, from_arrays

FILE = pathlib.Path(__file__).parent / "files" / "digits.npz"


def load(
    validation_size: int | None = None, image_size: int | None = None, resize_size: int | None = None
) -> Splits:
    """The splits of the digits; the arguments are those of `athe_tf.data.load`."""
    return from_arrays(
        "digits",
        npz.read(FILE),
        class_names=tuple("0123456789"),
        validation_size=validation_size,
        image_size=image_size,
        resize_size=resize_size,
    )
