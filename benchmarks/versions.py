"""Is this checkout as fast as another one? A training step, PGD-20 and AutoAttack, in turns.

    python -m benchmarks.versions OTHER_CHECKOUT

Processes in both checkouts take turns: while one measures, the others wait, so a busy machine slows all.
Prints the best time of each and their ratio, and as a yardstick the ratio of this checkout to itself.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROUNDS = 7
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Runs in both checkouts: only public names of both.
WORKER = """
import json, sys, time
import numpy as np, keras, tensorflow as tf
import athe_tf
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.uniform(size=(64, 32, 32, 3)).astype("float32")
net = athe_tf.models.build("wrn-10-1", 10, head="he")
y = np.asarray(net(x)).argmax(1)
trainer = athe_tf.training.TRADES(net, athe_tf.attacks.PGD(8 / 255, steps=5), margin=0.2)
trainer.compile(athe_tf.training.TorchSGD(1e-9))
data = tf.constant(x), tf.constant(y)
frozen = keras.models.clone_model(net)
frozen.set_weights(net.get_weights())
pgd = athe_tf.attacks.PGD(0.0001, steps=20)
cascade = athe_tf.attacks.get("autoattack-smoke", epsilon=0.0001)
tasks = {
    "training step": lambda: [trainer.train_on_batch(*data) for _ in range(3)],
    "PGD-20": lambda: pgd.run(frozen, x, y),
    "AutoAttack (smoke)": lambda: cascade.run(frozen, x[:16], y[:16]),
}
for task in tasks.values():
    task()
print("ready", flush=True)
for line in sys.stdin:
    task = tasks[line.strip()]
    began = time.perf_counter()
    task()
    print(json.dumps(time.perf_counter() - began), flush=True)
"""
TASKS = ("training step", "PGD-20", "AutoAttack (smoke)")


class Worker:
    """A process in a checkout that measures on request."""

    def __init__(self, checkout: pathlib.Path):
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(checkout)!r})\n{WORKER}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=checkout, text=True, **pipes)
        while self.answer() != "ready":
            pass

    def answer(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("A worker ended; run it by hand to see why.")
        return line.strip()

    def seconds(self, task: str) -> float:
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()
        return float(json.loads(self.answer()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=pathlib.Path, help="A checkout of another version.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    workers = {"here": Worker(ROOT), "again": Worker(ROOT), "other": Worker(options.other.resolve())}
    for task in TASKS:
        best = dict.fromkeys(workers, float("inf"))
        for _ in range(options.rounds):
            for name, worker in workers.items():
                best[name] = min(best[name], worker.seconds(task))
        here, again, other = (1000 * best[name] for name in ("here", "again", "other"))
        print(f"{task}: here {here:.1f} ms, other {other:.1f} ms, ratio {here / other:.3f}", end="")
        print(f"; here beside here {here / again:.3f}", flush=True)
    for worker in workers.values():
        worker.process.kill()


if __name__ == "__main__":
    main()
