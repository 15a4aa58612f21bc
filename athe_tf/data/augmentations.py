"""The augmentations by name."""

from athe_tf.utils.registry import Registry

_NAMES = ("flip", "none", "pad_crop", "pad_crop_flip", "reflect_crop_flip")

AUGMENTATIONS = Registry("augmentation", __package__, {name: f"augment:{name}" for name in _NAMES})
