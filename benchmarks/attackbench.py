"""Our attacks beside foolbox's, ART's and cleverhans', judged by one victim that counts passes (AttackBench).

    python -m benchmarks.attackbench --model=runs/A --dataset=digits --norm=linf --epsilon=0.2
    python -m benchmarks.attackbench --model=zoo:cifar10-fast-at-wrn10-1 --dataset=cifar10 --epsilon=8/255
    python -m benchmarks.attackbench --dataset=cifar10 --summary --save=results/attackbench

The rules are those of Cina et al., "AttackBench", AAAI 2025: every image in a forward or backward call costs
one pass; from 2,000 on the victim answers the true class without a gradient. The distance of an image is the
smallest over all queries that were misclassified and in the box, whatever the attack returns: 0 if the clean
image is misclassified, infinite if none was. The optimality of an attack compares the area under its curve of
robust accuracy over epsilon with that of the per-image best of all attacks here.

An attack with a fixed radius is run at the same ten radii, whoever wrote it, from a quarter of `--epsilon` to
three times that, with a tenth of the budget at each. `epsilon-search` is ours and chooses radii per image.

`--save` keeps what was measured in one file per model and norm, so that the same command goes on there;
`--summary` prints these files as one table per norm, and measures nothing.

What is not installed is left out.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Iterator

import athe_tf  # before tensorflow
from benchmarks.timing import table

import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

from athe_tf.programs.workdir import find_model
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.number_format import format_number, parse_number
from benchmarks.counting_victim import BUDGET, ORDERS, CountingVictim

RADII = 10
Craft = Callable[[np.ndarray, np.ndarray], object]


def optimality(distances: dict[str, np.ndarray]) -> dict[str, float]:
    """How near the curve of each attack is to that of the best attack for each image: 1 is the best.

    Args:
        distances: From each attack to the distance of each image; 0 for images that are wrong when clean.
    """
    best = np.minimum.reduce(list(distances.values()))
    clean = float((best > 0).mean())
    largest = float(best[np.isfinite(best)].max(initial=0.0))
    lowest = area(best, largest)
    scale = clean * largest - lowest
    return {
        name: 1.0 - (area(found, largest) - lowest) / scale if scale > 0 else 1.0
        for name, found in distances.items()
    }


def area(distances: np.ndarray, largest: float) -> float:
    """The area under the share of images that are robust at epsilon, for epsilon up to the largest."""
    return float(np.minimum(distances, largest).mean())


@dataclasses.dataclass
class Bench:
    """The attacks in one norm; each is a function from images and labels that asks the victim."""

    victim: CountingVictim
    norm: str
    epsilon: float

    @property
    def radii(self) -> np.ndarray:
        """What attacks with a fixed radius are run at."""
        return np.geomspace(self.epsilon / 4, 3 * self.epsilon, RADII)

    def attacks(self) -> dict[str, Craft]:
        """All attacks by name; packages that cannot be imported are left out."""
        found = dict(self.ours())
        for peer in (self.foolbox, self.art, self.cleverhans):
            with contextlib.suppress(ImportError):
                found |= dict(peer())
        return found

    def at_radii(self, make: Callable[[float], Craft]) -> Craft:
        """The attack with each radius in turn."""

        def craft(x, y):
            for radius in self.radii:
                make(float(radius))(x, y)

        return craft

    def ours(self) -> Iterator[tuple[str, Craft]]:
        """Ours, with as many steps as the budget allows."""
        steps, targets = BUDGET // RADII // 2 - 2, 3
        targeted = {"steps": BUDGET // RADII // (2 * targets) - 2, "n_targets": targets}
        victim = athe_tf.victim(self.victim, num_classes=self.victim.classes)

        def run(name: str, epsilon=self.epsilon, **kwargs) -> Craft:
            attack = athe_tf.attacks.get(name, epsilon=epsilon, norm=self.norm, **kwargs)
            return lambda x, y: attack.run(victim, x, y, batch_size=len(x))

        def fixed(name: str, **kwargs) -> Craft:
            return self.at_radii(lambda radius: run(name, radius, **kwargs))

        def search(name: str, **kwargs) -> Craft:
            return run("epsilon-search", attack=name, attack_arguments=kwargs, search_steps=RADII)

        yield "athe_tf pgd", fixed(f"pgd-{steps}")
        yield "athe_tf apgd-ce", fixed(f"apgd-ce-{steps}")
        yield "athe_tf apgd-t", fixed("apgd-t", **targeted)
        yield "athe_tf apgd-ce, epsilon-search", search(f"apgd-ce-{steps}")
        yield "athe_tf apgd-t, epsilon-search", search("apgd-t", **targeted)
        yield "athe_tf fmn", run(f"fmn-{BUDGET // 2 - 2}")
        # A step differentiates all logits; toward one target it takes three passes.
        others = self.victim.classes - 1
        yield "athe_tf fab", run(f"fab-{BUDGET // (others + 2)}")
        yield "athe_tf fab-t", run(f"fab-t-{BUDGET // (3 * others)}", n_targets=others)
        if self.norm == "l2":
            yield "athe_tf ddn", run(f"ddn-{BUDGET // 2 - 2}")

    def foolbox(self) -> Iterator[tuple[str, Craft]]:
        """foolbox's."""
        import foolbox

        model = foolbox.TensorFlowModel(self.victim.compiled, bounds=(0.0, 1.0))
        kinds = foolbox.attacks
        steps, many = BUDGET // RADII // 2 - 2, BUDGET // 2 - 2

        def run(attack, radius) -> Craft:
            # int64, because eagerpy cannot promote int32 under NumPy 2.
            return lambda x, y: attack(model, tf.constant(x), tf.constant(y, tf.int64), epsilons=radius)

        def fixed(kind) -> Craft:
            return self.at_radii(lambda radius: run(kind(steps=steps), radius))

        fixed_radius = {
            "linf": {"pgd": kinds.LinfPGD, "bim": kinds.LinfBasicIterativeAttack},
            "l2": {"pgd": kinds.L2PGD, "bim": kinds.L2BasicIterativeAttack},
            "l1": {"pgd": kinds.L1PGD, "sparse": kinds.SparseL1DescentAttack},
        }
        minimum_norm = {
            "linf": {"fmn": kinds.LInfFMNAttack},
            "l2": {"fmn": kinds.L2FMNAttack, "ddn": kinds.DDNAttack},
            "l1": {"fmn": kinds.L1FMNAttack},
        }
        for name, kind in fixed_radius[self.norm].items():
            yield f"foolbox {name}", fixed(kind)
        for name, kind in minimum_norm[self.norm].items():
            yield f"foolbox {name}", run(kind(steps=many), None)
        if self.norm == "l1":
            yield "foolbox ead", run(kinds.EADAttack(binary_search_steps=9, steps=many // 9), None)
        if self.norm == "l2":
            yield (
                "foolbox c&w",
                run(kinds.L2CarliniWagnerAttack(binary_search_steps=9, steps=many // 9), None),
            )

    def art(self) -> Iterator[tuple[str, Craft]]:
        """ART's."""
        from art.attacks.evasion import AutoProjectedGradientDescent, ProjectedGradientDescent
        from art.estimators.classification import TensorFlowV2Classifier

        steps = BUDGET // RADII // 2 - 2
        classifier = TensorFlowV2Classifier(
            lambda images, training=False: self.victim.compiled(tf.cast(images, tf.float32)),
            nb_classes=self.victim.classes,
            input_shape=self.victim.images.shape[1:],
            loss_object=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            clip_values=(0.0, 1.0),
        )
        common = {"norm": ORDERS[self.norm], "batch_size": len(self.victim.x), "verbose": False}

        def pgd(radius: float) -> Craft:
            return ProjectedGradientDescent(
                classifier, eps=radius, eps_step=radius / 4, max_iter=steps, num_random_init=1, **common
            ).generate

        def apgd(radius: float) -> Craft:
            return AutoProjectedGradientDescent(
                classifier, eps=radius, eps_step=2 * radius, max_iter=steps, nb_random_init=1,
                loss_type="cross_entropy", **common,
            ).generate  # fmt: skip

        yield "art pgd", self.at_radii(pgd)
        yield "art apgd", self.at_radii(apgd)

    def cleverhans(self) -> Iterator[tuple[str, Craft]]:
        """cleverhans', which has no projection to the l1 ball."""
        from cleverhans.tf2.attacks.projected_gradient_descent import projected_gradient_descent

        steps, order = BUDGET // RADII // 2 - 2, ORDERS[self.norm]

        def pgd(radius: float) -> Craft:
            return lambda x, y: projected_gradient_descent(
                self.victim.compiled, tf.constant(x), radius, radius / 4, steps, order, clip_min=0.0,
                clip_max=1.0, y=tf.constant(y, tf.int64), rand_init=True, rand_minmax=radius,
                sanity_checks=False,
            )  # fmt: skip

        if self.norm != "l1":
            yield "cleverhans pgd", self.at_radii(pgd)


def measure(bench: Bench, wanted: str, kept: pathlib.Path | None) -> dict[str, dict]:
    """Distances, passes and seconds of every attack whose name contains one of the wanted words.

    Args:
        bench: The attacks.
        wanted: Words, separated by commas.
        kept: A file with what was measured before, which grows with every attack.
    """
    victim = bench.victim
    found = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    clean = np.asarray(victim.net(victim.x, training=False)).argmax(axis=1) == victim.y
    for name, craft in bench.attacks().items():
        if name in found or not any(word in name for word in wanted.split(",")):
            continue
        tf.random.set_seed(0)
        np.random.seed(0)
        victim.reset()
        began = time.perf_counter()
        problem = ""
        try:
            craft(victim.images, victim.y)
        except Exception as error:  # of a peer: its other attacks still count
            problem = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        found[name] = {
            "distances": [float(f"{far:.6g}") for far in np.where(clean, victim.distance, 0.0)],
            "passes": float((victim.forward + victim.backward).mean()),
            "seconds": round(time.perf_counter() - began, 1),
            "problem": problem,
        }
        entry = found[name]
        print(f"{name}: {entry['seconds']:.0f} s, {entry['passes']:.0f} passes {problem}", flush=True)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found))
    return found


def without_failures(found: dict[str, dict]) -> dict[str, dict]:
    """The attacks that ran to their end."""
    return {name: entry for name, entry in found.items() if not entry["problem"]}


def optimality_of(found: dict[str, dict]) -> dict[str, float]:
    """The optimality of each attack in a table."""
    return optimality({name: np.array(entry["distances"]) for name, entry in found.items()})


def rows(found: dict[str, dict], epsilon: float) -> list[tuple]:
    """The table of one model."""
    ran = without_failures(found)
    quality = optimality_of(ran)
    lines: list[tuple] = [("attack", "optimality", "success", "robust at epsilon", "passes", "seconds")]
    for name in sorted(ran, key=lambda name: -quality[name]):
        far = np.array(ran[name]["distances"])
        lines.append(
            (
                name,
                f"{quality[name]:.3f}",
                f"{100 * np.isfinite(far).mean():.0f}%",
                f"{100 * (far > epsilon).mean():.1f}%",
                f"{ran[name]['passes']:.0f}",
                f"{ran[name]['seconds']:.0f}",
            )
        )
    return lines


def summary(folder: pathlib.Path, dataset: str, norm: str) -> list[tuple]:
    """The optimality of every attack on every model of a data set, the best on average first.

    Passes and seconds are averages over the models.
    """
    before, after = f"{dataset}.", f".{norm}.json"
    found = {
        path.name.removeprefix(before).removesuffix(after): without_failures(json.loads(path.read_text()))
        for path in sorted(folder.glob(f"{before}*{after}"))
    }
    quality = {model: optimality_of(entries) for model, entries in found.items()}
    lines = []
    for name in dict.fromkeys(name for entries in found.values() for name in entries):
        models = [model for model in found if name in found[model]]
        mean = float(np.mean([quality[model][name] for model in models]))
        cells = [f"{quality[model][name]:.3f}" if model in models else "-" for model in found]
        spent = [np.mean([found[model][name][key] for model in models]) for key in ("passes", "seconds")]
        lines.append((mean, (name, *cells, f"{mean:.3f}", *(f"{value:.0f}" for value in spent))))
    lines.sort(key=lambda line: -line[0])
    return [("attack", *found, "mean", "passes", "seconds"), *(line for _, line in lines)]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data_dir")
    parser.add_argument("--norm", choices=ORDERS, default="linf")
    parser.add_argument("--epsilon", type=parse_number)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--attacks", default="", help="those whose names contain one of these words")
    parser.add_argument("--save", help="folder that keeps what was measured, to go on there")
    parser.add_argument("--summary", action="store_true", help="only print what is in the folder of --save")
    arguments = parser.parse_args()
    if arguments.summary:
        if arguments.save is None:
            parser.error("--summary prints what is in a folder: name it by --save")
        for norm in ORDERS:
            lines = summary(pathlib.Path(arguments.save), arguments.dataset, norm)
            if lines[1:]:
                print(f"{arguments.dataset}, {norm}:\n\n{table(lines)}\n")
        return
    if not arguments.model or arguments.epsilon is None:
        parser.error("--model and --epsilon are required, unless with --summary")
    x, y = athe_tf.data.load(arguments.dataset, data_dir=arguments.data_dir).test.arrays(arguments.images)
    for path in arguments.model:
        net = load_model(find_model(path))
        bench = Bench(CountingVictim(net, x, y, arguments.norm), arguments.norm, arguments.epsilon)
        label = pathlib.Path(path).name.replace(":", "-")
        file = f"{arguments.dataset}.{label}.{arguments.norm}.json"
        kept = pathlib.Path(arguments.save) / file if arguments.save else None
        found = measure(bench, arguments.attacks, kept)
        print(
            f"\n{label}: {len(x)} test images of {arguments.dataset}, {arguments.norm}, epsilon "
            f"{format_number(arguments.epsilon)}, budget {BUDGET} passes\n"
        )
        print(table(rows(found, arguments.epsilon)), flush=True)


if __name__ == "__main__":
    main()
