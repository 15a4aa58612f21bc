"""What the settings of several programs share."""

from athe_tf.utils.options import option


def flag(name: str) -> str:
    """How messages call a setting."""
    return f"--{name}"


def seed_option(help: str):
    """`--seed`: 31 bits, so that no two seeds mean the same."""
    return option(0, help, least=0, below=2**31)


def distribution_option(choices: str):
    """`--distribution`, for programs that offer some kinds."""
    return option("auto", f"{choices}; see docs/distributed.md.", runtime=True)


def devices_option():
    """`--devices`."""
    return option(
        (), "Numbers of the GPUs to use, such as 0,1; or cpu. [all GPUs, else the CPU]", runtime=True
    )


def worker_timeout_option(help: str):
    """`--worker_timeout`."""
    return option(300.0, help, runtime=True, above=0)


def cpu_replicas_option():
    """`--cpu_replicas`."""
    return option(
        1, "Split the CPU into this many logical devices, to emulate several GPUs.", runtime=True, least=1
    )
