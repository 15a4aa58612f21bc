"""The denoising block of Xie et al., made of layers that Keras has."""

import math

import keras

from athe_tf.models.blocks import Blocks

# In the released code.
EMBEDDING_DEVIATION = 0.01


def denoising_block(x, blocks: Blocks, name: str) -> keras.KerasTensor:
    """Adds to every position a weighted mean over all positions of the feature map: non-local means.

    The weights are a softmax of inner products between two embeddings of half the channels, divided by the
    square root of their number. A 1x1 convolution and a batch normalisation follow, whose gamma starts at
    zero: a new block changes nothing. Memory grows with the square of the number of positions.

    Reference:
        Xie et al., "Feature Denoising for Improving Adversarial Robustness", CVPR 2019, Figures 4 and 5.
    """
    height, width, channels = x.shape[1:]
    positions = height * width
    embedded = [
        keras.layers.Reshape((positions, channels // 2), name=f"{name}_{part}_positions")(
            keras.layers.Conv2D(
                channels // 2,
                1,
                use_bias=False,
                kernel_initializer=blocks.normal(EMBEDDING_DEVIATION),
                name=f"{name}_{part}",
            )(x)
        )
        for part in ("theta", "phi")
    ]
    values = keras.layers.Reshape((positions, channels), name=f"{name}_positions")(x)
    query = keras.layers.Rescaling(1 / math.sqrt(channels // 2), name=f"{name}_scaled")(embedded[0])
    means = keras.layers.Attention(name=f"{name}_means")([query, values, embedded[1]])
    means = keras.layers.Reshape((height, width, channels), name=f"{name}_map")(means)
    means = blocks.conv(means, channels, kernel=1, name=f"{name}_conv")
    means = blocks.norm(means, name=f"{name}_bn", gamma="zeros")
    return keras.layers.Add(name=f"{name}_add")([x, means])
