"""`bin/evaluate`, called in this process: its output folder, its resume, and the input it refuses."""

import io
import json
import re
import shutil
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.data.sources import source_fingerprint
from athe_tf.evaluation.progress import EvaluationProgress, ProgressDisplay
from athe_tf.jobs.locks import LOCK, locked_folder
from athe_tf.programs import evaluate as program
from athe_tf.programs import export as export_program
from athe_tf.programs.config import EvaluateConfig, TrainConfig
from athe_tf.programs.config.serialization import to_json
from athe_tf.programs.evaluation_job import EvaluationJob, open_output
from athe_tf.programs.workdir import Workdir
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import TEMPORARY
from tests.small_runs import tiny_batch, tiny_net

X, _ = tiny_batch(40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with its data, and one for two classes."""
    folder = tmp_path_factory.mktemp("evaluate")
    net = tiny_net("he", seed=2)
    net.save(folder / "net.keras")
    tiny_net("linear", classes=2).save(folder / "two.keras")
    labels = np.asarray(net(X)).argmax(1)
    images = X.astype("float32")
    for name, y in (("data", labels), ("seven", np.arange(40) % 7), ("pair", np.arange(40) % 2)):
        np.savez(folder / f"{name}.npz", x_train=images, y_train=y, x_test=images, y_test=y)
    np.savez(folder / "empty.npz", x_train=images, y_train=labels, x_test=images[:0], y_test=labels[:0])
    return folder


def call(monkeypatch, *flags):
    """The exit code of the program."""
    monkeypatch.setattr(sys, "argv", ["bin/evaluate", *map(str, flags)])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    return stopped.value.code


def test_everything_is_written_and_the_state_is_gone(folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    flags = [f"--model={folder / 'net.keras'}", f"--dataset=npz:{folder / 'data.npz'}"]
    flags += ["--attacks=fgsm,pgd-3x3", "--epsilon=0.06", f"--output={out}", "--nochecks", "--batch_size=10"]
    calls = []

    def stop(self, progress):
        calls.append(progress)
        if len(calls) == 6:  # in the second attack
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ProgressDisplay, "update", stop)
        assert call(patched, *flags) == 130
    assert list(out.glob("state/fgsm-*.done.npz")) and not (out / "evaluation.json").exists()
    capsys.readouterr()

    assert call(monkeypatch, *flags) == 0
    shown = capsys.readouterr()
    assert "worst case" in shown.out and "open" in shown.out
    assert shown.err.splitlines()[0].startswith("fgsm: ") and "pgd-3x3: " in shown.err
    stored = json.loads((out / "evaluation.json").read_text())
    assert not (out / "state").exists()
    for name in ("report.html", "examples.npz"):
        assert (out / name).exists(), name
    assert stored["command"].startswith("bin/evaluate --model=") and "--nochecks" not in stored["command"]
    assert "--checks=false" in stored["command"] and stored["angles"]["edges"][0] == 0.0
    alone = athe_tf.evaluate(
        folder / "net.keras",
        athe_tf.data.load(f"npz:{folder / 'data.npz'}").test,
        attacks=["fgsm", "pgd-3x3"],
        epsilon=0.06,
        checks=False,
    )
    assert stored["flags"]["pgd-3x3"] == "".join("01"[flag] for flag in alone["pgd-3x3"].robust.astype(int))

    before = (out / "evaluation.json").read_bytes()
    assert call(monkeypatch, *flags[:1], f"--dataset=npz:{folder / 'seven.npz'}", f"--output={out}") == 2
    assert (out / "evaluation.json").read_bytes() == before  # earlier results are kept


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--model={f}/net.keras", "--dataset=npz:{f}/empty.npz"], "empty|no images"),
        (
            ["--model={f}/net.keras", "--dataset=npz:{f}/seven.npz"],
            "has 4 classes, and the data set .* has 7",
        ),
        (["--model={f}/two.keras", "--dataset=npz:{f}/pair.npz", "--protocol=pas"], "at least 3 classes"),
        (["--model={t}/broken", "--dataset=npz:{f}/data.npz"], "SavedModel in .* cannot be read"),
        (["--model={f}/net.keras", "--dataset=npz:{f}/data.npz", "--output={t}/file/x"], "Not a directory"),
        (["--model=" + 300 * "a", "--dataset=digits"], "File name too long: 'aaa"),
        (["--model={f}/net.keras", "--dataset=digits", "--input_range=255"], "--input_range must be two"),
        (["--model={f}/net.keras", "--parent={f}/net.keras"], "--parent belongs to a model file that ends"),
        (["--model=net.onnx", "--parent=other.tflite"], "--parent must have gradients"),
        (["--model=net.tflite", "--protocol=quick"], "has no gradients, which protocols need.*Give --parent"),
        (["--model=:f", "--dataset=digits"], "There is no model at ':f'.*or module:function"),
        (["--model=./nothere:x.keras", "--dataset=digits"], "There is no model at 'nothere:x.keras'"),
        (["--model={f}/net.keras", "--dataset=npz:{f}/data.npz", "--image_size=9"], "cannot be called with"),
    ],
)
def test_input_that_cannot_work_ends_with_a_message_and_code_2(
    folder, tmp_path, monkeypatch, capsys, flags, message
):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "saved_model.pb").write_bytes(b"\x00nonsense")
    (tmp_path / "file").write_text("")
    flags = [flag.format(f=folder, t=tmp_path) for flag in flags]
    assert call(monkeypatch, *flags) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"protocol": "he202"}, "Did you mean 'he2020'"),
        ({"protocol": "quick", "attacks": ("fgsm",)}, "either --protocol or --attacks"),
        ({"protocol": "transfer"}, "--substitutes"),
        ({"logit_scale": "-1"}, "--logit_scale must be 'model' or a number larger than 0"),
        ({"logit_scale": "inf"}, "--logit_scale must be 'model' or a finite number. Received: .*=inf"),
        ({"margin": float("nan")}, "--margin must be finite and not negative. Received: --margin=nan"),
        ({"margin": float("inf")}, "--margin must be finite and not negative. Received: --margin=inf"),
        ({"verify_with": ("art", "foolbx")}, "Did you mean 'foolbox'"),
        ({"epsilons": (0.1, 8.0)}, "Did you mean --epsilon=8/255"),
    ],
)
def test_flags_are_checked_before_tensorflow(flags, message):
    with pytest.raises(athe_tf.InputError, match=message):
        EvaluateConfig(model="m", **flags)


def test_a_published_radius_comes_before_that_of_the_training():
    config = EvaluateConfig(model="m:f", dataset="digits", protocol="imagenet")
    assert program.complete(config, None).epsilon == pytest.approx(4 / 255)
    own = EvaluateConfig(model="m:f", dataset="digits", protocol="imagenet", epsilon=0.1)
    assert program.complete(own, None).epsilon == 0.1
    quick = EvaluateConfig(model="m:f", dataset="digits", protocol="quick")
    assert program.complete(quick, None).epsilon == pytest.approx(8 / 255)


def test_the_protocol_of_pas_takes_the_form_of_the_data_set():
    on_mnist = EvaluateConfig(model="m:f", dataset="mnist", protocol="pas")
    filled = program.complete(on_mnist, None)
    assert (filled.protocol, filled.epsilon) == ("pas_mnist", 0.4)
    on_cifar = EvaluateConfig(model="m:f", dataset="cifar10", protocol="pas")
    assert program.complete(on_cifar, None).epsilon == 8 / 255


def test_the_scale_of_the_logits_reaches_the_attacks(folder, tmp_path, monkeypatch):
    flags = [f"--model={folder / 'net.keras'}", f"--dataset=npz:{folder / 'data.npz'}", "--attacks=fgsm"]
    assert call(monkeypatch, *flags, "--nochecks", "--logit_scale=1", f"--output={tmp_path}") == 0
    (outcome,) = json.loads((tmp_path / "evaluation.json").read_text())["attacks"]
    assert outcome["name"] == "fgsm (scale 1)" and outcome["settings"]["logit_scale"] == 1.0


def test_the_command_repeats_what_was_asked_for():
    config = EvaluateConfig(model="my run", attacks=("fgsm", "pgd-5"), epsilon=8 / 255, checks=False)
    assert program.repeat_command(config) == (
        "bin/evaluate '--model=my run' --attacks=fgsm,pgd-5 --epsilon=8/255 --checks=false"
    )


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self):
        return True


def test_a_value_cannot_add_a_flag_to_the_command():
    for values in ({"model": "a\n--epsilon=1"}, {"model": "a", "attacks": ("fgsm\r",)}):
        with pytest.raises(InputError, match="must be a text without line breaks"):
            EvaluateConfig(**{"dataset": "digits", **values})


def test_the_bar_shows_the_running_accuracy_and_the_time_left():
    now = [100.0]
    bar = ProgressDisplay(Terminal(), clock=lambda: now[0])
    bar.update(EvaluationProgress("pgd-20", 2, 3, 100.0, 400.0, 90, 100))
    now[0] = 110.0
    bar.update(EvaluationProgress("pgd-20", 2, 3, 200.0, 400.0, 60, 100))
    last = bar.stream.getvalue().rsplit("\r\033[K", 1)[-1]
    # A hundred passes took ten seconds, two hundred are left.
    assert last.startswith("2 of 3, pgd-20  [############............]  50%   robust 60.0%")
    assert last.endswith("   2 passes per image   20.0 s left")
    bar.finished(AttackOutcome("pgd-20", np.ones(3, bool)))
    assert bar.stream.getvalue().endswith("\r\033[K")


def test_elsewhere_there_is_one_line_per_attack():
    stream = io.StringIO()
    shown = ProgressDisplay(stream)
    shown.update(EvaluationProgress("fgsm", 1, 2, 1.0, 2.0, 3, 4))
    shown.finished(AttackOutcome("fgsm", np.array([True, False]), seconds=61.0, queries=5, gradients=3))
    shown.finished(AttackOutcome("feature", None, not_run="no\x1b[31m\nfeatures."))
    assert stream.getvalue() == (
        "fgsm: 50.00%, 1 min 1 s, 4 passes per image\nfeature: not run: no features.\n"
    )


def test_a_log_has_a_line_every_minute_while_an_attack_takes_longer():
    now, stream = [0.0], io.StringIO()
    shown = ProgressDisplay(stream, clock=lambda: now[0])
    for seconds in range(0, 150, 10):
        now[0] = float(seconds)
        shown.update(EvaluationProgress("square", 1, 1, float(seconds), 300.0, 3, 4))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2 and lines[0].startswith("1 of 1, square") and "60 s" not in lines[1]
    assert lines[1].endswith("robust 75.0%   30 passes per image   3 min 0 s left")


def pixels(x):
    """Logits of a function that expects pixels of 0..255."""
    return brightness(x / 255.0)


@pytest.mark.filterwarnings("ignore:The model")
def test_a_model_of_another_range_is_attacked_in_0_1(folder, tmp_path, monkeypatch):
    wide = athe_tf.load_model(folder / "net.keras")
    images = tf.keras.Input((8, 8, 1))
    wide = tf.keras.Model(images, wide(tf.keras.layers.Rescaling(1 / 255)(images)))
    wide.save(tmp_path / "wide.keras")
    athe_tf.export(wide, tmp_path / "wide")
    found = {}
    for name, data, flags in (
        (folder / "net.keras", "data", []),
        (tmp_path / "wide.keras", "data", ["--input_range=0,255"]),
        (tmp_path / "wide", "data", ["--input_range=0,255"]),
        (f"{__name__}:brightness", "pair", []),
        (f"{__name__}:pixels", "pair", ["--input_range=0,255"]),
    ):
        out = tmp_path / f"out{len(found)}"
        flags = [*flags, f"--model={name}", f"--dataset=npz:{folder / data}.npz", "--attacks=pgd-3"]
        assert call(monkeypatch, *flags, "--epsilon=0.06", f"--output={out}", "--nochecks") == 0
        found[name] = json.loads((out / "evaluation.json").read_text())["flags"]
    plain, file, exported, function, of_pixels = found.values()
    assert plain == file == exported and function == of_pixels


def brightness(x):
    """Logits of a Python function."""
    mean = tf.reduce_mean(x, axis=[1, 2, 3])
    return tf.stack([3 * mean, 1 - mean, *[mean - 9] * 8], axis=1)


@pytest.mark.filterwarnings("always:The model")
def test_a_python_function_is_evaluated_without_a_state_and_the_user_is_told(
    folder, tmp_path, monkeypatch, capsys
):
    flags = [f"--model={__name__}:brightness", f"--dataset=npz:{folder / 'pair.npz'}", "--attacks=fgsm"]
    assert call(monkeypatch, *flags, f"--output={tmp_path / 'out'}", "--nochecks") == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "Python code" in line]
    assert len(told) == 1 and told[0].startswith("bin/evaluate: The model 'brightness' contains Python code")
    assert not (tmp_path / "out" / "state").exists()


def test_nothing_of_others_is_removed_or_replaced(folder, tmp_path, monkeypatch, capsys):
    flags = [f"--model={folder / 'net.keras'}", f"--dataset=npz:{folder / 'data.npz'}"]
    flags += ["--attacks=fgsm", "--epsilon=0.06", "--nochecks"]
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "thesis.txt").write_text("precious")
    assert call(monkeypatch, *flags, f"--output={tmp_path}") == 2
    assert "state' contains other files" in capsys.readouterr().err
    assert (tmp_path / "state" / "thesis.txt").read_text() == "precious"
    out = tmp_path / "out"
    for name in ("model_card.md", "report.html", "examples.npz", "evaluation.json", "model_info.json"):
        out.mkdir(exist_ok=True)
        (out / name).write_text("mine")
        assert call(monkeypatch, *flags, f"--output={out}") == 2
        assert f"{name}' exists, and athe_tf did not write it" in capsys.readouterr().err
        assert (out / name).read_text() == "mine"
        (out / name).unlink()
    assert call(monkeypatch, *flags, f"--output={out}") == 0
    assert call(monkeypatch, *flags, f"--output={out}") == 0  # what is ours is replaced
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *flags, "--output=") == 2
    assert "--output= is empty" in capsys.readouterr().err


def test_a_report_that_cannot_be_printed_is_saved(folder, tmp_path, capfd, monkeypatch):
    flags = [f"--model={folder / 'net.keras'}", f"--dataset=npz:{folder / 'data.npz'}"]
    flags += ["--attacks=fgsm", "--epsilon=0.06", "--nochecks"]
    out = tmp_path / "out"
    for output, code in ((f"--output={out}", 0), ("--seed=0", 1)):
        with open("/dev/full", "w") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert call(monkeypatch, *flags, output) == code
            monkeypatch.undo()
        assert "Cannot write to standard output" in capfd.readouterr().err
    assert (out / "evaluation.json").exists() and (out / "report.html").exists()


def test_a_run_and_its_report_go_together(folder, tmp_path, monkeypatch):
    """The page of a fresh evaluation shows the run, and `bin/report` writes the same page again."""
    run, out = tmp_path / "run", tmp_path / "run" / "evaluation"
    run.mkdir()
    tiny_net("he", seed=2).save(run / "best.keras")
    config = TrainConfig(dataset=f"npz:{folder / 'data.npz'}", head="he", epsilon=0.06, workdir=str(run))
    (run / "config.json").write_text(to_json(config, data_fingerprint=source_fingerprint(config.dataset)))
    flags = [f"--model={run}", "--protocol=transfer", f"--substitutes={folder / 'net.keras'},{run}"]
    assert call(monkeypatch, *flags, f"--output={out}", "--nochecks") == 0
    stored = json.loads((out / "evaluation.json").read_text())
    assert stored["run"] == ".." and stored["format"] == 3
    assert stored["transfer"]["targets"] == [str(run), str(folder / "net.keras")]
    page = (out / "report.html").read_text()
    assert "Settings of the training run" in page
    (out / "report.html").unlink()
    athe_tf.report.write(run)
    assert (out / "report.html").read_text() == page


def test_another_norm_than_that_of_training_is_a_warning(folder, tmp_path, monkeypatch):
    def run(name, **settings):
        (tmp_path / name).mkdir()
        shutil.copy(folder / "net.keras", tmp_path / name / "best.keras")
        config = TrainConfig(dataset=f"npz:{folder / 'data.npz'}", head="he", **settings)
        record = to_json(config, data_fingerprint=source_fingerprint(config.dataset))
        (tmp_path / name / "config.json").write_text(record)
        return Workdir(tmp_path / name)

    trained = run("l2", norm="l2", epsilon=0.5)
    flags = [f"--model={trained.folder}", "--attacks=bim-1", "--epsilon=0.1", "--nochecks"]
    for norm, warned in (("linf", ["training-norm"]), ("l2", [])):
        assert call(monkeypatch, *flags, f"--norm={norm}", f"--output={tmp_path / norm}") == 0
        stored = json.loads((tmp_path / norm / "evaluation.json").read_text())
        assert [one["id"] for one in stored["warnings"] if one["id"] == "training-norm"] == warned
    standard = run("standard", framework="standard")
    job = EvaluationJob(EvaluateConfig(model=str(standard.folder)), standard, "")
    assert job._other_norm("l2") == []
    of_zoo = EvaluationJob(EvaluateConfig(model="zoo:cifar10-fast-at-he-wrn10-1"), None, "")
    assert "trained in linf and attacked in l1" in of_zoo._other_norm("l1")[0]


def moved_data(config):
    return config | {"dataset": "npz:/moved/data.npz", "extra_data": "/moved/extra.npz"}


def newer_version(config):
    return config | {"format": config["format"] + 1, "new_option": {"nested": 1}}


def incomplete(config):
    return {name: config[name] for name in ("format", "dataset", "framework", "head", "epsilon")}


def of_others(config):
    return {"architectures": ["ResNet"], "epsilon": "none"}


@pytest.mark.parametrize(
    "change, margin", [(moved_data, 0.2), (newer_version, 0.2), (incomplete, 0.2), (of_others, None)]
)
def test_a_model_beside_an_unusable_config_is_evaluated_and_exported(
    folder, tmp_path, monkeypatch, capsys, change, margin
):
    config = json.loads(to_json(TrainConfig(dataset="digits", head="he", epsilon=0.06)))
    (tmp_path / "config.json").write_text(json.dumps(change(config)))
    shutil.copy(folder / "net.keras", tmp_path / "best.keras")
    data = [f"--dataset=npz:{folder / 'data.npz'}", "--attacks=fgsm", "--nochecks", "--max_examples=4"]
    data.append(f"--output={tmp_path / 'out'}")
    assert call(monkeypatch, f"--model={tmp_path / 'best.keras'}", *data) == 0
    captured = capsys.readouterr()
    assert (tmp_path / "out" / "report.html").exists() and not (tmp_path / "out" / "state").exists()
    # Said before the attacks run, because the page needs it after them.
    left_out = "The report leaves the training run out: " in captured.err
    assert left_out == (change is not moved_data)
    assert "worst case" in captured.out
    assert ("only known settings are used" in captured.err) == (change is newer_version)

    flags = [f"--model={tmp_path / 'best.keras'}", f"--output={tmp_path / 'e'}"]
    monkeypatch.setattr(sys, "argv", ["bin/export", *flags])
    with pytest.raises(SystemExit) as stopped:
        export_program.main()
    assert stopped.value.code == 0
    assert json.loads((tmp_path / "e" / "athe_tf.json").read_text())["margin"] == margin


def test_a_second_evaluation_with_the_same_output_is_refused(folder, tmp_path, monkeypatch, capsys):
    flags = [
        f"--model={folder / 'net.keras'}",
        f"--dataset=npz:{folder / 'data.npz'}",
        f"--output={tmp_path}",
    ]
    with locked_folder(tmp_path):
        assert call(monkeypatch, *flags) == 2
        assert f"is in use by another process: host {socket.gethostname()}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_folders_made_before_bad_input_was_found_are_removed(folder, tmp_path, monkeypatch):
    flags = [f"--model={folder / 'two.keras'}", f"--dataset=npz:{folder / 'seven.npz'}"]
    assert call(monkeypatch, *flags, f"--output={tmp_path / 'a' / 'b'}") == 2
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_evaluation_left_is_removed_at_the_next_start(tmp_path):
    (tmp_path / "state").mkdir()
    for place in (tmp_path, tmp_path / "state"):
        (place / f"{TEMPORARY}0123.npz").touch()
    with open_output(tmp_path):
        assert not list(tmp_path.rglob(f"{TEMPORARY}*"))


def test_testing_whether_a_folder_can_be_written_touches_no_file_in_it(tmp_path):
    (tmp_path / ".writable").write_text("mine")
    with open_output(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, ".writable"]
    assert (tmp_path / ".writable").read_text() == "mine"


def test_a_converted_file_is_evaluated_with_the_settings_of_its_parents_run(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    run.mkdir()
    net = tiny_net("he", seed=2)
    net.save(run / "best.keras")
    labels = np.asarray(net(X)).argmax(1)
    np.savez(tmp_path / "data.npz", x_train=X, y_train=labels, x_test=X, y_test=labels)
    config = TrainConfig(
        dataset=f"npz:{tmp_path / 'data.npz'}", model="small_cnn", epsilon=0.07, workdir=str(run)
    )
    (run / "config.json").write_text(to_json(config, data_fingerprint=source_fingerprint(config.dataset)))
    athe_tf.saving.convert(net, tmp_path / "net.tflite", "litert")
    flags = [f"--model={tmp_path / 'net.tflite'}", f"--parent={run}", "--attacks=square-5", "--nochecks"]
    assert call(monkeypatch, *flags, "--max_examples=6", f"--output={tmp_path / 'out'}") == 0
    stored = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert (stored["epsilon"], stored["examples"]) == ("0.07", 6)
    names = [attack["name"] for attack in stored["attacks"]]
    assert names == ["apgd-ce on the parent", "apgd-t on the parent", "square-5"]
    assert stored["conversion"]["same_predictions"] == 1.0 and stored["conversion"]["parent"] == str(run)
    assert ["remarks" in attack for attack in stored["attacks"]] == [True, True, False]
    assert "The file and its parent" in (tmp_path / "out" / "report.html").read_text()


def test_a_file_in_eight_bits_is_exported_without_messages_of_the_converter(
    folder, tmp_path, monkeypatch, capfd
):
    output = tmp_path / "net.tflite"
    flags = [f"--model={folder / 'net.keras'}", "--format=litert_int8", f"--output={output}"]
    flags += [f"--dataset=npz:{folder / 'data.npz'}", "--calibration_images=5"]
    monkeypatch.setattr(sys, "argv", ["bin/export", *flags])
    with pytest.raises(SystemExit) as stopped:
        export_program.main()
    shown = capfd.readouterr()
    assert stopped.value.code == 0 and output.exists(), shown.err
    assert "4 classes, head he. Card:" in shown.out
    assert "fully_quantize" not in shown.err
