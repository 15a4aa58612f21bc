"""`bin/export`: writes a classifier as a SavedModel."""

import pathlib

from athe_tf.cli.program import run, say
from athe_tf.cli.quiet import start_tensorflow
from athe_tf.config import ExportConfig
from athe_tf.errors import InputError
from athe_tf.workdir import find_model, run_of

EXAMPLES = """
bin/export --model=runs/digits --output=export
bin/export --model=best.keras --output=export
"""


def main() -> None:
    """The program."""
    run("bin/export", "writes a classifier as a SavedModel.", EXAMPLES, ExportConfig, action)


def action(config: ExportConfig, flags) -> None:
    """Exports what the flags say."""
    path = find_model(config.model)
    if path.is_dir():
        raise InputError(f"'{path}' is a SavedModel already. Give a .keras file or a workdir.")
    if pathlib.Path(config.output).exists():
        raise InputError(f"'{config.output}' exists already. Export to another folder.")
    start_tensorflow()
    from athe_tf.saved_model import export, load_model

    training_run = run_of(path)
    margin = training_run.read_config().training_margin if training_run else None
    card = export(load_model(path), config.output, margin=margin)
    say(
        f"Exported {path} to {config.output}: endpoints serve and features, {card['num_classes']} classes, "
        f"head {card['head']}."
    )


if __name__ == "__main__":
    main()
