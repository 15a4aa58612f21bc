"""What each piece of today's recipes is worth to FastAT on CIFAR-10, at equal passes.

The table is in docs/recipes_of_today.md.

    python -m benchmarks.recipe_pieces runs/pieces --data_dir=DIR --plan
    python -m benchmarks.recipe_pieces runs/pieces --data_dir=DIR
    python -m benchmarks.recipe_pieces results/recipe_pieces --show results/cifar10_study/fast_at_seed0

The budget is that of `results/cifar10_mini`: WRN-10-1 and the passes of 10 epochs of FastAT. For each head:

1. `pieces`: the plain recipe, and each piece alone, one seed;
2. `subset`: pieces are added in the order of their gain, and stay if the validation images say so;
3. `seeds`: the plain recipe and that subset, three seeds, under AutoAttack on 1,000 test images.

Validation images, under PGD-10, choose; test images are seen by the last stage alone. Every run and every
evaluation is a command, printed before it starts, and resumes when it was interrupted: give the same command
again. `--plan` prints those that are left and do not depend on the results of others.
`--stages=pieces`, `--heads=linear`, `--epochs=2`, `--images=5000` and `--precision` make it shorter.
`--show` prints what the runs in folders have reached, and starts none.
"""

import argparse
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterable

from athe_tf.programs.train import PROGRAM
from athe_tf.programs.workdir import Workdir
from athe_tf.results.result import Result
from athe_tf.training.options import options_of
from athe_tf.utils.errors import InputError
from benchmarks.digits_study import shown
from benchmarks.timing import table

ROOT = pathlib.Path(__file__).parents[1]
STAGES = ("pieces", "subset", "seeds")
EPOCHS = 10
# Network passes per step of each framework; more of them, fewer epochs.
PASSES = {"fast_at": 5, "n_fgsm": 5, "liet": 7}
RECIPES = {"linear": "cifar_fast_at", "he": "cifar_fast_at_he"}
SMOOTHING = ("label_smoothing", "attack_smoothing")
PIECES: dict[str, dict] = {
    "one cycle": {"lr_schedule": "one_cycle"},
    "average 0.995": {"ema": 0.995},
    "average 0.999": {"ema": 0.999},
    "smoothing 0.3": dict.fromkeys(SMOOTHING, 0.3),
    "Nesterov": {"nesterov": True},
    "decay of all but norms": {"decay_variables": "all_but_norm"},
    "slow statistics": {"bn_momentum": 0.99, "bn_copy_first": True},
    "SiLU": {"activation": "silu"},
    "CutMix": {"cutmix": 1.0},
    "random erasing": {"erasing": 0.25},
    "RandAugment": {"randaugment": 9.0},
    "AdamW": {"optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.05},
    "N-FGSM": {"framework": "n_fgsm", "step_size": "8/255"},
    "LIET": {"framework": "liet", "step_size": "8/255"},
}


class Run:
    """A training run: some pieces on top of the plain recipe."""

    def __init__(self, options: argparse.Namespace, head: str, pieces: tuple[str, ...], seed: int):
        self.options, self.head, self.pieces, self.seed = options, head, pieces, seed
        name = "_".join([head, *(piece.replace(" ", "_") for piece in pieces or ("plain",))])
        self.workdir = Workdir(pathlib.Path(options.folder, f"{name}_seed{seed}"))

    def train(self) -> list[str]:
        """The command that trains."""
        chosen: dict = {}
        for piece in self.pieces:
            chosen |= PIECES[piece]
        framework = chosen.get("framework", "fast_at")
        if not options_of(framework)().attack_has_labels:
            chosen.pop("attack_smoothing", None)
        chosen["epochs"] = max(1, round(self.options.epochs * PASSES["fast_at"] / PASSES[framework]))
        if self.options.precision:
            chosen["precision"] = self.options.precision
        flags = [f"--{name}={str(value).lower()}" for name, value in chosen.items()]
        if self.options.images:
            flags.append(f"--max_train_examples={self.options.images}")
        recipe = [f"--flagfile=configs/{RECIPES[self.head]}.flags", "--model=wrn-10-1", *flags]
        return ["bin/train", *recipe, *self._common(f"--workdir={self.workdir.folder}")]

    def evaluate(self) -> list[str]:
        """The command that attacks the best epoch."""
        what = [f"--model={self.workdir.best}", "--attacks=autoattack"]
        images = f"--max_examples={self.options.test_images}"
        return ["bin/evaluate", *what, images, *self._common(f"--output={self.evaluation}")]

    def _common(self, folder: str) -> list[str]:
        return [f"--data_dir={self.options.data_dir}", f"--seed={self.seed}", folder]

    @property
    def evaluation(self) -> pathlib.Path:
        return self.workdir.folder / "evaluation_autoattack"

    def left(self, attacked: bool) -> list[list[str]]:
        """The commands that are not done."""
        trained, evaluated = self.workdir.finished, (self.evaluation / "evaluation.json").exists()
        return [self.train()] * (not trained) + [self.evaluate()] * (attacked and not evaluated)

    def do(self, attacked: bool = False) -> "Run":
        """Runs what is not done."""
        for command in self.left(attacked):
            print(" ".join(command), flush=True)
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return self

    @property
    def validated(self) -> float:
        """Percent of the validation images that survive PGD-10, at the best epoch."""
        return 100 * json.loads((self.workdir.folder / "best.json").read_text())["value"]


def compatible(run: Run) -> bool:
    """Whether no two pieces set the same, such as the framework, and `bin/train` takes them together."""
    names = [name for piece in run.pieces for name in PIECES[piece]]
    try:
        PROGRAM.read(run.train())
    except InputError:
        return False
    return len(set(names)) == len(names)


def gains(options, head: str) -> dict[str, float]:
    """The gain of each piece alone, in points of the validation accuracy; prints the table."""
    plain = Run(options, head, (), 0).do()
    found = {piece: Run(options, head, (piece,), 0).do().validated - plain.validated for piece in PIECES}
    rows: list[tuple] = [("piece", "robust validation accuracy, %", "gain, points")]
    rows += [("none", f"{plain.validated:.1f}", "")]
    rows += [(piece, f"{plain.validated + gain:.1f}", f"{gain:+.1f}") for piece, gain in found.items()]
    print(f"\n{head}, one seed\n\n{table(rows)}\n", flush=True)
    return found


def best_subset(options, head: str, found: dict[str, float]) -> tuple[str, ...]:
    """Pieces that help, added one by one while the validation accuracy rises."""
    chosen: tuple[str, ...] = ()
    best = Run(options, head, (), 0).do().validated
    for piece in sorted((each for each in found if found[each] > 0), key=found.__getitem__, reverse=True):
        run = Run(options, head, (*chosen, piece), 0)
        if compatible(run) and run.do().validated > best:
            chosen, best = run.pieces, run.validated
    print(
        f"{head}, best subset: {', '.join(chosen) or 'none'}, {best:.1f}% of validation images\n", flush=True
    )
    return chosen


def compare(options, subsets: dict[str, tuple[str, ...]]) -> None:
    """Trains plain recipes and subsets with every seed, attacks them, and prints the table."""
    rows: list[tuple] = [("head", "pieces", "clean %", "AutoAttack %")]
    for head, subset in subsets.items():
        for pieces in dict.fromkeys([(), subset]):
            runs = [Run(options, head, pieces, seed).do(attacked=True) for seed in options.seeds]
            results = [Result.load(run.evaluation) for run in runs]
            clean = [result.clean_accuracy for result in results]
            robust = [result.worst_case_accuracy or 0.0 for result in results]
            rows.append((head, ", ".join(pieces) or "none", shown(clean), shown(robust)))
    print(f"{options.test_images} test images, seeds {options.seeds}\n\n{table(rows)}")


def planned(options) -> list[list[str]]:
    """The commands that are not done, without those that depend on the results of others."""
    commands = []
    for head in options.heads:
        for pieces in ((), *((piece,) for piece in PIECES)):
            commands += Run(options, head, pieces, 0).left(attacked=False)
        for seed in options.seeds if "seeds" in options.stages else ():
            commands += Run(options, head, (), seed).left(attacked=True)
    return commands


def show(folders: Iterable[str]) -> None:
    """Prints the runs in folders that are finished, those of one budget together, the best first."""
    plain = {recipe.removeprefix("cifar_"): f"{head}_none" for head, recipe in RECIPES.items()}
    rows = []
    for path in (path for folder in folders for path in pathlib.Path(folder).rglob("best.json")):
        config = json.loads(path.with_name("config.json").read_text())
        name = path.parent.name.rpartition("_seed")[0]
        head, _, pieces = plain.get(name, name.replace("_plain", "_none")).partition("_")
        valid = f"{100 * json.loads(path.read_text())['value']:.1f}"
        budget = f"{config['epochs']} epochs, {config['precision']}"
        rows.append((budget, head, pieces.replace("_", " "), config["seed"], valid))
    rows.sort(key=lambda row: (*row[:2], -float(row[4]), row[3]))
    print(table([("budget", "head", "pieces", "seed", "robust validation accuracy, %"), *rows]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="folder of the runs")
    parser.add_argument("--data_dir", help="TensorFlow Datasets' folder with cifar10")
    parser.add_argument("--heads", default="linear,he", type=lambda text: text.split(","))
    parser.add_argument("--stages", default=",".join(STAGES), type=lambda text: text.split(","))
    parser.add_argument("--seeds", default="0,1,2", type=lambda text: [int(s) for s in text.split(",")])
    parser.add_argument("--epochs", default=EPOCHS, type=int)
    parser.add_argument("--images", type=int, help="training images, to try it")
    parser.add_argument("--test_images", default=1000, type=int)
    parser.add_argument("--precision", help="of all runs, as bin/train takes it")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--show", nargs="*", metavar="FOLDER", help="further folders of runs")
    options = parser.parse_args()
    if options.show is not None:
        return show([options.folder, *options.show])
    if not options.data_dir:
        parser.error("--data_dir is required to train")
    options.folder = str(pathlib.Path(options.folder).absolute())
    if options.plan:
        alone = [Run(options, head, p, 0) for head in options.heads for p in ((), *((p,) for p in PIECES))]
        plain = [Run(options, head, (), seed) for head in options.heads for seed in options.seeds]
        commands = [c for run in alone for c in run.left(False)] + [
            c for run in plain for c in run.left(True)
        ]
        print("\n".join(dict.fromkeys(" ".join(command) for command in commands)))
        return
    subsets = {}
    for head in options.heads:
        found = gains(options, head)
        if set(options.stages) > {"pieces"}:
            subsets[head] = best_subset(options, head, found)
    if "seeds" in options.stages:
        compare(options, subsets)


if __name__ == "__main__":
    main()
