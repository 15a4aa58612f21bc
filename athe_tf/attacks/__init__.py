"""Attacks on image classifiers.

Two ways in: `athe_tf.attacks.get("pgd-20", epsilon=8/255)` by name, or a class with its arguments,
`athe_tf.attacks.PGD(epsilon=8/255, steps=20, loss="margin")`. Both give an `Attack`: call it for
adversarial images, `run` it for a verdict on each image.

| file | attacks |
|---|---|
| `gradient.py` | `fgsm`, `bim`, `pgd`, `mim`, `cw-linf`, `adaptive-pgd`: iterated gradient ascent |
| `feature_norm.py` | `fn-pgd`: PGD through normalised features |
| `scale_sweep.py` | `pgd-scale-sweep`: PGD at many logit scales; warnings about the scale |
| `multitargeted.py` | `multitargeted`: PGD towards every wrong class |
| `feature.py` | `feature`: PGD towards the features of images of other classes |
| `apgd.py` | `apgd-ce`, `apgd-dlr`, `apgd-t`: PGD that sets its own step size |
| `deepfool.py`, `carlini_wagner.py`, `fab.py` | `deepfool`, `cw-l2`, `fab`, `fab-t`: the least norm |
| `square.py` | `square`: random search over patches, from logits |
| `autoattack.py` | `autoattack` and its versions and profiles: APGD, FAB and Square in a cascade |
| `estimated_gradient.py`, `zoo.py` | `nes`, `spsa`, `zoo`: gradients estimated from logits |
| `rays.py` | `rays`: the least linf norm, from labels |
| `spatial.py` | `spatial`: rotations and translations |
| `transfer.py` | not an attack: what is made on one model, tried on others |

The parts: `base.py` (the contract), `driver.py` (runs an attack over a set of images), `results.py`,
`journal.py` (the state of a run in a file), `victim.py` (what an attack sees of a model),
`losses.py` (what it maximises), `pace.py` (how APGD steps), `active_set.py` (the loop whose batch shrinks).
The ball lives in `athe_tf/threat.py`. A new attack is one new file and one line here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
