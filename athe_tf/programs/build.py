"""Builds the objects that a config describes: data, model, attack, optimizer, trainer."""

import contextlib
import dataclasses
import itertools

import keras

from athe_tf import attacks, data, models, training
from athe_tf.data.names import CROPS_ORIGINALS, in_memory_only
from athe_tf.distribution import Distribution
from athe_tf.layers.batch_norm import synchronize
from athe_tf.models.card import describe
from athe_tf.models.names import HEADS, is_file
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.fields import picked
from athe_tf.programs.precision import check_precision
from athe_tf.programs.workdir import find_initial_model, load_splits
from athe_tf.saving.keras_file import load_model
from athe_tf.training.averaging import EMA, SWA, WeightAverage
from athe_tf.training.awp import AWP
from athe_tf.training.optimizers import TorchSGD
from athe_tf.training.options import NO_DECAY, SharedOptions, parse_optimizer
from athe_tf.training.schedules import EpsilonSchedule, Linear, PerEpoch, make_schedule
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.options import values_of


def make_splits(config: TrainConfig, cache=None):
    """The data set, with the extra training images; `cache` is as for `athe_tf.data.load`."""
    # Random crops are of the original images, and not of what was resized to fit in memory.
    resized = config.image_size is not None and not in_memory_only(config.dataset)
    streamed = True if resized and config.augmentation in CROPS_ORIGINALS else None
    splits = load_splits(config, validation_size=config.validation_size, streamed=streamed, cache=cache)
    config.check_size(splits.image_shape)
    if config.max_train_examples is not None and splits.train is not None:
        count = min(config.max_train_examples, len(splits.train))
        splits = dataclasses.replace(splits, train=splits.train.part(count))
    if config.extra_data is None:
        return splits
    labels_by = None if config.extra_labels_by is None else load_model(config.extra_labels_by)
    settings = config.extra_fraction, labels_by, config.extra_smoothing, config.extra_later
    return data.with_extra(splits, config.extra_data.split(","), *settings)


def make_net(config: TrainConfig, splits) -> keras.Model:
    """The classifier, which normalizes its inputs by the statistics of the data set unless told otherwise."""
    settings = picked(config, "head", "scale", "weight_norm", "activation", "bn_momentum", "seed")
    settings["input_shape"] = splits.image_shape
    if config.standardize:
        settings |= {"mean": splits.mean, "std": splits.std}
    with dtype_policy(config.precision):
        if is_file(config.model):
            net = with_head(load_model(find_initial_model(config.model)), config)
            found = *net.input_shape[1:], net.output_shape[-1]
            check(
                found == (*splits.image_shape, splits.num_classes),
                f"The model '{config.model}' takes images of shape {found[:-1]} and has {found[-1]} classes. "
                f"Expected, for '{config.dataset}': {splits.image_shape} and {splits.num_classes}. Use "
                "--image_size, or another model.",
            )
        else:
            net = models.build(config.model, num_classes=splits.num_classes, **settings)
        if config.input_range:
            net = models.with_input_range(net, config.input_range)
    if config.freeze is not None:
        models.freeze(net, config.freeze)
    return net


@contextlib.contextmanager
def dtype_policy(name: str):
    """Context in which new layers have this Keras dtype policy; weights stay float32 in a mixed one."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def with_head(net: keras.Model, config: TrainConfig) -> keras.Model:
    """A model of a file with the head of the settings: a linear one becomes a hypersphere if they say so."""
    card = describe(net)
    head, scale = (card["head"], card["scale"]) if card["head"] in HEADS else ("linear", None)
    if head == "linear" and config.head in ("he", "mhe"):
        return models.to_hypersphere(net, config.scale, config.head == "mhe", config.weight_norm)
    has = f"The head of the model '{net.name}' is {head}"
    check(head == config.head, f"{has}. Received: --head={config.head}. Use --head={head}.")
    if head != "linear":
        check(
            scale == config.scale,
            f"{has} with the scale {scale:g}. Received: --scale={config.scale:g}. Use --scale={scale:g}.",
        )
    return net


def make_attack(config: TrainConfig):
    """The training attack, or `None` if the framework has no use for one."""
    if not config.framework_options.has_epsilon:
        return None
    settings = picked(config, "epsilon", "norm", "restarts") | {"steps": config.attack_steps}
    if config.attack == "pgd":
        settings["step_size"] = config.attack_step_size
    elif config.step_size is not None:
        settings["step_size"] = config.step_size
    if config.start is not None:
        settings["start"] = config.start
    return attacks.get(config.attack, **settings, logit_scale=config.attack_scale)


def make_validation_attack(config: TrainConfig):
    """The attack that measures robust validation accuracy."""
    return attacks.get(config.validation_attack, epsilon=config.epsilon, norm=config.norm)


def make_optimizer(config: TrainConfig, updates_per_epoch: int):
    """The optimizer with its learning-rate schedule."""
    course: dict = {"drops": config.lr_drops, "factor": config.lr_drop_factor, "resets": config.lr_resets}
    course |= {"warm_up": config.lr_warmup, "per_epoch": config.lr_per_epoch, "lowest": config.lr_min}
    course |= {"start_factor": config.lr_start_factor}
    cycle = {"rise": config.lr_rise, "end_factor": config.lr_end_factor}
    course |= cycle if config.lr_schedule == "one_cycle" else {}

    def scheduled(value: float, **changes):
        return make_schedule(config.lr_schedule, value, updates_per_epoch, config.epochs, **course | changes)

    name, arguments = parse_optimizer(config.optimizer)
    kind: type = TorchSGD if name == "sgd" else type(keras.optimizers.get(name))
    settings = {"weight_decay": config.weight_decay or None}
    if name == "sgd":
        settings |= picked(config, "momentum", "nesterov")
        if config.lr_schedule == "one_cycle" and config.momentum_range:
            low, high = config.momentum_range
            settings["momentum"] = scheduled(low, start_factor=high / low, end_factor=high / low)
    try:
        optimizer = kind(**{"learning_rate": scheduled(config.learning_rate)} | settings | arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"Invalid arguments for the optimizer '{config.optimizer}': {error}.") from error
    if config.decay_variables != "all":
        optimizer.exclude_from_weight_decay(var_names=NO_DECAY[config.decay_variables])
    if config.precision == "mixed_float16":
        # Small gradients underflow in float16; bfloat16 has the range of float32.
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def make_epsilon_schedule(config: TrainConfig, updates_per_epoch: int) -> EpsilonSchedule | None:
    """The epsilon of the training attack, or `None` if it is constant."""
    if config.epsilon_schedule == "constant":
        return None
    warm_up = config.epsilon_warmup
    return EpsilonSchedule(
        config.epsilon_schedule,
        config.epsilon,
        [end * updates_per_epoch for end in config.period_ends],
        lowest=config.epsilon_min,
        highest=config.epsilon_max,
        warm_up=None if warm_up is None else warm_up * updates_per_epoch,
        delay=round(config.epsilon_delay * updates_per_epoch),
    )


def make_step_schedule(config: TrainConfig, updates_per_epoch: int) -> PerEpoch | None:
    """The factor of the step size of the training attack, or `None` if that is constant."""
    rise = config.step_size_warmup
    return PerEpoch(Linear(1.0, rise), updates_per_epoch) if rise else None


def make_trainer(config: TrainConfig, splits):
    """The classifier inside its framework, compiled and built, ready for `fit`."""
    check_precision(config.precision)
    net = make_net(config, splits)
    if config.sync_batch_norm:
        synchronize(net)
    options = config.framework_options
    updates = splits.train.steps_per_epoch(config.batch_size) * options.updates_per_step
    arguments: dict = {"batch_size": config.batch_size} if options.takes_batch_size else {}
    if options.takes_updates:
        arguments["updates"] = updates * config.epochs
    if config.awp_gamma:
        arguments["weight_perturbation"] = AWP(config.awp_gamma, round(config.awp_start * updates))
    trainer = training.get(config.framework)(
        net,
        make_attack(config),
        margin=config.training_margin,
        validation_attack=make_validation_attack(config),
        average=make_average(config, splits, updates),
        epsilon_schedule=make_epsilon_schedule(config, updates),
        step_schedule=make_step_schedule(config, updates),
        **picked(config, "margin_form", "seed"),
        **arguments,
        **values_of(SharedOptions, config),
        **dataclasses.asdict(options),
    )
    trainer.compile(make_optimizer(config, updates), jit_compile=config.jit_compile)
    trainer.optimizer.build(net.trainable_variables)
    return trainer


def make_average(config: TrainConfig, splits, updates_per_epoch: int) -> WeightAverage | None:
    """The average of the weights that is shipped, or `None`."""
    if config.swa_start is not None:
        return SWA(config.swa_start, lambda epoch: epoch_batches(config, splits, epoch))
    start = config.ema_start * updates_per_epoch
    settings = start, config.ema_constant, config.ema_statistics
    return EMA(config.ema, *settings) if config.ema else None


def epoch_batches(config: TrainConfig, splits, epoch: int, distribution: Distribution | None = None):
    """The training batches of one epoch, counted from 0, divided among devices if there are several."""
    steps = splits.train.steps_per_epoch(config.batch_size)
    settings = {**config.stream_settings, "start_step": epoch * steps, "epochs": epoch + 1}
    if distribution is None:
        return splits.train.stream(**settings)
    return itertools.islice(distribution.train_dataset(splits.train, **settings), steps)


def start_from(trainer, config: TrainConfig) -> None:
    """Gives the trainer's classifier, and its average, the weights of a model of the same architecture."""
    file = find_initial_model(str(config.initial_model))
    source = load_model(file)
    if config.head in ("he", "mhe") and describe(source)["head"] == "linear":
        source = with_head(source, config)
    difference = first_difference(signature(trainer.net), signature(source))
    check(
        difference is None,
        f"The model '{file}' is not the same as the one to train: {difference}. Use one with "
        "the same --model, --head, --scale, --activation and data set.",
    )
    for net in (trainer.net, trainer.averaged):
        if net is not None:
            net.set_weights(source.get_weights())


def first_difference(ours: dict, theirs: dict) -> str | None:
    """The first difference between two signatures, in words; `None` if there is none."""
    for name, expected in ours.items():
        if name not in theirs:
            return f"it has no {name}"
        if theirs[name] != expected:
            return f"its {name} is {theirs[name]}, expected {expected}"
    besides = [name for name in theirs if name not in ours]
    return f"it also has {besides[0]}" if besides else None


def signature(net: keras.Model) -> dict:
    """The properties that two models must share to exchange weights, by name."""
    card = describe(net)
    found = {name.replace("_", " "): card[name] for name in ("input_shape", "num_classes", "head", "scale")}
    for name, values in (card["normalization"] or {}).items():
        # Float32 and float64 round the same numbers differently.
        found[f"{name} of the pixels"] = [round(value, 5) for value in values]
    found["activation"] = ", ".join(sorted({_activation(layer) for layer in net.layers} - {""}))
    return found | {f"weight '{weight.path}'": tuple(weight.shape) for weight in net.weights}


def _activation(layer) -> str:
    """The name of a layer's nonlinearity; empty if it has none."""
    if isinstance(layer, keras.layers.LeakyReLU):
        return "leaky_relu"
    function = getattr(layer, "activation", None)
    return "" if function in (None, keras.activations.linear) else function.__name__
