"""Each sentence of SECURITY.md has a test; those that are at home nowhere else are here."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest

import athe_tf
from athe_tf.programs import evaluate
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.serialization import to_json
from tests.small_runs import tiny_batch, tiny_net

ROOT = pathlib.Path(__file__).parents[1]
HERE = "tests/test_security.py"
WORKDIR, REPORT, FILES = "tests/programs/test_workdir.py", "tests/report/test_report.py", "tests/saving"

#: What SECURITY.md promises, and the tests that prove it. What it says about programs of others (SavedModel,
#: ONNX, LiteRT, gRPC) is a warning and not a promise.
CLAIMS = {
    "`module:Name` is imported and called": [
        "tests/utils/test_registry.py::test_a_name_with_a_module_is_imported_from_the_current_folder"
    ],
    "only those of TensorFlow Datasets are accepted, everything else is refused before it is imported": [
        "tests/data/test_tfds.py::test_a_module_that_features_json_names_is_not_imported"
    ],
    "no `Lambda`, no other modules, no files outside the archive": [
        f"{FILES}/test_model_files.py::test_a_lambda_layer_is_refused_and_not_run",
        f"{FILES}/test_model_files.py::test_weights_in_another_file_are_not_read",
        f"{FILES}/test_saved_model.py::test_a_complete_file_that_keras_refuses_says_why_and_is_not_called_truncated",
    ],
    "loaded with `weights_only=True`": [
        "tests/models/test_torch_import.py::test_a_poisoned_pickle_is_refused_and_nothing_is_executed"
    ],
    "`.safetensors` files are read with NumPy": [
        "tests/models/test_torch_import.py::test_safetensors_files_need_no_torch"
    ],
    "`.h5` files, and pickle files other than those": [
        f"{FILES}/test_model_files.py::test_h5_files_are_not_taken",
        f"{HERE}::test_pickles_in_arrays_are_refused_and_not_run",
    ],
    "arrays without pickle, sizes checked before memory is used": [
        f"{HERE}::test_pickles_in_arrays_are_refused_and_not_run",
        "tests/data/test_npz.py::test_an_archive_that_would_fill_the_memory_is_not_read",
        "tests/data/test_folder.py::test_an_image_that_declares_more_pixels_than_any_photograph_is_not_decoded",
    ],
    "checked against a schema; modules in them are never imported": [
        f"{REPORT}::test_what_is_not_an_evaluation_is_refused",
        f"{REPORT}::test_the_config_of_something_else_is_refused",
        "tests/programs/test_outside_framework.py::test_no_reader_imports_a_module_that_only_a_file_names",
    ],
    "Names of data sets are followed": [f"{WORKDIR}::test_names_of_data_sets_are_followed"],
    "a path is followed only if the data there have the fingerprint": [
        f"{WORKDIR}::test_a_path_in_the_config_of_a_run_is_followed_only_to_the_data_of_the_run",
        f"{WORKDIR}::test_a_folder_of_prepared_data_is_followed_only_to_the_data_of_the_run",
        f"{HERE}::test_the_run_of_a_stranger_cannot_choose_private_images",
    ],
    "`--torch_module=module:build`, `--arch=module:build`": [
        "tests/conversion/test_torch_twin.py::test_a_twin_has_the_logits_of_pytorch"
    ],
    "an `.onnx` file, read for its Keras twin": [
        "tests/conversion/test_onnx.py::test_an_unknown_operation_is_named_with_its_node_and_the_file_has_no_gradients",
        "tests/conversion/test_onnx.py::test_weights_beside_the_file_are_read_and_outside_of_its_folder_refused",
        "tests/conversion/test_onnx.py::test_external_weights_that_do_not_fit_are_refused",
    ],
    "which nobody can write who has not seen them": [
        "tests/data/test_sources.py::test_a_fingerprint_is_of_the_content_and_not_of_the_place"
    ],
    "modules in it are refused, never imported": [
        "tests/programs/test_sharded.py::test_shards_that_do_not_belong_together_are_not_merged"
    ],
    "a malformed or malicious one ends in a message and exit code 2": [
        "tests/report/test_malformed.py::test_malformed_files_end_with_a_message_and_nothing_is_written",
        "tests/data/test_npz.py::test_every_malformed_archive_is_refused_with_its_name",
        "tests/data/test_folder.py::test_every_malformed_folder_is_refused",
    ],
    "Programs write to `--workdir` and `--output` only": [
        f"{HERE}::test_an_evaluation_writes_to_its_output_only"
    ],
    "They replace and remove only files that athe_tf wrote": [
        "tests/programs/test_resume.py"
        "::test_files_of_the_user_beside_the_backup_survive_the_end_of_a_run_and_a_second_call",
        "tests/jobs/test_ownership.py::test_of_a_state_folder_only_our_files_are_removed",
        "tests/jobs/test_ownership.py::test_files_are_removed_by_name_and_a_folder_only_if_it_is_empty",
    ],
    "refuse the folder if a file of the same name is somebody else's": [
        "tests/jobs/test_ownership.py::test_a_folder_of_the_same_name_is_neither_used_nor_removed",
        f"{HERE}::test_an_output_with_a_file_of_somebody_else_is_refused",
    ],
    "Reports contain no absolute paths of files that you did not name": [
        f"{REPORT}::test_only_known_settings_of_a_run_reach_a_page",
        f"{REPORT}::test_an_evaluation_of_somebody_else_shows_no_file_of_the_reader",
    ],
    "single HTML pages without scripts from elsewhere": [
        f"{REPORT}::test_the_page_needs_nothing_from_outside",
        f"{REPORT}::test_no_text_of_an_evaluation_becomes_markup",
    ],
}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_promise_is_written_there_and_has_its_tests(claim):
    assert claim in " ".join((ROOT / "SECURITY.md").read_text().split())
    for test in CLAIMS[claim]:
        path, name = test.split("::")
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), test


def test_no_promise_is_without_a_test():
    text = (ROOT / "SECURITY.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    programs = ("a SavedModel", "`.onnx` and `.tflite`", "other workers")
    rows = [row for row in rows if not row.startswith(tuple(f"| {name}" for name in programs))]
    written = text.partition("## What is written")[2].partition("##")[0]
    sentences = re.split(r"(?<=[.])\s+", " ".join(written.split()))
    for sentence in [*rows, *sentences]:
        assert any(claim in sentence for claim in CLAIMS), sentence


class Poison:
    def __reduce__(self):
        return (pathlib.Path("poisoned").touch, ())


def test_pickles_in_arrays_are_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = np.empty(2, object)
    array[:] = [Poison(), Poison()]
    names = ("x_train", "y_train", "x_test", "y_test", "clean", "adversarial", "attack", "index", "identity")
    np.savez("p.npz", **dict.fromkeys(names, array))
    with pytest.raises(athe_tf.InputError):
        athe_tf.data.load("npz:p.npz")
    with pytest.raises(athe_tf.InputError):
        athe_tf.attacks.get("fgsm").run(tiny_net(), *tiny_batch(4), state="p.npz")
    assert not pathlib.Path("poisoned").exists()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with the run of a stranger, and data of the reader on which its model is right."""
    monkeypatch.chdir(tmp_path)
    images, _ = tiny_batch(8)
    net = tiny_net()
    labels = np.asarray(net(images)).argmax(1)
    labels[:4] = range(4)
    np.savez("private.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    pathlib.Path("stranger").mkdir()
    net.save("stranger/best.keras")
    return tmp_path


def exit_code(monkeypatch, *flags):
    monkeypatch.setattr(
        sys, "argv", ["bin/evaluate", "--attacks=fgsm", "--epsilon=0.1", "--nochecks", *flags]
    )
    with pytest.raises(SystemExit) as stopped:
        evaluate.main()
    return stopped.value.code


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("record", [{}, {"data_fingerprint": "0" * 64}])
def test_the_run_of_a_stranger_cannot_choose_private_images(here, record, monkeypatch, capsys):
    config = json.loads(to_json(TrainConfig(dataset="digits", head="he")))
    config |= {"dataset": "npz:private.npz", **record}
    pathlib.Path("stranger/config.json").write_text(json.dumps(config))
    before = everything(here)
    assert exit_code(monkeypatch, "--model=stranger", "--output=out") == 2
    error = capsys.readouterr().err
    assert "names the path 'npz:private.npz'" in error and "--dataset=" in error
    assert everything(here) == before and not pathlib.Path("out").exists()


def test_an_evaluation_writes_to_its_output_only(here, monkeypatch):
    before = everything(here)
    flags = ("--model=stranger/best.keras", "--dataset=npz:private.npz", "--output=out")
    assert exit_code(monkeypatch, *flags) == 0
    after = everything(here)
    assert {path for path in after if here / "out" not in path.parents} == set(before)
    assert all(after[path] == content for path, content in before.items())


@pytest.mark.parametrize("name", ["evaluation.json", "examples.npz", "report.html", "model_card.md"])
def test_an_output_with_a_file_of_somebody_else_is_refused(here, name, monkeypatch):
    pathlib.Path("out").mkdir()
    (here / "out" / name).write_text("mine")
    flags = ("--model=stranger/best.keras", "--dataset=npz:private.npz", "--output=out")
    before = everything(here)
    assert exit_code(monkeypatch, *flags) == 2
    assert everything(here) == before
