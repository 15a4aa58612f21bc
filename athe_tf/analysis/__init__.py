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
| `gradient_scattering.py` | how much do neighbouring weights disagree about the adversarial gradient? | PAS |
| `decision_map.py` | which classes lie around an image? | |

`names.py` is the registry, `result.py` the base of all results, `files.py` reads and writes them,
`drawing.py` has colours and figures, `subject.py` a model with its images and attack, `requirements.py` what
the model must have, `directions.py` the directions of planes, `weights.py` gradients and Hessian-vector
products. matplotlib is imported only by `plot`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
