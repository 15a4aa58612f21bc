"""ResNet18 for small images."""

import keras

from athe_tf.models.blocks import Blocks, channels

#: Standard channels and strides of the eight blocks, two in each of four groups.
LAYOUT = tuple((64 * 2**group, 2 if group and not block else 1) for group in range(4) for block in range(2))


def block_name(index: int) -> str:
    """The name of block `index` of `LAYOUT`."""
    return f"group{index // 2 + 1}_block{index % 2 + 1}"


def resnet18(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Post-activation ResNet18 with a 3x3 stem of stride 1, and global average pooling.

    Reference:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
    """
    x = blocks.norm_act(blocks.conv(x, channels(64, width), name="conv1"), name="bn1")
    for index, (standard, stride) in enumerate(LAYOUT):
        x = _block(x, blocks, channels(standard, width), stride, name=block_name(index))
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def _block(x, blocks: Blocks, filters: int, stride: int, name: str):
    out = blocks.conv(x, filters, stride=stride, name=f"{name}_conv1")
    out = blocks.norm_act(out, name=f"{name}_bn1")
    out = blocks.norm(blocks.conv(out, filters, name=f"{name}_conv2"), name=f"{name}_bn2")
    if stride > 1 or x.shape[-1] != filters:
        x = blocks.conv(x, filters, kernel=1, stride=stride, name=f"{name}_shortcut")
        x = blocks.norm(x, name=f"{name}_shortcut_bn")
    return blocks.act(keras.layers.Add(name=f"{name}_add")([x, out]), name=f"{name}_act")
