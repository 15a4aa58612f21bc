"""Properties for a verifier: the ball that is attacked, and the network that is attacked."""

import re

import numpy as np
import pytest

import athe_tf
from athe_tf.conversion.onnx_file import ImageLayout
from athe_tf.conversion.onnx_import import onnx_logits
from athe_tf.conversion.vnnlib import property_text, write_properties
from athe_tf.utils.errors import InputError

SHAPE, EPSILON = (4, 3, 2), 0.1


def read(text):
    """The bounds of the pixels, and the pairs of logits (larger, smaller) of which one must hold."""
    declared = re.findall(r"^\(declare-const ([XY])_(\d+) Real\)$", text, re.M)
    bounds = {sign: {} for sign in "<>"}
    for sign, index, value in re.findall(r"^\(assert \(([<>])= X_(\d+) (\d+\.\d+)\)\)$", text, re.M):
        bounds[sign][int(index)] = float(value)
    (last,) = re.findall(r"^\(assert \(or (.*)\)\)$", text, re.M)
    pairs = re.findall(r"\(and \(>= Y_(\d+) Y_(\d+)\)\)", last)
    assert " ".join(f"(and (>= Y_{a} Y_{b}))" for a, b in pairs) == last
    assert len(text.splitlines()) == 2 + len(declared) + sum(map(len, bounds.values()))
    low, high = ([part[i] for i in range(len(part))] for part in (bounds[">"], bounds["<"]))
    return np.array(low), np.array(high), [(int(a), int(b)) for a, b in pairs], declared


@pytest.mark.parametrize("channels_first", [False, True])
def test_the_property_is_the_ball_in_the_order_of_the_input(channels_first):
    image = np.random.default_rng(0).random(SHAPE).astype("float32")
    image[0, 0] = [1e-6, 0.99]  # numbers that Python writes with an exponent, and ends that are cut off
    layout = ImageLayout(SHAPE, channels_first, (1, *SHAPE))
    low, high, pairs, declared = read(property_text(image, 1, 3, EPSILON, layout))
    flat = np.ravel(image.transpose(2, 0, 1) if channels_first else image).astype("float64")
    np.testing.assert_array_equal(low, np.maximum(flat - EPSILON, 0))
    np.testing.assert_array_equal(high, np.minimum(flat + EPSILON, 1))
    assert pairs == [(0, 1), (2, 1)] and [kind for kind, _ in declared] == ["X"] * 24 + ["Y"] * 3


def test_the_file_is_the_model_and_wrong_predictions_have_no_property(tmp_path):
    pytest.importorskip("tf2onnx")
    net = athe_tf.models.build("small_cnn", 4, head="he", input_shape=(8, 8, 3))
    images = np.random.default_rng(1).random([3, 8, 8, 3], "float32")
    labels = np.asarray(net(images)).argmax(axis=1)
    labels[1] = (labels[1] + 1) % 4
    kept = write_properties(net, tmp_path / "out", images, labels, [5, 6, 9], EPSILON)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert kept == [5, 9] and names[:3] == ["image_5.vnnlib", "image_9.vnnlib", "instances.csv"]
    rows = (tmp_path / "out" / "instances.csv").read_text().splitlines()
    assert rows == ["model.onnx,image_5.vnnlib,300", "model.onnx,image_9.vnnlib,300"]
    np.testing.assert_allclose(onnx_logits(tmp_path / "out" / "model.onnx")(images), net(images), atol=1e-5)
    # A verifier takes one image; the property and the judge of an attack agree on what is adversarial.
    victim = athe_tf.victim(tmp_path / "out" / "model.onnx")
    attack = athe_tf.attacks.get("pgd-20", epsilon=EPSILON)
    adversarial = np.asarray(attack(victim, images[:1], labels[:1]))
    low, high, pairs, _ = read((tmp_path / "out" / "image_5.vnnlib").read_text())
    assert (np.ravel(adversarial) >= low - 1e-7).all() and (np.ravel(adversarial) <= high + 1e-7).all()
    for x in (images[:1], adversarial):
        found = victim.logits(x).numpy()[0]
        assert any(found[a] >= found[b] for a, b in pairs) == (found.argmax() != labels[0])
    with pytest.raises(InputError, match="exists already"):
        write_properties(net, tmp_path / "out", images, labels, [0, 1, 2], EPSILON)
