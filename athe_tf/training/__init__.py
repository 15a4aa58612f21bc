"""Training frameworks: wrap a classifier, `compile`, `fit`, ship `trainer.net`.

| name | class | trains on |
|---|---|---|
| `standard` | `Standard` | clean images |
| `pgd_at` | `PGDAT` | adversarial images (Madry et al., 2018) |
| `alp` | `ALP` | both, plus the distance between their logits (Kannan et al., 2018) |
| `trades` | `TRADES` | clean images, plus the divergence from adversarial predictions (Zhang et al., 2019) |
| `free_at` | `FreeAT` | noisy images, whose noise every backward pass updates (Shafahi et al., 2019) |
| `fast_at` | `FastAT` | adversarial images of one step from a random start (Wong et al., 2020) |
| `n_fgsm` | `NFGSM` | as FastAT, with more noise and without projection (de Jorge et al., 2022) |
| `gradalign` | `GradAlign` | as FastAT, with aligned gradients (Andriushchenko and Flammarion, 2020) |
| `liet` | `LIET` | one step from starts that carry label information (ICCV 2025) |
| `mart` | `MART` | both, with more weight on misclassified examples (Wang et al., 2020) |
| `llr` | `LLR` | clean images, plus the distance of the loss from its tangent (Qin et al., 2019) |
| `cure` | `CURE` | clean images, plus the change of the input gradient (Moosavi-Dezfooli et al., 2019) |

The parts: `adversarial_model.py` (the shared training step), `options.py` (names, options and rules, without
TensorFlow), `crafting.py` (attacks by name, batch normalization while they run), `random_layers.py` (random
layers at the front of a model), `gradient_watch.py` (images that no attack can move),
`optimizers.py` (SGD as PyTorch computes it), `schedules.py` (learning rates, and the radius of the training
attack), `averaging.py` (averages of the weights), `awp.py` (gradients at perturbed weights). The frameworks
themselves are in `pgd_at.py` (with `standard` and `alp`), `trades.py`, `mart.py`, `free_at.py`, `fast_at.py`
(with `n_fgsm` and `gradalign`), `liet.py` and `llr.py` (with `cure`). A new one is a file and one class in
`options.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
