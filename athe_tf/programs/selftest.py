"""`bin/selftest`: whether this machine's GPUs, TPU or CPU compute what athe_tf computes elsewhere."""

import dataclasses
import json
import os
import time
from typing import Any

from athe_tf.programs.command_line import Program, print_line, warnings_as_lines
from athe_tf.programs.config.fields import DeviceOptions, check_folder, flag
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.utils.errors import check
from athe_tf.utils.files import write_text
from athe_tf.utils.options import check_options, option, with_help
from athe_tf.utils.registry import unknown_name

#: The checks in their order: functions of `selftest_checks`.
CHECKS = ("speed", "xla", "frameworks", "replicas", "seeds", "determinism", "precision", "attacks", "memory")


@dataclasses.dataclass(frozen=True)
class SelftestConfig(DeviceOptions):
    """What to test, and on what."""

    distribution: str = with_help(
        DeviceOptions, "distribution", "auto, one (device), mirrored (all GPUs of this machine) or tpu."
    )
    only: tuple[str, ...] = option((), f"Only these checks: {', '.join(CHECKS)}. [all]")
    output: str | None = option(None, "Also write the results to this file, as JSON for a bug report.")

    def __post_init__(self):
        check_folder(self, "output")
        check_options(self, flag)
        for name in set(self.only) - set(CHECKS):
            raise unknown_name("check", name, CHECKS)
        check(
            self.distribution != "multi_worker",
            "The self-test is about one machine. Received: --distribution=multi_worker. Run it on each.",
        )


def action(config: SelftestConfig, extra: dict) -> int:
    """Runs the checks, prints a table, and returns 0 if all of them passed, else 1."""
    settings = config.distribution_settings()
    start_tensorflow()
    import tensorflow as tf

    from athe_tf.distribution.strategy import initialize
    from athe_tf.programs.selftest_checks import Machine, run_checks
    from athe_tf.results.result import versions_in_use
    from athe_tf.utils.arithmetic import arithmetic

    tf.get_logger().setLevel("ERROR")  # it warns of tracing many steps
    began = time.monotonic()
    with warnings_as_lines("bin/selftest"):
        # Without the workers of the environment: the test is about one machine.
        tpu = {name: os.environ[name] for name in ("TPU_NAME",) if name in os.environ}
        machine = Machine(initialize(settings.resolve(tpu), write=print_line))
        facts: dict[str, Any] = {"versions": versions_in_use(), **arithmetic(), "devices": machine.names}
        print_line(f"{', '.join(f'{k} {v}' for k, v in facts['versions'].items())}; {facts['device']}")
        found = run_checks(machine, [name for name in CHECKS if name in (config.only or CHECKS)], print_line)
    passed, failed = (sum(one.passed is value for one in found) for value in (True, False))
    facts |= {"seconds": round(time.monotonic() - began, 1), "passed": not failed}
    if config.output is not None:
        facts["checks"] = [dataclasses.asdict(one) for one in found]
        write_text(config.output, json.dumps(facts, indent=2) + "\n")
        print_line(f"Written to {config.output}.")
    print_line(f"{passed} passed, {failed} failed, in {facts['seconds']:.0f} s.")
    return 1 if failed else 0


EXAMPLES = "bin/selftest --output=selftest.json\nbin/selftest --cpu_replicas=2"
SUMMARY = "tests the devices of this machine: numbers, resume, mixed precision, XLA, attacks and speed."
PROGRAM = Program("bin/selftest", SUMMARY, EXAMPLES, SelftestConfig, action)
main = PROGRAM.run

if __name__ == "__main__":
    main()
