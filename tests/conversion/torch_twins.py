"""Networks of PyTorch by their tensors, and their twins in Keras; `torch_logits.json` has PyTorch's logits.

The logits are those of these modules, in evaluation mode, with the tensors of `state`:

    nn.Sequential(Conv2d(3, 4, 4, 2, 1), ReLU(), Conv2d(4, 6, 3), ReLU(), Flatten(),
                  Linear(24, 7), ReLU(), Dropout(), Linear(7, 4))
    x = relu(bn1(conv1(x))); x = relu(bn2(conv2(x)) + bn3(short(x))); fc(x.mean((2, 3)))

with conv1 = Conv2d(3, 4, 3, padding=1), conv2 = Conv2d(4, 6, 3, 2, 1, bias=False) and
short = Conv2d(4, 6, 1, 2,
bias=False).
"""

import keras
import numpy as np
from keras import layers

_NORMALIZATION = ("weight", "bias", "running_mean", "running_var")
SHAPES = {
    "sequential": {
        "0.weight": (4, 3, 4, 4), "0.bias": (4,), "2.weight": (6, 4, 3, 3), "2.bias": (6,),
        "5.weight": (7, 24), "5.bias": (7,), "8.weight": (4, 7), "8.bias": (4,),
    },
    "residual": {
        "conv1.weight": (4, 3, 3, 3), "conv1.bias": (4,), **{f"bn1.{part}": (4,) for part in _NORMALIZATION},
        "conv2.weight": (6, 4, 3, 3), **{f"bn2.{part}": (6,) for part in _NORMALIZATION},
        "short.weight": (6, 4, 1, 1), **{f"bn3.{part}": (6,) for part in _NORMALIZATION},
        "fc.weight": (4, 6), "fc.bias": (4,),
    },
}  # fmt: skip
IMAGES = np.random.default_rng(1).random((3, 8, 8, 3), "float32")


def state(name: str) -> dict[str, np.ndarray]:
    """The tensors of a network, seeded; variances are positive."""
    rng = np.random.default_rng(0)
    found = {key: rng.normal(0, 0.4, shape).astype("float32") for key, shape in SHAPES[name].items()}
    return {key: np.abs(value) + 0.5 if key.endswith("_var") else value for key, value in found.items()}


def sequential(num_classes, input_shape):
    return keras.Sequential(
        [
            keras.Input(input_shape),
            layers.ZeroPadding2D(1),
            layers.Conv2D(4, 4, 2, activation="relu"),
            layers.Conv2D(6, 3, activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(7, activation="relu"),
            layers.Dense(num_classes),
        ]
    )


def residual(num_classes, input_shape):
    def normalized(x):
        return layers.BatchNormalization(epsilon=1e-5)(x)

    images = keras.Input(input_shape)
    x = layers.ReLU()(normalized(layers.Conv2D(4, 3, padding="same")(images)))
    main = normalized(layers.Conv2D(6, 3, 2, use_bias=False)(layers.ZeroPadding2D(1)(x)))
    # The shortcut first: the order of the layers is not that of the modules.
    x = layers.ReLU()(layers.Add()([normalized(layers.Conv2D(6, 1, 2, use_bias=False)(x)), main]))
    return keras.Model(images, layers.Dense(num_classes)(layers.GlobalAveragePooling2D()(x)))
