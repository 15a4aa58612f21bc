"""What athe_tf does, as text, so that two versions of the code can be compared.

    python -m benchmarks.behavior record FOLDER             # in each of two checkouts, with two folders
    python -m benchmarks.behavior compare FOLDER OTHER      # what differs between them

Records the help of every program, the messages about malformed files, what every registered attack finds on
a classifier of digits and in how many passes, and digests of short training runs of every framework. Digests
depend on the processor and its number of cores: record both versions on one machine. The classifier is
trained by the first record and read by the second: `--model=FOLDER/net.keras` names it.
"""

import argparse
import contextlib
import hashlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import keras
import numpy as np

import athe_tf
from athe_tf import attacks
from benchmarks.walk import digits_model
from tests.attacks.test_contract import CHEAP
from tests.warm_processes import run_program

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("train", "evaluate", "export", "report", "analyze", "import_torch", "reproduce")
FRAMEWORKS = (
    *("standard", "pgd_at", "pgd_at_he", "alp", "alp_he", "trades", "trades_he", "free_at", "free_at_he"),
    *("fast_at", "fast_at_he", "fast_nfgsm", "fast_nfgsm_he", "fast_gradalign", "fast_gradalign_he"),
    *("llr", "cure", "mart", "mart_he", "trades_awp_he", "pas_linear", "pgd_at_mhe"),
)
EPSILON = 0.1


def digest(*arrays) -> str:
    """A short digest of arrays."""
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:16]


def helps() -> dict[str, str]:
    """The short help of every program."""
    found = {}
    for program in PROGRAMS:
        command = [str(ROOT / "bin" / program), "--helpshort"]
        found[program] = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    return found


def malformed() -> dict[str, str]:
    """The message about every malformed file."""
    command = [sys.executable, "-m", "benchmarks.malformed", "--show"]
    text = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    cases = re.split(r"\n(?=[a-z][\w ./-]*: bin/)", text.rpartition("\n")[0])
    return dict(re.sub(r"/\S*/tmp\w+", "TMP", case).partition(": ")[::2] for case in cases)


def attack_outcomes(net, x, y) -> dict[str, dict]:
    """Flags, adversarial examples and passes of every registered attack in its norms."""
    found = {}
    for name in sorted(attacks.ATTACKS):
        attack_class = attacks.ATTACKS.get(name)
        parameters = athe_tf.attacks.engine.arguments.constructor_arguments(attack_class)
        usual = {key: n for key, n in {"steps": 5, "n_queries": 60}.items() if key in parameters}
        for norm in attack_class.norms:
            radius = {"linf": EPSILON, "l2": 0.6, "l1": 3.0}[norm]
            attack = attacks.get(name, epsilon=radius, norm=norm, **CHEAP.get(name, usual))
            result = attack.run(net, x, y)
            found[f"{name} {norm}"] = {
                "attack": repr(attack),
                "success": "".join("01"[int(flag)] for flag in np.asarray(result.success)),
                "x_adv": digest(result.x_adv),
                "queries": digest(result.queries) + f" {int(np.sum(result.queries))}",
                "gradients": digest(result.gradients) + f" {int(np.sum(result.gradients))}",
                "nonfinite": int(np.sum(result.nonfinite)),
            }
    return found


def training_runs() -> dict[str, dict]:
    """Digests of the last weights, and the metrics, of one short epoch of every framework."""
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in FRAMEWORKS:
            workdir = pathlib.Path(scratch) / name
            recipe = f"--flagfile={ROOT}/configs/digits_{name}.flags"
            short = ["--epochs=2", "--max_train_examples=256", "--validation_attack=pgd-2", "--batch_size=64"]
            periods = ["--lr_resets=1", "--lr_drops=0.5,1.5"] if name.startswith("pas") else []
            ended = run_program("train", recipe, *short, *periods, f"--workdir={workdir}")
            if ended.returncode:
                found[name] = {"failed": ended.stderr[-300:]}
                continue
            net = keras.models.load_model(workdir / "final.keras", compile=False)
            rows = (workdir / "metrics.csv").read_text().splitlines()
            config = json.loads((workdir / "config.json").read_text())
            config["workdir"] = ""
            found[name] = {
                "weights": digest(*net.get_weights()),
                "metrics": [row.rpartition(",")[0] for row in rows],
                "files": sorted(str(p.relative_to(workdir)) for p in workdir.rglob("*") if p.is_file()),
                "config": config,
                "flags": re.sub(r"--workdir=\S+", "", (workdir / "flags.txt").read_text()),
            }
    return found


def evaluation(model: pathlib.Path) -> dict:
    """The `evaluation.json` of a quick evaluation, without times and versions."""
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "out"
        flags = ["--dataset=digits", "--max_examples=48", f"--epsilon={EPSILON}", "--attacks=pgd-5,swift"]
        run_program("evaluate", f"--model={model}", *flags, f"--output={out}")
        data = json.loads((out / "evaluation.json").read_text())
    text = re.sub(r'"seconds": [\d.]+', '"seconds": 0', json.dumps(data))
    return {key: value for key, value in json.loads(text).items() if key not in ("versions", "command")}


def record(folder: pathlib.Path, model: pathlib.Path | None, parts: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    net, x, y = digits_model()
    if model is None:
        model = folder / "net.keras"
        net.save(model)
    net = keras.models.load_model(model, compile=False)
    makers = {
        "help": helps,
        "attacks": lambda: attack_outcomes(net, x, y),
        "training": training_runs,
        "evaluation": lambda: evaluation(model),
        "malformed": malformed,
    }
    for name in parts or makers:
        with contextlib.redirect_stdout(io.StringIO()):
            found = makers[name]()
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1, sort_keys=True))
        print(f"{name}: {len(found)} entries", flush=True)


def compare(folder: pathlib.Path, other: pathlib.Path) -> int:
    """Prints what differs; returns how much."""
    count = 0
    for path in sorted(folder.glob("*.json")):
        one, two = (json.loads((place / path.name).read_text()) for place in (folder, other))
        for key in sorted({*one, *two}):
            if one.get(key) != two.get(key):
                count += 1
                print(f"{path.stem}: {key}\n    {one.get(key)}\n    {two.get(key)}")
    print(f"{count} differences")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path, nargs="?", help="For `compare`.")
    parser.add_argument("--model", type=pathlib.Path, help="The classifier of another record.")
    parser.add_argument("--parts", nargs="*", default=[], help="Only these parts.")
    options = parser.parse_args()
    if options.action == "compare":
        sys.exit(1 if compare(options.folder, options.other) else 0)
    record(options.folder.resolve(), options.model, options.parts)


if __name__ == "__main__":
    main()
