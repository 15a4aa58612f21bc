"""Networks without shortcuts for small images: a light one for digits and tests, LeNet and VGG16."""

import keras

from athe_tf.models.blocks import Blocks, channels, check_size

# Channels of the convolutions and features of `small_cnn`.
CHANNELS = (16, 32, 64)
FEATURES = 128
#: Standard channels of the convolutions of each of five groups of VGG16; a max pooling ends each group.
GROUPS = ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3)


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
    """Two 5x5 convolutions with max pooling and a dense layer of 1024 features, without normalisation.

    The MNIST network of Madry et al. and of periodic adversarial scheduling.

    Reference:
        Liu et al., "On the Loss Landscape of Adversarial Training", NeurIPS 2020.
    """
    check_size("lenet", x, 4)
    for index, standard in enumerate((32, 64), start=1):
        # Without a batch normalisation behind it, a convolution needs its bias.
        x = blocks.conv(x, channels(standard, width), kernel=5, bias=True, name=f"conv{index}")
        x = blocks.act(x, name=f"conv{index}_act")
        x = keras.layers.MaxPooling2D(2, name=f"pool{index}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = blocks.act(blocks.dense(x, channels(1024, width), name="fc"), name="fc_act")
    return blocks.dropout(x, name="dropout")


def vgg16(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """VGG16-BN whose features are the last 512 channels; the dense layers of ImageNet are left out.

    Convolutions have no bias: the batch normalisation behind each would cancel it.

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
