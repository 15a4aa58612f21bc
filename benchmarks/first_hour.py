"""Repeats the first hour of a Keras user, from the wheel, in a fresh environment outside of the repository.

Builds the wheel from a copy of the sources, installs it with its dependencies by pip, and runs what README.md
and docs/keras.md begin with, shortened: the programs by recipe names, an own model with a cosine head that is
saved, loaded in another process and exported, and the mistakes that newcomers make. Prints a line per step,
and the output of those that fail; exits with 1 if any did.

    python -m benchmarks.first_hour [FOLDER]        # FOLDER keeps the environment for the next time
"""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What is not part of the sources.
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", "__pycache__", "build", "dist", "runs", "*.egg-info"
)
PROGRAMS = ("analyze", "evaluate", "export", "import", "import_torch", "report", "reproduce", "train")
SHORT_RUN = "--epochs=1 --steps=2 --max_train_examples=256"

PHOTOS = """
import numpy as np, pathlib, tensorflow as tf
for part in ("train", "validation", "test"):
    for number in range(24):
        image = np.random.default_rng(number).integers(0, 120, (28 + number, 40, 3))
        image[..., number % 3] += 120
        path = pathlib.Path("photos", part, f"class{number % 3}", f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_png(image.astype("uint8")).numpy())
"""

OWN_MODEL = """
import numpy as np
images, labels = np.random.default_rng(0).uniform(size=(64, 28, 28, 1)), np.arange(64) % 10
model.fit(images, labels, verbose=0)
model.save("mine.keras")
np.save("logits.npy", model(images[:4]))
print(athe_tf.export(model, "mine")["head"])
"""

LOAD_AND_GO_ON = """
import athe_tf
import keras, numpy as np
model = keras.models.load_model("mine.keras")
images, labels = np.random.default_rng(0).uniform(size=(64, 28, 28, 1)), np.arange(64) % 10
assert np.array_equal(model(images[:4]), np.load("logits.npy"))
model.fit(images, labels, verbose=0)
print("went on with", type(model.loss).__name__)
"""

PLAIN_TENSORFLOW = """
import sys
import numpy as np, tensorflow as tf
images = np.random.default_rng(0).uniform(size=(64, 28, 28, 1)).astype("float32")
loaded = tf.saved_model.load("mine")
found = loaded.serve(images[:4])
difference = np.abs(found - np.load("logits.npy")).max()
print("largest difference below 1e-4:", difference < 1e-4, "athe_tf" in sys.modules)
"""

MY_MODELS = """
import keras

def build(num_classes, input_shape):
    layers = keras.layers
    return keras.Sequential([
        keras.Input(input_shape), layers.Rescaling(1 / 255), layers.Conv2D(4, 3, strides=4),
        layers.Flatten(), layers.Dense(num_classes),
    ])
"""


@dataclasses.dataclass(frozen=True)
class Step:
    """A command, and what must come of it."""

    title: str
    command: list[str]
    prints: str = ""
    code: int = 0


def program(name: str, arguments: str) -> list[str]:
    return [f"athe-tf-{name}", *arguments.split()]


def python(code: str) -> list[str]:
    return ["python", "-c", code]


def examples(page: str) -> list[str]:
    """The Python examples of a page, with one epoch instead of ten."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    return [block.replace("epochs=10", "epochs=1") for block in blocks]


def steps() -> list[Step]:
    """The hour."""
    training = examples("docs/start.md")[1]
    own_model = examples("docs/cosine_head.md")[0]
    versions = [
        Step(f"athe-tf-{name} --version", program(name, "--version"), "athe_tf [0-9]") for name in PROGRAMS
    ]
    return [
        *versions,
        Step(
            "a misspelt recipe",
            program("train", "--flagfile=digits_trade_he"),
            "^athe-tf-train: .*digits_trades_he",
            2,
        ),
        Step(
            "train by recipe",
            program("train", f"--flagfile=digits_trades_he {SHORT_RUN} --workdir=runs/digits"),
        ),
        Step(
            "evaluate",
            program("evaluate", "--model=runs/digits --attacks=pgd-5 --max_examples=50 --output=evaluation"),
            "worst case",
        ),
        Step("report", program("report", "evaluation")),
        Step("export", program("export", "--model=runs/digits --output=exported")),
        Step("train, evaluate and export in Python", python(training), "worst case"),
        Step("a cosine head in an own model, saved and exported", python(own_model + OWN_MODEL)),
        Step(
            "load it in another process and go on", python(LOAD_AND_GO_ON), "went on with MarginCrossentropy"
        ),
        Step("the export in plain TensorFlow", python(PLAIN_TENSORFLOW), "1e-4: True False"),
        Step("a folder of images", python(PHOTOS)),
        Step("docs/keras.md: the whole program", python(examples("docs/keras.md")[0]), "worst case"),
        Step(
            "an own model of pixels in bin/train",
            program(
                "train",
                "--model=my_models:build --input_range=0,255 --dataset=folder:photos --image_size=32 "
                "--epochs=1 --steps=1 --batch_size=8 --workdir=runs/own",
            ),
        ),
        Step(
            "an own model in bin/evaluate",
            program(
                "evaluate",
                "--model=robust.keras --dataset=folder:photos --image_size=32 --attacks=fgsm --output=own",
            ),
            "worst case",
        ),
    ]


def build_wheel(folder: pathlib.Path) -> pathlib.Path:
    """Builds the wheel in a copy: building leaves files beside the sources."""
    sources = folder / "sources"
    shutil.copytree(ROOT, sources, ignore=LEFT_OUT)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, sources], check=True
    )
    shutil.rmtree(sources)
    return next(folder.glob("*.whl"))


def install(environment: pathlib.Path, wheel: pathlib.Path) -> None:
    """Makes the environment unless it is there, and installs the wheel."""
    executable = environment / "bin" / "python"
    if not executable.exists():
        venv.create(environment, with_pip=True)
    pip = [executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([*pip, wheel], check=True)
    subprocess.run([*pip, "--no-deps", "--force-reinstall", wheel], check=True)


def run(step: Step, environment: pathlib.Path, folder: pathlib.Path) -> bool:
    """Runs a step as a user would, without the repository on the path; whether it went well."""
    name, *arguments = step.command
    begin = time.monotonic()
    found = subprocess.run(
        [environment / "bin" / name, *arguments],
        cwd=folder,
        env={
            "PATH": f"{environment / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
    )
    output = found.stdout + found.stderr
    well = found.returncode == step.code and re.search(step.prints, output, re.M) is not None
    print(f"{'ok' if well else 'FAILED':6s} {time.monotonic() - begin:6.1f} s  {step.title}", flush=True)
    if not well:
        print(f"exit code {found.returncode}, expected {step.code} and {step.prints!r}\n{output}", flush=True)
    return well


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else folder / "environment"
        install(environment, build_wheel(folder))
        work = folder / "work"
        work.mkdir()
        (work / "my_models.py").write_text(MY_MODELS)
        failed = [step.title for step in steps() if not run(step, environment, work)]
    sys.exit(f"Failed: {', '.join(failed)}." if failed else 0)


if __name__ == "__main__":
    main()
