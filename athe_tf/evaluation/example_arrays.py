"""The names of the arrays of `examples.npz`; without TensorFlow, so that a report can read them."""

#: What a report shows of an adversarial example.
SHOWN = ("clean", "adversarial", "label", "clean_prediction", "adversarial_prediction", "attack", "norm")
#: All arrays; `index` is the position in the data set.
EXAMPLE_ARRAYS = (*SHOWN, "index")
