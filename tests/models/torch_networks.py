"""Published PyTorch networks, and what they compute on seeded weights.

`CASES` names a model of ours and its reference: a class of RobustBench or torchvision or, for the networks of
Liu et al., which are in no package, a network written here after their description. Weights are functions of
the names of the tensors, so `files/torch_networks.json` needs to hold only names, shapes and logits. Where
PyTorch, torchvision and RobustBench are installed, `python -m tests.models.torch_networks` writes that file.
"""

import dataclasses
import importlib.util
import json
import math
import pathlib
import sys
import zlib

import numpy as np

FILE = pathlib.Path(__file__).parent / "files" / "torch_networks.json"
CIFAR, GRAY, IMAGENET = (32, 32, 3), (28, 28, 1), (64, 64, 3)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model of ours and its reference.

    Attributes:
        name: The model.
        reference: A function of this module that makes the reference.
        shape: The shape of the images.
        head: The head of the model.
        normalized: Whether the reference normalizes its input.
        activation: The activation.
        stored: Whether the file has its logits; not so for networks that are large.
    """

    name: str
    reference: str
    shape: tuple[int, int, int] = CIFAR
    head: str = "linear"
    normalized: bool = False
    activation: str = "relu"
    stored: bool = True


CASES = {
    "TRADES": Case("wrn-10-2", "robustbench_wide_resnet"),
    "AT_HE": Case("wrn-10-2", "robustbench_pang2020", head="he", normalized=True),
    "FastAT": Case("preact_resnet18_fast", "robustbench_wong2020", normalized=True),
    "GradAlign": Case("preact_resnet18_fast", "robustbench_andriushchenko2020", stored=False),
    "Rice et al.": Case("preact_resnet18", "robustbench_rice2020"),
    "N-FGSM": Case("preact_resnet18_nfgsm", "n_fgsm"),
    "RobustBench ResNet18": Case("resnet18", "robustbench_resnet18"),
    "DeepMind": Case("dm_wrn-10-2", "robustbench_dm_wide_resnet", normalized=True, activation="silu"),
    "PAS LeNet": Case("lenet-4", "pas_lenet", GRAY),
    "PAS VGG": Case("vgg16-4", "pas_vgg"),
    "PAS ResNet": Case("resnet18-4", "pas_resnet"),
    "resnet50": Case("resnet50", "torchvision_resnet", IMAGENET),
    "resnet101": Case("resnet101", "torchvision_resnet", IMAGENET, stored=False),
    "resnet152": Case("resnet152", "torchvision_resnet", IMAGENET, stored=False),
    "wide_resnet50_2": Case("wide_resnet50_2", "torchvision_resnet", IMAGENET, stored=False),
    "wide_resnet101_2": Case("wide_resnet101_2", "torchvision_resnet", IMAGENET, stored=False),
}
STORED = [key for key, case in CASES.items() if case.stored]
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


def images(shape, count=3):
    """Pixels in [0, 1]."""
    return np.random.default_rng(1).random((count, *shape)).astype("float32")


def seeded_state(shapes):
    """A state dict whose arrays are functions of their names and shapes."""
    return {name: _array(name, tuple(shape)) for name, shape in shapes.items()}


def _array(name, shape):
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, "int64")
    if name in ("mu", "sigma"):
        return np.reshape(MEAN if name == "mu" else STD, shape).astype("float32")
    uniform = np.random.default_rng(zlib.crc32(name.encode())).random(shape) * 2 - 1
    if len(shape) > 1:
        uniform *= math.sqrt(3 / math.prod(shape[1:]))  # unit variance in, unit variance out
    elif name.endswith(("running_var", ".weight")):
        uniform = 1 + uniform / 2
    else:
        uniform *= 0.2
    return uniform.astype("float32")


def import_torchvision():
    """torchvision, also one that was built for CUDA beside a PyTorch for CPUs.

    Such a pair cannot load torchvision's compiled operators, which no network here needs; the import then
    stumbles over the missing declarations of two of them.
    """
    import torch

    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        declaration = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", declaration)
        import torchvision
    return torchvision


def import_robustbench():
    """RobustBench; its package of AutoAttack is published under another name than the one it imports."""
    import_torchvision()
    if importlib.util.find_spec("autoattack") is None:
        sys.modules["autoattack"] = importlib.import_module("pyautoattack")
        sys.modules["autoattack.state"] = importlib.import_module("pyautoattack.state")
    return importlib.import_module("robustbench")


# -- references ---------------------------------------------------------------------------------------------


def robustbench_wide_resnet(case):
    from robustbench.model_zoo.architectures.wide_resnet import WideResNet

    return WideResNet(depth=10, widen_factor=2, sub_block1=True)


def robustbench_pang2020(case):
    from robustbench.model_zoo.architectures.boosting_wide_resnet import BoostingWideResNet

    return BoostingWideResNet(depth=10, widen_factor=2)


def robustbench_dm_wide_resnet(case):
    from robustbench.model_zoo.architectures.dm_wide_resnet import DMWideResNet, Swish

    return DMWideResNet(depth=10, width=2, activation_fn=Swish, mean=MEAN, std=STD)


def robustbench_wong2020(case):
    from robustbench.model_zoo.cifar10 import Wong2020FastNet

    return Wong2020FastNet()


def robustbench_andriushchenko2020(case):
    from robustbench.model_zoo.architectures.resnet import PreActBlock, PreActResNet

    return PreActResNet(PreActBlock, [2, 2, 2, 2])


def robustbench_rice2020(case):
    from robustbench.model_zoo.architectures.resnet import PreActBlockV2, PreActResNet

    return PreActResNet(PreActBlockV2, [2, 2, 2, 2], bn_before_fc=True)


def n_fgsm(case):
    from robustbench.model_zoo.architectures.resnet import PreActBlock, PreActResNet

    return PreActResNet(PreActBlock, [2, 2, 2, 2], bn_before_fc=True)


def robustbench_resnet18(case):
    from robustbench.model_zoo.architectures.resnet import ResNet18

    return ResNet18()


def torchvision_resnet(case):
    return getattr(import_torchvision().models, case.name)(num_classes=10)


def pas_lenet(case, width=4):
    """5x5 convolutions of 2w and 4w channels with poolings, dense layers of 64w and 10; all with biases."""
    from torch import nn

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 2 * width, 5, padding=2)
            self.conv2 = nn.Conv2d(2 * width, 4 * width, 5, padding=2)
            self.fc1 = nn.Linear(4 * width * 49, 64 * width)
            self.fc2 = nn.Linear(64 * width, 10)

        def forward(self, x):
            for convolution in (self.conv1, self.conv2):
                x = nn.functional.max_pool2d(convolution(x).relu(), 2)
            return self.fc2(self.fc1(x.flatten(1)).relu())

    return LeNet()


def pas_vgg(case, width=4):
    """VGG16 with batch normalization, 4w to 32w channels, biases in its convolutions, and one dense layer."""
    from torch import nn

    class VGG(nn.Module):
        def __init__(self):
            super().__init__()
            layers, inputs = [], 3
            for channels, count in ((4, 2), (8, 2), (16, 3), (32, 3), (32, 3)):
                for _ in range(count):
                    outputs = channels * width
                    layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
                    inputs = outputs
                layers.append(nn.MaxPool2d(2))
            self.feature_extractor = nn.Sequential(*layers)
            self.classifier = nn.Linear(inputs, 10)

        def forward(self, x):
            return self.classifier(self.feature_extractor(x).flatten(1))

    return VGG()


def pas_resnet(case, width=4):
    """The ResNet18 of CIFAR-10 with 4w to 32w channels; its last layer is called `classifier`."""
    from torch import nn

    def convolution(inputs, outputs, kernel, stride):
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1, self.bn1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = convolution(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
            self.shortcut = nn.Sequential()
            if inputs != outputs:
                self.shortcut.extend([convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)])

        def forward(self, x):
            inside = self.bn1(self.conv1(x)).relu()
            return (self.bn2(self.conv2(inside)) + self.shortcut(x)).relu()

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            inputs = 4 * width
            self.conv1, self.bn1 = convolution(3, inputs, 3, 1), nn.BatchNorm2d(inputs)
            for group in range(4):
                outputs = 4 * width * 2**group
                blocks = [Block(inputs, outputs, 2 if group else 1), Block(outputs, outputs, 1)]
                self.add_module(f"layer{group + 1}", nn.Sequential(*blocks))
                inputs = outputs
            self.classifier = nn.Linear(inputs, 10)

        def forward(self, x):
            x = self.bn1(self.conv1(x)).relu()
            for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
                x = layer(x)
            return self.classifier(x.mean((2, 3)))

    return ResNet()


def reference(case):
    """The reference with seeded weights, in evaluation mode, and its state dict."""
    import torch

    import_robustbench()
    network = globals()[case.reference](case)
    state = seeded_state({name: value.shape for name, value in network.state_dict().items()})
    network.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    return network.eval(), state


def reference_logits(case):
    """The logits of the reference, and its state dict."""
    import torch

    network, state = reference(case)
    with torch.no_grad():
        return network(torch.from_numpy(images(case.shape).transpose(0, 3, 1, 2).copy())).numpy(), state


def main():
    """Writes the file."""
    stored = {}
    for key in STORED:
        logits, state = reference_logits(CASES[key])
        shapes = {name: list(value.shape) for name, value in state.items()}
        stored[key] = {"tensors": shapes, "logits": np.round(logits.astype(float), 7).tolist()}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(stored, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
