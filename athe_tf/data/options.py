"""What follows the crop and flip of training images, described without TensorFlow.

The order is that of the published recipes, and nothing to choose: `augmentation`, RandAugment, random
erasing, Cutout, then MixUp or CutMix, and the attack on what comes out. That is why each is an option of its
own, and not a word in a list.
"""

import dataclasses

from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option


@dataclasses.dataclass(frozen=True)
class AugmentationOptions:
    """Options of `ImageSource.stream`; all are off by default.

    Example:

    >>> AugmentationOptions(cutmix=1.0).mixes
    True
    """

    randaugment: float = option(
        0.0,
        "RandAugment: the magnitude, such as 9, of two random operations per image. 0 disables it.",
        ge=0,
        le=10,
    )
    erasing: float = option(
        0.0, "Random erasing: the probability that a box of an image becomes noise, such as 0.25.", ge=0, le=1
    )
    cutout: int = option(
        0, "Cutout: the side of a gray square in each image, such as 16. 0 disables it.", ge=0
    )
    mixup: float = option(
        0.0,
        "MixUp: the alpha of Beta(alpha, alpha) that weights two images, such as 0.8. 0 disables it.",
        ge=0,
    )
    cutmix: float = option(
        0.0,
        "CutMix: the alpha of Beta(alpha, alpha), the area that an image keeps, such as 1. With --mixup, "
        "each batch takes one of them at random. 0 disables it.",
        ge=0,
    )

    def __post_init__(self):
        check_options(self)

    def check_size(self, image_shape) -> None:
        """Raises `InputError` if a square of Cutout covers images of this shape."""
        smallest = min(image_shape[:2])
        check(
            self.cutout < smallest,
            f"Cutout leaves nothing of images whose shorter side is {smallest}. Received: "
            f"cutout={self.cutout}. Use a smaller square.",
        )

    @property
    def mixes(self) -> bool:
        """Whether images and labels of a batch are mixed."""
        return self.mixup > 0 or self.cutmix > 0
