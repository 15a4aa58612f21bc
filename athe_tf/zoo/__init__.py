"""Small robust classifiers that come with the package, to attack, to compare with and to test with.

athe_tf.zoo.names()                                   # what there is
net = athe_tf.zoo.load("cifar10-fast-at-he-wrn10-1")  # a Keras model
athe_tf.zoo.card("cifar10-fast-at-he-wrn10-1")        # how it was trained, and its accuracies
print(athe_tf.zoo.table())                            # the accuracies of all of them

`--model=zoo:NAME` names them in `bin/evaluate` and `bin/export`. They are small on purpose (a file of less
than 0.5 MB each) and far from the state of the art.
"""

from athe_tf.utils.registry import attach_stub

_HOME = "athe_tf.saving.names"
__getattr__, __dir__, __all__ = attach_stub(
    __name__, __file__, dict.fromkeys(("card", "load", "names", "table"), _HOME)
)
