"""`bin/evaluate`: measures how robust a classifier is."""

import dataclasses
import pathlib
import sys
from typing import Any

from athe_tf import data
from athe_tf.cli.program import run
from athe_tf.cli.quiet import start_tensorflow
from athe_tf.config import EvaluateConfig
from athe_tf.errors import InputError, check
from athe_tf.workdir import find_model, run_of

EXAMPLES = """
bin/evaluate --model=runs/digits --attacks=fgsm,pgd-20,cw-linf-20
bin/evaluate --model=export --dataset=cifar10 --epsilon=8/255 --max_examples=1000 --output=runs/evaluation
bin/evaluate --model=my_models:logits --dataset=npz:images.npz
"""
# What a model's training run knows, and what holds without one.
FROM_RUN: dict[str, Any] = {
    "dataset": None,
    "data_dir": None,
    "image_size": None,
    "norm": "linf",
    "epsilon": 8 / 255,
}


def main() -> None:
    """The program."""
    run("bin/evaluate", "measures how robust an image classifier is.", EXAMPLES, EvaluateConfig, action)


def action(config: EvaluateConfig, flags) -> None:
    """Evaluates what the flags say."""
    config = fill_from_run(config)
    output = None if config.output is None else prepare_output(config.output)
    start_tensorflow()
    from athe_tf.evaluation.evaluate import evaluate
    from athe_tf.evaluation.loading import open_victim

    target = open_victim(config.model)
    splits = data.load(config.dataset, data_dir=config.data_dir, image_size=config.image_size)
    images = getattr(splits, config.split)
    check(images is not None, f"The data set '{config.dataset}' has no {config.split} images.")
    report = evaluate(
        target,
        images,
        attacks=config.attacks,
        epsilon=config.epsilon or 0.0,
        norm=config.norm or "linf",
        max_examples=config.max_examples,
        batch_size=config.batch_size,
        seed=config.seed,
        name=config.model,
        dataset=f"{config.dataset} ({config.split})",
        progress=show_progress if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(report)
    if output is not None:
        output.write_text(report.to_json())
        print(f"\nWritten to {output}.")


def fill_from_run(config: EvaluateConfig) -> EvaluateConfig:
    """Settings that were left out, from the training run of the model, or their defaults."""
    run_folder = None
    if ":" not in config.model or pathlib.Path(config.model).exists():
        find_model(config.model)
        run_folder = run_of(config.model)
    known = run_folder.read_config() if run_folder else None
    values: dict[str, Any] = {
        name: getattr(known, name) if known else default
        for name, default in FROM_RUN.items()
        if getattr(config, name) is None
    }
    config = dataclasses.replace(config, **values)
    if config.dataset is None:
        raise InputError("Say which images to evaluate on, as --dataset=cifar10.")
    return config


def prepare_output(folder) -> pathlib.Path:
    """The path of `evaluation.json`; its folder is made now, so that nothing is lost at the end."""
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "evaluation.json"
        path.touch()
    except OSError as error:
        raise InputError(f"Cannot write to --output={folder}: {error.strerror}.") from error
    return path


def show_progress(name, done, most, robust) -> None:
    """One line that is overwritten, on a terminal."""
    print(
        f"\r\033[K{name}: {done:.1f} of {most} rounds, {robust} robust", end="", file=sys.stderr, flush=True
    )


if __name__ == "__main__":
    main()
