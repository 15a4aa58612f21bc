"""VGG16 with batch normalisation for small images."""

import keras

from athe_tf.models.blocks import Blocks, channels, check_size

#: Standard channels of the convolutions of each of five groups; a max pooling ends each group.
GROUPS = ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3)


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
