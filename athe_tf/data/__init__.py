"""Data sets as splits of `(float32 image in [0, 1], integer label)`.

    splits = athe_tf.data.load("digits")
    for images, labels in splits.train.stream(128, seed=0, augmentation="pad_crop_flip"):
        ...                                  # endless, and the same from any `start_step`
    splits.test.batches(256)                 # in order, nothing dropped
    images, labels = splits.test.arrays(max_examples=1000)

A data set is named

* `digits`: 1,797 handwritten digits of 8 x 8 pixels, shipped with this package;
* `npz:PATH`: a NumPy archive with `x_train`, `y_train`, `x_test`, `y_test`;
* `folder:PATH`: image files, `train/CLASS/*.png` and `test/CLASS/*.jpg`, read from disk as they are needed if
  they do not fit in memory;
* any TensorFlow Datasets name with images and labels: `cifar10`, `mnist`, `imagenet2012`,
  `imagenette`, `cifar10_corrupted/fog_3`, `cifar10:3.0.2`.

`with_extra` mixes generated or unlabeled images into the training batches of any of them; `corrupt` adds
noise, blur, fog and other corruptions to images.

`athe_tf.data.names` checks names without TensorFlow, so that a typo is reported at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
