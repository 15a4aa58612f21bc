"""`bin/import_torch`: the former name of `bin/import`."""

from athe_tf.programs.command_line import Program, print_line
from athe_tf.programs.import_model import EXAMPLES, SUMMARY, ImportConfig, action

NAME = "bin/import_torch"


def _with_note(config: ImportConfig, extra: dict) -> None:
    print_line("This program is bin/import now, which also reads ONNX and LiteRT files.")
    action(config, extra)


main = Program(NAME, SUMMARY, EXAMPLES, ImportConfig, _with_note).run

if __name__ == "__main__":
    main()
