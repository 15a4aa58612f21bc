"""The public function of an analysis, made from its class: signature, docstring and call."""

import dataclasses
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.subject import Subject

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

# The lines of a docstring about the first argument, by what an analysis needs, and about the next ones.
MODELS = {
    "logits": "A Keras model, or anything that `athe_tf.victim` takes.",
    "features": "A Keras model that ends in a linear `Dense` or a `CosineDense`.",
    "weights": "A Keras model.",
    "angles": "A Keras model with a hypersphere head (HE or m-HE).",
}
SHARED = {
    "data": "`(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.",
    "attack": "A PGD attack. Defaults to PGD-10 within 8/255.",
    "options": "Number of images and the like.",
}


class AnalysisFunction(Protocol[P, R_co]):
    """What type checkers see: the arguments of all analyses, then the options of one."""

    def __call__(
        self, model, data, attack=None, options: AnalysisOptions | None = None, *args: P.args, **own: P.kwargs
    ) -> R_co: ...


def function_of(compute: Callable[Concatenate[Subject, P], R]) -> AnalysisFunction[P, R]:
    """The function that runs an analysis, given the `compute` of its class."""
    kind: Any = compute.__self__  # type: ignore[attr-defined]  # a class method

    def function(model, data, attack=None, options: AnalysisOptions | None = None, **own):
        chosen = kind.chosen(own)
        return kind.compute(Subject(kind, model, data, attack, options, chosen), **vars(chosen))

    fields = dataclasses.fields(kind.options)
    shared = list(inspect.signature(function).parameters.values())[:-1]
    own = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields
    ]
    function.__signature__ = inspect.Signature([*shared, *own], return_annotation=kind)  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = kind.analysis
    function.__module__ = kind.__module__
    # The docstring of `compute`, with the example of the class and the arguments.
    text, reference, source = (inspect.getdoc(compute) or "").partition("\n\nReference:")
    example = (inspect.getdoc(kind) or "").partition("Example:\n\n")[2].partition("\n\nArgs:")[0]
    lines = {"model": MODELS[kind.needs], **SHARED, **{field.name: _described(field) for field in fields}}
    arguments = [
        textwrap.fill(f"{name}: {line}", 110, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for name, line in lines.items()
    ]
    parts = [text, "\nExample:\n", example, "\nArgs:", *arguments]
    function.__doc__ = "\n".join(parts) + reference + source
    return cast(AnalysisFunction[P, R], function)


def _described(field: dataclasses.Field) -> str:
    choices, default = field.metadata["choices"], field.default
    one_of = f" One of {', '.join(map(repr, choices))}." if choices else ""
    return field.metadata["help"] + one_of + ("" if default is None else f" Defaults to {default!r}.")
