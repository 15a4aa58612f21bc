"""Reports: what an evaluation found, as pages for readers. Nothing here needs TensorFlow;
`athe_tf.drawing` has what the pages are made of.

| file | content |
|---|---|
| `reading.py`, `schemas/` | a saved evaluation with its training run; the published schemas |
| `pages.py` | the page of one evaluation, and of several |
| `attack_sections.py`, `model_sections.py` | the sections of the page of one evaluation |
| `comparison.py` | several evaluations side by side |
| `model_card.py`, `robustbench.py` | the files that go with a model |
| `writing.py` | writes all of these to disk |
| `format.py` | numbers as text |
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
