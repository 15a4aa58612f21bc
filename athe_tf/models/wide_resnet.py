"""Wide residual networks as TRADES, AT_HE and Rice et al. train them."""

import keras

from athe_tf.models.blocks import Blocks


def wide_resnet(x, blocks: Blocks, depth: int, widen: int):
    """WRN-`depth`-`widen`: three groups of (depth - 4) / 6 pre-activation blocks.

    WRN-34-10 with 10 classes has 46,160,474 parameters; published checkpoints of TRADES and AT_HE carry
    one more block, `sub_block1`, that no forward pass uses.

    Reference:
        Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016.
    """
    blocks.he_normal = True
    x = blocks.conv(x, 16, name="conv1")
    for group in range(3):
        for block in range((depth - 4) // 6):
            x = _block(
                x,
                blocks,
                filters=16 * 2**group * widen,
                stride=2 if group > 0 and block == 0 else 1,
                name=f"group{group + 1}_block{block + 1}",
            )
    x = blocks.norm_act(x, name="bn")
    return keras.layers.GlobalAveragePooling2D(name="features")(x)


def _block(x, blocks: Blocks, filters: int, stride: int, name: str):
    out = blocks.norm_act(x, name=f"{name}_bn1")
    if x.shape[-1] != filters:
        x = blocks.conv(out, filters, kernel=1, stride=stride, name=f"{name}_shortcut")
    out = blocks.conv(out, filters, stride=stride, name=f"{name}_conv1")
    out = blocks.norm_act(out, name=f"{name}_bn2")
    out = blocks.dropout(out, name=f"{name}_dropout")
    out = blocks.conv(out, filters, name=f"{name}_conv2")
    return keras.layers.Add(name=f"{name}_add")([x, out])
