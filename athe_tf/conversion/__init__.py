"""Models of other libraries, in and out: PyTorch checkpoints, ONNX and LiteRT.

net = athe_tf.conversion.from_torch("net.pt", "wrn-34-10")     # a published PyTorch checkpoint
athe_tf.conversion.load_torch_weights(net, state)              # the same, into a model you have
athe_tf.conversion.to_torch(net)                               # the other way: a state dict
athe_tf.conversion.convert(net, "net.onnx", "onnx")            # a file: torch, onnx, litert, litert_int8
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
