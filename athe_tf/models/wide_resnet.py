"""Wide residual networks as TRADES, AT_HE and Rice et al. train them, and those of DeepMind."""

import keras

from athe_tf.models.blocks import Blocks
from athe_tf.models.resnet import preact_block


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
    for group in range(3):
        for block in range((depth - 4) // 6):
            stride = 2 if group > 0 and block == 0 else 1
            name = f"group{group + 1}_block{block + 1}"
            x = preact_block(x, blocks, 16 * 2**group * widen, stride, name)
    x = blocks.norm_act(x, name="bn")
    return keras.layers.GlobalAveragePooling2D(name="features")(x)
