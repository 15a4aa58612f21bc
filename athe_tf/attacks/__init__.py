"""Attacks on image classifiers.

There are two ways to make one: by name, `athe_tf.attacks.get("pgd-20", epsilon=8/255)`, or by class,
`athe_tf.attacks.PGD(epsilon=8/255, steps=20, loss="margin")`. Both give an `Attack`: call it for
adversarial images, or `run` it for the outcome of each image.

| file | attacks |
|---|---|
| `gradient.py` | `fgsm`, `bim`, `pgd`, `mim`, `cw-linf`, `adaptive-pgd`, `pgd-scale-sweep`: gradient ascent |
| `eight_bit.py` | `eight-bit-pgd`: PGD among 8-bit images |
| `targets.py` | `multitargeted`: PGD toward every wrong class |
| `feature.py` | `feature`, `fn-pgd`: PGD toward the features of other images, or through normalized ones |
| `apgd.py`, `apgd_steps.py` | `apgd-ce`, `apgd-dlr`, `apgd-t`: PGD that sets its own step size |
| `constraint_relaxation.py` | `cr`: a strong attack with few passes, at any logit scale |
| `deepfool.py`, `carlini_wagner.py`, `fab.py` | `deepfool`, `cw-l2`, `fab`, `fab-t`: the smallest norm |
| `moving_radius.py` | `ddn`, `fmn`: the smallest norm, by a radius that moves |
| `epsilon_search.py` | `epsilon-search`: the smallest norm, by any attack with a fixed radius |
| `square.py` | `square`: random search over patches, from logits |
| `autoattack.py` | `autoattack` and its versions and profiles: APGD, FAB and Square in a cascade |
| `swift.py` | `swift`: `cr`, APGD, FAB and Square in a cascade with few passes; not AutoAttack |
| `estimated_gradient.py`, `zoo.py` | `nes`, `spsa`, `zoo`: gradients estimated from logits |
| `rays.py` | `rays`: the smallest linf norm, from labels |
| `spatial.py` | `spatial`: rotations and translations |
| `local_linearity.py` | not an attack: the search of LLR training |
| `transfer.py` | not an attack: images made on one model, tested on others |

What families share: `gradient_attack.py`, `minimum_norm.py`, `black_box.py`, `cascade.py`,
`targets.py`, `losses.py` (what is maximized) and `box_projection.py`. The machinery is in
`engine/`: `attack.py` (the contract), `arguments.py` (`repr` and settings), `loop.py` (a loop whose batch
shrinks, and which counts passes), `driver.py` (runs an attack over a set of images), `schedule.py` (special
orders of rounds), `results.py`, `attack_state.py` (the state of a run in a file), `gradients.py` and
`model_checks.py`. What an attack sees of a model is `athe_tf/models/victim.py`, the ball `athe_tf/threat.py`.
A new attack is one new file and one entry in `registry.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
