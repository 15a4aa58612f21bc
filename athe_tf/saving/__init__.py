"""Files of models: `.keras` files and SavedModels, the zoo, and opening whatever a user calls a model.

net = athe_tf.load_model("net.keras")
athe_tf.export(net, "export")                     # a SavedModel with a card
athe_tf.saving.convert(net, "net.onnx", "onnx")   # or torch, litert, litert_int8
athe_tf.saving.describe(net)                      # the content of the card
athe_tf.saving.open_model("runs/digits").net      # also zoo:NAME, module:function, ONNX and LiteRT files
"""

from athe_tf.utils.registry import attach_stub

_FORMER_NAMES = {"convert": "athe_tf.conversion.converted_file", "describe": "athe_tf.models.card"}
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__, _FORMER_NAMES)
