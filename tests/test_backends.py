"""`CosineDense` and `MarginCrossentropy` under every backend of Keras that is installed."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FORMS = ["cosine", "angle", "arc"]


@pytest.fixture(scope="module", params=["tensorflow", "jax", "torch"])
def found(request, tmp_path_factory):
    """What `backend_program.py` found in a process of its own: Keras has one backend per process."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: pip install {request.param}")
    command = [sys.executable, "-m", "tests.backend_program", str(tmp_path_factory.mktemp("models"))]
    env = os.environ | {"KERAS_BACKEND": request.param, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    findings = json.loads(run.stdout.splitlines()[-1])
    assert findings["backend"] == request.param
    return findings


def test_tensorflow_is_imported_only_where_it_is_the_backend(found):
    assert found["tensorflow"] == (found["backend"] == "tensorflow")


@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients_are_those_of_numpy(found, form):
    value, gradient = found["exact"][form]
    # Keras knows float64 on TensorFlow only; elsewhere its rules of promotion make it float32.
    assert value < (1e-6 if found["backend"] == "tensorflow" else 1e-4)
    assert gradient < (1e-5 if found["backend"] == "tensorflow" else 1e-3)


def test_gradients_are_finite_at_zero_features(found):
    assert found["finite"] == [True] * 3


@pytest.mark.parametrize("form", FORMS)
def test_fit_lowers_the_loss(found, form):
    first, last = found["fit"][form]
    assert last < first


@pytest.mark.parametrize("form", FORMS)
def test_a_compiled_model_is_saved_and_loaded(found, form):
    assert found["round_trip"][form] == [0.0, True]


def test_mistakes_are_named(found):
    assert "Expected: scale=5, that of the CosineDense 'head'. Received: scale=2" in found["scale"]
    assert "Labels must be integers in 0..2 with 3 classes. Received: min=0, max=3" in found["label"]
    assert "add up to 1 for every image. Received: min=0.5, sums from 1.5 to 1.5" in found["soft"]


def test_where_jax_compiles_a_wrong_label_is_not_a_number(found):
    if found["backend"] != "jax":
        pytest.skip("the other backends raise an error, see above")
    assert found["label_in_fit"]
