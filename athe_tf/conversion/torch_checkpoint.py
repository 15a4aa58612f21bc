"""From a PyTorch checkpoint, a file or what it contains, to one state dict of NumPy arrays.

A file with pickles is read by PyTorch with `weights_only=True`, which builds tensors and containers and calls
nothing else; `.safetensors` files need the package safetensors and no PyTorch. A training checkpoint holds
more than one state dict: weights, their averages, the optimizer's state. `find_state_dict` finds those with
weights.
"""

import json
import math
import os
import pathlib
import pickle
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from athe_tf.utils.errors import InputError, cause, check
from athe_tf.utils.files import replacing
from athe_tf.utils.registry import import_optional

# `torch.load(weights_only=True)` of older versions can be made to execute code: CVE-2025-32434.
SAFE_TORCH = (2, 6)
_SHARD = re.compile(r"-\d{5}-of-(\d{5})\.")
_INDEX = (".safetensors.index.json", ".bin.index.json")
# Entries of a training checkpoint that hold arrays and no network.
_NOT_WEIGHTS = re.compile(r"optim|sched|scaler|rng|metric|history|args|config|hparams", re.IGNORECASE)
# Counters of batch normalization and of averaged models.
_COUNTERS = re.compile(r"(^|\.)(num_batches_tracked|n_averaged)$")


def read_checkpoint(path: str | os.PathLike) -> Any:
    """The content of a `.safetensors` file or of a file of `torch.save`, with nothing executed.

    A file that contains objects other than tensors, containers and numbers is refused.
    """
    path = pathlib.Path(path)
    check(path.is_file(), f"There is no checkpoint file '{path}'. Give a .pt, .pth or .safetensors file.")
    _check_whole(path)
    return read_safetensors(path) if path.suffix == ".safetensors" else _load_pickle(path)


def _check_whole(path: pathlib.Path) -> None:
    """Refuses one part of a checkpoint that is divided into several files."""
    shard = _SHARD.search(path.name)
    remedy = "Join them first: read each, update one dictionary, and write it with torch.save."
    check(
        shard is None,
        f"The file '{path}' is one of {int(shard[1]) if shard else 0} parts of a checkpoint. {remedy}",
    )
    check(
        not path.name.endswith(_INDEX),
        f"The file '{path}' is the index of a checkpoint in several parts. {remedy}",
    )


def _load_pickle(path: pathlib.Path) -> Any:
    torch = import_torch(f"read '{path}'")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    check(
        version >= SAFE_TORCH,
        "PyTorch before 2.6 can execute code from a checkpoint, even with weights_only=True. "
        f"Received: {torch.__version__}. Install a newer one, or convert the file to .safetensors.",
    )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"(?:GLOBAL|global|class) ['`]?([\w.]+)", str(error))
        raise InputError(
            f"The checkpoint '{path}' is refused, and nothing in it was executed: it is no PyTorch file, or "
            f"contains {found[1] if found else 'objects'} where tensors were expected. If you trust its "
            "origin, load it in PyTorch, and save the state dict alone: torch.save(model.state_dict(), FILE)."
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise InputError(
            f"The checkpoint '{path}' cannot be read: {cause(error)}. It may be truncated; download it again."
        ) from error


def import_torch(purpose: str) -> Any:
    """PyTorch, or an `InputError` that says how to install it."""
    return import_optional(
        "torch",
        f"PyTorch is needed to {purpose}. Install it with: pip install 'athe_tf[torch]'. Files in the "
        ".safetensors format need no PyTorch.",
    )


def read_safetensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name; bfloat16 becomes float32, which is exact.

    A file that is truncated or inconsistent is an `InputError`.
    """
    safetensors = _import_safetensors(f"read '{path}'")
    try:
        arrays = safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, TypeError) as error:
        defect = _defect(pathlib.Path(path).read_bytes()) or error
        raise InputError(
            f"'{path}' is not a complete safetensors file: {defect}. Download or write it again."
        ) from error
    return {name: a.astype("float32") if a.dtype.name == "bfloat16" else a for name, a in arrays.items()}


def _defect(content: bytes) -> str | None:
    """What is wrong with a file that safetensors refused, if it is one of the common defects."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 + length:
        return "the header is cut off"
    try:
        header = json.loads(content[8 : 8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            (start, end), shape = entry["data_offsets"], tuple(entry["shape"])
            if end > len(content) - 8 - length or (end - start) % max(1, math.prod(shape)):
                place = f"the bytes {start} to {end} of the tensor '{name}'"
                return f"{place} do not fit its shape {shape} or the file"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "the header is not a JSON object of tensors"
    return None


def write_safetensors(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as a safetensors file, once it is complete.

    Example:

    >>> write_safetensors("net.safetensors", {"fc.bias": np.zeros(10, "float32")})
    >>> read_safetensors("net.safetensors")["fc.bias"].shape
    (10,)

    Args:
        path: The file; it is replaced if it exists.
        arrays: From a name to an array.
    """
    safetensors = _import_safetensors(f"write '{path}'")
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with replacing(pathlib.Path(path)) as temporary:
        safetensors.numpy.save_file(contiguous, temporary, metadata={"format": "pt"})


def _import_safetensors(purpose: str) -> Any:
    message = f"The package safetensors is needed to {purpose}. Install it with: pip install safetensors."
    import_optional("ml_dtypes", message)  # tells NumPy what bfloat16 is
    import_optional("safetensors.numpy", message)
    return import_optional("safetensors", message)


def find_state_dict(checkpoint: Any, entry: str | None = None) -> tuple[dict[str, np.ndarray], str]:
    """The weights in a checkpoint as arrays, and the name of the entry that holds them ("" for the whole).

    Example:

    >>> weights = {"fc.weight": np.ones((2, 3)), "fc.bias": np.ones(2)}
    >>> state, entry = find_state_dict({"model": weights, "optimizer": {"state": {}}, "epoch": 3})
    >>> entry, sorted(state)
    ('model', ['fc.bias', 'fc.weight'])

    Args:
        checkpoint: A state dict, or a mapping or a list that holds one or several, such as a training
        checkpoint with
            the optimizer's state and an average of the weights (EMA).
        entry: Which one to take if there are several. Defaults to `None`: there is only one.
    """
    checkpoint = _without_lists(checkpoint)
    check(
        isinstance(checkpoint, Mapping),
        f"A checkpoint must be a mapping from names to tensors. Received: {type(checkpoint).__name__}. Save "
        "the state dict: torch.save(model.state_dict(), FILE).",
    )
    found = _copies(checkpoint) or _entries(checkpoint, "")
    names = ", ".join(repr(name) for name in found)
    check(
        bool(found),
        "The checkpoint has no weights of a network: no mapping from names to tensors with a '.weight'. "
        f"It has {_some(checkpoint)}. Save the state dict: torch.save(model.state_dict(), FILE).",
    )
    check(
        entry is not None or len(found) == 1,
        f"The checkpoint has several sets of weights: {names}. Choose one with `entry`, such as "
        f"entry='{next(reversed(found))}'.",
    )
    name = next(iter(found)) if entry is None else entry
    check(name in found, f"The checkpoint has no weights in '{name}'. It has them in {names}.")
    return _arrays(found[name]), name


def _entries(checkpoint: Mapping, path: str) -> dict[str, Mapping]:
    """The state dicts in a checkpoint, by their keys joined with dots."""
    if _is_state_dict(checkpoint):
        return {path: checkpoint}
    found: dict[str, Mapping] = {}
    for name, value in checkpoint.items():
        value = _without_lists(value)
        if isinstance(value, Mapping) and not _NOT_WEIGHTS.search(str(name)):
            found |= _entries(value, f"{path}.{name}" if path else str(name))
    return found


def _without_lists(value: Any) -> Any:
    """A list of state dicts, as cascades of networks have it, as a mapping by position."""
    several = isinstance(value, (list, tuple)) and any(isinstance(one, Mapping) for one in value)
    return {str(index): one for index, one in enumerate(value)} if several else value


def _is_state_dict(value: Mapping) -> bool:
    return any(
        isinstance(name, str) and name.endswith(".weight") and hasattr(tensor, "shape")
        for name, tensor in value.items()
    )


def _copies(state: Mapping) -> dict[str, dict]:
    """The copies of a network in one state dict, such as `model.` and `ema.`; empty if there is only one."""
    if not _is_state_dict(state):
        return {}
    groups: dict[str, dict] = {}
    for name, value in state.items():
        if not _COUNTERS.search(name):
            first, _, rest = name.partition(".")
            groups.setdefault(first, {})[rest] = value
    same = len({frozenset(group) for group in groups.values()}) == 1
    return groups if same and len(groups) > 1 and all(map(_is_state_dict, groups.values())) else {}


def _arrays(state: Mapping) -> dict[str, np.ndarray]:
    """The tensors of a state dict as arrays, without counters."""
    tensors = {name: value for name, value in state.items() if hasattr(value, "shape")}
    return {name: _array(value) for name, value in tensors.items() if not _COUNTERS.search(name)}


def _array(tensor) -> np.ndarray:
    """A tensor of PyTorch as an array, half precision as float32; arrays stay unchanged."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        tensor = (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor).numpy()
    array = np.asarray(tensor)
    return array.astype("float32") if array.dtype == np.float16 else array


def _some(names) -> str:
    """A few names, for a message."""
    shown = [repr(str(name)) for name in names]
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "") or "no entries"
