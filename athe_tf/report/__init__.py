"""Reports: what an evaluation found, as pages that people read.

`reading.py` opens a folder of `bin/evaluate` and checks it against `contract.py`; `html.py` makes the page of
one evaluation out of the parts in `sections/`; `comparison.py` and `comparison_page.py` put several side by
side; `model_card.py` and `robustbench.py` write the files that go with a model; `plot.py`, `charts.py`,
`png.py` and `markup.py` draw. Nothing here needs TensorFlow.
"""

from athe_tf.lazy import lazy_names

_NAMES = {
    "compare": "comparison",
    "read_evaluation": "reading",
    "render": "html",
    "write": "writing",
    "write_comparison": "writing",
}

__all__ = sorted(_NAMES)

__getattr__ = lazy_names(__name__, _NAMES)
