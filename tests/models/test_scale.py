"""`suggest_scale`: the mean norm of a model's logits."""

import keras
import numpy as np
import pytest

from athe_tf import models
from athe_tf.utils.errors import InputError


def test_the_scale_is_the_mean_norm_of_the_logits():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Activation("linear")(inputs))
    logits = np.array([[3.0, 4.0], [0.0, 1.0], [5.0, 12.0]])
    assert models.suggest_scale(model, logits, batch_size=2) == pytest.approx((5 + 1 + 13) / 3)


def test_a_model_without_one_vector_per_image_is_refused():
    inputs = keras.Input((2, 2))
    model = keras.Model(inputs, keras.layers.Activation("linear")(inputs))
    with pytest.raises(InputError, match=r"one vector of logits per image.*shape \(1, 2, 2\)"):
        models.suggest_scale(model, np.zeros((1, 2, 2)))
