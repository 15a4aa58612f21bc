"""The common corruptions of CIFAR-10-C and ImageNet-C, generated for any set of images.

    foggy = athe_tf.data.corrupt(images, "fog", severity=3)

Fifteen corruptions in four groups and four extra ones, each in five severities, with the published constants:
those of CIFAR-10-C for images below 96 pixels, else those of ImageNet-C. What happens to an image
depends on (corruption, severity, index, seed) alone, so that neither the batch size nor a resume changes it.

The published files were generated without a seed and cannot be reproduced bit for bit: accuracies on images
generated here are marked as such. `sources.py` reads the published ones.

Reference: D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations", ICLR 2019.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
