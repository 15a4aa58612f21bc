"""PyTorch twins of our networks, for checks of parity and comparisons of speed. Images are NCHW.

twin = torch_wrn(10, 1, num_classes=10, head="he", mean=mean, std=std)
copy_weights(keras_model, twin)
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

# As in athe_tf.layers.cosine_dense: cos is kept this far from +-1 before arccos.
ANGULAR_CLIP = 1e-6


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(1, -1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


class CosineHead(nn.Module):
    def __init__(self, features, classes, scale, angular):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features).uniform_(-1, 1))
        self.scale, self.angular = scale, angular

    def forward(self, z):
        cosines = functional.linear(functional.normalize(z), functional.normalize(self.weight))
        if self.angular:
            return -self.scale * torch.acos(cosines.clamp(ANGULAR_CLIP - 1, 1 - ANGULAR_CLIP))
        return self.scale * cosines


class WideBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x):
        out = functional.relu(self.bn1(x))
        if self.shortcut is not None:
            x = self.shortcut(out)
        out = self.conv2(functional.relu(self.bn2(self.conv1(out))))
        return x + out


class WideResNet(nn.Module):
    def __init__(self, depth, widen, num_classes, head, scale, mean, std):
        super().__init__()
        self.normalization = nn.Identity() if mean is None else Normalization(mean, std)
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        inputs, blocks = 16, {}
        for group in range(3):
            for block in range((depth - 4) // 6):
                outputs = 16 * 2**group * widen
                stride = 2 if group > 0 and block == 0 else 1
                blocks[f"group{group + 1}_block{block + 1}"] = WideBlock(inputs, outputs, stride)
                inputs = outputs
        self.block_names = list(blocks)
        for name, module in blocks.items():
            self.add_module(name, module)
        self.bn = nn.BatchNorm2d(inputs)
        if head == "linear":
            self.head = nn.Linear(inputs, num_classes)
        else:
            self.head = CosineHead(inputs, num_classes, scale, angular=head == "mhe")

    def features(self, x):
        x = self.conv1(self.normalization(x))
        for name in self.block_names:
            x = getattr(self, name)(x)
        return functional.relu(self.bn(x)).mean((2, 3))

    def forward(self, x):
        return self.head(self.features(x))


def torch_wrn(depth, widen, num_classes, head="linear", scale=15.0, mean=None, std=None):
    """The twin of `athe_tf.models.build(f"wrn-{depth}-{widen}", ...)` for heads "linear", "he" and "mhe"."""
    if head not in ("linear", "he", "mhe"):
        raise ValueError(f"The twin has heads 'linear', 'he' and 'mhe'. Received: head={head!r}.")
    return WideResNet(depth, widen, num_classes, head, scale, mean, std)


@torch.no_grad()
def copy_weights(keras_model, torch_module):
    """Copies every weight and moving statistic; layers correspond by name, "a.b" being "a_b" in Keras."""
    for name, module in torch_module.named_modules():
        if isinstance(module, nn.BatchNorm2d | nn.Conv2d | nn.Linear | CosineHead):
            arrays = [np.array(w) for w in keras_model.get_layer(name.replace(".", "_")).weights]
            for target, array in zip(_tensors(module), arrays, strict=True):
                target.copy_(torch.from_numpy(_in_torch_layout(array)))


def _tensors(module):
    """The tensors of a module, in the order of the weights of its Keras layer."""
    if isinstance(module, nn.BatchNorm2d):
        return [module.weight, module.bias, module.running_mean, module.running_var]
    bias = getattr(module, "bias", None)
    return [module.weight] if bias is None else [module.weight, bias]


def _in_torch_layout(array):
    if array.ndim == 4:
        return array.transpose(3, 2, 0, 1).copy()
    return array.T.copy()
