"""Small ONNX classifiers, written with `onnx.helper` in the forms that PyTorch writes."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def weights(*shape, seed=0):
    return np.random.default_rng(seed).normal(0, 0.3, shape).astype("float32")


def model(nodes, constants, shape=("N", 3, 8, 8), output=("N", 4), opset=13, dtype="FLOAT", **settings):
    """A model of nodes `(operator, inputs, output, attributes)` from `x` to `y`."""
    made = [
        helper.make_node(kind, inputs, [output], name=f"the_{output}", **attributes)
        for kind, inputs, output, attributes in nodes
    ]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.DataType.Value(dtype), sizes)
        for name, sizes in (("x", shape), ("y", output))
    ]
    graph = helper.make_graph(made, "net", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **settings)


def residual_network(single: bool = False):
    """Channels first; a block with a shortcut, and the shapes that PyTorch computes; for one image or for
    many.
    """
    constants = {
        "w1": weights(6, 3, 3, 3), "b1": weights(6, seed=1), "w2": weights(6, 1, 3, 3, seed=2),
        "scale": 1 + weights(6, seed=3), "shift": weights(6, seed=4), "mean": weights(6, seed=5),
        "var": 1 + weights(6, seed=6) ** 2, "w3": weights(24, 4, seed=7), "b3": weights(4, seed=8),
        "index": np.array(0), "axes": np.array([0]), "rest": np.array([-1]), "fixed": np.array([1, 24]),
    }  # fmt: skip
    pads = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [
        ("Conv", ["x", "w1", "b1"], "a", pads),
        ("Relu", ["a"], "r", {}),
        ("Conv", ["r", "w2"], "d", {**pads, "group": 6}),
        ("BatchNormalization", ["d", "scale", "shift", "mean", "var"], "n", {}),
        ("Add", ["n", "r"], "s", {}),
        ("MaxPool", ["s"], "p", {"kernel_shape": [3, 3], "strides": [4, 4], "pads": [1, 1, 1, 1]}),
    ]
    if single:
        nodes += [("Reshape", ["p", "fixed"], "f", {})]
    else:
        nodes += [
            ("Shape", ["p"], "shape", {}),
            ("Gather", ["shape", "index"], "n0", {}),
            ("Unsqueeze", ["n0", "axes"], "n1", {}),
            ("Concat", ["n1", "rest"], "to", {"axis": 0}),
            ("Reshape", ["p", "to"], "f", {}),
        ]
    nodes += [("Gemm", ["f", "w3", "b3"], "y", {})]
    batch = 1 if single else "N"
    return model(nodes, constants, shape=(batch, 3, 8, 8), output=(batch, 4))


def save(made, path, **settings):
    """Writes a model, and returns its path."""
    onnx.save(made, str(path), **settings)
    return path
