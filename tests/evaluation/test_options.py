"""An option of an evaluation is declared in one place; everything else follows from the declaration."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.utils.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
# Reads the options with one more, then looks for it where users meet it.
PROGRAM = """
import importlib.util, inspect, json, pathlib, sys

import numpy as np

spec = importlib.util.find_spec("athe_tf.results.file_format")
source = pathlib.Path(spec.origin).read_text()
place = "    probabilities: bool = option("
assert source.count(place) == 1
line = '    patience: int = option(3, "Unused rounds before giving up.", gt=0)\\n'
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
exec(compile(source.replace(place, line + place), spec.origin, "exec"), module.__dict__)

from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.programs.command_line import Program, flags_of
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.config.serialization import to_json
from athe_tf.programs.evaluation_job import repeat_command
from athe_tf.results.file_format import evaluation_schema

program = Program("bin/evaluate", "", "", EvaluateConfig, None)
config, _ = program.read(["bin/evaluate", "--model=m", "--patience=5"])
try:
    program.read(["bin/evaluate", "--model=m", "--patience=0"])
except Exception as error:
    refused = str(error)
without_tensorflow = "tensorflow" not in sys.modules

import athe_tf

kernel = 9 * np.eye(4, dtype="float32")
images, labels = np.eye(4, dtype="float32").reshape(4, 2, 2, 1), np.arange(4)
result = athe_tf.evaluate(
    lambda x: __import__("tensorflow").reshape(x, [-1, 4]) @ kernel,
    (images, labels),
    attacks=["fgsm"],
    checks=False,
    options=EvaluationOptions(patience=config.patience),
)
print(json.dumps({
    "argument": str(inspect.signature(EvaluationOptions).parameters["patience"]),
    "flag": [flag.kind.__name__ for flag in flags_of(EvaluateConfig) if flag.name == "patience"],
    "help": program.manual([]),
    "refused": refused,
    "without_tensorflow": without_tensorflow,
    "command": repeat_command(config),
    "config": json.loads(to_json(config))["patience"],
    "settings": json.loads(result.to_json())["settings"],
    "schema": evaluation_schema()["properties"]["settings"]["properties"]["patience"],
}))
"""


def test_an_option_that_is_declared_once_is_found_everywhere():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["argument"] == "patience: int = 3"
    assert found["flag"] == ["int"]
    assert "  --patience\n      Unused rounds before giving up. [3]\n" in found["help"]
    assert found["refused"] == "--patience must be a finite number larger than 0. Received: --patience=0."
    assert found["without_tensorflow"]
    assert found["command"].endswith("bin/evaluate --model=m --patience=5")
    assert found["config"] == found["settings"]["patience"] == 5
    assert found["schema"] == {"type": "integer", "description": "a whole number"}


def test_options_are_recorded_if_they_differ_from_their_defaults():
    assert EvaluationOptions(epsilons=[], verify_with=(), name="m", dataset="d").chosen() == {}
    options = EvaluationOptions(epsilons=np.array([0.5, 0.25]), margin=0.0, logit_scale="15", max_passes=9)
    recorded = {"epsilons": [0.5, 0.25], "margin": 0.0, "logit_scale": 15.0, "max_passes": 9}
    assert options.chosen() == recorded and options.logit_scale == 15.0


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"margin": float("nan")}, "margin must be finite and not negative. Received: margin=nan"),
        ({"margin": -0.1}, "margin must be finite and not negative"),
        ({"logit_scale": float("inf")}, "logit_scale must be 'model' or a finite number"),
        ({"max_passes": 0}, "max_passes must be a finite number larger than 0"),
    ],
)
def test_numbers_are_checked_as_on_the_command_line(settings, message):
    with pytest.raises(InputError, match=message):
        EvaluationOptions(**settings)
