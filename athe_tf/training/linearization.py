"""A clean pass and the tangent of its loss, for frameworks that train on input gradients."""

import contextlib
from typing import Any, NamedTuple

from athe_tf.attacks.engine.gradients import input_gradient
from athe_tf.layers.batch_norm import capture_batch_statistics, frozen_batch_statistics
from athe_tf.losses import margin_crossentropy
from athe_tf.training.adversarial_model import full_precision


class CleanPass(NamedTuple):
    """The clean images of a batch: logits, losses and input gradients.

    Attributes:
        logits: Of an ordinary training pass, which updates the moving statistics.
        statistics: Those of the pass, by layer of batch normalisation.
        losses: Cross-entropy without margin or label smoothing, one value per example.
        gradient: The gradient of each loss with respect to its own image. The statistics of the batch are
            treated as constants, as in every pass that is compared with it.
    """

    logits: Any
    statistics: Any
    losses: Any
    gradient: Any


def clean_pass(net, x, y) -> CleanPass:
    """Two forward passes and one backward pass; an outer tape can differentiate the gradient."""
    with capture_batch_statistics() as statistics:
        logits = full_precision(net(x, training=True))
    losses, gradient = gradient_at(net, statistics, x, y)
    return CleanPass(logits, statistics, losses, gradient)


def gradient_at(net, statistics, x, y):
    """`(losses, input gradient)` at `x`, normalised by `statistics`."""
    return input_gradient(lambda images: frozen_losses(net, statistics, images, y)[0], x)


def frozen_losses(net, statistics, x, y):
    """`(losses, logits)` at `x`, normalised by `statistics`; nothing is updated."""
    with frozen_batch_statistics(statistics) if statistics else contextlib.nullcontext():
        logits = full_precision(net(x, training=True))
    return margin_crossentropy(y, logits), logits
