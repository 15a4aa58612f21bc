"""The notebooks of examples/ run, shortened, and were committed with their output."""

import json

import numpy as np
import pytest

from tests.doc_examples import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
# Less time, the same code.
SHORTER = {
    "EPOCHS = 10": "EPOCHS = 1",
    "EPOCHS = 6": "EPOCHS = 1",
    "EPOCHS = 20": "EPOCHS = 1",
    "IMAGES = None  # all 50,000": "IMAGES = 128",
    'load("cifar10")': 'load("npz:images.npz")',  # of the same shape, so that nothing is downloaded
    "TEST_IMAGES = 1000": "TEST_IMAGES = 20",
    "max_examples=200": "max_examples=20",
    "validation_freq=2": "validation_freq=1",
    '"pgd-20", "swift", "fab-t"': '"pgd-5", "fab-t-5"',
    'attacks=["pgd-20", "swift"]': 'attacks=["pgd-5"]',
    "epsilon=0.1, name=": "epsilon=0.1, checks=False, name=",
    'attacks=["swift"]': 'attacks=["pgd-5"]',
}


def cells_of(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    sets = {f"x_{part}": rng.integers(0, 256, (200, 32, 32, 3), "uint8") for part in ("train", "test")}
    np.savez("images.npz", **sets, y_train=np.arange(200) % 10, y_test=np.arange(200) % 10)
    names = {}
    for number, cell in enumerate(cells_of(path)):
        code = "".join(cell["source"])
        for long, short in SHORTER.items():
            code = code.replace(long, short)
        exec(compile(code, f"{path.stem}, cell {number}", "exec"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_its_output_and_no_errors(path):
    outputs = [output for cell in cells_of(path) for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert any("text/html" in output.get("data", {}) or "text" in output for output in outputs)
