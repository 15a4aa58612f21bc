"""Embeddings of classifiers, and the recall of a search with them."""

import keras
import numpy as np
import pytest

from athe_tf import InputError, models
from athe_tf.evaluation import recall_at_k
from tests.models.test_hypersphere import Subclassed, trunk
from tests.small_runs import tiny_batch, tiny_net


@pytest.mark.parametrize("nested", [False, True])
def test_embeddings_are_the_unit_features(nested):
    net, (x, _) = tiny_net(), tiny_batch(4)
    features = np.asarray(keras.Model(net.inputs[0], net.layers[-2].output)(x))
    expected = features / np.linalg.norm(features, axis=1, keepdims=True)
    if nested:
        net = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Rescaling(1.0), net])
    np.testing.assert_allclose(models.embedding_model(net)(x), expected, atol=1e-5)


def test_a_model_without_known_features_is_refused():
    for model in (Subclassed(), keras.Sequential([*trunk(), keras.layers.ReLU()])):
        with pytest.raises(InputError, match="The features of .* are not known"):
            models.embedding_model(model)


def test_recall_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(30, 3)), rng.integers(0, 4, 30)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for k in (1, 3):
        hits = 0
        for i in range(30):
            others = sorted((j for j in range(30) if j != i), key=lambda j: -unit[i] @ unit[j])
            hits += any(labels[j] == labels[i] for j in others[:k])
        assert recall_at_k(vectors, labels, k, batch_size=7) == hits / 30


@pytest.mark.parametrize("arguments", [([[1.0]], [0]), ([[1.0], [2.0]], [0]), ([[1.0], [2.0]], [0, 0], 2)])
def test_impossible_searches_are_refused(arguments):
    with pytest.raises(InputError, match="Expected one embedding and one label"):
        recall_at_k(*arguments)
