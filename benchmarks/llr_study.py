"""Few and many inner steps, for LLR and for PGD-AT, on digits, several seeds: docs/llr.md.

    python -m benchmarks.llr_study

Trains what configs/digits_llr.flags and digits_pgd_at.flags say (both with softplus), with 2 and 10 steps
of such a length that both can cross the ball, and measures the last model.
"""

import argparse
import dataclasses
import statistics

import athe_tf
from benchmarks.digits_study import read_config, shown
from benchmarks.repeated import Repeated
from benchmarks.timing import table

FRAMEWORKS = ("llr", "pgd_at")
# Steps, and their length as a share of epsilon.
STEPS = {2: 0.5, 10: 0.25}


def main() -> None:
    """Runs all, and prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    splits = athe_tf.data.load("digits")
    rows: list[tuple] = [("framework", "steps", "clean %", "robust %", "lost by fewer steps")]
    for framework in FRAMEWORKS:
        means = []
        for steps, share in STEPS.items():
            config = read_config(framework, 0, None)
            changes = {"steps": steps, "step_size": share * config.epsilon, "activation": "softplus"}
            repeated = Repeated(dataclasses.replace(config, **changes), splits)
            clean, robust = zip(*(repeated.run(seed) for seed in seeds), strict=True)
            means.append(statistics.mean(robust))
            lost = f"{100 * (means[-1] - means[0]):.1f} points" if len(means) > 1 else ""
            rows.append((framework, steps, shown(clean), shown(robust), lost))
            print(*rows[-1], flush=True)
    print(f"\n{len(seeds)} seeds\n\n{table(rows)}")


if __name__ == "__main__":
    main()
