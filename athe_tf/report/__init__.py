"""Reports: what an evaluation found, as pages that people read.

`reading.py` opens a folder of `bin/evaluate` and checks it against `contract.py`; `html.py` makes the page of
one evaluation out of the parts in `sections/`; `comparison.py` and `comparison_page.py` put several side by
side; `model_card.py` and `robustbench.py` write the files that go with a model; `plot.py`, `charts.py`,
`png.py` and `markup.py` draw. Nothing here needs TensorFlow.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
