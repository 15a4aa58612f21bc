"""The augmentations by name."""

from athe_tf.utils.registry import Registry

AUGMENTATIONS = Registry(
    "augmentation",
    __package__,
    {
        "flip": "augment:flip",
        "none": "augment:none",
        "pad_crop": "augment:pad_crop",
        "pad_crop_flip": "augment:pad_crop_flip",
    },
)
