"""See why: analyses of a trained classifier, as numbers and pictures.

Each analysis is a function of a model and images. It returns a small result with `plot(ax=None)`, `to_dict()`
and a `repr`; `compare` puts the results of several models into one picture; `write` and `read` keep them in
JSON files.

| file | question | where in the papers |
|---|---|---|
| `gradient_ratio.py` | do adversarial images move the weights more than clean ones? | HE, Fig. 3 |
| `class_bias.py` | do classes with long weights attract adversarial images? | HE, sections 3.3 and 3.4 |
| `angles.py` | how far does an attack turn the features, and how far apart are the classes? | HE, section 3 |
| `attack_with_fn.py` | is an attack through normalized features stronger? | HE, Table 7 |
| `fn_direction.py` | where does it go instead? | HE, Fig. 1 |
| `attack_steps.py` | how many steps does an attack need, and training? | HE, Fig. 2 left |
| `perturbations.py` | what do perturbations look like? | HE, Fig. 2 right |
| `linearity.py` | how far is the loss from its tangent? | LLR |
| `hessian.py` | how curved is the adversarial loss in the weights? | PAS |
| `landscape.py` | what does the loss look like around the weights, or around the images? | PAS |
| `gradient_scattering.py` | how much do neighboring weights disagree about the adversarial gradient? | PAS |
| `decision_map.py` | which classes lie around an image? | |

Each of these files has one class: what the analysis shows and needs, its options, how it is computed and
drawn; its function is made of it. `registry.py` lists them, and reads and writes their results, `result.py`
is the base of all, `subject.py` has a model with its images and attack, and makes the functions, `drawing.py`
has colors and figures, `weights.py` gradients and Hessian-vector products. TensorFlow is imported only by
what is computed, and matplotlib only by `plot`.
"""

import sys

import lazy_loader

from athe_tf.analysis.registry import ALL_ANALYSES

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
# An entry in the registry makes an analysis public. The files, which have the names of the functions, are
# imported by now, and would hide them.
for _one in ALL_ANALYSES.values():
    globals()[_one.analysis] = getattr(sys.modules[_one.__module__], _one.analysis)
