"""A `torch.nn.Module` as a Keras model, through ONNX, compared with PyTorch itself."""

import pathlib
import tempfile
import warnings
from typing import Any

import numpy as np

from athe_tf.conversion.onnx_file import read_onnx
from athe_tf.conversion.onnx_import import ImportedOnnx, import_onnx
from athe_tf.conversion.torch_checkpoint import find_state_dict, import_torch, read_checkpoint
from athe_tf.utils.errors import InputError, cause, check
from athe_tf.utils.registry import import_object, import_optional

# What the exporter of PyTorch that needs no further package can write.
_OPSET = 17


def import_torch_module(
    name: str, checkpoint: str = "", entry: str | None = None, image_size: int | None = None
) -> ImportedOnnx:
    """Makes a Keras model of a module of PyTorch, and says how far it is from it.

    Args:
        name: `module:build`, a module or a function without arguments that returns one. It is imported and
            called: it is your own code.
        checkpoint: A file with its weights. Defaults to `""`: those that the module has.
        entry: The entry of a checkpoint with several sets of weights.
        image_size: Height and width of the images. Defaults to `None`: 32.
    """
    torch = import_torch("convert a torch.nn.Module")
    import_optional("onnx", "onnx is needed, too. Install it with: pip install 'athe_tf[onnx]'.")
    module = import_object(name, "module")
    module = module if isinstance(module, torch.nn.Module) else module()
    check(
        isinstance(module, torch.nn.Module),
        f"'{name}' must be a torch.nn.Module, or a function without arguments that returns one. Received: "
        f"{type(module).__name__}. Name it as module:build.",
    )
    if checkpoint:
        load_state(torch, module, *find_state_dict(read_checkpoint(checkpoint), entry))
    module = module.eval()
    channels = next((p.shape[1] for p in module.parameters() if p.ndim == 4), 3)
    channels *= next((m.groups for m in module.modules() if isinstance(m, torch.nn.Conv2d)), 1)
    images = torch.zeros(1, channels, image_size or 32, image_size or 32)

    def logits(batch: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.from_numpy(batch.transpose(0, 3, 1, 2).copy())).numpy()

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "module.onnx"
        _export(torch, module, images, file)
        return import_onnx(read_onnx(file), logits, name.partition(":")[2])


def load_state(torch, module, state: dict[str, np.ndarray], entry: str = "") -> None:
    """Gives a module the weights of a state dict; each must have its place, and each place its weight."""
    # A copy of the tensors: PyTorch warns of arrays that must not be written to.
    tensors = {key: torch.from_numpy(np.array(value)) for key, value in state.items()}
    where = f" (entry '{entry}')" if entry else ""
    try:
        missing, unexpected = module.load_state_dict(tensors, strict=False)
    except RuntimeError as error:
        line = str(error).strip().splitlines()[-1].strip()
        raise InputError(
            f"The checkpoint{where} does not fit the module: {line} Give the module that it is of."
        ) from error
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    check(
        not missing and not unexpected,
        f"The checkpoint{where} does not fit the module. Without weights: "
        f"{', '.join(missing[:3]) or 'none'}; tensors "
        f"without a place: {', '.join(unexpected[:3]) or 'none'}. Give the module that it is of.",
    )


def _export(torch, module, images, file: pathlib.Path) -> None:
    """Writes a module as an ONNX file for any number of images."""
    settings: dict[str, Any] = {"input_names": ["images"], "dynamic_axes": {"images": {0: "batch"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of exporters that are deprecated or incomplete
        try:
            try:
                torch.onnx.export(
                    module, (images,), str(file), opset_version=_OPSET, dynamo=False, **settings
                )
            except Exception:  # the exporter by tracing may be gone, or may not know an operation
                torch.onnx.export(module, (images,), str(file), dynamo=True, external_data=False)
        except Exception as error:
            raise InputError(
                f"PyTorch cannot write the module as ONNX: {cause(error)}. Give --image_size if images "
                "have another "
                "size than 32, or write the twin of the module in Keras and give it as --arch=module:build."
            ) from error
