"""bin/analyze: what is refused, and what is written."""

import dataclasses
import io
import json
import pathlib
import shutil
import sys
import time
import types

import numpy as np
import pytest

from athe_tf.programs import analyze
from athe_tf.programs.analysis_session import AnalysisDisplay, AnalysisSession, model_digest, picture_names
from athe_tf.programs.analyze import runs_by_steps
from athe_tf.programs.config.analyze import AnalyzeConfig, OwnFlags, SharedFlags
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_net


def run_config(folder, **changes):
    folder.mkdir()
    settings = {"head": "linear", "steps": 1, "epochs": 3, "scale": 15.0, "margin": None} | changes
    (folder / "config.json").write_text(json.dumps(settings))
    return str(folder)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"what": ("angles",)}, "Give either --model"),
        ({"model": "m.keras"}, "Specify what to analyze"),
        ({"model": "m.keras", "what": ("angels",)}, "Unknown analysis 'angels'. Did you mean 'angles'"),
        ({"compare": ("a",), "what": ("angles",)}, "at least two models. Received: --compare=a"),
        ({"compare": ("a", "a"), "what": ("angles",)}, "Received twice: a"),
        ({"model": "a", "what": ("training_steps",)}, "training_steps needs several training runs"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_tensorflow_starts(settings, message):
    with pytest.raises(InputError, match=message):
        AnalyzeConfig(**settings)


def test_runs_are_grouped_by_head_and_steps(tmp_path):
    runs = {
        (head, steps): run_config(tmp_path / f"{head}{steps}", head=head, steps=steps)
        for head in ("linear", "he")
        for steps in (1, 2)
    }
    groups = runs_by_steps(runs.values())
    assert groups == {head: {steps: runs[head, steps] for steps in (1, 2)} for head in ("linear", "he")}


def test_runs_that_differ_in_more_than_steps_are_refused(tmp_path):
    folders = [run_config(tmp_path / "a"), run_config(tmp_path / "b", steps=2, epochs=4)]
    with pytest.raises(InputError, match="differ in more than the number of attack steps.*differ in: epochs"):
        runs_by_steps(folders)


@pytest.mark.parametrize("name, value", [("seed", 1), ("epochs", 4), ("epsilon", 0.1)])
def test_heads_are_compared_under_the_same_settings(name, value, tmp_path):
    """Only head, scale, margin and weight normalization may differ between the two lines of the picture."""
    plain = [run_config(tmp_path / f"a{steps}", steps=steps) for steps in (1, 2)]
    allowed = {"head": "he", "scale": 10.0, "margin": 0.2, "weight_norm": "project"}
    he = [run_config(tmp_path / f"b{steps}", steps=steps, **allowed) for steps in (1, 2)]
    assert set(runs_by_steps([*plain, *he])) == {"linear", "he"}
    other = [run_config(tmp_path / f"c{steps}", steps=steps, **allowed, **{name: value}) for steps in (1, 2)]
    with pytest.raises(InputError, match=f"differ in: {name}"):
        runs_by_steps([*plain, *other])


def test_runs_with_the_same_steps_are_refused(tmp_path):
    with pytest.raises(InputError, match="steps of its own"):
        runs_by_steps([run_config(tmp_path / "a"), run_config(tmp_path / "b")])


def test_a_model_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="which has no config.json"):
        runs_by_steps([str(tmp_path / "a"), str(tmp_path / "b")])


def exit_code(monkeypatch, *flags):
    monkeypatch.setattr(sys, "argv", ["bin/analyze", *flags])
    with pytest.raises(SystemExit) as stopped:
        analyze.main()
    return stopped.value.code


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A plain model and one with a hypersphere head."""
    folder = tmp_path_factory.mktemp("models")
    for head in ("linear", "he"):
        tiny_net(head, classes=10).save(folder / f"{head}.keras")
    return folder


@pytest.fixture
def start(files, tmp_path, monkeypatch):
    """Starts the program on a few digits; returns the exit code."""
    common = ["--dataset=digits", "--max_examples=4", "--epsilon=0.1", "--steps=1", f"--output={tmp_path}"]

    def run(*flags):
        return exit_code(monkeypatch, *common, *(flag.replace("MODELS", str(files)) for flag in flags))

    return run


BOTH = "--compare=MODELS/linear.keras,MODELS/he.keras"


def logits(x):
    """A model without features and weights, for `--model=module:function`."""
    return x[:, :5, 0, 0] @ np.ones((5, 10), "float32")


def test_pictures_and_numbers_are_written(start, tmp_path, capsys):
    assert start(BOTH, "--what=class_bias,landscape", "--points=3") == 0
    pictures = ("class_bias", "landscape_weights_random", "landscape_weights_random_surface")
    expected = {f"{name}.{kind}" for name in pictures for kind in ("png", "svg")}
    expected |= {"class_bias.json", "landscape_weights_random.json"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    content = json.loads((tmp_path / "landscape_weights_random.json").read_text())
    assert content["pictures"] == ["landscape_weights_random.png", "landscape_weights_random_surface.png"]
    assert [entry["model"] for entry in content["models"]] == ["linear.keras", "he.keras"]
    assert all(entry["images"] == 4 for entry in content["models"])
    assert "class_bias.json, class_bias.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--model=MODELS/linear.keras", "--what=angles"), "Angles need a hypersphere head"),
        ((BOTH, "--what=angles"), "Angles need a hypersphere head"),
        ((f"--model={__name__}:logits", "--what=class_bias"), "class_bias needs penultimate features"),
        ((f"--model={__name__}:logits", "--what=hessian"), "hessian needs the weights of a Keras model"),
        ((f"--model={__name__}:logits", "--what=landscape"), "landscape needs the weights of a Keras model"),
        (("--compare=MODELS/he.keras", "--what=angles"), "A comparison needs at least two models"),
        ((BOTH, "--what=training_steps"), "training_steps compares training runs"),
        (("--model=MODELS/he.keras", "--what=hessain"), "Unknown analysis 'hessain'. Did you mean 'hessian'"),
        (
            ("--model=MODELS/he.keras", "--what=landscape", "--directions=attack"),
            "In weights, the directions",
        ),
    ],
)
def test_what_cannot_be_analyzed_ends_with_exit_code_2(start, flags, message, capsys, tmp_path):
    assert start(*flags) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_runs_that_differ_in_more_than_steps_end_with_exit_code_2(start, tmp_path, capsys):
    runs = [run_config(tmp_path / "a"), run_config(tmp_path / "b", steps=2, epochs=4)]
    for run in runs:
        pathlib.Path(run, "best.keras").touch()
    assert start(f"--compare={','.join(runs)}", "--what=training_steps") == 2
    assert "differ in: epochs" in capsys.readouterr().err


def test_training_runs_of_a_head_are_one_line(start, files, tmp_path):
    runs = [run_config(tmp_path / f"{steps}", steps=steps) for steps in (1, 2)]
    for run in runs:
        shutil.copy(files / "linear.keras", pathlib.Path(run, "best.keras"))
    assert start(f"--compare={','.join(runs)}", "--what=training_steps") == 0
    (line,) = json.loads((tmp_path / "training_steps.json").read_text())["models"]
    assert line["model"] == "head linear" and line["steps"] == [1, 2]


def test_options_of_analyses_hide_no_other_flag():
    own = {field.name for field in dataclasses.fields(OwnFlags)}
    assert own == {"space", "directions", "points", "index", "top", "extra_data", "threshold"}
    assert own.isdisjoint(field.name for field in dataclasses.fields(SharedFlags))


@pytest.fixture
def counted(monkeypatch):
    """The models that `linearity` was computed for."""
    import athe_tf.analysis

    models, real = [], athe_tf.analysis.linearity

    def linearity(model, data, attack, options):
        if len(models) == counted_stop["after"]:
            raise KeyboardInterrupt
        models.append(options.name)
        return real(model, data, attack, options, epsilons=(0.1,))

    counted_stop = {"after": None}
    monkeypatch.setattr(athe_tf.analysis, "linearity", linearity, raising=False)
    return models, counted_stop


def test_after_an_interruption_only_what_is_missing_is_computed(start, counted, tmp_path):
    models, stop = counted
    stop["after"] = 1
    assert start(BOTH, "--what=linearity") == 130
    partial = json.loads((tmp_path / "linearity.json").read_text())
    assert partial["pictures"] == [] and [one["model"] for one in partial["models"]] == ["linear.keras"]
    stop["after"] = None
    assert start(BOTH, "--what=linearity") == 0
    assert models == ["linear.keras", "he.keras"]
    whole = json.loads((tmp_path / "linearity.json").read_text())
    assert whole["models"][0] == partial["models"][0] and whole["pictures"] == ["linearity.png"]


def test_what_is_finished_is_kept_and_other_settings_are_computed_anew(start, counted, tmp_path, capsys):
    models, _ = counted
    flags = ("--model=MODELS/he.keras", "--what=linearity")
    assert start(*flags) == 0
    before = (tmp_path / "linearity.png").stat().st_mtime_ns
    assert start(*flags) == 0
    assert "kept from before" in capsys.readouterr().out
    assert len(models) == 1 and (tmp_path / "linearity.png").stat().st_mtime_ns == before
    # A picture that is gone is drawn again from the numbers.
    (tmp_path / "linearity.png").unlink()
    assert start(*flags, "--top=2") == 0  # a flag of another analysis changes nothing
    assert len(models) == 1 and (tmp_path / "linearity.png").exists()
    assert start(*flags, "--seed=1") == 0
    assert len(models) == 2


def test_a_picture_of_other_models_is_drawn_anew_from_what_is_kept(start, counted, tmp_path):
    models, _ = counted
    assert start(BOTH, "--what=linearity") == 0
    assert start("--model=MODELS/he.keras", "--what=linearity") == 0
    assert models == ["linear.keras", "he.keras"]
    content = json.loads((tmp_path / "linearity.json").read_text())
    assert [one["model"] for one in content["models"]] == ["he.keras"] and "linear.keras" not in content[
        "caption"
    ]


def test_another_model_under_the_same_name_is_computed_anew(start, counted, files, tmp_path):
    models, _ = counted
    path = tmp_path / "copy" / "m.keras"
    path.parent.mkdir()
    for head in ("he", "linear"):
        shutil.copy(files / f"{head}.keras", path)
        assert start(f"--model={path}", "--what=linearity") == 0
    assert models == ["m.keras", "m.keras"]


@pytest.mark.parametrize("name", ["class_bias.json", "class_bias.png", "class_bias_surface.svg"])
def test_a_foreign_file_is_not_overwritten(start, tmp_path, name):
    (tmp_path / name).write_text('{"mine": 1}')
    assert start("--model=MODELS/linear.keras", "--what=class_bias") == 2
    assert (tmp_path / name).read_text() == '{"mine": 1}'


def test_an_analysis_is_kept_as_long_as_nothing_it_depends_on_changes(tmp_path):
    model = tmp_path / "net.keras"
    model.write_bytes(b"weights")
    images = types.SimpleNamespace(fingerprint=lambda: "8 images")
    config = AnalyzeConfig(model=str(model), what=("hessian",), epsilon=0.1, norm="linf")

    def session(images, **changes):
        return AnalysisSession(dataclasses.replace(config, **changes), {}, images, None, None)

    def of(what="hessian", label="net", images=images, **changes):
        return json.dumps(session(images, **changes).identity(what, label, str(model)), sort_keys=True)

    other_images = types.SimpleNamespace(fingerprint=lambda: "9 images")
    first = of()
    for other in (
        of(top=2), of(steps=3), of(seed=1), of(epsilon=0.2), of(norm="l2"), of(max_examples=8),
        of(split="train"), of(batch_size=2), of(label="mine"), of(images=other_images),
    ):  # fmt: skip
        assert other != first
    # Where it is written, and the flags of other analyses, change nothing.
    assert of(output="elsewhere") == of(index=3) == of(space="pixels") == of(points=9) == first
    assert of("decision_map", index=3) != of("decision_map") == of("decision_map", top=2)
    model.write_bytes(b"others")
    assert of() != first
    assert model_digest("module:function") is None
    assert session(images).identity("training_steps", "net", {1: str(model), 2: "module:function"}) is None


def test_the_digest_of_a_folder_sees_all_of_its_files(tmp_path):
    (tmp_path / "m" / "variables").mkdir(parents=True)
    (tmp_path / "m" / "saved_model.pb").write_bytes(b"graph")
    digests = {model_digest(str(tmp_path / "m"))}
    for content in (b"one", b"two"):
        (tmp_path / "m" / "variables" / "data").write_bytes(content)
        digests.add(model_digest(str(tmp_path / "m")))
    assert len(digests) == 3


def test_models_with_equal_names_are_told_apart_by_their_paths():
    assert picture_names(["runs/a/best.keras", "runs/b"]) == ["a", "b"]
    assert picture_names(["x/a", "y/a"]) == ["x/a", "y/a"]


def test_a_log_gets_lines_while_a_step_takes_long():
    stream = io.StringIO()
    with AnalysisDisplay(stream, interval=0.01) as display:
        display.start("hessian of a")
        display.update(3, None)
        deadline = time.monotonic() + 20
        while stream.getvalue().count("hessian of a: 3 steps") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert stream.getvalue().count("hessian of a: 3 steps") >= 2
