"""From a config to the objects it describes. The one place that knows which setting goes where."""

import keras

from athe_tf import attacks, models, training
from athe_tf.config import TrainConfig
from athe_tf.training.optimizers import MomentumSGD
from athe_tf.training.schedules import make_schedule

# The start that each framework's authors used; the others start uniformly in the ball.
FRAMEWORK_STARTS = {"trades": "gaussian"}


def make_net(config: TrainConfig, splits) -> keras.Model:
    """The classifier, with the normalisation of its data set inside."""
    return models.build(
        config.model,
        num_classes=splits.num_classes,
        head=config.head,
        input_shape=splits.image_shape,
        scale=config.scale,
        weight_norm=config.weight_norm,
        mean=splits.mean,
        std=splits.std,
        activation=config.activation,
        seed=config.seed,
    )


def make_attack(config: TrainConfig):
    """The attack inside training, or `None` for standard training."""
    if config.framework == "standard":
        return None
    return attacks.PGD(
        config.epsilon,
        config.norm,
        steps=config.steps,
        step_size=config.step_size,
        start=config.start or FRAMEWORK_STARTS.get(config.framework, "uniform"),
        restarts=config.restarts,
        logit_scale=config.attack_scale,
    )


def make_validation_attack(config: TrainConfig):
    """The attack that measures robust validation accuracy."""
    return attacks.get(config.validation_attack, epsilon=config.epsilon, norm=config.norm)


def make_optimizer(config: TrainConfig, steps_per_epoch: int):
    """The optimiser with its learning-rate schedule."""
    rate = make_schedule(
        config.lr_schedule,
        config.learning_rate,
        steps_per_epoch,
        config.epochs,
        config.lr_drops,
        config.lr_drop_factor,
    )
    if config.optimizer == "adam":
        return keras.optimizers.Adam(rate, weight_decay=config.weight_decay or None)
    return MomentumSGD(
        rate, momentum=config.momentum, weight_decay=config.weight_decay, nesterov=config.nesterov
    )


def framework_options(config: TrainConfig) -> dict:
    """The arguments that only this framework takes."""
    return {"trades": {"beta": config.beta}}.get(config.framework, {})


def make_trainer(config: TrainConfig, splits):
    """The classifier inside its framework, compiled and built, ready for `fit`."""
    net = make_net(config, splits)
    trainer = training.get(config.framework)(
        net,
        make_attack(config),
        margin=config.training_margin,
        label_smoothing=config.label_smoothing,
        bn_mode=config.bn_mode,
        validation_attack=make_validation_attack(config),
        seed=config.seed,
        **framework_options(config),
    )
    trainer.compile(make_optimizer(config, splits.train.steps_per_epoch(config.batch_size)))
    trainer.optimizer.build(net.trainable_variables)
    return trainer
