"""ResNets for ImageNet, and the denoising block of Xie et al., made of layers that Keras has."""

import math

import keras

from athe_tf.models.blocks import Blocks, check_size

#: Blocks in each of four groups.
DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
# The output of a block has four times as many channels as a block that is not wide has inside.
EXPANSION = 4
# The standard deviation of a denoising block's initial embeddings, in the released code.
EMBEDDING_DEVIATION = 0.01


def bottleneck_resnet(
    x, blocks: Blocks, depth: int, widen: int = 1, denoise: bool = False
) -> keras.KerasTensor:
    """ResNet-50, -101 or -152 with a 7x7 stem; the stride of a block is in its 3x3 convolution.

    So does torchvision. A wide one has `widen` times as many channels inside its blocks. With `denoise`, a
    denoising block follows each of the four groups (Xie et al., 2019). Without, and with 1,000 classes,
    ResNet-50 has 25,557,032 parameters, ResNet-152 60,192,808, WRN-50-2 68,883,240 and WRN-101-2 126,886,696.

    Reference:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
        Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016.
    """
    check_size(f"resnet{depth}", x, 32)
    blocks.he_normal = True
    x = blocks.norm_act(blocks.conv(x, 64, kernel=7, stride=2, name="conv1"), name="bn1")
    # Padding with zeros is right for a maximum after ReLU or softplus, which are never negative.
    x = keras.layers.ZeroPadding2D(1, name="pool_pad")(x)
    x = keras.layers.MaxPooling2D(3, strides=2, name="pool")(x)
    for group, count in enumerate(DEPTHS[depth], start=1):
        for block in range(1, count + 1):
            stride = 2 if group > 1 and block == 1 else 1
            name = f"group{group}_block{block}"
            x = _block(x, blocks, 64 * 2 ** (group - 1), stride, widen, name)
        if denoise:
            x = denoising_block(x, blocks, name=f"group{group}_denoise")
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def _block(x, blocks: Blocks, filters: int, stride: int, widen: int, name: str):
    inside = widen * filters
    out = blocks.norm_act(blocks.conv(x, inside, kernel=1, name=f"{name}_conv1"), name=f"{name}_bn1")
    out = blocks.norm_act(blocks.conv(out, inside, stride=stride, name=f"{name}_conv2"), name=f"{name}_bn2")
    out = blocks.conv(out, EXPANSION * filters, kernel=1, name=f"{name}_conv3")
    out = blocks.norm(out, name=f"{name}_bn3")
    if x.shape[-1] != EXPANSION * filters:
        x = blocks.conv(x, EXPANSION * filters, kernel=1, stride=stride, name=f"{name}_shortcut")
        x = blocks.norm(x, name=f"{name}_shortcut_bn")
    return blocks.act(keras.layers.Add(name=f"{name}_add")([x, out]), name=f"{name}_act")


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
