"""Speed and strength of our attacks beside the same attacks in foolbox, ART and cleverhans.

    python -m benchmarks.attacks --model=runs/cifar_wrn10 --data_dir=DIR --epsilon=4/255
    python -m benchmarks.attacks --memory                  # peak memory at 20 and at 500 steps

Needs the packages of the `crosscheck` extra for the peers that are to be measured; what is missing is left
out. All run in one process, interleaved, on the same Keras model and images. Choose an epsilon at which
about half of the images are robust: that is where it matters that images leave the batch as they fall.
"""

import argparse
import contextlib
import resource
import subprocess
import sys

import athe_tf
from benchmarks.timing import interleaved, table

import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

from athe_tf import attacks
from athe_tf.programs.workdir import find_model, run_of
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.number_format import format_number, parse_number

CW = {"search_steps": 3, "learning_rate": 0.05, "initial_c": 1.0}
CW_STEPS = 40


class Bench:
    """A model, images, and the ways to attack them; every function returns who is still robust."""

    def __init__(self, model, x, y, epsilon, batch_size):
        self.model, self.x, self.y = model, x, y.astype("int64")
        self.epsilon, self.batch_size = epsilon, batch_size
        self.l2 = 0.5

    def ours(self, name, norm="linf", **kwargs):
        """One of our attacks."""
        radius = self.epsilon if norm == "linf" else self.l2
        attack = attacks.get(name, epsilon=radius, norm=norm, **kwargs)
        return lambda: ~attack.run(self.model, self.x, self.y, batch_size=self.batch_size).success

    def in_batches(self, craft):
        """A peer's attack: from a batch to adversarial images."""
        predict = athe_tf.victim(self.model).compiled_logits

        def run():
            robust = []
            for start in range(0, len(self.x), self.batch_size):
                x, y = (part[start : start + self.batch_size] for part in (self.x, self.y))
                x_adv = np.asarray(craft(x, y), np.float32)
                right = [np.asarray(predict(tf.constant(v))).argmax(1) == y for v in (x, x_adv)]
                robust.append(right[0] & right[1])
            return np.concatenate(robust)

        return run

    def rows(self) -> dict:
        """From an attack to `{whose: function}`."""
        step = self.epsilon / 4
        rows = {
            "PGD-20": {"athe_tf": self.ours("pgd-20", step_size=step)},
            "MIM-20": {"athe_tf": self.ours("mim-20", step_size=step)},
            "DeepFool l2, 20 steps": {"athe_tf": self.ours("deepfool-20", "l2")},
            f"C&W l2, {CW['search_steps']} x {CW_STEPS} steps": {
                "athe_tf": self.ours(f"cw-l2-{CW_STEPS}", "l2", **CW)
            },
            "APGD-CE-100": {"athe_tf": self.ours("apgd-ce-100")},
        }
        for peer in (self.cleverhans, self.foolbox, self.art):
            with contextlib.suppress(ImportError):
                for name, function in peer(step).items():
                    row = next(label for label in rows if label.startswith(name))
                    rows[row][peer.__name__] = function
        return rows

    def cleverhans(self, step):
        """The attacks that work in cleverhans 4 on Keras 3."""
        from cleverhans.tf2.attacks.momentum_iterative_method import momentum_iterative_method
        from cleverhans.tf2.attacks.projected_gradient_descent import projected_gradient_descent

        net = self.model
        box = {"clip_min": 0.0, "clip_max": 1.0, "sanity_checks": False}

        def forward(x):
            return net(x, training=False)

        def pgd(x, y):
            return projected_gradient_descent(
                forward, tf.constant(x), self.epsilon, step, 20, np.inf, y=y, rand_init=True,
                rand_minmax=self.epsilon, **box,
            )  # fmt: skip

        def mim(x, y):
            return momentum_iterative_method(
                forward, tf.constant(x), self.epsilon, step, 20, np.inf, y=y, **box
            )

        return {"PGD-20": self.in_batches(pgd), "MIM-20": self.in_batches(mim)}

    def foolbox(self, step):
        """Their momentum attack accumulates signs, which is another attack, so it is left out."""
        import foolbox

        wrapped = foolbox.TensorFlowModel(self.model, bounds=(0, 1))

        def using(attack, radius):
            def craft(x, y):
                return attack(wrapped, tf.constant(x), tf.constant(y), epsilons=[radius])[1][0]

            return self.in_batches(craft)

        pgd = foolbox.attacks.LinfPGD(abs_stepsize=step, steps=20)
        deepfool = foolbox.attacks.L2DeepFoolAttack(steps=20, overshoot=0.02, candidates=10)
        carlini = foolbox.attacks.L2CarliniWagnerAttack(
            binary_search_steps=CW["search_steps"],
            steps=CW_STEPS,
            stepsize=CW["learning_rate"],
            initial_const=CW["initial_c"],
        )
        return {
            "PGD-20": using(pgd, self.epsilon),
            "DeepFool": using(deepfool, self.l2),
            "C&W": using(carlini, self.l2),
        }

    def art(self, step):
        """Their DeepFool and C&W work image by image and are left out: minutes for a batch."""
        from art.attacks.evasion import AutoProjectedGradientDescent, ProjectedGradientDescent
        from art.estimators.classification import TensorFlowV2Classifier

        classifier = TensorFlowV2Classifier(
            self.model,
            nb_classes=self.model.output_shape[-1],
            input_shape=self.x.shape[1:],
            loss_object=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            clip_values=(0, 1),
        )
        common = {"eps": self.epsilon, "batch_size": self.batch_size, "verbose": False}
        pgd = ProjectedGradientDescent(classifier, eps_step=step, max_iter=20, num_random_init=1, **common)
        apgd = AutoProjectedGradientDescent(
            classifier, eps_step=2 * self.epsilon, max_iter=100, nb_random_init=1, loss_type="cross_entropy",
            **common,
        )  # fmt: skip
        return {
            "PGD-20": self.in_batches(lambda x, y: pgd.generate(x, y)),
            "APGD-CE-100": self.in_batches(lambda x, y: apgd.generate(x, y)),
        }


def compare(bench: Bench, repeats: int, wanted: str) -> str:
    """A table: accuracy, seconds, and the peers' time over ours."""
    lines = [("attack", "whose", "robust accuracy", "seconds", "their time over ours")]
    rows = {name: row for name, row in bench.rows().items() if any(w in name for w in wanted.split(","))}
    for name, functions in rows.items():
        robust = {who: function().mean() for who, function in functions.items()}
        best = interleaved(functions, repeats, warm_up=0)
        for who, seconds in best.items():
            ratio = "" if who == "athe_tf" else f"{seconds / best['athe_tf']:.2f}"
            lines.append((name, who, f"{100 * robust[who]:.2f}%", f"{seconds:.2f}", ratio))
    return table(lines)


def memory_at(steps: int) -> float:
    """Peak memory in MiB of a process that runs so many PGD steps."""
    code = f"from benchmarks.attacks import run_pgd; run_pgd({steps})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def run_pgd(steps: int) -> None:
    """Runs PGD on a WRN-10-1 that cannot be fooled, and prints the peak memory in MiB."""
    net = athe_tf.models.build("wrn-10-1", 10)
    x = np.random.default_rng(0).uniform(size=(128, 32, 32, 3)).astype("float32")
    y = np.asarray(net(x)).argmax(1)
    attacks.PGD(1e-9, steps=steps).run(net, x, y)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a .keras file or the folder of a training run")
    parser.add_argument("--data_dir")
    parser.add_argument("--epsilon", type=parse_number, default=8 / 255)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", default="", help="attacks whose names contain one of these")
    parser.add_argument("--memory", action="store_true", help="peak memory at 20 and at 500 steps")
    arguments = parser.parse_args()
    if arguments.memory:
        for steps in (20, 500):
            print(f"PGD-{steps}: {memory_at(steps):.0f} MiB at its highest")
        return
    run = run_of(arguments.model)
    dataset = run.read_config().dataset if run else "cifar10"
    model = load_model(find_model(arguments.model))
    x, y = athe_tf.data.load(dataset, data_dir=arguments.data_dir).test.arrays(4 * arguments.images)
    right = np.flatnonzero(model.predict(x, verbose=0).argmax(1) == y)[: arguments.images]
    x, y = x[right], y[right]
    bench = Bench(model, x, y, arguments.epsilon, arguments.batch_size)
    print(
        f"{model.name} on {len(x)} images of {dataset} that it gets right; "
        f"linf {format_number(arguments.epsilon)}, l2 {bench.l2}, batch {arguments.batch_size}, "
        f"best of {arguments.repeats}\n"
    )
    print(compare(bench, arguments.repeats, arguments.rows))


if __name__ == "__main__":
    main()
