"""Pre-activation ResNet18 for small images, the workhorse of fast adversarial training."""

import keras

from athe_tf.models.blocks import Blocks, channels
from athe_tf.models.resnet import LAYOUT, block_name


def preact_resnet18(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Pre-activation ResNet18, with a last batch normalisation as FastAT and Rice et al. have it.

    Reference:
        He et al., "Identity Mappings in Deep Residual Networks", ECCV 2016.
    """
    x = blocks.conv(x, channels(64, width), name="conv1")
    for index, (standard, stride) in enumerate(LAYOUT):
        x = preact_block(x, blocks, channels(standard, width), stride, name=block_name(index))
    x = blocks.norm_act(x, name="bn")
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def preact_block(x, blocks: Blocks, filters: int, stride: int, name: str):
    """Two 3x3 convolutions, each after a batch normalisation and the activation, and a shortcut."""
    out = blocks.norm_act(x, name=f"{name}_bn1")
    if stride > 1 or x.shape[-1] != filters:
        x = blocks.conv(out, filters, kernel=1, stride=stride, name=f"{name}_shortcut")
    out = blocks.conv(out, filters, stride=stride, name=f"{name}_conv1")
    out = blocks.norm_act(out, name=f"{name}_bn2")
    out = blocks.dropout(out, name=f"{name}_dropout")
    out = blocks.conv(out, filters, name=f"{name}_conv2")
    return keras.layers.Add(name=f"{name}_add")([x, out])
