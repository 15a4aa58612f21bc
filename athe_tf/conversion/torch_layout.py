"""How published PyTorch networks name their layers.

A published network has the layers of ours under other names. `LAYOUTS` lists the rules that turn the name of
a Keras layer into the name of its PyTorch module, one entry per family of published code.
"""

import dataclasses
import re

from athe_tf.models.cnn import GROUPS


@dataclasses.dataclass(frozen=True)
class TorchLayout:
    """The names of one family of PyTorch networks.

    Attributes:
        name: Whose code it is.
        rules: Patterns of names of Keras layers, each with the name of its module. The first match counts.
        stem: The kernel size of the first convolution; 0 if the names of the layers tell enough.
        biases: Whether its convolutions have a bias in front of a batch normalization.
        outside: The normalization that the published code has outside of its state dicts, if any.
    """

    name: str
    rules: tuple[tuple[str, str], ...]
    stem: int = 0
    biases: bool = False
    outside: str = ""

    def module_of(self, layer: str) -> str | None:
        """The PyTorch module of a Keras layer, `None` if this family has no such layer.

        Example:

        >>> LAYOUTS[0].module_of("group2_block1_conv2")
        'block2.layer.0.conv2'
        """
        for pattern, module in self.rules:
            if match := re.fullmatch(pattern, layer):
                return _BLOCK_NUMBER.sub(_zero_based, match.expand(module))
        return None


# `{n}` in a rule: ours count blocks from one, PyTorch from zero.
_BLOCK_NUMBER = re.compile(r"\{(\d+)\}")


def _zero_based(match: re.Match) -> str:
    return str(int(match[1]) - 1)


_STEM = (r"(conv1|bn1)", r"\1")


def _blocks(block: str, groups: str = r"\d+") -> tuple[tuple[str, str], ...]:
    """The rule for layers inside blocks; `block` is their prefix, with group and block as references."""
    return ((rf"group({groups})_block(\d+)_((?:conv|bn)\d)", rf"{block}.\3"),)


def _shortcuts(block: str, convolution: str, norm: str) -> tuple[tuple[str, str], ...]:
    return (
        (r"group(\d+)_block(\d+)_shortcut", f"{block}.{convolution}"),
        (r"group(\d+)_block(\d+)_shortcut_bn", f"{block}.{norm}"),
    )


def _head(module: str) -> tuple[tuple[str, str], ...]:
    return (("head", module),)


def _vgg_rules(prefix: str) -> tuple[tuple[str, str], ...]:
    """One sequence of convolution, normalization, activation, and a pooling at the end of each group."""
    rules, position = [], 0
    for group, convolutions in enumerate(GROUPS, start=1):
        for index in range(1, len(convolutions) + 1):
            rules += [
                (f"group{group}_conv{index}", f"{prefix}.{position}"),
                (f"group{group}_conv{index}_bn", f"{prefix}.{position + 1}"),
            ]
            position += 3
        position += 1
    return tuple(rules)


_WRN, _RESNET, _DEEPMIND = r"block\1.layer.{\2}", r"layer\1.{\2}", r"layer.{\1}.block.{\2}"

#: The families of published code, in the order in which they are tried.
LAYOUTS = (
    TorchLayout(
        "wide ResNet of TRADES, AT_HE and RobustBench",
        (
            ("conv1", "conv1"),
            ("bn", "bn1"),
            *_blocks(_WRN, groups="[1-3]"),
            (r"group([1-3])_block(\d+)_shortcut", rf"{_WRN}.convShortcut"),
            *_head("fc"),
        ),
    ),
    TorchLayout(
        "wide ResNet of DeepMind (Gowal et al.)",
        (
            ("init_conv", "init_conv"),
            ("bn", "batchnorm"),
            (r"group(\d+)_block(\d+)_conv(\d)", rf"{_DEEPMIND}.conv_{{\3}}"),
            (r"group(\d+)_block(\d+)_bn(\d)", rf"{_DEEPMIND}.batchnorm_{{\3}}"),
            (r"group(\d+)_block(\d+)_shortcut", rf"{_DEEPMIND}.shortcut"),
            *_head("logits"),
        ),
        outside="CIFAR-10: mean=0.4914,0.4822,0.4465 and std=0.2471,0.2435,0.2616",
    ),
    TorchLayout(
        "ResNet and pre-activation ResNet of FastAT, Rice et al. and RobustBench",
        (
            _STEM,
            ("bn", "bn"),
            *_blocks(_RESNET),
            *_shortcuts(_RESNET, "shortcut.0", "shortcut.1"),
            *_head("linear"),
        ),
        stem=3,
    ),
    TorchLayout(
        "ResNet of Liu et al. (PAS)",
        (_STEM, *_blocks(_RESNET), *_shortcuts(_RESNET, "shortcut.0", "shortcut.1"), *_head("classifier")),
        stem=3,
    ),
    TorchLayout(
        "ResNet of torchvision",
        (_STEM, *_blocks(_RESNET), *_shortcuts(_RESNET, "downsample.0", "downsample.1"), *_head("fc")),
        stem=7,
        outside="ImageNet: mean=0.485,0.456,0.406 and std=0.229,0.224,0.225",
    ),
    TorchLayout(
        "VGG of Liu et al. (PAS)", (*_vgg_rules("feature_extractor"), *_head("classifier")), biases=True
    ),
    TorchLayout("LeNet of Liu et al. (PAS)", ((r"conv(\d)", r"conv\1"), ("fc", "fc1"), *_head("fc2"))),
)
