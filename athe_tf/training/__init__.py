"""Training frameworks: wrap a classifier, `compile`, `fit`, ship `trainer.net`.

| name | class | trains on |
|---|---|---|
| `standard` | `Standard` | clean images |
| `pgd_at` | `PGDAT` | adversarial images (Madry et al., 2018) |
| `alp` | `ALP` | both, and the distance of their logits (Kannan et al., 2018) |
| `trades` | `TRADES` | clean images, and the divergence to adversarial ones (Zhang et al., 2019) |
| `free_at` | `FreeAT` | noise that every backward pass moves on (Shafahi et al., 2019) |
| `fast_at` | `FastAT` | adversarial images of one step from a random start (Wong et al., 2020) |
| `mart` | `MART` | both, with more weight where predictions are wrong (Wang et al., 2020) |
| `llr` | `LLR` | clean images, and how far the loss is from linear around them (Qin et al., 2019) |
| `cure` | `CURE` | clean images, and how much the input gradient changes (Moosavi-Dezfooli et al., 2019) |

The parts: `adversarial_model.py` (the step that all share), `optimizers.py` (SGD as PyTorch computes it),
`schedules.py` (learning rates), `epsilon.py` (the radius of the training attack as a function of the step),
`initial.py` (beginning with a model), `averaging.py` and `swa.py` (averages of the weights), `awp.py`
(gradients at perturbed weights), `periods.py` (the model at the end of each period, for an ensemble),
`state.py` (the whole state of a run in one file), `callbacks.py`, `early_stopping.py`,
`overfitting_guard.py`.
A new framework is one new file and one line here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
