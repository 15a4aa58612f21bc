"""ResNet18 for small images, and its pre-activation form in the three variants that robust training knows."""

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


def preact_resnet18(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Pre-activation ResNet18 of Rice et al.: with a last batch normalisation.

    A projection shortcut starts from the pre-activated tensor, as in the paper below.

    Reference:
        He et al., "Identity Mappings in Deep Residual Networks", ECCV 2016.
        Rice et al., "Overfitting in Adversarially Robust Deep Learning", ICML 2020.
    """
    return _preact_resnet18(x, blocks, width, shortcut_of_input=False)


def preact_resnet18_fast(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Pre-activation ResNet18 of FastAT and GradAlign: without a last batch normalisation.

    A projection shortcut starts from the input of its block. The published checkpoints of both papers have
    this form (RobustBench: Wong2020Fast and Andriushchenko2020Understanding).

    Reference:
        Wong et al., "Fast is better than free", ICLR 2020.
        Andriushchenko and Flammarion, "Understanding and Improving Fast Adversarial Training", NeurIPS 2020.
    """
    return _preact_resnet18(x, blocks, width, shortcut_of_input=True, last_norm=False)


def preact_resnet18_nfgsm(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Pre-activation ResNet18 of N-FGSM: that of FastAT with a last batch normalisation.

    Reference:
        de Jorge et al., "Make Some Noise: Reliable and Efficient Single-Step Adversarial Training",
        NeurIPS 2022.
    """
    return _preact_resnet18(x, blocks, width, shortcut_of_input=True)


def _preact_resnet18(x, blocks: Blocks, width: int, shortcut_of_input: bool, last_norm: bool = True):
    x = blocks.conv(x, channels(64, width), name="conv1")
    for index, (standard, stride) in enumerate(LAYOUT):
        filters, name = channels(standard, width), block_name(index)
        x = preact_block(x, blocks, filters, stride, name, shortcut_of_input=shortcut_of_input)
    x = blocks.norm_act(x, name="bn") if last_norm else x
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def preact_block(x, blocks: Blocks, filters: int, stride: int, name: str, *, shortcut_of_input: bool = False):
    """Two 3x3 convolutions, each after a batch normalisation and the activation, and a shortcut."""
    out = blocks.norm_act(x, name=f"{name}_bn1")
    if stride > 1 or x.shape[-1] != filters:
        source = x if shortcut_of_input else out
        x = blocks.conv(source, filters, kernel=1, stride=stride, name=f"{name}_shortcut")
    out = blocks.conv(out, filters, stride=stride, name=f"{name}_conv1")
    out = blocks.norm_act(out, name=f"{name}_bn2")
    out = blocks.dropout(out, name=f"{name}_dropout")
    out = blocks.conv(out, filters, name=f"{name}_conv2")
    return keras.layers.Add(name=f"{name}_add")([x, out])
