"""A classifier as a SavedModel with logits and features, and a model card: `export`, and the way back."""

import hashlib
import pathlib
import re
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from athe_tf.jobs.locks import lock_name, locked
from athe_tf.jobs.ownership import is_ours
from athe_tf.models.card import CARD, describe, read_card, write_card
from athe_tf.models.features import find_head
from athe_tf.models.victim import Victim
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, cause, check
from athe_tf.utils.files import recover_folder, replacing_folder

# The paths inside an export.
_EXPORTED = re.compile(
    rf"assets|fingerprint\.pb|saved_model\.pb|{re.escape(CARD)}"
    r"|variables(/variables\.(index|data-\d{5}-of-\d{5}))?"
)
# What identifies one; other things may lie in its folder, such as its evaluation.
_IDENTIFYING = ("saved_model.pb", CARD, "variables/**/*", "assets/**/*", "assets.extra/**/*")


def export(
    net: keras.Model, folder: str | pathlib.Path, *, margin: float | None = None, replace: bool = False
) -> dict[str, Any]:
    """Writes `net` as a SavedModel that can be attacked like the original.

    Its endpoints are `serve` (logits) and, if the model ends in a `Dense` or `CosineDense`, `features`
    (penultimate features), for any batch size; gradients with respect to the images flow through both. The
    file `athe_tf.json` in the same folder is a model card:
    the head, its scale, the margin of training, the number of classes and the normalization.

    Example:

    >>> net = athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1))
    >>> card = athe_tf.export(net, "export")
    >>> athe_tf.victim("export").scale
    15.0

    Args:
        net: A Keras classifier.
        folder: Where to write. Must not exist, unless `replace`.
        margin: The margin of training, for the card. Defaults to `None`: unknown.
        replace: Replace the export in `folder`, once the new one is complete. Defaults to `False`.

    Returns:
        The card.
    """
    folder = pathlib.Path(folder).absolute()
    with locked(folder.parent, lock_name(folder.name)):
        recover_folder(folder)
        check_replaceable(folder, replace)
        card = describe(net, margin)
        with replacing_folder(folder) as new:
            _write(net, new)
            write_card(new, card)
    return card


def check_replaceable(folder: str | pathlib.Path, replace: bool) -> None:
    """Raises `InputError` unless `export` may write to a folder."""
    folder = pathlib.Path(folder)
    if not folder.exists():
        return
    if not replace:
        raise InputError(f"'{folder}' exists already. Choose another folder, or use `replace=True`.")
    inside = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    ours = not inside or (is_ours(folder / CARD) and all(map(_EXPORTED.fullmatch, inside)))
    if not folder.is_dir() or not ours:
        raise InputError(
            f"'{folder}' is not an exported model, or contains other files. Only an exported model is "
            "replaced; choose another folder."
        )


def _write(net: keras.Model, folder: pathlib.Path) -> None:
    archive = keras.export.ExportArchive()
    archive.track(net)
    images = tf.TensorSpec([None, *net.input_shape[1:]], tf.float32, name="images")
    archive.add_endpoint("serve", lambda x: net(x, training=False), input_signature=[images])
    features = find_head(net).features
    if features is not None:
        archive.add_endpoint("features", lambda x: features(x, training=False), input_signature=[images])
    archive.write_out(str(folder), verbose=False)


def saved_model_victim(folder) -> Victim:
    """A victim from a SavedModel; the card in its folder describes the head.

    A SavedModel is a program: load only those whose origin you trust.
    """
    folder = pathlib.Path(folder)
    if not (folder / "saved_model.pb").exists():
        raise InputError(f"No SavedModel in '{folder}': expected a file saved_model.pb there.")
    digest = saved_model_digest(folder)  # now: the files may be replaced later
    try:
        loaded = tf.saved_model.load(str(folder))
    except Exception as error:
        raise InputError(
            f"The SavedModel in '{folder}' cannot be read: {cause(error)}. Is it complete? Export or "
            "copy it again."
        ) from error
    facts = read_card(folder)
    serve, features = _endpoint(loaded, folder), getattr(loaded, "features", None)

    _check_floats(folder, loaded)

    # The functions of a loaded object work only as long as the object lives, so they hold it.
    def logits(x, owner=loaded):
        return serve(x)

    known: dict[str, Any] = {"name": folder.name, "facts": facts, "digest": lambda: digest}
    scale, classes = facts.get("scale") or 1.0, facts.get("num_classes")
    return Victim(logits, features=features, scale=scale, num_classes=classes, **known)


def _check_floats(folder: pathlib.Path, loaded) -> None:
    """Raises `InputError` for a model whose signature takes integers."""
    signature = getattr(loaded, "signatures", {}).get("serving_default")
    specs = [] if signature is None else tf.nest.flatten(signature.structured_input_signature)
    wrong = [spec.dtype.name for spec in specs if not spec.dtype.is_floating]
    check(
        not wrong,
        f"The SavedModel in '{folder}' takes images of dtype {''.join(wrong[:1])}, and integers have no "
        "gradient. Expected a floating-point input. Export the Keras model again, after "
        "model = athe_tf.models.with_input_range(model, (0, 255)).",
    )


def saved_model_digest(folder: pathlib.Path) -> str:
    """A digest of the files of a SavedModel and of its card."""
    paths = {path for pattern in _IDENTIFYING for path in folder.glob(pattern) if path.is_file()}
    names = "\n".join(path.relative_to(folder).as_posix() for path in sorted(paths))
    return hashlib.sha256(f"{names}\n{file_digest(*sorted(paths))}".encode()).hexdigest()


def _endpoint(loaded, folder) -> Callable:
    serve = getattr(loaded, "serve", None)
    if serve is not None:
        return serve
    signature = loaded.signatures.get("serving_default") if hasattr(loaded, "signatures") else None
    if signature is None:
        raise InputError(
            f"The SavedModel in '{folder}' has neither an endpoint `serve` nor a signature "
            "`serving_default`. Export it with athe_tf.export or model.export."
        )
    argument = next(iter(signature.structured_input_signature[1]))
    output = next(iter(signature.structured_outputs))
    return lambda x: signature(**{argument: x})[output]
