"""The tables of docs/results.md and the one of README.md, computed from the files in results/.

python -m benchmarks.results_tables           # prints them
python -m benchmarks.results_tables --write   # puts them into the two pages
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import statistics
from collections.abc import Sequence

import numpy as np

from athe_tf.models.names import HEAD_MARGINS
from athe_tf.results.intervals import Z95, interval_of, mean_interval
from athe_tf.results.result import Result
from athe_tf.utils.errors import check

ROOT = pathlib.Path(__file__).parents[1]
RUNS = ROOT / "results" / "cifar10_mini"
#: Runs of one commit and one core each. They replace those of `RUNS` with the same label and seed as soon as
#: all seeds of the label are evaluated.
NEW_RUNS = ROOT / "results" / "cifar10_study"
#: Accuracies under many scales of the attack's logits, see benchmarks/scale_curve.py.
CURVES = ROOT / "results" / "scale_curve"
FACTORS = {"1/15": 1 / 15, "1/5": 1 / 5, "1/2": 1 / 2, "1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
FRAMEWORKS = {
    "standard": "Standard", "fast_at": "FastAT", "pgd_at": "PGD-AT", "trades": "TRADES", "alp": "ALP",
    "free_at": "FreeAT", "llr": "LLR",
}  # fmt: skip
HEADS = {"linear": "", "he": " + HE", "mhe": " + m-HE", "fn": " + FN", "wn": " + WN"}
#: The scale of each head in the study; a run with another one, or another margin, says so.
SCALES = {"he": 15, "mhe": 15, "fn": 1, "wn": 15}
#: Headings, and the names of the attacks in `evaluation.json`.
COLUMNS = {
    "clean": "clean",
    "PGD-20 at scale 1 (as published)": "pgd-20 (scale 1)",
    "PGD-20 at the model's scale": "pgd-20",
    "swift": "swift",
    "swift, last epoch": "swift (last epoch)",
    "worst case": "worst case",
}
#: The columns of the table in README.md.
SHORT = ("clean", "PGD-20 at scale 1 (as published)", "PGD-20 at the model's scale", "swift")
#: Labels that README.md leaves out: which part of HE matters is a question of docs/results.md.
PARTS_OF_HE = (" + FN", " + WN")
GRID = [f"FastAT + HE, s = {s}, m = {m:g}" for s in (5, 10, 15, 20) for m in (0, 0.1, 0.2, 0.3)]
#: The runs of the study, in the order of the tables, and how many seeds each has.
STUDY = dict.fromkeys(("FastAT", "FastAT + HE"), 8)
STUDY |= dict.fromkeys(("FastAT + m-HE", "PGD-AT", "PGD-AT + HE", "TRADES", "TRADES + HE"), 3)
STUDY |= dict.fromkeys(("FastAT + FN", "FastAT + WN", "FastAT + WN, s = 1, m = 0"), 3)
STUDY |= dict.fromkeys(("FastAT, logits times 15", "FastAT, logits divided by 15"), 3)
STUDY |= dict.fromkeys(("PGD-AT, decay 5e-4", "PGD-AT + HE, s = 10, m = 0.2, decay 5e-4"), 3)
STUDY["FastAT + FN, s = 15, m = 0"] = 1
STUDY |= {"ALP": 1, "ALP + HE": 1, "ALP + HE, s = 20, m = 0.3": 3}
STUDY |= dict.fromkeys(("FreeAT", "FreeAT + HE", "Standard", "PAS linear", "LLR"), 1)
STUDY |= {label: 1 for label in GRID if label != "FastAT + HE, s = 15, m = 0.2"}  # that is FastAT + HE
#: Of these, only one seed of each was made again: the best epoch of the first run was chosen by a tie.
MADE_AGAIN = {"TRADES": {2}, "TRADES + HE": {2}}
#: Names of the controls of benchmarks/placebo.py.
PLACEBOS = {"times": "times 15", "over": "divided by 15"}
NOTHING = "–"  # noqa: RUF001


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run with the flags of its evaluations: one per image, by attack."""

    folder: pathlib.Path
    label: str
    seed: int
    flags: dict[str, np.ndarray]


def label_of(config: dict) -> str:
    """What a run is called in the tables."""
    if config["framework"] == "pgd_at" and config["epsilon_schedule"] != "constant":
        return f"PAS {config['epsilon_schedule']}"
    head = config["head"]
    margin = HEAD_MARGINS.get(head, 0.0) if config["margin"] is None else config["margin"]
    label = FRAMEWORKS[config["framework"]] + HEADS[head]
    placebo = re.fullmatch(r"benchmarks\.placebo:(\w+)_15_seed_\d+", config["model"])
    if placebo:
        label += f", logits {PLACEBOS[placebo[1]]}"
    if head in SCALES and (config["scale"], margin) != (SCALES[head], HEAD_MARGINS.get(head, 0)):
        label += f", s = {config['scale']:g}, m = {margin:g}"
    with_decay = config["framework"] == "pgd_at" and config["weight_decay"] == 5e-4
    return label + (", decay 5e-4" if with_decay else "")


def plain_of(label: str) -> str | None:
    """The label of the plain classifier that a run is compared with."""
    if label.startswith("PGD-AT + HE") and label.endswith(", decay 5e-4"):
        return "PGD-AT, decay 5e-4"
    framework = re.split(r" \+ |, logits", label)[0]
    return None if framework == label else framework


def evaluated_model(run: pathlib.Path) -> pathlib.Path:
    """The file of a run that is evaluated."""
    ensemble = run / "ensemble.keras"
    return ensemble if ensemble.is_file() else run / "best.keras"


def read_flags(folder: pathlib.Path, epochs: int) -> dict[str, np.ndarray]:
    """The flags of all evaluations of a run; the worst case is that of the first, with the most images."""
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("evaluation*/evaluation.json")):
        result = Result.load(path)
        last = " (last epoch)" if path.parent.name == "evaluation_last" else ""
        flags = {"clean": result.correct} | {one.name: one.robust for one in result.ran}
        if not found:
            flags["worst case"] = result.robust
        found = {name + last: bits for name, bits in flags.items()} | found
    best = json.loads((folder / "best.json").read_text())
    if found and best["epoch"] == epochs and evaluated_model(folder).name == "best.keras":
        found["swift (last epoch)"] = found["swift"]
    return found


def read_runs(*folders: pathlib.Path) -> list[Run]:
    """The runs in folders, in the order of the study; those of later folders replace complete groups."""
    found: dict[tuple[str, int], Run] = {}
    for folder in folders or (RUNS, NEW_RUNS):
        runs = []
        for path in sorted(folder.glob("*/config.json")):
            config = json.loads(path.read_text())
            flags = read_flags(path.parent, config["epochs"])
            runs.append(Run(path.parent, label_of(config), config["seed"], flags))
        for label in {run.label for run in runs}:
            group = [run for run in runs if run.label == label]
            known = any(name == label for name, _ in found)
            evaluated = {run.seed for run in group if run.flags}
            if not known or evaluated >= MADE_AGAIN.get(label, set(range(STUDY[label]))):
                found |= {(label, run.seed): run for run in group}
    return sorted(found.values(), key=lambda run: ([*STUDY].index(run.label), run.seed))


def in_groups(runs: list[Run]) -> dict[str, list[Run]]:
    """The runs of each label, one per seed."""
    return {label: [run for run in runs if run.label == label] for label in STUDY}


def all_or_none(name: str, runs: Sequence[Run]) -> list[np.ndarray]:
    """The flags of all runs; none if one of them lacks these, because a mean over other seeds misleads."""
    return [run.flags[name] for run in runs] if all(name in run.flags for run in runs) else []


def pairs_of(label: str, group: list[Run], groups: dict[str, list[Run]]) -> list[tuple[Run, Run]]:
    """Each run of a group, and the plain classifier of the same seed."""
    plain = {run.seed: run for run in groups.get(plain_of(label) or "", []) if run.flags}
    return [(run, plain[run.seed]) for run in group if run.flags and run.seed in plain]


def shown_columns(runs: list[Run]) -> list[str]:
    """The columns that at least one run has."""
    return [title for title, name in COLUMNS.items() if any(name in run.flags for run in runs)]


def text_of(value: float, interval: tuple[float, float], sign: str = "") -> str:
    """A share and its interval in percent."""
    return f"{100 * value:{sign}.1f} ({100 * interval[0]:{sign}.1f} to {100 * interval[1]:{sign}.1f})"


def accuracy_cell(flags: list[np.ndarray]) -> str:
    """The mean over seeds; the interval is over seeds, or over images if there is only one."""
    if not flags:
        return NOTHING
    shares = [float(one.mean()) for one in flags]
    low, high = interval_of(flags[0]) if len(flags) == 1 else mean_interval(shares)
    return text_of(statistics.fmean(shares), (low, high))


def difference_cell(pairs: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """The mean difference on the same images; the interval as in `accuracy_cell`."""
    if not pairs:
        return NOTHING
    means = [mean_difference(pair) for pair in pairs]
    interval = paired_interval(*pairs[0]) if len(pairs) == 1 else mean_interval(means)
    return text_of(statistics.fmean(means), interval, "+")


def paired_interval(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The 95% interval of the mean of `one - other` over images that both have, by the normal distribution.

    It accounts for the sampling of images, not for the variance of the training.
    """
    check(len(one) == len(other), f"Expected the same images. Received: {len(one)} and {len(other)} flags.")
    difference = one.astype(np.float64) - other.astype(np.float64)
    half = Z95 * float(difference.std(ddof=1)) / math.sqrt(len(difference))
    center = float(difference.mean())
    return center - half, center + half


def mean_difference(pair: tuple[np.ndarray, np.ndarray]) -> float:
    """The difference of two shares of the same images."""
    one, other = pair
    if len(one) != len(other):
        raise SystemExit(f"A difference is taken on the same images. Found: {len(one)} and {len(other)}.")
    return float(one.mean() - other.mean())


def accuracies(runs: list[Run]) -> str:
    """Accuracies in percent, one line per method."""
    columns = shown_columns(runs)
    lines = [["method", "seeds", "images", *columns]]
    for label, group in in_groups(runs).items():
        evaluated = [run for run in group if run.flags]
        if not evaluated:
            continue
        cells = [accuracy_cell(all_or_none(COLUMNS[title], evaluated)) for title in columns]
        seeds = ", ".join(str(run.seed) for run in evaluated)
        images = "/".join(sorted({str(len(run.flags["clean"])) for run in evaluated}))
        lines.append([label, seeds, images, *cells])
    return markdown(lines)


def differences(runs: list[Run]) -> str:
    """Differences to the plain classifier of the same framework and seed, on the same images."""
    columns = [title for title in shown_columns(runs) if title != "worst case"]
    lines = [["difference", "seeds", *columns, "swift, each seed"]]
    groups = in_groups(runs)
    for label, group in groups.items():
        pairs = pairs_of(label, group, groups)
        if not pairs:
            continue
        shared = {
            name: list(zip(*(all_or_none(name, side) for side in zip(*pairs, strict=True)), strict=False))
            for name in COLUMNS.values()
        }
        cells = [difference_cell(shared[COLUMNS[title]]) for title in columns]
        cells.append(", ".join(f"{100 * mean_difference(pair):+.1f}" for pair in shared["swift"]) or NOTHING)
        seeds = ", ".join(str(run.seed) for run, _ in pairs)
        lines.append([f"{label} minus {plain_of(label)}", seeds, *cells])
    return markdown(lines)


def claim(runs: list[Run]) -> str:
    """The gains of hypersphere embedding, where there are several seeds, and whether they are significant."""
    lines = [["gain of", "as published", "under `swift`", "clean accuracy"]]
    groups = in_groups(runs)
    for label, group in groups.items():
        pairs = pairs_of(label, group, groups)
        if len(pairs) < 2 or not label.endswith("HE"):
            continue
        cells = []
        for name in ("pgd-20 (scale 1)", "swift", "clean"):
            gains = [mean_difference((run.flags[name], other.flags[name])) for run, other in pairs]
            low, high = mean_interval(gains)
            doubt = ", not significant" if low <= 0 <= high else ""
            cells.append(text_of(statistics.fmean(gains), (low, high), "+") + doubt)
        lines.append([label, *cells])
    return markdown(lines)


def artifact(runs: list[Run]) -> str:
    """What the scale of the attack alone does, on one model and to a gain; methods with several seeds."""
    published, own, strong = "pgd-20 (scale 1)", "pgd-20", "swift"
    lines = [["method", "seeds", "same model: PGD-20 at scale 1 minus at its own scale"]]
    lines[0].append("gain as published minus gain under swift")
    groups = in_groups(runs)
    for label, group in groups.items():
        pairs = pairs_of(label, group, groups)
        if len(pairs) < 2:
            continue
        same = [mean_difference((run.flags[published], run.flags[own])) for run, _ in pairs]
        gains = [
            mean_difference((run.flags[published], other.flags[published]))
            - mean_difference((run.flags[strong], other.flags[strong]))
            for run, other in pairs
        ]
        cells = [text_of(statistics.fmean(values), mean_interval(values), "+") for values in (same, gains)]
        lines.append([label, ", ".join(str(run.seed) for run, _ in pairs), *cells])
    return markdown(lines)


def beside_autoattack(runs: list[Run]) -> str:
    """`swift` and AutoAttack on the same images of the same model, one line per run that has both."""
    lines = [["model", "images", "swift", "AutoAttack", "only swift breaks", "only AutoAttack breaks"]]
    for run in runs:
        if not {"swift", "autoattack"} <= run.flags.keys():
            continue
        autoattack = run.flags["autoattack"]
        swift = run.flags["swift"][: len(autoattack)]
        shares = [f"{100 * flags.mean():.1f}" for flags in (swift, autoattack)]
        broken = [numbers_of(~swift & autoattack), numbers_of(swift & ~autoattack)]
        lines.append([f"{run.label}, seed {run.seed}", f"{len(swift)}", *shares, *broken])
    return markdown(lines)


def numbers_of(images: np.ndarray) -> str:
    """The numbers of the images that are marked."""
    return ", ".join(map(str, np.flatnonzero(images))) or NOTHING


def summary(runs: list[Run]) -> str:
    """For README.md: the means of plain and HE models that have three or more seeds."""
    lines = [["method", *SHORT]]
    for label, group in in_groups(runs).items():
        evaluated = [run for run in group if run.flags]
        if len(evaluated) < 3 or label.endswith(PARTS_OF_HE) or ", " in label:
            continue
        means = [
            statistics.fmean(float(run.flags[COLUMNS[title]].mean()) for run in evaluated) for title in SHORT
        ]
        lines.append([label, *(f"{100 * mean:.1f}" for mean in means)])
    return markdown(lines)


def curves(runs: list[Run]) -> dict[str, list[dict[str, float]]]:
    """The accuracy at each factor, for every run that has a curve, by label."""
    found: dict[str, list[dict[str, float]]] = {}
    for run in runs:
        flags = curve_of(run)
        if flags:
            found.setdefault(run.label, []).append({f: b.count("1") / len(b) for f, b in flags.items()})
    return found


def curve_of(run: Run) -> dict[str, str]:
    """The flags of a run at each factor; empty if it was not measured, or another one of that name was."""
    path = CURVES / f"{run.folder.name}.json"
    data = json.loads(path.read_text()) if path.is_file() else {"model": None}
    return data["flags"] if data["model"] == relative(evaluated_model(run.folder)) else {}


def relative(path: pathlib.Path) -> str:
    """A path in the repository, as files name it."""
    return path.relative_to(ROOT).as_posix()


def mean_curve(group: list[dict[str, float]]) -> list[float]:
    """The means over seeds, in the order of `FACTORS`."""
    return [statistics.fmean(one[factor] for one in group) for factor in FACTORS]


def scale_curves(runs: list[Run]) -> str:
    """Accuracy under PGD-20 by the factor of the logits in the attack, in percent: means over seeds."""
    lines = [["method", "seeds", *FACTORS]]
    for label, group in curves(runs).items():
        lines.append([label, str(len(group)), *(f"{100 * mean:.1f}" for mean in mean_curve(group))])
    return markdown(lines)


def progress(runs: list[Run]) -> str:
    """Which runs of the study exist, and which are missing."""
    lines = [["run", "seeds that exist", "seeds that are missing"]]
    grid_missing = 0
    for label, group in in_groups(runs).items():
        there = [run.seed for run in group]
        missing = [seed for seed in range(STUDY[label]) if seed not in there]
        if label in GRID and not there:
            grid_missing += 1
            continue
        texts = [", ".join(map(str, seeds)) or NOTHING for seeds in (there, missing)]
        lines.append([label, *texts])
    if grid_missing:
        lines.append([f"grid of s and m with FastAT + HE ({grid_missing} runs)", NOTHING, "0"])
    return markdown(lines)


def markdown(lines: list[list[str]]) -> str:
    """A table in Markdown; the first line is its heading."""
    rule = ["---"] * len(lines[0])
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def tables(runs: list[Run]) -> dict[pathlib.Path, dict[str, str]]:
    """The tables of each page by name."""
    page = {
        "accuracies": accuracies(runs),
        "differences": differences(runs),
        "claim": claim(runs),
        "artifact": artifact(runs),
        "scale": scale_curves(runs),
        "autoattack": beside_autoattack(runs),
        "progress": progress(runs),
    }
    return {PAGE: page, README: {"cifar10": summary(runs)}}


def filled(path: pathlib.Path, found: dict[str, str]) -> str:
    """A page with its tables, which stand between two comments each, replaced."""
    page = path.read_text()
    for name, table in found.items():
        start, end = f"<!-- table: {name} -->", f"<!-- end: {name} -->"
        pattern = re.escape(start) + ".*?" + re.escape(end)
        page, count = re.subn(pattern, lambda _, t=table, s=start, e=end: f"{s}\n{t}\n{e}", page, flags=re.S)
        if count != 1:
            raise SystemExit(f"{path.name} must have one place for the table '{name}'. Found: {count}.")
    return page


def main() -> None:
    """Prints the tables, or writes them to their pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="Put the tables into their pages.")
    write = parser.parse_args().write
    for path, found in tables(read_runs()).items():
        if write:
            path.write_text(filled(path, found))
        else:
            print("\n\n".join(found.values()), end="\n\n")


if __name__ == "__main__":
    main()
