"""The names of the packages that can cross-examine us; without TensorFlow, for the command line."""

from athe_tf.utils.registry import unknown_name

#: What `--verify_with=` takes.
TOOLS = ("art", "cleverhans", "foolbox")


def check_tools(tools) -> None:
    """Raises `InputError`, with the nearest known name, for a package that nobody asks here."""
    for tool in tools:
        if tool not in TOOLS:
            raise unknown_name("package to verify with", tool, TOOLS)
