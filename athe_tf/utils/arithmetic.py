"""What computes, and how it rounds: the device, TF32, and whether operations are deterministic."""

import os
import pathlib
import re

import tensorflow as tf

from athe_tf.utils.tensorflow_compat import is_op_determinism_enabled


def make_deterministic() -> None:
    """Every operation of this process gives the same bits for the same inputs, and float32 is float32.

    Without this, cuDNN may choose kernels that add up in any order, and GPUs since Ampere compute products of
    float32 in TF32, with 10 bits of mantissa. Call it before the first computation.
    """
    tf.random.set_seed(0)  # else operations that draw without a seed are an error
    tf.config.experimental.enable_op_determinism()
    tf.config.experimental.enable_tensor_float_32_execution(False)


def arithmetic() -> dict[str, str]:
    """What decides how results are rounded, by names for the user."""
    on_gpu, words = bool(tf.config.get_visible_devices("GPU")), {True: "yes", False: "no"}
    tf32 = on_gpu and tf.config.experimental.tensor_float_32_execution_enabled()
    # The kernels of a CPU give the same bits anyway; see `repeatable`.
    fixed = is_op_determinism_enabled() or not on_gpu
    return {"device": device_name(), "TF32": words[tf32], "deterministic": words[fixed]}


def computed_on() -> str:
    """`arithmetic` in one text."""
    device, *others = arithmetic().items()
    return ", ".join([device[1], *(f"{name}: {value}" for name, value in others)])


def device_name() -> str:
    """The kind of the devices that compute: that of the GPU, else the processor's."""
    for kind in ("TPU", "GPU"):
        for device in tf.config.get_visible_devices(kind)[:1]:
            return str(tf.config.experimental.get_device_details(device).get("device_name", kind))
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return name[1].strip() if name else f"CPU {os.uname().machine}"
