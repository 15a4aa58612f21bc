"""`import_onnx`: an ONNX classifier as a Keras model with gradients, compared with onnxruntime."""

import dataclasses
import os
from typing import Any

import keras
import numpy as np

from athe_tf.conversion.onnx_file import OnnxGraph, read_onnx
from athe_tf.conversion.onnx_layer import layer_of
from athe_tf.conversion.onnx_lowering import LoweredGraph, lower
from athe_tf.utils.errors import InputError

