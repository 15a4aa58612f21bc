"""The placebo of the study: a linear head whose logits are multiplied or divided by 15.

    bin/train --flagfile=configs/cifar_fast_at.flags --model=benchmarks.placebo:times_15_seed_0 --seed=0 ...

`times_15_seed_N` and `over_15_seed_N` build the network of `--model=wrn-10-1 --head=linear --seed=N`, with a
constant factor behind the head, and the head's initial weights divided by that factor. All three begin as the
same function of the image; nothing is normalized, and there is no margin. If dividing an attack's logits by
15 shows a gain on the network that was trained with the factor 15, the gain is the attack's, not the model's.
"""

import re

import keras

from athe_tf.models import build

#: Mean and standard deviation of CIFAR-10's training images, which `bin/train` gives to models by name.
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2471, 0.2435, 0.2616)

FACTORS = {"times": 15.0, "over": 1 / 15.0}


def scaled_head(net: keras.Model, factor: float) -> keras.Model:
    """The same function, with logits computed as `factor` times those of a head with smaller weights."""
    head = net.get_layer("head")
    head.set_weights([weight / factor for weight in head.get_weights()])
    return keras.Model(net.inputs, keras.layers.Rescaling(factor, name="placebo")(net.outputs[0]))


def __getattr__(name: str):
    match = re.fullmatch(r"(times|over)_15_seed_(\d+)", name)
    if match is None:
        raise AttributeError(name)
    factor, seed = FACTORS[match[1]], int(match[2])

    def built(num_classes: int, input_shape: tuple[int, int, int]) -> keras.Model:
        net = build("wrn-10-1", num_classes, input_shape=input_shape, mean=MEAN, std=STD, seed=seed)
        return scaled_head(net, factor)

    return built
