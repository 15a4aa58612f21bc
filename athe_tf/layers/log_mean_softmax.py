"""The head of an ensemble."""

import keras
from keras import ops

from athe_tf.utils.errors import check


@keras.saving.register_keras_serializable(package="athe_tf")
class LogMeanSoftmax(keras.layers.Layer):
    """The logarithm of the mean probabilities of several classifiers, whose logits are concatenated.

    The output can be used as logits: its softmax is the mean of the members' softmaxes.

    Example:

    >>> logits = np.array([[2.0, 0.0, 0.0, 2.0]], "float32")        # two members, two classes
    >>> athe_tf.layers.LogMeanSoftmax(2)(logits).numpy().round(4)
    array([[-0.6931, -0.6931]], dtype=float32)

    Args:
        members: Number of classifiers; the last axis of the input has `members * classes` values.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, members: int, **kwargs):
        super().__init__(**kwargs)
        check(members >= 1, f"`members` must be a positive integer. Received: members={members}.")
        self.members = int(members)

    def call(self, inputs):
        logits = ops.reshape(inputs, (-1, self.members, inputs.shape[-1] // self.members))
        total = ops.logsumexp(ops.log_softmax(logits, axis=-1), axis=1)
        return total - ops.log(ops.cast(self.members, total.dtype))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1] // self.members)

    def get_config(self):
        return super().get_config() | {"members": self.members}
