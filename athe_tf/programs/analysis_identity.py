"""What the result of an analysis depends on: whether one that was kept is still the same."""

import dataclasses
import pathlib
from collections.abc import Iterable

from athe_tf.programs.config import AnalyzeConfig
from athe_tf.programs.workdir import find_model, is_imported
from athe_tf.utils.digests import file_digest
from athe_tf.version import __version__

#: Flags that only some analyses have.
OWN_FLAGS = {
    "landscape": ("space", "directions", "points"),
    "decision_map": ("index", "points"),
    "hessian": ("top",),
}
# Settings that change nothing in the result of a model: others say what they mean.
ELSEWHERE = {"model", "compare", "what", "output", "dataset", "data_dir", "skip_corrupt"}
# Settings that older results do not have: they count where they are given.
LATER = {"input_range", "resize_size"}


def identity(config: AnalyzeConfig, what: str, label: str, models: Iterable[str], images) -> dict | None:
    """The version, the digests of models and images, the settings; `None` if a model has no digest.

    Args:
        config: With the settings of the run filled in.
        what: The name of the analysis.
        label: The name of the result in pictures.
        models: The values of `--model` that one result is about.
        images: An image set.
    """
    digests = [model_digest(model) for model in models]
    if None in digests:
        return None
    foreign = {name for names in OWN_FLAGS.values() for name in names} - set(OWN_FLAGS.get(what, ()))
    settings = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name not in ELSEWHERE | foreign
        and (field.name not in LATER or getattr(config, field.name) != field.default)
    }
    return {
        "athe_tf": __version__,
        "label": label,
        "models": digests,
        "images": images.fingerprint(),
        "settings": settings,
    }


def model_digest(model: str) -> str | None:
    """The digest of the files of a model; `None` for a function, which may depend on anything."""
    if is_imported(model):
        return None
    path = pathlib.Path(find_model(model))
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return file_digest(*files)
