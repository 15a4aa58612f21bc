"""`swift` where evaluations go wrong: broken defenses, beside healthy models (docs/fast_evaluation.md).

    python -m benchmarks.broken_models --state=DIR
    python -m benchmarks.broken_models --state=DIR --rows='rounded.*' --columns=swift

A row is a model, a column an attack. `reference` is made for the defense, if there is one: through the same
network without it, with the gradient of the identity in place of its own, over averages of its randomness, or
with gradients of a healthy twin. What is adversarial is always judged by the model itself. An image is robust
if it withstands all columns: their share is the truth of a row. `two-phase` is the start of the margin
decomposition attack, to see what `swift` would gain by it. A row holds if `swift` is at most 0.5 points above
the truth, or warns; for a healthy model, if it is and does not.

Digits models are trained here, by the files in `configs/` and the flags below; CIFAR-10 models are those of
`results/cifar10_mini`, and two that are trained on from them with too large a step. `--state` keeps models
and what every attack found, so that the table can be built over several sessions; delete `ROW.COLUMN.json`
to repeat a cell.
"""

import argparse
import functools
import json
import math
import pathlib
import re
from typing import NamedTuple

import athe_tf  # before keras
from athe_tf.attacks import Attack, Victim, losses, victim
from athe_tf.attacks.cascade import EOT_SAMPLES
from athe_tf.attacks.engine.gradients import gradient_of
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs
from athe_tf.programs.run import train
from athe_tf.programs.train import PROGRAM
from athe_tf.programs.workdir import Workdir, find_model
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.where import where_rows
from benchmarks.timing import table

import keras  # isort: skip
import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

ROOT = pathlib.Path(__file__).resolve().parent.parent
RADII = {"digits": 0.2, "cifar10": 8 / 255}
COLUMNS = ("fgsm", "pgd-50", "cr", "swift", "autoattack", "two-phase", "reference")
# `cr` is the first stage of `swift`, in the same run.
MEASURED = tuple(column for column in COLUMNS if column != "cr")
# Above the truth by more than this, in points, a result of `swift` must carry a warning.
TOLERANCE = 0.5

#: Thresholds of `swift` were chosen on models of smaller seeds.
SEED = "--seed=11"
_HE = "digits_fast_at_he.flags"
_ONE_STEP = (
    "digits_fast_at.flags", "--guard_drop=0", "--start=zero", "--epochs=40", "--learning_rate=0.2"
)  # fmt: skip
_FROM = (
    "cifar_fast_at.flags --model=wrn-10-1 --max_train_examples=8000 --validation_size=200 --epochs=2 "
    "--guard_drop=0 --learning_rate=0.2 --initial_model=fast_at_seed{}"
)
#: Flags of the models that are trained here; the last epoch counts, not the best.
TRAINED = {
    "standard": ("digits_standard.flags",),
    "pgd_at": ("digits_pgd_at.flags",),
    "pgd_at_he": ("digits_pgd_at_he.flags",),
    "fast_at": ("digits_fast_at.flags",),
    "fast_at_he": ("digits_fast_at_he.flags",),
    "free_at": ("digits_free_at.flags",),
    "n_fgsm": ("digits_fast_nfgsm.flags",),
    "alp_he": ("digits_alp_he.flags",),
    "overfit_2": (*_ONE_STEP, "--epsilon=0.2", "--step_size=0.2"),
    "overfit_3": (*_ONE_STEP, "--epsilon=0.3", "--step_size=0.3"),
    "overfit_4": (*_ONE_STEP, "--epsilon=0.4", "--step_size=0.4"),
    "overfit_4_he": (_HE, *_ONE_STEP[1:], "--epsilon=0.4", "--step_size=0.4"),
    "overfit_large_step": (*_ONE_STEP, "--start=uniform", "--epsilon=0.4", "--step_size=0.8"),
    "cifar_zero": (*_FROM.format(0).split(), "--start=zero", "--epsilon=16/255", "--step_size=16/255"),
    "cifar_large_step": (*_FROM.format(1).split(), "--epsilon=12/255", "--step_size=24/255"),
}
SHARED: dict[tuple[str, str], keras.Model] = {}
CIFAR_RUNS = ("fast_at_he_seed0", "fast_at_mhe_seed0", "fast_at_seed1")


class Row(NamedTuple):
    """A model, and how its defense is attacked."""

    target: Victim
    source: Victim | None = None  # where the reference takes its gradients
    randomized: bool = False
    dataset: str = "digits"
    healthy: bool = False


class TwoPhase(Attack):
    """The start of the margin decomposition attack: one logit of the margin at a time, then both.

    One step raises the true logit; five follow one of the two logits of the margin alone, in the first round
    that of the label, in the second the largest other; five follow the margin.
    """

    name = "two-phase"
    steps, restarts = 11, 2

    def costs(self, victim):
        return Costs(self.steps, backward=1)

    def run_round(self, victim, x, y, ids, seed, round_index):
        def body(i, state, constants):
            images, labels = constants
            x_adv = state[0]

            def objective(v):
                logits = victim.source.logits(v)
                true, margin = tf.gather(logits, labels, batch_dims=1), losses.margin(logits, labels)
                alone = tf.where(tf.equal(round_index, 0), -true, margin + true)
                return tf.where(i == 0, true, tf.where(i <= 5, alone, margin)), logits

            logits, gradient, bad = gradient_of(objective, x_adv)
            wrong, judged = self.verdict(victim, x_adv, logits, labels)
            moved = self.threat.project(images, x_adv + self.epsilon / 2 * self.threat.ascent(gradient))
            return [where_rows(wrong, x_adv, moved), wrong], wrong, bad, judged

        def last(state, constants):
            logits = victim.source.logits(state[0])
            wrong, judged = self.verdict(victim, state[0], logits, constants[1], last=True)
            return [state[0], wrong], judged

        start = self.threat.random_start(x, ids, seed)
        loop = shrinking_loop(body, [start, tf.zeros_like(y) > 0], [x, y], self.steps, last)
        return self.round_result(victim, x, *loop.state, loop)


def trained(name: str, state: pathlib.Path) -> keras.Model:
    """A model of `TRAINED`, from the state folder once it is there."""
    folder = state / "models" / name
    if not (folder / "final.keras").exists():
        file, *flags = TRAINED[name]
        for index, flag in enumerate(flags):
            if flag.startswith("--initial_model="):
                flags[index] = f"--initial_model={of_study(flag.partition('=')[2])}"
        own = [SEED, *flags, f"--workdir={folder}"]
        arguments = ["bin/train", f"--flagfile={ROOT / 'configs' / file}", *own]
        config = PROGRAM.read(arguments)[0]
        train(config, athe_tf.data.load(config.dataset), Workdir(folder), write=lambda *_, **__: None)
    return load_model(folder / "final.keras")


def victim_of(net: keras.Model, role: str = "target") -> Victim:
    """The victim of the first network with these layers, with the weights of this one.

    So an attack is compiled once for all rows with one architecture. Victims that are in use at the same time
    differ in `role`.
    """
    layers = re.sub(r'_\d+"', '"', re.sub(r'"shared_object_id": \d+', "", net.to_json()))
    first = SHARED.setdefault((role, layers), net)
    first.set_weights(net.get_weights())
    return victim(first)


def of_study(run: str) -> pathlib.Path:
    """The file of a CIFAR-10 model."""
    return find_model(ROOT / "results" / "cifar10_mini" / run)


def fitted(build, name: str, state: pathlib.Path) -> keras.Model:
    """A network that this file defines, trained on the clean digits for 15 epochs."""
    keras.utils.set_random_seed(0)
    net, path = build(), state / "models" / f"{name}.weights.h5"
    if path.exists():
        net.load_weights(path)
        return net
    x, y = athe_tf.data.load("digits").train.arrays(None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile("adam", loss)
    net.fit(x, y, epochs=15, batch_size=64, verbose=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    net.save_weights(path)
    return net


def k_winners(share: float):
    """A network whose activation keeps the largest entries of each layer only (Xiao et al., 2020)."""

    def winners(h):
        size = math.prod(h.shape[1:])
        rows = keras.ops.reshape(h, (-1, size))
        least = keras.ops.top_k(rows, int(share * size))[0][:, -1:]
        return keras.ops.reshape(keras.ops.where(rows >= least, rows, 0.0), keras.ops.shape(h))

    def build():
        layers = keras.layers
        inputs = keras.Input((8, 8, 1))
        h = inputs
        for filters, stride in ((16, 1), (32, 2), (64, 2)):
            h = layers.BatchNormalization()(layers.Conv2D(filters, 3, stride, "same")(h))
            h = layers.Lambda(winners, output_shape=h.shape[1:])(h)
        h = layers.Lambda(winners, output_shape=(128,))(layers.Dense(128)(layers.Flatten()(h)))
        return keras.Model(inputs, layers.Dense(10)(h))

    return build


def on_code():
    """A small network for images with 10 channels."""
    layers = keras.layers
    steps = [layers.Conv2D(f, 3, s, "same", activation="relu") for f, s in ((16, 1), (32, 2), (64, 2))]
    dense = [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)]
    return keras.Sequential([keras.Input((8, 8, 1)), Thermometer(), *steps, *dense])


class Thermometer(keras.layers.Layer):
    """Every pixel as ten bits, of which as many are 1 as its level says; with `soft`, with a gradient."""

    soft = False

    def call(self, inputs):
        heights = 10 * inputs - tf.range(10, dtype=tf.float32)
        soft = tf.clip_by_value(heights, 0.0, 1.0)
        return soft if self.soft else stairs(soft)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 10)


def on_soft_code(net: keras.Model):
    """The network behind the soft code: where the reference takes its gradients."""
    soft = Thermometer()
    soft.soft = True

    def logits(x):
        h = soft(x)
        for layer in net.layers[1:]:
            h = layer(h)
        return h

    return logits


def stairs(x):
    """Whole numbers, with a gradient of zero; without any, attacks refuse the model and say so."""
    return tf.round(x) + 0.0 * x


def rounded(bits: int):
    """Pixels of so many bits."""
    return lambda x: stairs(x * (2**bits - 1)) / (2**bits - 1)


def _cosines() -> np.ndarray:
    place = np.arange(8)
    basis = np.cos(np.pi * (2 * place + 1) * place[:, np.newaxis] / 16) / 2
    basis[0] /= np.sqrt(2)
    return basis.astype("float32")


def jpeg(step: float):
    """The cosine transform of 8 x 8 blocks, rounded to multiples of a step that grows with the frequency."""
    basis = _cosines()
    steps = (step * (1 + np.add.outer(np.arange(8), np.arange(8)))).astype("float32")[..., np.newaxis]

    def compressed(x):
        spectrum = tf.einsum("ui,vj,nijc->nuvc", basis, basis, x)
        kept = stairs(spectrum / steps) * steps
        return tf.clip_by_value(tf.einsum("ui,vj,nuvc->nijc", basis, basis, kept), 0.0, 1.0)

    return compressed


def shattered(x):
    """The image, with a ripple of 0.005 whose slope is five times that of the image."""
    return x + 0.005 * tf.sin(1000.0 * x)


@tf.custom_gradient
def reversed_gradient(x):
    """The image, with a gradient that points the other way and is a fifth longer."""
    return tf.identity(x), lambda upstream: -1.2 * upstream


def odd(x):
    """Whether an image has more high frequencies than 99 of 100 clean digits."""
    rough = tf.reduce_mean(tf.abs(x[:, 1:] - x[:, :-1]), axis=[1, 2, 3])
    return rough > 0.245


def rows(state: pathlib.Path) -> dict:
    """What makes each row; nothing is trained or loaded before it is called."""

    def of(name):
        return lambda: Row(victim_of(trained(name, state)), healthy=True)

    def overfitted(name, twin):
        return lambda: Row(victim_of(trained(name, state)), victim_of(trained(twin, state), "source"))

    def behind(name, function, randomized=False):
        def make():
            net = victim(trained(name, state))
            defended = Victim(lambda x: net.logits(function(x)), num_classes=10)
            plain = Victim(lambda x: tf.add_n([defended.logits(x)] * EOT_SAMPLES), num_classes=10)
            return Row(defended, plain if randomized else net, randomized)

        return make

    def changed(name, function, dataset="digits"):
        """The logits of a network, changed by a function of `(logits of the network, images)`."""

        def make():
            net = victim(trained(name, state))
            return Row(Victim(lambda x: function(net.logits, x), num_classes=10), net, dataset=dataset)

        return make

    def dropped(logits, x):
        return logits(x * tf.cast(tf.random.uniform(tf.shape(x)) > 0.2, tf.float32))

    def cancelling(logits, x):
        return (logits(x) + logits(reversed_gradient(x))) / 2

    def detecting(logits, x):
        return tf.where(odd(x)[:, tf.newaxis], 20.0 * tf.one_hot([3], 10), logits(x))

    def thermometer():
        net = fitted(on_code, "thermometer", state)
        return Row(victim(net), Victim(on_soft_code(net), num_classes=10))

    def winners(share):
        def make():
            net = fitted(k_winners(share), f"k_winners_{share:g}", state)
            return Row(victim(net), victim(trained("standard", state)))

        return make

    def of_cifar(name):
        return lambda: Row(victim_of(load_model(of_study(name))), dataset="cifar10", healthy=True)

    def overfitted_cifar(name, twin):
        def make():
            source = victim_of(load_model(of_study(twin)), "source")
            return Row(victim_of(trained(name, state)), source, dataset="cifar10")

        return make

    noise = lambda x: x + tf.random.normal(tf.shape(x), stddev=0.1)  # noqa: E731
    return {
        "digits, PGD-AT": of("pgd_at"),
        "digits, PGD-AT, HE": of("pgd_at_he"),
        "digits, FastAT": of("fast_at"),
        "digits, FastAT, HE": of("fast_at_he"),
        "digits, FreeAT": of("free_at"),
        "digits, N-FGSM": of("n_fgsm"),
        "digits, ALP, HE": of("alp_he"),
        "digits, standard training": of("standard"),
        **{f"CIFAR-10, {name}": of_cifar(name) for name in CIFAR_RUNS},
        "one step from zero, epsilon 0.2": overfitted("overfit_2", "fast_at"),
        "one step from zero, epsilon 0.3": overfitted("overfit_3", "fast_at"),
        "one step from zero, epsilon 0.4": overfitted("overfit_4", "fast_at"),
        "one step from zero, epsilon 0.4, HE": overfitted("overfit_4_he", "fast_at_he"),
        "one step of 2 epsilon, epsilon 0.4": overfitted("overfit_large_step", "fast_at"),
        "CIFAR-10, one step from zero": overfitted_cifar("cifar_zero", "fast_at_seed0"),
        "CIFAR-10, one step of 2 epsilon": overfitted_cifar("cifar_large_step", "fast_at_seed1"),
        "k-winners, a fifth": winners(0.2),
        "k-winners, a tenth": winners(0.1),
        "rounded to 8 bits": behind("fast_at", rounded(8)),
        "rounded to 4 bits": behind("fast_at", rounded(4)),
        "rounded to 2 bits": behind("standard", rounded(2)),
        "thermometer code": thermometer,
        "JPEG-like": behind("fast_at", jpeg(0.1)),
        "dropout of pixels": lambda: changed("fast_at", dropped)()._replace(randomized=True),
        "noise": behind("fast_at", noise, randomized=True),
        "logits / 1000": changed("fast_at", lambda logits, x: logits(x) / 1000),
        "logits x 10": changed("fast_at", lambda logits, x: logits(x) * 10),
        "logits x 10,000": changed("fast_at", lambda logits, x: logits(x) * 10_000),
        "shattered gradients": behind("fast_at", shattered),
        "cancelling ensemble": changed("fast_at", cancelling),
        "detector of odd images": changed("fast_at", detecting),
    }


def attacks_of(column: str, row: Row, epsilon: float) -> tuple[Victim, list[Attack]]:
    """`(what is attacked, the attacks)` of a cell."""
    if column == "two-phase":
        return row.target, [attack_of(TwoPhase, epsilon)]
    if column != "reference":
        column = "autoattack-rand" if column == "autoattack" and row.randomized else column
        return row.target, [attack_of(column, epsilon)]
    if row.source is None:
        return row.target, []
    through = row.target.replace(source=row.source)
    return through, [attack_of(name, epsilon) for name in ("apgd-dlr-50x2", "cr")]


@functools.cache
def attack_of(kind, epsilon: float) -> Attack:
    """One attack for all rows."""
    return athe_tf.attacks.get(kind, epsilon=epsilon) if isinstance(kind, str) else kind(epsilon)


def file_of(name: str, column: str, state: pathlib.Path) -> pathlib.Path:
    """Where the state folder has a cell."""
    return state / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.{column}.json"


def measured(name: str, column: str, make, images: dict, state: pathlib.Path, batch_size: int) -> dict | None:
    """What the attacks of a cell found, from the state folder once it is there; `None` without any."""
    file = file_of(name, column, state)
    if file.exists():
        return json.loads(file.read_text())
    row = make()
    target, attacks = attacks_of(column, row, RADII[row.dataset])
    if not attacks:
        return None
    results = [attack.run(target, *images[row.dataset], batch_size=batch_size) for attack in attacks]
    first, notes = results[0], [note for note in results[0].notes if not note.startswith("This is 'swift'")]
    found = {
        "healthy": row.healthy,
        "attacks": [repr(attack) for attack in attacks],
        "robust": flags_of(np.logical_and.reduce([~result.success for result in results])),
        "stages": {stage.name: flags_of(first.robust_after(stage)) for stage in first.stages},
        "passes": float(sum(result.passes.mean() for result in results)),
        "warnings": notes,
    }
    file.write_text(json.dumps(found))
    return found


def flags_of(robust: np.ndarray) -> str:
    """One digit per image."""
    return "".join(map(str, robust.astype(int)))


def line(name: str, cells: dict[str, dict]) -> tuple:
    """A row of the table."""
    flags = {column: cell["robust"] for column, cell in cells.items()}
    flags["cr"] = cells["swift"]["stages"]["cr"]
    robust = {column: np.array([*text]) == "1" for column, text in flags.items()}
    truth = np.logical_and.reduce(list(robust.values()))
    above = 100 * (robust["swift"].mean() - truth.mean())
    warnings, within = cells["swift"]["warnings"], above <= TOLERANCE
    fine = within and not warnings if cells["swift"]["healthy"] else within or bool(warnings)
    shares = [f"{100 * robust[column].mean():.1f}" if column in robust else "" for column in COLUMNS]
    told = [f"{above:+.1f}", str(len(warnings)), "yes" if fine else "NO"]
    passes = [f"{cells[one]['passes']:,.0f}" if one in cells else "" for one in ("swift", "autoattack")]
    return (name, str(len(truth)), *shares, f"{100 * truth.mean():.1f}", *told, *passes)


def main() -> None:
    """Measures, and prints the table and the warnings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--state", type=pathlib.Path, required=True, help="a folder for models and results")
    parser.add_argument("--rows", default=".*", help="a regular expression: only rows whose name matches")
    parser.add_argument(
        "--columns", default=",".join(MEASURED), help="only these are measured, and what is known is printed"
    )
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--cifar_images", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=300)
    parser.add_argument("--data_dir")
    arguments = parser.parse_args()
    arguments.state.mkdir(parents=True, exist_ok=True)
    columns = arguments.columns.split(",")
    made = rows(arguments.state)
    chosen = {name: make for name, make in made.items() if re.fullmatch(arguments.rows, name)}
    images = {}
    for dataset, count in zip(RADII, (arguments.images, arguments.cifar_images), strict=True):
        if any(("CIFAR" in name) == (dataset == "cifar10") for name in chosen):
            splits = athe_tf.data.load(dataset, data_dir=arguments.data_dir)
            images[dataset] = splits.test.arrays(count)
    found: dict[str, dict] = {name: {} for name in chosen}
    for column in MEASURED:
        for name, make in chosen.items():
            if column not in columns and not file_of(name, column, arguments.state).exists():
                continue
            cell = measured(name, column, make, images, arguments.state, arguments.batch_size)
            found[name] |= {column: cell} if cell else {}
    found = {name: cells for name, cells in found.items() if "swift" in cells}
    told = ("truth", "swift above it", "warnings", "holds")
    head = ("model", "images", *COLUMNS, *told, *(f"passes: {one}" for one in ("swift", "autoattack")))
    print(table([head, *(line(name, cells) for name, cells in found.items())]), "\n")
    for name, cells in found.items():
        for warning in cells["swift"]["warnings"]:
            print(f"- {name}: {warning}")


if __name__ == "__main__":
    main()
