"""The training step that every framework shares."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import keras
import tensorflow as tf

from athe_tf.attacks.engine import gradient_health
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.gradient import PGD, AdamPGD
from athe_tf.layers.batch_norm import copied_statistics
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.losses import MarginCrossentropy, add_margin, as_probabilities, margin_crossentropy
from athe_tf.models.features import Head, check_classifier, check_float_input, find_head, has_softmax
from athe_tf.models.folding import folded
from athe_tf.models.victim import Victim, keras_victim
from athe_tf.training.averaging import WeightAverage, freeze_like
from athe_tf.training.awp import AWP, restoring
from athe_tf.training.crafting import check_batch_norm, check_radius_used, crafting_mode, named_attack
from athe_tf.training.gradient_watch import LOSS_NOT_FINITE, GradientCounts, with_watch
from athe_tf.training.options import FrameworkOptions, SharedOptions, check_margin
from athe_tf.training.random_layers import augmented, check_random_layers, cut, unseen_draws_named
from athe_tf.utils import replicas, rng
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.graph_checks import checked
from athe_tf.utils.images_and_labels import DIVIDE, IMAGE_RULE, NORMALIZE_INSIDE, TOLERANCE
from athe_tf.utils.keras_compat import all_layers
from athe_tf.utils.label_checks import checked_labels, checked_probabilities, is_soft, most_probable
from athe_tf.utils.options import DerivedSignature, make_options
from athe_tf.utils.tensorflow_compat import ModelWithStepLogs

# How the error of a loss that is not finite goes on.
LOWER_RATE = (
    "A lower learning rate, or a larger batch size, usually helps. Nothing was updated in this step: "
    "`trainer.net` has the weights of the step before."
)


class Terms(NamedTuple):
    """The result of `training_loss`: a loss per example, and the logits, if they were computed.

    Example:

    >>> Terms(losses=[0.5, 1.5]).clean_logits is None
    True
    """

    losses: Any
    clean_logits: Any = None
    adversarial_logits: Any = None


class Cost(NamedTuple):
    """Network passes per training step: forward, backward to the input, backward to the weights.

    Example:

    >>> sum(Cost(forward=2, backward_input=1, backward_weights=1))
    4
    """

    forward: int
    backward_input: int
    backward_weights: int


class AdversarialModel(ModelWithStepLogs):
    """A classifier inside a training framework.

    A training step has five parts, each a method that a subclass can override:

    | part | method | by default |
    |---|---|---|
    | prepare | `prepare` | the batch, after the random layers at the front of `net` |
    | craft | `craft` | adversarial examples from `attack` |
    | loss | `training_loss`, inside the tape of `gradients` | none: every framework has its own |
    | apply | `update_weights` | clips, and updates the weights of `net` and their average |
    | metrics | `log_step` | loss, clean and robust accuracy |

    To add a framework, subclass this and return per-example losses from `training_loss`:

    >>> @dataclasses.dataclass(frozen=True)
    ... class MixedOptions(FrameworkOptions):
    ...     share: float = option(0.5, "Share of the adversarial loss.", ge=0)
    >>> class Mixed(AdversarialModel):
    ...     options_class = MixedOptions
    ...
    ...     def training_loss(self, x, x_adv, y):
    ...         clean, adversarial = self.training_logits(x), self.training_logits(x_adv)
    ...         share = self.options.share
    ...         losses = (1 - share) * self.crossentropy(y, clean) + share * self.crossentropy(y, adversarial)
    ...         return Terms(losses, clean, adversarial)

    It trains in Python as `Mixed(net, attack, share=0.7)`, and by `bin/train --framework=module:Mixed
    --share=0.7`.

    This class takes care of what is easy to get wrong: the tapes, the scaling for several replicas and for
    mixed precision, the mode of batch normalization while crafting, random numbers that do not depend on the
    number of replicas, the metrics, and a check that stops training if the loss is not finite.

    Labels are classes `[N]`, or soft: probabilities `[N, classes]`, as of MixUp and CutMix, which every loss
    and the attack use as they are. Metrics see the most probable class.

    It logs `loss`, `clean_accuracy` and `robust_accuracy`: in training, the accuracies whose logits the
    framework computes anyway; in validation, both (the latter with `validation_attack`). Metrics given to
    `compile` see the clean predictions if the framework has them, else the adversarial ones; in validation,
    always the clean ones. `val_loss` is plain cross-entropy on clean images, without a margin: callbacks that
    choose an epoch need `monitor="val_robust_accuracy", mode="max"`. `save` and `export` write the plain
    classifier: `shipped`, which is `net` or its average.

    Args:
        net: A Keras model from images in [0, 1] to logits. Layers with `trainable = False` stay unchanged,
            batch normalization included. Random layers directly behind its input, such as `RandomFlip`, are
            applied once per batch before the attack; what is attacked and trained is `rest`.
        attack: Crafts the training images: an `Attack`, or the name of one, such as `"pgd-10"`. `None` for
            frameworks that need none.
        epsilon: The radius of attacks given by name, in pixels of [0, 1].
        norm: The norm of attacks given by name. Defaults to `"linf"`.
        margin: The m of Eq. 6, for hypersphere heads. Defaults to 0.
        margin_form: `"cosine"`, `"angle"` or `"arc"`, as in `MarginCrossentropy`. Defaults to `"angle"` for
            an angular head, else to `"cosine"`.
        label_smoothing: In the training loss. Defaults to 0.
        attack_smoothing: Label smoothing in the loss that the attack maximizes. Defaults to 0, whatever
            `label_smoothing` is.
        bn_mode: Batch normalization while crafting, see `athe_tf/training/crafting.py`. Defaults to the
            framework's own.
        validation_attack: Measures `val_robust_accuracy`: an `Attack` or a name. Defaults to `attack`.
        average: `EMA` or `SWA`: an average of the weights, which is then validated, saved and exported.
        weight_perturbation: `AWP`: take the gradient at perturbed weights.
        epsilon_schedule: From the number of updates so far to the epsilon of the training attack, such as an
            `EpsilonSchedule`. Defaults to `None`: the attack's own.
        step_schedule: From the number of updates so far to a factor of the step size of the training attack.
            Defaults to `None`: 1.
        clip_norm: Clip the gradient of the weights, over all replicas, to this norm. Defaults to `None`: no
            clipping.
        accumulate: Compute each batch in this many parts, one after another, and average their gradients: the
            same update with less memory, except that batch normalization sees a part. Defaults to 1.
        bn_copy_first: In the first update, moving statistics become those of the batch, whatever the momentum
            of the layer. Defaults to `False`.
        seed: Seed of the random starts of the attacks. Defaults to 0.
        name: The name of the Keras model.
        **options: The framework's options, see `options_class`.
    """

    #: The options of the framework, and what it requires of its attack.
    options_class: ClassVar[type[FrameworkOptions]] = FrameworkOptions
    __signature__ = DerivedSignature("options_class")

    def __init__(
        self,
        net: keras.Model,
        attack: Attack | str | None = None,
        *,
        epsilon: float | None = None,
        norm: str | None = None,
        margin: float = 0.0,
        margin_form: str | None = None,
        label_smoothing: float = SharedOptions.label_smoothing,
        attack_smoothing: float = SharedOptions.attack_smoothing,
        bn_mode: str | None = SharedOptions.bn_mode,
        validation_attack: Attack | str | None = None,
        average: WeightAverage | None = None,
        weight_perturbation: AWP | None = None,
        epsilon_schedule: Callable | None = None,
        step_schedule: Callable | None = None,
        clip_norm: float | None = SharedOptions.clip_norm,
        accumulate: int = SharedOptions.accumulate,
        bn_copy_first: bool = SharedOptions.bn_copy_first,
        seed: int = 0,
        name: str | None = None,
        **options,
    ):
        super().__init__(name=name)
        self.options: Any = make_options(self.options_class, options, type(self).__name__)
        settings = label_smoothing, attack_smoothing, bn_mode, clip_norm, accumulate, bn_copy_first
        self.shared = SharedOptions(*settings)
        self.net = net
        check_classifier(net)
        check_float_input(net)
        front, rest = cut(net)
        check(rest is not None, f"The model '{net.name}' has nothing to train: all of its layers are random.")
        check_random_layers(net, front)
        #: The random layers at the front of `net`, and the rest of it, which is attacked and trained.
        self.random_front, self.rest = front, rest
        head = find_head(net)
        self.head, self._features = head.layer, (head if rest is net else find_head(rest)).features
        check(
            not has_softmax(self.head),
            "Training and attacks need logits, and this model ends in a softmax. Remove it: "
            "net = athe_tf.models.to_logits(net).",
        )
        name_of_head = "unknown" if self.head is None else type(self.head).__name__
        check_margin(margin, name_of_head, isinstance(self.head, CosineDense))
        self.margin = margin
        of_loss: dict = {"form": margin_form, "label_smoothing": label_smoothing, "reduction": "none"}
        for_head = MarginCrossentropy.for_head
        self._margin_loss = None if margin_form is None else for_head(self.head, margin, **of_loss)
        self.scale = self.head.scale if isinstance(self.head, CosineDense) else 1.0
        #: Images are crafted and losses computed in float32, or in float64 if the net takes float64 images.
        dtypes = [tf.as_dtype(each.dtype) for each in getattr(net, "inputs", None) or ()]
        self.image_dtype = tf.float64 if tf.float64 in dtypes else tf.float32
        radius = (epsilon, norm)
        given = named_attack(attack, "attack", *radius, self.options)
        # A framework, or an option, that needs more than an `Attack` has refused others.
        self.attack = cast(PGD, self.prepared_attack(given))
        validation = named_attack(validation_attack, "validation_attack", *radius, self.options)
        self.validation_attack = validation or given
        check_radius_used(*radius, attack, validation_attack)
        self.options.check_bn_mode(bn_mode)
        self.options.check_attack_smoothing(attack_smoothing)
        self.bn_mode: str = bn_mode or next(iter(self.options.bn_modes), "eval")
        check_batch_norm(self.bn_mode, net)
        self.seed, self.average = seed, average
        self.averaged: Any = None if average is None else average.attach(net)
        self._shipped_head = head if self.averaged is None else find_head(self.averaged)
        if weight_perturbation is not None:
            weight_perturbation.check_net(net)
        self.weight_perturbation = weight_perturbation
        check(
            (epsilon_schedule is None and step_schedule is None) or isinstance(self.attack, PGD),
            "A schedule needs an attack whose epsilon can change, such as athe_tf.attacks.PGD. "
            f"Received: {type(self.attack).__name__}.",
        )
        self.epsilon_schedule, self.step_schedule = epsilon_schedule, step_schedule
        self.clean_accuracy = keras.metrics.SparseCategoricalAccuracy(name="clean_accuracy")
        self.robust_accuracy = keras.metrics.SparseCategoricalAccuracy(name="robust_accuracy")
        self._validated_batches = keras.metrics.Sum(name="validated_batches")
        #: Which images had a gradient for the training attack, and for the validation attack.
        self.crafted, self.validated = GradientCounts(), GradientCounts()
        #: Whether XLA compiles crafting by itself, because there are several replicas.
        self.compiles_crafting = False
        self.built = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.net.name}, attack={self.attack!r}, {self.options!r})"

    def prepared_attack(self, attack: Attack | None):
        """The attack to craft with, derived from the one that was given; refuses one that cannot be used."""
        if not self.options.crafts:
            return attack
        if attack is None:
            raise InputError(
                f"{type(self).__name__} trains on adversarial examples and needs an attack. Give one, such "
                "as attack=athe_tf.attacks.PGD(epsilon=8/255, step_size=2/255, steps=10), or by name, "
                "attack='pgd-10' and epsilon=8/255."
            )
        if not isinstance(attack, PGD):
            check(
                not self.options.one_step,
                f"{type(self).__name__} takes one step of PGD. Received: {type(attack).__name__}. Use "
                "athe_tf.attacks.PGD(epsilon, steps=1).",
            )
            return attack
        chosen = attack.chosen_start
        attack = attack.with_default_start(self.options.default_start)
        self.options.check_attack(
            norm=attack.norm,
            steps=attack.steps,
            restarts=attack.restarts,
            kind="pgd-adam" if isinstance(attack, AdamPGD) else "pgd",
            # A framework that has a start of its own ignores the attack's, unless somebody chose it.
            start=attack.start if self.options.starts else chosen,
            logit_scale=attack.logit_scale,
        )
        return attack

    def prepare(self, x, y, sample_weight):
        """The images, labels and weights to train on, made before anything is crafted."""
        return x, y, sample_weight

    def craft(self, x, y):
        """Adversarial examples for this step: the `x_adv` of `training_loss`, by default from `attack`."""
        if not self.options.crafts:
            return x
        with crafting_mode(self.bn_mode, self.rest, x) as training:
            attack, y = self.current_attack(), self.attack_labels(y)
            victim = self.victim(training) if training else folded(self.victim(training))
            return attack(victim, x, y, ids=replicas.positions(x), seed=self.step_seed())

    def attack_labels(self, y):
        """The labels that `craft` uses: those of the batch, with `attack_smoothing`."""
        share, classes = self.shared.attack_smoothing, self.net.output_shape[-1]
        if not share:
            return y
        soft = tf.cast(y, self.image_dtype) if is_soft(y) else tf.one_hot(y, classes, dtype=self.image_dtype)
        return (1.0 - share) * soft + share / classes

    def training_loss(self, x, x_adv, y) -> Terms:
        """The loss of every example, computed from `training_logits`."""
        raise NotImplementedError

    def loss_passes(self) -> Cost:
        """Network passes in one evaluation of `training_loss` and its gradient.

        A backward pass through a backward pass counts as one more of either kind.
        """
        raise NotImplementedError

    def crafting_passes(self) -> tuple[int, int]:
        """Forward and backward passes of the attack; several restarts need one more forward pass each.

        So does every restart of APGD.
        """
        if not self.options.crafts:
            return 0, 0
        steps, restarts = self.attack.steps, self.attack.restarts
        last = 0 if isinstance(self.attack, PGD) else restarts
        return steps * restarts + last + (restarts if restarts > 1 else 0), steps * restarts

    def cost(self) -> Cost:
        """Network passes per step: crafting, and the loss (twice with AWP)."""
        crafting, times = (*self.crafting_passes(), 0), 1 if self.weight_perturbation is None else 2
        return Cost(*(a + times * b for a, b in zip(crafting, self.loss_passes(), strict=True)))

    def training_logits(self, x):
        """The logits of `rest` in training mode: float32 if the network computes in half precision."""
        return full_precision(self.rest(x, training=True))

    def crossentropy(self, y, logits):
        """Cross-entropy with this framework's margin and label smoothing; one value per example."""
        logits = full_precision(logits)
        if self._margin_loss is not None:
            return self._margin_loss.call(y, logits)
        return margin_crossentropy(y, logits, self.scale * self.margin, self.shared.label_smoothing)

    def with_margin(self, y, logits):
        """The logits with this framework's margin, as `crossentropy` uses them."""
        form = "cosine" if self._margin_loss is None else self._margin_loss.form
        return add_margin(as_probabilities(y, logits), logits, self.margin, self.scale, form)

    @property
    def shipped(self) -> keras.Model:
        """The plain classifier to ship: `net`, or its average."""
        return self.net if self.averaged is None else self.averaged

    def victim(self, training: bool, shipped: bool = False) -> Victim:
        """The net behind its random layers, or what is shipped, as an attack sees it during this step."""
        if shipped:
            return keras_victim(self.shipped, self._shipped_head, training)
        return keras_victim(self.rest, Head(self.head, self._features), training)

    def step_seed(self):
        """The seed of this step: a function of the run's seed and the number of updates so far."""
        return rng.fold(self.seed, self.optimizer.iterations)

    def epsilon(self):
        """The epsilon of the training attack at this step."""
        if self.epsilon_schedule is None:
            return self.attack.threat.epsilon
        return tf.cast(self.epsilon_schedule(self.optimizer.iterations), self.image_dtype)

    def current_attack(self):
        """The training attack at this step: with schedules, `attack` with another epsilon and step size."""
        attack = self.attack if self.epsilon_schedule is None else self.attack.with_epsilon(self.epsilon())
        if self.step_schedule is None:
            return attack
        factor = tf.cast(self.step_schedule(self.optimizer.iterations), self.image_dtype)
        return attack.replace(step_size=factor * attack.step_size)

    def gradients(self, x, x_adv, y, sample_weight=None):
        """`(terms, mean loss, gradients of the weights)` for a batch; can be called again in a step."""
        terms, loss, gradients, _ = self.backward(x, x_adv, y, sample_weight)
        return terms, loss, gradients

    def backward(self, x, x_adv, y, sample_weight=None, of_images: bool = False):
        """As `gradients`, and from the same backward pass the gradient of `x_adv`, if it is asked for."""
        with self.first_update():
            if self.weight_perturbation is None:
                return self._backward(x, x_adv, y, sample_weight, of_images)
            with restoring(moving_variables(self.net)):
                _, _, gradients, _ = self._backward(x, x_adv, y, sample_weight)
            with self.weight_perturbation.perturbed(self.net, gradients, self.optimizer.iterations):
                return self._backward(x, x_adv, y, sample_weight, of_images)

    def _backward(self, x, x_adv, y, sample_weight=None, of_images: bool = False):
        backward = functools.partial(self._backward_of_part, of_images=of_images)
        found = self.in_parts(backward, x, x_adv, y, sample_weight)
        terms, losses, gradients, slopes = zip(*found, strict=True)
        summed = [functools.reduce(added, each) for each in zip(*gradients, strict=True)]
        return joined(terms), sum(losses) / len(losses), summed, joined(slopes)

    def _backward_of_part(self, x, x_adv, y, sample_weight, of_images: bool):
        check(
            replicas.count() == 1 or x.shape[0] is not None,
            f"{replicas.count()} replicas share a batch evenly, so every batch must have the same size, a "
            "multiple of their number. Make batches with dataset.batch(size, drop_remainder=True).",
        )
        with tf.GradientTape() as tape:
            if of_images:
                tape.watch(x_adv)
            with unseen_draws_named(self.net):
                terms = self.training_loss(x, x_adv, y)
            losses = terms.losses if sample_weight is None else terms.losses * sample_weight
            loss = tf.reduce_mean(losses)
            if self.rest.losses:
                loss += tf.add_n([tf.cast(penalty, loss.dtype) for penalty in self.rest.losses])
            loss = checked(loss, tf.math.is_finite(loss), LOSS_NOT_FINITE, LOWER_RATE)
            scaled = self.optimizer.scale_loss(loss / (replicas.count() * self.shared.accumulate))
        sources = self.net.trainable_variables, [x_adv] if of_images else []
        # Stops before anything is updated.
        with tf.control_dependencies([loss]):
            gradients, slopes = tape.gradient(scaled, sources)
        return terms, loss, gradients, slopes[0] if of_images else None

    def in_parts(self, function, *batch) -> list:
        """The results of `function` for the `accumulate` parts of a batch, computed one after another."""
        count, size = self.shared.accumulate, batch[0].shape[0]
        if count == 1:
            return [function(*batch)]
        rule = f"accumulate={count} divides the batch of every device into equal parts. Received: "
        remedy = " images. Change the batch size or `accumulate`, and drop the rest of an epoch."
        check(size is None or size % count == 0, f"{rule}{size}{remedy}")
        size = tf.shape(batch[0])[0] if size is None else size
        batch = (checked(batch[0], size % count == 0, rule, size, remedy), *batch[1:])
        found: list = []
        for number in range(count):
            before = [each for each in tf.nest.flatten(found[-1:]) if each is not None]
            # Otherwise TensorFlow may compute all parts at once, and need the memory of all.
            with replicas.part_of_batch(number, count), tf.control_dependencies(before):
                start, rows = number * (size // count), size // count
                part = mapped(functools.partial(some_rows, start=start, rows=rows), batch)
                found.append(function(*part))
        return found

    def first_update(self) -> contextlib.AbstractContextManager[None]:
        """A context in which `bn_copy_first` is in effect."""
        if not self.shared.bn_copy_first:
            return contextlib.nullcontext()
        return copied_statistics(tf.convert_to_tensor(self.optimizer.iterations) == 0)

    def crafted_batch(self, x, y):
        """What `craft` returns, in parts with `accumulate`."""
        with self.first_update():
            return joined(self.in_parts(self._craft_by_xla if self.compiles_crafting else self.craft, x, y))

    def _craft_by_xla(self, x, y):
        """`craft`, compiled by itself."""

        def crafted(x, y):
            with gradient_health.collected() as flags:
                return self.craft(x, y), flags

        found, flags = tf.function(crafted, autograph=False, jit_compile=True)(x, y)
        for each in flags:
            gradient_health.report(each)
        return found

    def update_weights(self, gradients) -> None:
        """One update of the optimizer, and of the average of the weights."""
        if self.shared.clip_norm is not None:
            # The gradients contain the loss scale of mixed precision.
            limit = self.optimizer.scale_loss(tf.constant(self.shared.clip_norm, self.image_dtype))
            gradients = replicas.clipped(gradients, limit)
        gradients = replicas.placed(gradients)
        self.optimizer.apply_gradients(zip(gradients, self.net.trainable_variables, strict=True))
        replicas.synchronize(moving_variables(self.net))
        if self.average is not None:
            self.average.after_update(self.net, self.optimizer.iterations)

    def log_step(self, x, y, terms: Terms, loss, sample_weight=None) -> dict:
        """Updates the metrics of a training step and returns the logs."""
        self.loss_tracker.update_state(loss, sample_weight=tf.shape(x)[0])
        logged, y = ["loss"], most_probable(y)
        for tracker, logits in (
            (self.clean_accuracy, terms.clean_logits),
            (self.robust_accuracy, terms.adversarial_logits),
        ):
            if logits is not None:
                tracker.update_state(y, logits, sample_weight)
                logged.append(tracker.name)
        predictions = terms.clean_logits if terms.clean_logits is not None else terms.adversarial_logits
        return self._logs(x, y, predictions, sample_weight, logged)

    def compile(self, optimizer="sgd", *, metrics=None, jit_compile=False, **kwargs):
        """As in Keras, without `loss`: the framework has its own.

        XLA is off unless asked for: on CPU it makes convolutions about ten times slower. On one replica it
        compiles the whole step; on several, whose collective operations it does not compile, crafting.
        """
        if kwargs.get("loss") is not None:
            raise InputError(f"{type(self).__name__} has its own loss. Leave `loss` out of `compile`.")
        count = self.distribute_strategy.num_replicas_in_sync
        self.compiles_crafting = bool(jit_compile) and count > 1
        check(
            not self.compiles_crafting or (self.options.crafts and self.bn_mode == "eval"),
            "On several replicas XLA compiles crafting, which needs bn_mode='eval' and an attack. Received: "
            f"{type(self).__name__} on {count} replicas, bn_mode='{self.bn_mode}'. Leave jit_compile out.",
        )
        jit_compile = jit_compile and not self.compiles_crafting
        super().compile(optimizer=optimizer, metrics=metrics, jit_compile=jit_compile, **kwargs)

    if not TYPE_CHECKING:  # with the signatures of Keras

        @functools.wraps(keras.Model.fit)
        def fit(self, *args, **kwargs):
            return super().fit(**self._watched(super().fit, args, kwargs))

        @functools.wraps(keras.Model.evaluate)
        def evaluate(self, *args, **kwargs):
            return super().evaluate(**self._watched(super().evaluate, args, kwargs))

    def _watched(self, method, args, kwargs) -> dict:
        """The arguments of `fit` or `evaluate` by name, with a `GradientWatch` among the callbacks."""
        given = inspect.signature(method).bind(*args, **kwargs).arguments
        given |= given.pop("kwargs", {})
        return given | {"callbacks": with_watch(given.get("callbacks"))}

    def call(self, inputs, training=False):
        return self.net(inputs, training=True) if training else self.shipped(inputs, training=False)

    def make_train_function(self, force=False):
        check(
            len(self.net.trainable_variables) > 0,
            f"The model '{self.net.name}' has no weights to train: all of its layers are frozen. Set "
            "`trainable = True` for some of them, such as the head.",
        )
        # Layers may have been frozen, or not any more, since the trainer was made.
        check_batch_norm(self.bn_mode, self.net)
        if self.averaged is not None:
            freeze_like(self.averaged, self.net)
        # If the optimizer created its variables in the first step, that step would be traced twice.
        if self.optimizer is not None and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.net.trainable_variables)
        super().make_train_function(force)
        return self.train_function

    def checked_batch(self, data):
        """The same batch; raises `InputError` unless images lie in [0, 1], labels are classes and weights not
        negative.

        What `unpack` refuses by its dtype or shape is passed on to it.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if y is None:
            return data
        y = tf.convert_to_tensor(y)
        if is_column(y):
            y = checked_labels(y, self.net.output_shape[-1])
        elif is_soft(y):
            y = checked_probabilities(tf.cast(y, self.image_dtype))
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, tf.shape(x)[0])
        return keras.utils.pack_x_y_sample_weight(checked_images(x), y, sample_weight)

    def unpack(self, data):
        """`(images, labels, sample weights or None)` from what Keras passes to a step.

        Labels are int32 `[N]`, or floats `[N, classes]`.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if y is None:
            raise InputError("Adversarial training needs labels: fit on (images, labels).")
        x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
        check(
            x.dtype.is_floating,
            f"Expected images as floats in [0, 1]. Received: {x.dtype.name}. Divide them by 255.",
        )
        classes = self.net.output_shape[-1]
        check(
            is_column(y) or (is_soft(y) and y.shape[-1] == classes),
            f"Expected labels as integers of shape [batch], or as probabilities of shape [batch, {classes}]. "
            f"Received: the shape {y.shape}. Give the model one logit per class.",
        )
        if is_column(y):
            y = tf.cast(tf.reshape(y, [tf.shape(x)[0]]), tf.int32)
        else:
            y = tf.cast(y, self.image_dtype)
        if sample_weight is not None:
            sample_weight = tf.cast(sample_weight, self.image_dtype)
            sample_weight = tf.reshape(sample_weight, [tf.shape(x)[0]])
        return tf.cast(x, self.image_dtype), y, sample_weight

    def training_batch(self, data):
        """`unpack`, the random layers at the front of `net`, and `prepare`."""
        x, y, sample_weight = self.unpack(data)
        return self.prepare(augmented(self.random_front, x, self.step_seed()), y, sample_weight)

    def train_step(self, data):
        x, y, sample_weight = self.training_batch(data)
        with self.crafted.counting(self.epsilon() if self.options.crafts else 0):
            x_adv = self.crafted_batch(x, y)
        terms, loss, gradients = self.gradients(x, x_adv, y, sample_weight)
        self.update_weights(gradients)
        return self.log_step(x, y, terms, loss, sample_weight)

    def test_step(self, data):
        x, y, sample_weight = self.unpack(data)
        net = self.shipped
        logits = net(x, training=False)
        # Per image: the last batch may be smaller on one replica, or padded with images of weight zero.
        self.loss_tracker.update_state(margin_crossentropy(y, tf.cast(logits, x.dtype)), sample_weight)
        y = most_probable(y)
        self.clean_accuracy.update_state(unless_nan(y, logits), logits, sample_weight)
        logged = ["loss", "clean_accuracy"]
        if self.validation_attack is not None:
            # A metric counts the batches, because Keras resets metrics at the beginning of an evaluation.
            seed = rng.fold(self.seed, 1, self._validated_batches.result())
            self._validated_batches.update_state(1.0)
            victim = self.victim(training=False, shipped=True)
            # Any attack can be used for validation, and only those for training support float64.
            images = tf.cast(x, tf.float32)
            with self.validated.counting(self.validation_attack.threat.epsilon):
                x_adv = self.validation_attack(victim, images, y, ids=replicas.positions(x), seed=seed)
            adversarial = net(x_adv, training=False)
            self.robust_accuracy.update_state(unless_nan(y, adversarial), adversarial, sample_weight)
            logged.append("robust_accuracy")
        return self._logs(x, y, logits, sample_weight, logged)

    def _logs(self, x, y, predictions, sample_weight, logged) -> dict:
        results = self.compute_metrics(x, y, predictions, sample_weight)
        ours = {"loss", "clean_accuracy", "robust_accuracy", "validated_batches"}
        return {name: value for name, value in results.items() if name not in ours or name in logged}

    def save(self, filepath, overwrite=True, **kwargs):
        """Writes the plain classifier."""
        self.shipped.save(filepath, overwrite=overwrite, **kwargs)

    def export(self, filepath, **kwargs):
        """Exports the plain classifier; `athe_tf.export` adds its features and its card."""
        self.shipped.export(filepath, **kwargs)


def checked_images(images):
    """The same images; an error unless they lie in [0, 1]. Other dtypes than floats are not checked."""
    images = tf.convert_to_tensor(images)
    if not images.dtype.is_floating:
        return images
    # False for NaN.
    valid = tf.reduce_all(tf.abs(images - 0.5) <= 0.5 + TOLERANCE)
    low, high = tf.reduce_min(images), tf.reduce_max(images)
    levels = (low >= 0) & (high <= 255)
    # Two assertions, because XLA has no choice between texts. It drops both; the loss is NaN then.
    for fine, remedy in ((valid | ~levels, DIVIDE), (valid | levels, NORMALIZE_INSIDE)):
        images = checked(images, fine, f"{IMAGE_RULE}min=", low, ", max=", high, f". {remedy}")
    return tf.where(valid, images, tf.constant(float("nan"), images.dtype))


def is_column(values) -> bool:
    """Whether a tensor has one value per example: the shape [N] or [N, 1], or one that only a batch tells."""
    return values.shape.rank in (None, 1) or values.shape[1:] == (1,)


def unless_nan(y, logits):
    """The labels, and -1 where logits are not finite: `argmax` of NaN is class 0, which is no prediction."""
    return tf.where(tf.reduce_all(tf.math.is_finite(logits), axis=-1), y, -1)


def checked_weights(weights, count):
    """The same sample weights; an error unless there are `count` of them, finite and not negative."""
    weights, size = tf.cast(weights, tf.float32), tf.size(weights)
    rule = "Expected one sample weight per image, of shape [batch] or [batch, 1]. Received: "
    known = [tf.get_static_value(each) for each in (size, count)]
    check(None in known or known[0] == known[1], f"{rule}{known[0]} weights for {known[1]} images.")
    weights = checked(weights, size == count, rule, size, " weights for ", count, " images.")
    low, high = tf.reduce_min(weights), tf.reduce_max(weights)
    # False for NaN.
    valid = tf.reduce_all((weights >= 0) & tf.math.is_finite(weights))
    rule = "Sample weights and class weights must be finite and not negative. Received: min="
    return checked(weights, valid, rule, low, ", max=", high, ". Use 0 to leave an image out.")


def mapped(function, *values):
    """`function` of the tensors in nested tuples, and `None` where there is none."""
    return tf.nest.map_structure(lambda *each: None if each[0] is None else function(*each), *values)


def some_rows(values, start, rows):
    """`rows` rows of a tensor, from `start` on."""
    return tf.identity(values[start : start + rows])


def joined(parts):
    """The results for the parts of a batch as those for the batch: examples are along the first axis."""
    return parts[0] if len(parts) == 1 else mapped(lambda *values: tf.concat(values, 0), *parts)


def added(one, other):
    """The sum of two gradients; `None` for weights that the loss does not reach."""
    return None if one is None else one + other


def full_precision(logits):
    """The same logits; float32 instead of half precision, in which a `Dense` of a mixed policy computes."""
    return tf.cast(logits, tf.float32) if logits.dtype in (tf.float16, tf.bfloat16) else logits


def moving_variables(net: keras.Model) -> list:
    """The variables that a training step changes without a gradient: moving statistics of layers in training.

    Keras' `non_trainable_variables` also has the weights of frozen layers.
    """
    frozen = {id(v) for layer in all_layers(net) if not layer.trainable for v in layer.variables}
    return [variable for variable in net.non_trainable_variables if id(variable) not in frozen]
