"""An analysis is one file and one entry in the registry: function, choice, flags and help follow."""

import inspect
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import athe_tf

PACKAGE = pathlib.Path(athe_tf.__file__).parent
FILE = '''"""The mean of the pixels."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.options import option


class Brightness(AnalysisResult):
    """The mean of the pixels, times a gain; made by `brightness`.

    Example:

    >>> athe_tf.analysis.brightness(model, (x, y)).means.shape
    (8,)

    Args:
        means: The mean of each image.
    """

    analysis = "brightness"
    summary = "how bright images are"
    what_to_see = "Bright images are on the right."

    means: np.ndarray

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        gain: float = option(1.0, "Gain of brightness.", gt=0),
        offset: float = argument(0.0, "Added to each mean."),
    ) -> "Brightness":
        """Measures how bright images are."""
        return cls(**subject.facts(), means=gain * subject.x.mean(axis=(1, 2, 3)) + offset)

    @property
    def key_numbers(self):
        return {"mean": float(self.means.mean())}

    def draw(self, axes, series, results):
        drawing.histogram(axes[0], self.means, 10, series, self.model)
        drawing.finish(axes[0], "mean of pixels", "number of images")


brightness = function_of(Brightness.compute)
'''
USE = """
import inspect
import numpy as np
import athe_tf
from athe_tf.programs.config import AnalyzeConfig

brightness = athe_tf.analysis.brightness
print(inspect.signature(brightness))
print(brightness.__doc__)
result = brightness(lambda x: x[:, 0, 0, :], (np.ones((2, 4, 4, 3)), [0, 1]), gain=2.0)
print(result, athe_tf.analysis.ANALYSES["brightness"] is type(result))
print(AnalyzeConfig(model="m.keras", what=("brightness",), gain=3.0).given_options("brightness"))
athe_tf.analysis.write("brightness.json", result)
print(athe_tf.analysis.read("brightness.json"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the package, with links to the folders that do not change, that has one more analysis."""
    folder = tmp_path_factory.mktemp("copy")
    copy = folder / "athe_tf"
    copy.mkdir()
    for path in PACKAGE.iterdir():
        if path.name == "analysis":
            shutil.copytree(path, copy / path.name)
        else:
            os.symlink(path, copy / path.name)
    (copy / "analysis" / "brightness.py").write_text(FILE)
    registry = copy / "analysis" / "registry.py"
    text = registry.read_text()
    assert "Hessian," in text
    text = text.replace("        Hessian,", "        Hessian, Brightness,")
    registry.write_text(f"from athe_tf.analysis.brightness import Brightness\n{text}")
    return folder


def run(folder, *arguments):
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_a_choice_with_a_flag_in_the_help_before_tensorflow_starts(folder):
    code = "import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None\n"
    code += "from athe_tf.programs import analyze; sys.argv = ['bin/analyze', '--helpshort']; analyze.main()"
    text = " ".join(run(folder, "-c", code).split())
    assert "brightness how bright images are" in text
    assert "--gain Gain of brightness. [1]" in text
    assert "--offset" not in text


def test_it_is_a_python_function_with_a_signature_and_a_docstring(folder):
    text = run(folder, "-c", USE)
    assert "*, gain: float = 1.0, offset: float = 0.0) -> athe_tf.analysis.brightness.Brightness" in text
    assert "    gain: Gain of brightness. Defaults to 1.0." in text and ">>> athe_tf.analysis." in text
    assert "2 images, mean=2) True" in text
    assert "{'gain': 3.0}" in text
    assert text.count("Brightness('") == 2


def test_the_stub_lists_every_analysis_for_type_checkers():
    missing = [name for name in athe_tf.analysis.ANALYSES if name not in athe_tf.analysis.__all__]
    assert not missing
    for name in athe_tf.analysis.ANALYSES:
        assert inspect.isfunction(getattr(athe_tf.analysis, name))
