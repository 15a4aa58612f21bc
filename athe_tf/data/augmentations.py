"""The augmentations by name."""

from athe_tf.utils.registry import Registry

#: Those that crop the original of an image, so that it should not be resized before.
OF_ORIGINALS = ("random_resized_crop", "random_resized_crop_flip")
#: Those that treat the images of a batch alike.
OF_BATCHES = ("batch_crop_flip",)
_NAMES = ("flip", "none", "pad_crop", "pad_crop_flip", "reflect_crop_flip", *OF_BATCHES, *OF_ORIGINALS)

AUGMENTATIONS = Registry("augmentation", __package__, {name: f"augment:{name}" for name in _NAMES})
