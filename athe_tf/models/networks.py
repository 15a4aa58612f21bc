"""The networks: small ones without shortcuts, ResNet18 and its pre-activation forms, larger ResNets."""

import math

import keras

from athe_tf.models.blocks import Blocks, channels, check_size

# Channels of the convolutions and features of `small_cnn`.
CHANNELS = (16, 32, 64)
FEATURES = 128
#: Standard channels of the convolutions of each of five groups of VGG16; a max pooling ends each group.
GROUPS = ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3)
#: Blocks in each of the four groups of a bottleneck ResNet.
DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
# The output of a bottleneck has four times as many channels as one that is not wide has inside.
EXPANSION = 4
# The standard deviation of a denoising block's initial embeddings, in the released code.
EMBEDDING_DEVIATION = 0.01


def residual_blocks(*counts: int):
    """Yields the group, the stride and the name of every block of a ResNet.

    Groups count from 0. The first block of each group but the first has a stride of 2.

    Args:
        *counts: The number of blocks in each group.
    """
    for group, count in enumerate(counts):
        for block in range(count):
            yield group, 2 if group and not block else 1, f"group{group + 1}_block{block + 1}"


def small_cnn(x, blocks: Blocks) -> keras.KerasTensor:
    """Three 3x3 convolutions, the last two with stride 2, and a dense layer of 128 features.

    It takes images from 8x8x1 to 32x32x3 and beyond. On 8x8 digits it has 58,000 weights; forward
    and backward of a batch of 64 take about 3 ms on two CPU cores.
    """
    for index, filters in enumerate(CHANNELS, start=1):
        x = blocks.conv(x, filters, stride=1 if index == 1 else 2, name=f"conv{index}")
        x = blocks.norm_act(x, name=f"bn{index}")
    x = keras.layers.Flatten(name="flatten")(x)
    x = blocks.act(blocks.dense(x, FEATURES, name="fc"), name="fc_act")
    return blocks.dropout(x, name="dropout")


def lenet(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Two 5x5 convolutions with max pooling and a dense layer of 1024 features, without normalization.

    The MNIST network of Madry et al. and of periodic adversarial scheduling.

    Reference:
        Liu et al., "On the Loss Landscape of Adversarial Training", NeurIPS 2020.
    """
    check_size("lenet", x, 4)
    for index, standard in enumerate((32, 64), start=1):
        # Without a batch normalization behind it, a convolution needs its bias.
        x = blocks.conv(x, channels(standard, width), kernel=5, bias=True, name=f"conv{index}")
        x = blocks.act(x, name=f"conv{index}_act")
        x = keras.layers.MaxPooling2D(2, name=f"pool{index}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = blocks.act(blocks.dense(x, channels(1024, width), name="fc"), name="fc_act")
    return blocks.dropout(x, name="dropout")


def vgg16(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """VGG16-BN whose features are the last 512 channels; the dense layers of ImageNet are left out.

    Convolutions have no bias: the batch normalization behind each would cancel it.

    Reference:
        Simonyan and Zisserman, "Very Deep Convolutional Networks", ICLR 2015.
    """
    check_size("vgg16", x, 2 ** len(GROUPS))
    for group, convolutions in enumerate(GROUPS, start=1):
        for index, standard in enumerate(convolutions, start=1):
            name = f"group{group}_conv{index}"
            x = blocks.conv(x, channels(standard, width), name=name)
            x = blocks.norm_act(x, name=f"{name}_bn")
        x = keras.layers.MaxPooling2D(2, name=f"group{group}_pool")(x)
    x = keras.layers.GlobalAveragePooling2D(name="features")(x)
    return blocks.dropout(x, name="dropout")


def resnet18(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Post-activation ResNet18 with a 3x3 stem of stride 1, and global average pooling.

    Reference:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
    """
    x = blocks.norm_act(blocks.conv(x, channels(64, width), name="conv1"), name="bn1")
    for group, stride, name in residual_blocks(2, 2, 2, 2):
        x = _block(x, blocks, channels(64 * 2**group, width), stride, name)
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def _block(x, blocks: Blocks, filters: int, stride: int, name: str):
    out = blocks.conv(x, filters, stride=stride, name=f"{name}_conv1")
    out = blocks.norm_act(out, name=f"{name}_bn1")
    out = blocks.norm(blocks.conv(out, filters, name=f"{name}_conv2"), name=f"{name}_bn2")
    return _added(x, out, blocks, stride, name)


def _added(x, out, blocks: Blocks, stride: int, name: str):
    """The output of a block and its shortcut, which is a projection where the shape changes."""
    filters = out.shape[-1]
    if stride > 1 or x.shape[-1] != filters:
        x = blocks.conv(x, filters, kernel=1, stride=stride, name=f"{name}_shortcut")
        x = blocks.norm(x, name=f"{name}_shortcut_bn")
    return blocks.act(keras.layers.Add(name=f"{name}_add")([x, out]), name=f"{name}_act")


def preact_resnet18(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Pre-activation ResNet18 of Rice et al.: with a last batch normalization.

    A projection shortcut starts from the pre-activated tensor, as in the paper below.

    Reference:
        He et al., "Identity Mappings in Deep Residual Networks", ECCV 2016.
        Rice et al., "Overfitting in Adversarially Robust Deep Learning", ICML 2020.
    """
    return _preact_resnet18(x, blocks, width, shortcut_of_input=False)


def preact_resnet18_fast(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Pre-activation ResNet18 of FastAT and GradAlign: without a last batch normalization.

    A projection shortcut starts from the input of its block. The published checkpoints of both papers have
    this form (RobustBench: Wong2020Fast and Andriushchenko2020Understanding).

    Reference:
        Wong et al., "Fast is better than free", ICLR 2020.
        Andriushchenko and Flammarion, "Understanding and Improving Fast Adversarial Training", NeurIPS 2020.
    """
    return _preact_resnet18(x, blocks, width, shortcut_of_input=True, last_norm=False)


def preact_resnet18_nfgsm(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Pre-activation ResNet18 of N-FGSM: FastAT's with a last batch normalization.

    Reference:
        de Jorge et al., "Make Some Noise: Reliable and Efficient Single-Step Adversarial Training",
        NeurIPS 2022.
    """
    return _preact_resnet18(x, blocks, width, shortcut_of_input=True)


def _preact_resnet18(x, blocks: Blocks, width: int, shortcut_of_input: bool, last_norm: bool = True):
    x = blocks.conv(x, channels(64, width), name="conv1")
    for group, stride, name in residual_blocks(2, 2, 2, 2):
        filters = channels(64 * 2**group, width)
        x = preact_block(x, blocks, filters, stride, name, shortcut_of_input=shortcut_of_input)
    x = blocks.norm_act(x, name="bn") if last_norm else x
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def preact_block(x, blocks: Blocks, filters: int, stride: int, name: str, *, shortcut_of_input: bool = False):
    """Two 3x3 convolutions, each after a batch normalization and the activation, and a shortcut."""
    out = blocks.norm_act(x, name=f"{name}_bn1")
    if stride > 1 or x.shape[-1] != filters:
        source = x if shortcut_of_input else out
        x = blocks.conv(source, filters, kernel=1, stride=stride, name=f"{name}_shortcut")
    out = blocks.conv(out, filters, stride=stride, name=f"{name}_conv1")
    out = blocks.norm_act(out, name=f"{name}_bn2")
    out = blocks.dropout(out, name=f"{name}_dropout")
    out = blocks.conv(out, filters, name=f"{name}_conv2")
    return keras.layers.Add(name=f"{name}_add")([x, out])


def wide_resnet(x, blocks: Blocks, depth: int, widen: int) -> keras.KerasTensor:
    """WRN-`depth`-`widen`: three groups of (depth - 4) / 6 pre-activation blocks.

    WRN-34-10 with 10 classes has 46,160,474 parameters; published checkpoints of TRADES and AT_HE carry
    one more block, `sub_block1`, that no forward pass uses.

    Reference:
        Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016.
    """
    return _wide_resnet(x, blocks, depth, widen, stem="conv1")


def deepmind_wide_resnet(x, blocks: Blocks, depth: int, widen: int) -> keras.KerasTensor:
    """The wide ResNet of Gowal et al.: convolutions with a stride are padded at the far side only.

    Its published checkpoints, and those of Rebuffi et al. and Wang et al., use `activation="silu"`.

    Reference:
        Gowal et al., "Uncovering the Limits of Adversarial Training against Norm-Bounded Adversarial
        Examples", 2020.
    """
    blocks.pad_far_side = True
    return _wide_resnet(x, blocks, depth, widen, stem="init_conv")


def _wide_resnet(x, blocks: Blocks, depth: int, widen: int, stem: str) -> keras.KerasTensor:
    blocks.he_normal = True
    x = blocks.conv(x, 16, name=stem)
    for group, stride, name in residual_blocks(*[(depth - 4) // 6] * 3):
        x = preact_block(x, blocks, 16 * 2**group * widen, stride, name)
    x = blocks.norm_act(x, name="bn")
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def bottleneck_resnet(
    x, blocks: Blocks, depth: int, widen: int = 1, denoise: bool = False
) -> keras.KerasTensor:
    """ResNet-50, -101 or -152 with a 7x7 stem; the stride of a block is in its 3x3 convolution.

    As in torchvision. A wide one has `widen` times as many channels inside its blocks. With `denoise`, a
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
            x = _bottleneck(x, blocks, 64 * 2 ** (group - 1), stride, widen, name)
        if denoise:
            x = denoising_block(x, blocks, name=f"group{group}_denoise")
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def _bottleneck(x, blocks: Blocks, filters: int, stride: int, widen: int, name: str):
    inside = widen * filters
    out = blocks.norm_act(blocks.conv(x, inside, kernel=1, name=f"{name}_conv1"), name=f"{name}_bn1")
    out = blocks.norm_act(blocks.conv(out, inside, stride=stride, name=f"{name}_conv2"), name=f"{name}_bn2")
    out = blocks.conv(out, EXPANSION * filters, kernel=1, name=f"{name}_conv3")
    return _added(x, blocks.norm(out, name=f"{name}_bn3"), blocks, stride, name)


def denoising_block(x, blocks: Blocks, name: str) -> keras.KerasTensor:
    """Adds to every position a weighted mean over all positions of the feature map: non-local means.

    The weights are a softmax of inner products between two embeddings of half the channels, divided by the
    square root of their number. A 1x1 convolution and a batch normalization follow, whose gamma starts at
    zero: a new block changes nothing. Memory grows with the square of the number of positions.

    Reference:
        Xie et al., "Feature Denoising for Improving Adversarial Robustness", CVPR 2019, Figures 4 and 5.
    """
    height, width, channels = x.shape[1:]
    positions = height * width
    embedded = []
    for part in ("theta", "phi"):
        start = {"kernel_initializer": blocks.normal(EMBEDDING_DEVIATION), "use_bias": False}
        maps = keras.layers.Conv2D(channels // 2, 1, name=f"{name}_{part}", **start)(x)
        flat = keras.layers.Reshape((positions, channels // 2), name=f"{name}_{part}_positions")
        embedded.append(flat(maps))
    values = keras.layers.Reshape((positions, channels), name=f"{name}_positions")(x)
    query = keras.layers.Rescaling(1 / math.sqrt(channels // 2), name=f"{name}_scaled")(embedded[0])
    means = keras.layers.Attention(name=f"{name}_means")([query, values, embedded[1]])
    means = keras.layers.Reshape((height, width, channels), name=f"{name}_map")(means)
    means = blocks.conv(means, channels, kernel=1, name=f"{name}_conv")
    means = blocks.norm(means, name=f"{name}_bn", gamma="zeros")
    return keras.layers.Add(name=f"{name}_add")([x, means])
