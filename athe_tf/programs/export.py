"""`bin/export`: writes a classifier as a SavedModel."""

import pathlib

from athe_tf.programs.command_line import Program, say, warn
from athe_tf.programs.config import ExportConfig
from athe_tf.programs.program_name import as_started
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.workdir import find_model, run_of
from athe_tf.utils.errors import InputError

EXAMPLES = """
bin/export --model=runs/digits --output=export
bin/export --model=best.keras --output=export
"""


def main() -> None:
    """The program."""
    Program("bin/export", "writes a classifier as a SavedModel.", EXAMPLES, ExportConfig, action).run()


def action(config: ExportConfig, extra: dict) -> None:
    """Exports the model that the flags name."""
    path = find_model(config.model)
    if path.is_dir():
        raise InputError(f"'{path}' is a SavedModel already. Give a .keras file or a workdir.")
    if pathlib.Path(config.output).exists():
        raise InputError(f"'{config.output}' exists already. Export to another folder.")
    start_tensorflow()
    from athe_tf.saving.keras_file import load_model
    from athe_tf.saving.saved_model import export

    training_run = run_of(path)
    settings, remark = training_run.recorded_settings() if training_run else ({}, None)
    if remark is not None:
        warn(as_started(f"bin/export: {remark}"))
    net = load_model(path)
    card = export(net, config.output, margin=settings.get("margin"))
    endpoints = (
        "endpoint serve" if card["head"] in ("unknown", "ensemble") else "endpoints serve and features"
    )
    say(
        f"Exported {path} to {config.output}: {endpoints}, {card['num_classes']} classes, "
        f"head {card['head']}."
    )


if __name__ == "__main__":
    main()
