"""`write_properties`: a classifier and images for a complete verifier, as ONNX and VNN-LIB files.

A property describes the counterexamples of one image: every pixel within the radius and [0, 1], and a logit
of another class that is as large as that of the label. A verifier, such as alpha-beta-CROWN, finds one or
proves that there is none.
"""

import pathlib
import shutil
from collections.abc import Sequence

import keras
import numpy as np

from athe_tf.conversion.converted_file import convert
from athe_tf.conversion.onnx_file import ImageLayout, read_onnx
from athe_tf.conversion.onnx_import import onnx_logits
from athe_tf.utils.errors import check
from athe_tf.utils.files import replacing_folder, write_text
from athe_tf.utils.registry import import_optional

#: The network in the folder, and the list of properties as verification competitions have it.
NETWORK, INSTANCES = "model.onnx", "instances.csv"
# Seconds that the list gives a verifier for each property.
_SECONDS = 300


def write_properties(
    model: keras.Model | pathlib.Path,
    folder: pathlib.Path,
    images,
    labels,
    ids: Sequence[int],
    epsilon: float,
) -> list[int]:
    """Writes a folder with the network, a property for each image, and a list of them.

    Args:
        model: A Keras model, which is exported for one image; or the path of an ONNX file, which is copied.
        folder: The folder. Must not exist.
        images: `[N, H, W, C]` in [0, 1].
        labels: Their classes.
        ids: Their numbers in the data set, which name the properties.
        epsilon: The radius in linf.

    Returns:
        The numbers of the images that the network classifies correctly; others have no property.
    """
    check(not folder.exists(), f"'{folder}' exists already. Export to another folder.")
    with replacing_folder(folder) as new:
        file = new / NETWORK
        if isinstance(model, keras.Model):
            convert(model, file, "onnx")
            _for_one_image(file)
        else:
            shutil.copyfile(model, file)
        graph = read_onnx(file)
        logits = onnx_logits(file, graph)(np.asarray(images, "float32"))
        kept = [index for index, label in enumerate(labels) if logits[index].argmax() == label]
        for index in kept:
            text = property_text(images[index], int(labels[index]), logits.shape[1], epsilon, graph.layout)
            write_text(new / _name(ids[index]), text)
        lines = [f"{NETWORK},{_name(ids[index])},{_SECONDS}" for index in kept]
        write_text(new / INSTANCES, "\n".join([*lines, ""]))
    return [ids[index] for index in kept]


def property_text(image, label: int, classes: int, epsilon: float, layout: ImageLayout) -> str:
    """The VNN-LIB property of one image, `[H, W, C]`; its pixels are numbered as in the input of the network.

    Example:

    >>> layout = ImageLayout((1, 1, 1), False, (1, 1, 1, 1))
    >>> print(property_text(np.ones([1, 1, 1]), 0, 2, 0.25, layout).splitlines()[-1])
    (assert (or (and (>= Y_1 Y_0))))
    """
    pixels = np.asarray(image, np.float64)
    pixels = np.ravel(pixels.transpose(2, 0, 1) if layout.channels_first else pixels)
    ends = zip(np.maximum(pixels - epsilon, 0.0), np.minimum(pixels + epsilon, 1.0), strict=True)
    others = " ".join(f"(and (>= Y_{other} Y_{label}))" for other in range(classes) if other != label)
    return "\n".join(
        [
            f"; counterexamples of an image of class {label} within {epsilon:.9g} in linf and [0, 1]",
            *(f"(declare-const X_{i} Real)" for i in range(len(pixels))),
            *(f"(declare-const Y_{i} Real)" for i in range(classes)),
            *(
                f"(assert (>= X_{i} {_decimal(low)}))\n(assert (<= X_{i} {_decimal(high)}))"
                for i, (low, high) in enumerate(ends)
            ),
            f"(assert (or {others}))",
            "",
        ]
    )


def _decimal(value: float) -> str:
    """The number, exactly; the language has no exponents."""
    return np.format_float_positional(value, trim="0")


def _name(number: int) -> str:
    return f"image_{number}.vnnlib"


def _for_one_image(file: pathlib.Path) -> None:
    """Fixes the size of the batch to 1, as verifiers want it."""
    onnx = import_optional("onnx", "onnx is needed. Install it with: pip install 'athe_tf[onnx]'.")
    model = onnx.load(str(file))
    for end in (*model.graph.input, *model.graph.output):
        end.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(model, str(file))
