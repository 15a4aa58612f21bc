"""Packaging of athe_tf; tool settings live in pyproject.toml."""

import pathlib
import re

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (HERE / "athe_tf" / "version.py").read_text(), re.MULTILINE
).group(1)


def description() -> str:
    """README.md without pictures and links of the repository, which lead nowhere on pages such as PyPI's."""
    text = re.sub(r"!\[[^\]]*\]\((?!https?://).*\)\n\n", "", (HERE / "README.md").read_text())
    return re.sub(r"\[([^\]]+)\]\((?!https?://)([^)#]+)[^)]*\)", r"\1 (`\2`)", text)


class BuildWithRecipes(build_py):
    """Puts the recipes of `configs/` into the package; an editable install finds them in the checkout."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        recipes = pathlib.Path(self.build_lib, "athe_tf", "recipes")
        for path in HERE.glob("configs/**/*.*"):
            place = recipes / path.relative_to(HERE / "configs")
            self.mkpath(str(place.parent))
            self.copy_file(str(path), str(place))


setup(
    name="athe_tf",
    version=VERSION,
    description="Adversarial training with hypersphere embedding, and honest robustness evaluation, "
    "for TensorFlow and Keras 3",
    long_description=description(),
    long_description_content_type="text/markdown",
    author="athe_tf developers",
    license="Apache-2.0",
    keywords="adversarial robustness, adversarial training, adversarial attacks, AutoAttack, TRADES, "
    "hypersphere embedding, ArcFace, CosFace, Keras, TensorFlow",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Security",
        "Typing :: Typed",
    ],
    cmdclass={"build_py": BuildWithRecipes},
    python_requires=">=3.11",
    packages=find_packages(include=["athe_tf", "athe_tf.*"]),
    package_data={
        "": ["*.pyi", "py.typed"],
        "athe_tf.data": ["files/*"],
        "athe_tf.drawing": ["style.css"],
        "athe_tf.report": ["schemas/*.json"],
        "athe_tf.zoo": ["files/*"],
    },
    install_requires=[
        "tensorflow>=2.21",
        # Before 3.13.2, Keras runs code from a model file, or reads other files through it; before 3.15, it
        # does not read what newer versions wrote, such as the files of the zoo.
        "keras>=3.15",
        "tensorflow-datasets>=4.9.10",  # older versions fail with today's protobuf
        "importlib_resources>=6",  # tensorflow-datasets imports it to download, without asking for it
        "absl-py>=2.1",
        "jsonschema>=4.18",
        "lazy_loader>=0.6",
        "ml_dtypes>=0.4",  # bfloat16 in NumPy arrays; TensorFlow brings it
        "numpy>=1.26",
        "Pillow>=10",
        "psutil>=5.9",
        "scipy>=1.11.1",
        # Independent attacks to check ours against; imported only when asked for. It brings matplotlib.
        "cleverhans>=4.0",
    ],
    extras_require={
        "crosscheck": ["foolbox>=3.3.4", "adversarial-robustness-toolbox>=1.20", "multiprocess"],
        # Checkpoints of torch.save, older versions of which can be made to execute code; .safetensors files.
        "torch": ["torch>=2.6", "safetensors>=0.5"],
        "onnx": ["onnx>=1.17", "onnxruntime>=1.20", "tf2onnx>=1.16.1"],
        "litert": ["ai-edge-litert>=2.0"],
        # The site, `make docs`.
        "docs": ["sphinx>=8", "myst-nb>=1.3", "furo>=2025.7", "sphinx-copybutton>=0.5.2"],
        # Shows what --tensorboard logs; setuptools because it imports pkg_resources.
        "tensorboard": ["tensorboard>=2.18", "setuptools<81"],
        # Some benchmarks and comparisons also use PyTorch, if it is installed; see docs/attacks.md.
        "test": [
            "pytest>=8",
            "pytest-xdist>=3.6.1",
            "ruff>=0.6",
            "mypy>=1.11",
            "import-linter>=2",
            "safetensors>=0.5",  # so that its files are tested without PyTorch
        ],
        # Pictures of athe_tf.analysis; imported only when something is drawn.
        "analysis": ["matplotlib>=3.8"],
    },
    entry_points={
        "console_scripts": [
            "athe-tf-analyze=athe_tf.programs.start:analyze",
            "athe-tf-train=athe_tf.programs.start:train",
            "athe-tf-evaluate=athe_tf.programs.start:evaluate",
            "athe-tf-export=athe_tf.programs.start:export",
            "athe-tf-import=athe_tf.programs.start:import_model",
            "athe-tf-import_torch=athe_tf.programs.start:import_torch",
            "athe-tf-report=athe_tf.programs.start:report",
            "athe-tf-reproduce=athe_tf.programs.start:reproduce",
            "athe-tf-selftest=athe_tf.programs.start:selftest",
        ]
    },
)
