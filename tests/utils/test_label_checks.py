"""Labels are compared with the number of classes in every dtype."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import InputError
from athe_tf.utils.images_and_labels import check_classes
from athe_tf.utils.label_checks import checked_labels


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "uint32", "int64", "float32"])
@pytest.mark.parametrize("classes", [201, 256, 266, 100_000])
def test_narrow_dtypes_do_not_wrap_around(dtype, classes):
    labels = tf.constant(np.array([0, 200]), dtype)
    found = checked_labels(labels, classes)
    assert found.dtype == tf.int32 and found.numpy().tolist() == [0, 200]


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_the_number_of_classes_is_no_label(dtype):
    with pytest.raises(InputError, match="integers in 0..199 with 200 classes. Received: min=0, max=200"):
        checked_labels(tf.constant(np.array([0, 200]), dtype), 200)


@pytest.mark.parametrize("label", [0.5, float("nan"), -1.0])
def test_labels_that_are_no_classes_are_refused(label):
    with pytest.raises(InputError, match="Labels must be integers in 0..2"):
        checked_labels(tf.constant([0.0, label]), 3)


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0]])
def test_arrays_and_tensors_are_refused_in_the_same_words(labels):
    messages = []
    for check in (checked_labels, check_classes):
        with pytest.raises(InputError) as refused:
            check(np.array(labels), 3)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]
