"""Files of models: `.keras` files, SavedModels, files for other runtimes, and model cards.

net = athe_tf.load_model("net.keras")
athe_tf.export(net, "export")              # a SavedModel with a card
athe_tf.saving.convert(net, "net.onnx", "onnx")   # or torch, litert, litert_int8
athe_tf.saving.describe(net)               # the content of the card
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
