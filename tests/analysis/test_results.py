"""Every analysis gives a result that can be drawn, written and compared; bad input is answered."""

import functools
import inspect
import itertools
import json
import tempfile

import keras
import matplotlib
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.analysis import ANALYSES, AnalysisOptions, drawing
from athe_tf.analysis.gradient_scattering import _mean_of_numbers
from tests.small_runs import tiny_batch, tiny_net

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ATTACK = athe_tf.attacks.PGD(0.1, steps=1)
QUICK = {
    "landscape": {"points": 3},
    "decision_map": {"points": 3},
    "hessian": {"top": 1},
    "linearity": {"epsilons": (0.1,)},
    "gradient_scattering": {"epsilons": (0.05, 0.1)},
    "attack_steps": {"steps": (1, 2)},
    "attack_with_fn": {"steps": (1,)},
}


@pytest.fixture(scope="module")
def net():
    return tiny_net()


def run(analysis, model, **options):
    function = getattr(athe_tf.analysis, analysis)
    options = AnalysisOptions(batch_size=4, **options)
    if analysis != "overlap":
        return function(model, tiny_batch(6), ATTACK, options, **QUICK.get(analysis, {}))
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, image=tiny_batch(40, seed=9)[0])
        file.flush()
        return function(model, tiny_batch(6), ATTACK, options, extra_data=file.name)


@functools.cache
def pair_of_results(name):
    """Of the same model under two names, and the calls of the progress function for the first."""
    net, calls = tiny_net(), []
    first = run(name, net, name="one", progress=lambda done, total: calls.append((done, total)))
    return first, run(name, net, name="two"), calls


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", ANALYSES)
def test_a_result_can_be_drawn_written_and_compared(name):
    first, second, progress = pair_of_results(name)
    assert progress and all(total is None or done <= total for done, total in progress)
    assert repr(first).startswith(type(first).__name__ + "('one', ")
    assert first.analysis == name
    written = json.loads(json.dumps(first.to_dict(), allow_nan=False))
    # The gradients of fn_direction are those of clean images.
    attack = "none" if name == "fn_direction" else "linf, epsilon 0.1"
    assert written["model"] == "one" and attack in written["settings"]["attack"]
    assert f"{first.images} image" in first.caption and attack in first.caption
    together = athe_tf.analysis.compare([first, second])
    for picture, projection in itertools.product((first, together), first.projections):
        axes = picture.plot(projection=projection)
        axes = axes if isinstance(axes, list) else [axes]
        assert all(ax.get_xlabel() or name == "perturbations" for ax in axes)
        assert all(ax.get_ylabel() for ax in axes)
        assert all(ax.get_zlabel() for ax in axes if ax.name == "3d")
        assert " ".join(axes[0].figure.texts[0].get_text().split()) == " ".join(picture.caption.split())


@pytest.mark.parametrize("name", ANALYSES)
def test_a_file_is_read_as_it_was_written(name, tmp_path):
    first, second, _ = pair_of_results(name)
    for result in (first, athe_tf.analysis.compare([first, second])):
        athe_tf.analysis.write(tmp_path / "file.json", result)
        again = athe_tf.analysis.read(tmp_path / "file.json")
        assert type(again) is type(result)
        assert again.to_dict() == result.to_dict() and again.caption == result.caption
        again.plot()


@pytest.mark.parametrize(
    "text", ["[", "{}", "[]", '{"athe_tf": "analysis", "analysis": "angles", "models": [{}]}']
)
def test_another_file_is_refused(text, tmp_path):
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(athe_tf.InputError, match="is not the file of an analysis"):
        athe_tf.analysis.read(tmp_path / "file.json")


def test_axes_can_be_handed_in(net):
    _, ax = plt.subplots()
    assert run("linearity", net).plot(ax=ax) is ax
    with pytest.raises(athe_tf.InputError, match="needs 2 axes. Received: 1"):
        run("class_bias", net).plot(ax=ax)


def test_colors_are_those_of_the_report():
    assert [drawing.color(i) for i in (0, 1, 6)] == ["#0072b2", "#c4500a", "#0072b2"]


def test_the_ratio_of_images_that_do_not_move_is_one(net):
    still = athe_tf.attacks.PGD(0.1, steps=0, start="zero")
    result = athe_tf.analysis.gradient_ratio(net, tiny_batch(6), still, AnalysisOptions(batch_size=4))
    np.testing.assert_allclose(result.ratios, 1.0, rtol=1e-5)
    assert result.kinds.count("kernel") == 2


def test_the_ratio_of_gradients_equals_that_of_keras_gradients(net):
    x, y = tiny_batch(6)
    result = athe_tf.analysis.gradient_ratio(net, (x, y), ATTACK)

    def norm(images):
        with tf.GradientTape() as tape:
            loss = keras.losses.sparse_categorical_crossentropy(y, net(images), from_logits=True)
            loss = tf.reduce_mean(loss)
        return np.linalg.norm(tape.gradient(loss, net.layers[-1].kernel.value))

    ratio = norm(ATTACK(net, x, y)) / norm(x)
    assert result.ratios[-1] == pytest.approx(ratio, rel=1e-4)


def test_weights_are_unchanged_by_every_analysis():
    net = tiny_net()
    before = [w.copy() for w in net.get_weights()]
    for name in ANALYSES:
        run(name, net)
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights(), strict=True))


def test_models_are_compared_under_the_same_settings_only(net):
    one = run("linearity", net)
    with pytest.raises(athe_tf.InputError, match="at least two models. Received: 1"):
        athe_tf.analysis.compare([one])
    with pytest.raises(athe_tf.InputError, match="same analysis"):
        athe_tf.analysis.compare([one, run("attack_steps", net)])
    with pytest.raises(athe_tf.InputError, match="differ in: seed"):
        athe_tf.analysis.compare([one, run("linearity", net, seed=3)])


def test_angles_need_a_hypersphere_head():
    with pytest.raises(athe_tf.InputError, match="Angles need a hypersphere head.*head 'linear'"):
        run("angles", tiny_net("linear"))


@pytest.mark.parametrize("name", ["class_bias", "fn_direction", "angles"])
def test_a_head_with_several_weights_per_class_is_refused(name):
    inputs = keras.Input((8, 8, 1))
    head = athe_tf.CosineDense(4, sub_centers=2)
    model = keras.Model(inputs, head(keras.layers.Flatten()(inputs)))
    with pytest.raises(athe_tf.InputError, match=f"{name} needs one weight vector per class.*sub_centers=2"):
        run(name, model)


def test_radii_default_to_multiples_of_that_of_the_attack(net):
    still = athe_tf.attacks.PGD(0.4, steps=0, start="zero")
    options = AnalysisOptions(max_examples=1)
    radii = athe_tf.analysis.linearity(net, tiny_batch(1), still, options).epsilons
    np.testing.assert_allclose(radii, [0.1, 0.2, 0.4, 0.6, 0.8])
    radii = athe_tf.analysis.gradient_scattering(net, tiny_batch(1), still, options).epsilons
    np.testing.assert_allclose(radii, [0.0, 0.1, 0.2, 0.4, 0.6])


def test_images_that_do_not_move_are_left_out_of_the_mean_cosine():
    assert _mean_of_numbers(np.array([np.nan, 0.5, 0.7])) == pytest.approx(0.6)
    assert np.isnan(_mean_of_numbers(np.array([np.nan])))


@pytest.mark.parametrize("name", ["class_bias", "attack_with_fn", "fn_direction"])
def test_a_model_without_features_is_refused(name):
    victim = athe_tf.victim(lambda x: x[:, :4, 0, 0], num_classes=4)
    with pytest.raises(athe_tf.InputError, match="needs penultimate features"):
        run(name, victim)


@pytest.mark.parametrize("name", ["gradient_ratio", "hessian", "landscape", "gradient_scattering"])
def test_weights_are_needed_for_analyses_in_weights(name):
    victim = athe_tf.victim(lambda x: x[:, :4, 0, 0], num_classes=4)
    with pytest.raises(athe_tf.InputError, match=f"{name} needs the weights of a Keras model"):
        run(name, victim)


def test_all_analyses_have_the_same_first_arguments():
    for name in ANALYSES:
        names = list(inspect.signature(getattr(athe_tf.analysis, name)).parameters)
        assert names[:4] == ["model", "data", "attack", "options"]


def test_a_series_that_is_higher_than_the_first_is_not_cut_off():
    _, ax = plt.subplots()
    for height in (1.0, 5.0):
        ax.plot([0, 1], [height / 2, height])
        drawing.from_zero(ax)
    assert ax.get_ylim()[0] == 0 and ax.get_ylim()[1] > 5
