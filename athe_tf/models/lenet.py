"""The MNIST network of Madry et al. and of periodic adversarial scheduling."""

import keras

from athe_tf.models.blocks import Blocks, channels, check_size


def lenet(x, blocks: Blocks, width: int = 16) -> keras.KerasTensor:
    """Two 5x5 convolutions with max pooling and a dense layer of 1024 features, without normalisation.

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
