"""The operators of ONNX on the cases that ONNX itself generates, and on those that PyTorch wrote."""

import os
import pathlib
import re
import warnings

import numpy as np
import pytest
import tensorflow as tf

from athe_tf.conversion import onnx_lowering
from athe_tf.conversion.onnx_file import _array, _attribute
from athe_tf.conversion.onnx_operators import OPERATORS, Node, Value, compute, first
from athe_tf.utils.errors import InputError

onnx = pytest.importorskip("onnx")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its generators compute NaN on purpose
    from onnx.backend.test.case import node as generated

# What the documentation promises.
PROMISED = set(
    re.findall(
        r"\w+",
        """Conv ConvTranspose Gemm MatMul Add Sub Mul Div BatchNormalization InstanceNormalization
    LayerNormalization Relu LeakyRelu PRelu Sigmoid Tanh Softmax Gelu Erf Clip HardSwish MaxPool AveragePool
    GlobalAveragePool Pad Flatten Reshape Transpose Concat Split Slice Squeeze Unsqueeze ReduceMean ReduceMax
    ReduceSum Sqrt Pow Shape Gather Expand Where Cast Equal ConstantOfShape Constant Identity Dropout
    Resize""",
    )
)
# Why a case is refused; nothing else may be.
REASONS = ("the places of the maxima", "tf_crop_and_resize", "has antialias=1", "keeps the aspect ratio")
DATA = pathlib.Path(onnx.backend.__file__).parent / "test" / "data"


def results(model, inputs):
    """The outputs of a model; its first input is the image, and others are constants."""
    model = onnx.inliner.inline_local_functions(model) if model.functions else model
    opset = max([one.version for one in model.opset_import if one.domain in ("", "ai.onnx")], default=1)
    values = {one.name: _array(onnx, pathlib.Path("net.onnx"), one) for one in model.graph.initializer}
    names = [one.name for one in model.graph.input if one.name not in values]
    values |= zip(names, inputs, strict=False)
    if names and values[names[0]].dtype == np.float32:
        values[names[0]] = Value(tf.constant(values[names[0]]))
    for one in model.graph.node:
        attributes = {each.name: _attribute(onnx, pathlib.Path("net.onnx"), each) for each in one.attribute}
        node = Node(one.op_type, tuple(one.input), tuple(one.output), attributes, opset, one.name)
        read = [values[name] if name else None for name in node.inputs]
        known = node.operator in ("Shape", "Size", "Constant")
        found = (onnx_lowering._known(node, read),) if known else compute(node, *read)
        depends = any(isinstance(each, Value) for each in read)
        values |= zip(
            node.outputs, found if depends else [np.asarray(first(one)) for one in found], strict=False
        )
    return [np.asarray(first(values[one.name])) for one in model.graph.output]


def in_scope(case) -> bool:
    """Whether a generated case is about inference in float32 with the promised operations, up to 4-D."""
    operators = {one.op_type for one in case.model.graph.node}
    if not operators & PROMISED or not operators <= {*PROMISED, *OPERATORS, "Size"}:
        return False
    arrays = [one for inputs, outputs in case.data_sets for one in (*inputs, *outputs)]
    plain = all(isinstance(one, np.ndarray) and one.ndim <= 4 for one in arrays)
    domains = all(one.domain in ("", "ai.onnx") for one in case.model.opset_import)
    kinds = {one.dtype.name for one in arrays} if plain else {""}
    whole = "train" in case.name or not kinds <= {"float32", "int64", "int32", "bool"}
    return plain and domains and not whole and "float32" in kinds


def written(folder):
    """The model in a folder of ONNX's data, with its inputs and outputs."""

    def read(kind, number):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / "test_data_set_0" / f"{kind}_{number}.pb").read_bytes())
        return onnx.numpy_helper.to_array(tensor)

    count = {
        kind: len(list((folder / "test_data_set_0").glob(f"{kind}_*.pb"))) for kind in ("input", "output")
    }
    inputs, outputs = ([read(kind, i) for i in range(count[kind])] for kind in count)
    return onnx.load(str(folder / "model.onnx")), inputs, outputs


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=False):
        theirs = np.asarray(theirs)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.astype("float64"), theirs.astype("float64"), rtol=1e-3, atol=1e-5)


def test_generated_cases_of_the_promised_operations():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [one for one in generated.collect_testcases(None) if in_scope(one)]
    refused = []
    for case in cases:
        for inputs, outputs in case.data_sets:
            try:
                assert_same(results(case.model, inputs), outputs)
            except InputError as error:
                assert any(reason in str(error) for reason in REASONS), f"{case.name}: {error}"
                refused.append(case.name)
            except AssertionError as error:
                raise AssertionError(f"{case.name}: {error}") from error
    assert len(cases) > 400 and len(refused) <= 0.04 * len(cases)


@pytest.mark.parametrize("kind", ["pytorch-operator", "pytorch-converted"])
def test_cases_that_pytorch_wrote(kind):
    names = sorted(os.listdir(DATA / kind))
    assert len(names) > 30
    for name in names:
        model, inputs, outputs = written(DATA / kind / name)
        assert_same(results(model, inputs), outputs)
