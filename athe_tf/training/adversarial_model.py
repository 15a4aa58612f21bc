"""The training step that every framework shares."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.victim import Victim
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.losses import margin_crossentropy
from athe_tf.models.features import penultimate
from athe_tf.training import awp
from athe_tf.training.averaging import copy_of, update_average
from athe_tf.training.crafting import check_bn_mode, crafting_mode
from athe_tf.utils import replicas, rng
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import repeatable


class Terms(NamedTuple):
    """What a framework computes from a batch: a loss an example, and the logits it met on the way."""

    losses: Any
    clean_logits: Any = None
    adversarial_logits: Any = None


class Cost(NamedTuple):
    """Passes of the network in one training step: forward, backward to the input, backward to the weights."""

    forward: int
    backward_input: int
    backward_weights: int


class AdversarialModel(keras.Model):
    """A classifier inside a training framework.

    One step crafts adversarial images with `craft`, computes the loss of `training_loss` on clean and
    adversarial images, and updates the weights of `net`. A subclass says what its loss is:

    >>> class Mixed(AdversarialModel):
    ...     def training_loss(self, x, x_adv, y):
    ...         clean, adversarial = self.net(x, training=True), self.net(x_adv, training=True)
    ...         losses = 0.5 * self.crossentropy(y, clean) + 0.5 * self.crossentropy(y, adversarial)
    ...         return Terms(losses, clean, adversarial)

    This class owns what is easy to get wrong: the tapes, the scaling for several replicas and for mixed
    precision, the mode of batch normalisation while crafting, random numbers that do not depend on the
    number of replicas, the metrics, and a check that stops a run whose loss is not a number.

    Logged are `loss`, `clean_accuracy` and `robust_accuracy`: in training those that the framework meets on
    its way, in validation both (the latter with `validation_attack`). Metrics given to `compile` see the
    clean predictions where the framework has them, else the adversarial ones. `save` and `export` write the
    plain classifier: `shipped`, which is `net`, or with `ema` its average.

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: Crafts the training images. `None` for frameworks that need none.
        margin: The m of Eq. 6, for hypersphere heads. Defaults to 0.
        label_smoothing: In the training loss, never in the attack. Defaults to 0.
        bn_mode: Batch normalisation while crafting, see `athe_tf/training/crafting.py`. Defaults to the
            framework's own.
        validation_attack: Measures `val_robust_accuracy`. Defaults to `attack`.
        clip_norm: The gradient of the weights, all replicas' together, is shortened to this length. Defaults
            to `None`: never.
        ema: Decay of an exponential moving average of the weights, such as 0.995. The average is what is
            validated, saved and exported. Defaults to 0: no average.
        swa: Keep an average for `athe_tf/training/swa.py` to update; validated, saved and exported likewise.
            Defaults to `False`.
        awp_gamma: Take the gradient at weights that were moved up the loss by this share of their length,
            see `athe_tf/training/awp.py`. Defaults to 0: at the weights themselves.
        awp_start: The update from which on the weights are moved. Defaults to 0.
        epsilon_schedule: From the number of updates so far to the epsilon of the training attack, see
            `athe_tf/training/epsilon.py`. Defaults to `None`: the attack's own.
        seed: Of the random starts of attacks.
    """

    default_bn_mode = "eval"
    needs_attack = True
    #: Which accuracy on the validation images tells the best epoch: `"robust"` or `"clean"`.
    chosen_by = "robust"
    #: Updates of the weights in one step; learning-rate schedules count updates.
    updates_per_step = 1
    # Made by Keras.
    train_function: Callable | None
    test_function: Callable | None

    def __init__(
        self,
        net: keras.Model,
        attack: Attack | None = None,
        *,
        margin: float = 0.0,
        label_smoothing: float = 0.0,
        bn_mode: str | None = None,
        validation_attack: Attack | None = None,
        clip_norm: float | None = None,
        ema: float = 0.0,
        swa: bool = False,
        awp_gamma: float = 0.0,
        awp_start: int = 0,
        epsilon_schedule: Callable | None = None,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        framework = type(self).__name__
        if attack is None and self.needs_attack:
            raise InputError(
                f"{framework} trains on adversarial images and needs an attack. Give one, such as "
                "attack=athe_tf.attacks.PGD(epsilon=8/255, step_size=2/255, steps=10)."
            )
        check(margin >= 0, f"`margin` must not be negative. Received: margin={margin}.")
        check(
            clip_norm is None or clip_norm > 0,
            f"`clip_norm` must be larger than 0. Received: clip_norm={clip_norm}.",
        )
        check(0 <= ema < 1, f"`ema` must lie in [0, 1). Received: ema={ema}.")
        check(
            not (ema and swa),
            f"`ema` and `swa` are two averages, and one is shipped. Received: ema={ema}, swa=True. Use one.",
        )
        head = net.layers[-1] if net.layers else None
        check(
            not isinstance(head, keras.layers.Softmax)
            and getattr(head, "activation", None) is not keras.activations.softmax,
            "Training and attacks need logits, and this model ends in a softmax. Leave the softmax out.",
        )
        if margin > 0 and not isinstance(head, CosineDense):
            raise InputError(
                "A margin needs a head with a scale, and the last layer of this model is "
                f"{type(head).__name__}. Received: margin={margin}. Build the model with a CosineDense head, "
                "or use margin=0."
            )
        self.net = net
        #: Images are crafted and losses computed in float32, or in float64 where the net takes its images so.
        self.image_dtype = tf.float64 if _takes_float64(net) else tf.float32
        # Frameworks know what their attack has beyond the contract.
        self.attack: Any = attack
        self.margin = margin
        self.label_smoothing = label_smoothing
        self.bn_mode = bn_mode or self.default_bn_mode
        check_bn_mode(self.bn_mode, net)
        self.validation_attack = validation_attack or attack
        self.seed = seed
        self.scale = head.scale if isinstance(head, CosineDense) else 1.0
        self._features = penultimate(net)
        self.clip_norm = clip_norm
        self.ema = ema
        self.averaged: Any = copy_of(net) if ema or swa else None
        self._averaged_features = None if self.averaged is None else penultimate(self.averaged)
        awp.check_gamma(awp_gamma, head)
        self.awp_gamma = awp_gamma
        self.awp_start = awp_start
        self._check_schedule(epsilon_schedule)
        self.epsilon_schedule = epsilon_schedule
        self.clean_accuracy = keras.metrics.SparseCategoricalAccuracy(name="clean_accuracy")
        self.robust_accuracy = keras.metrics.SparseCategoricalAccuracy(name="robust_accuracy")
        self._validated_batches = keras.metrics.Sum(name="validated_batches")
        self.built = True

    def _check_schedule(self, schedule) -> None:
        check(
            schedule is None or hasattr(self.attack, "with_epsilon"),
            "An epsilon schedule needs an attack whose ball can change, such as athe_tf.attacks.PGD. "
            f"Received: {type(self.attack).__name__}.",
        )

    # -- what frameworks say ----------------------------------------------------------------------------

    def craft(self, x, y):
        """Adversarial images for this step; by default those of `attack`.

        What is returned here is what `training_loss` gets as `x_adv`.
        """
        with crafting_mode(self.bn_mode, self.net, x) as training:
            attack = self.current_attack()
            return attack(self.victim(training), x, y, ids=self.positions(x), seed=self.step_seed())

    def training_loss(self, x, x_adv, y) -> Terms:
        """The loss of every example, computed with `self.net(..., training=True)`."""
        raise NotImplementedError

    def loss_passes(self) -> Cost:
        """Passes of the network in one evaluation of `training_loss` and its gradient.

        A backward pass through a backward pass counts as one more of either kind.
        """
        raise NotImplementedError

    def crafting_passes(self) -> tuple[int, int]:
        """Forward and backward passes of a PGD attack; several restarts are compared by one more each."""
        if not self.needs_attack:
            return 0, 0
        steps, restarts = self.attack.steps, self.attack.restarts
        return steps * restarts + (restarts if restarts > 1 else 0), steps * restarts

    def cost(self) -> Cost:
        """Passes of the network in one step: crafting, and the loss, with AWP twice."""
        forward, backward = self.crafting_passes()
        loss, times = self.loss_passes(), 2 if self.awp_gamma else 1
        return Cost(
            forward + times * loss.forward,
            backward + times * loss.backward_input,
            times * loss.backward_weights,
        )

    # -- what frameworks use ----------------------------------------------------------------------------

    def crossentropy(self, y, logits):
        """Cross-entropy with this framework's margin and label smoothing; one number an example."""
        if logits.dtype in (tf.float16, tf.bfloat16):
            logits = tf.cast(logits, tf.float32)
        return margin_crossentropy(y, logits, self.scale * self.margin, self.label_smoothing)

    @property
    def shipped(self) -> keras.Model:
        """The plain classifier that training is for: `net`, or its average."""
        return self.net if self.averaged is None else self.averaged

    def victim(self, training: bool, averaged: bool = False) -> Victim:
        """The net, or its average, as an attack sees it during this step."""
        net, features = (self.averaged, self._averaged_features) if averaged else (self.net, self._features)
        return Victim(
            lambda x: net(x, training=training),
            features=None if features is None else (lambda x: features(x, training=training)),
            head=net.layers[-1],
            scale=self.scale,
            num_classes=net.output_shape[-1],
            name=net.name,
            independent=not training,
        )

    def step_seed(self):
        """The seed of this step: a function of the run's seed and the number of updates so far."""
        return rng.fold(self.seed, self.optimizer.iterations)

    def epsilon(self):
        """The epsilon of the training attack at this step."""
        if self.epsilon_schedule is None:
            return self.attack.threat.epsilon
        return tf.cast(self.epsilon_schedule(self.optimizer.iterations), self.image_dtype)

    def current_attack(self):
        """The training attack at this step: with a schedule, `attack` in a ball of another size."""
        return self.attack if self.epsilon_schedule is None else self.attack.with_epsilon(self.epsilon())

    def positions(self, x):
        """Where the examples stand in the global batch, whatever replica they are on."""
        count = tf.shape(x)[0]
        return tf.range(count) + _images_before(x)

    def gradients(self, x, x_adv, y, sample_weight=None):
        """`(terms, mean loss, gradients of the weights)` for a batch; may be called again in a step."""
        terms, loss, gradients, _ = self.backward(x, x_adv, y, sample_weight)
        return terms, loss, gradients

    def backward(self, x, x_adv, y, sample_weight=None, sources=()):
        """As `gradients`, and from the same backward pass the gradients of `sources`, such as `[x_adv]`."""
        if not self.awp_gamma:
            return self._backward(x, x_adv, y, sample_weight, sources)
        with awp.restoring(self.net.non_trainable_variables):
            _, _, gradients, _ = self._backward(x, x_adv, y, sample_weight)
        started = tf.cast(tf.convert_to_tensor(self.optimizer.iterations) >= self.awp_start, self.image_dtype)
        with awp.moved_up(self.net.trainable_variables, gradients, self.awp_gamma * started):
            return self._backward(x, x_adv, y, sample_weight, sources)

    def _backward(self, x, x_adv, y, sample_weight=None, sources=()):
        check(
            replicas.count() == 1 or x.shape[0] is not None,
            f"{replicas.count()} replicas share a batch evenly, so every batch must have the same size, a "
            "multiple of their number. Make batches with dataset.batch(size, drop_remainder=True).",
        )
        with tf.GradientTape() as tape:
            tape.watch(sources)
            terms = self.training_loss(x, x_adv, y)
            losses = terms.losses if sample_weight is None else terms.losses * sample_weight
            loss = tf.reduce_mean(losses)
            if self.net.losses:
                loss += tf.add_n([tf.cast(penalty, loss.dtype) for penalty in self.net.losses])
            # Stops before anything is updated; the programs say at which step.
            loss = tf.debugging.check_numerics(loss, "the training loss")
            scaled = self.optimizer.scale_loss(loss / replicas.count())
        gradients, of_sources = tape.gradient(scaled, (self.net.trainable_variables, list(sources)))
        return terms, loss, gradients, of_sources

    def update_weights(self, gradients) -> None:
        """One update of the optimiser, and of all that follows the weights."""
        if self.clip_norm is not None:
            gradients = self._clipped(gradients)
        gradients = replicas.placed(gradients)
        self.optimizer.apply_gradients(zip(gradients, self.net.trainable_variables, strict=True))
        self.average_moving_statistics()
        if self.ema:
            update_average(self.averaged, self.net, self.ema, self.optimizer.iterations)

    def _clipped(self, gradients) -> list:
        """Gradients whose sum over the replicas, without the scale of mixed precision, is short enough.

        Keras clips what each replica has for itself, so that the number of replicas would change the result.
        """
        limit = self.optimizer.scale_loss(tf.constant(self.clip_norm, self.image_dtype))
        clipped, _ = tf.clip_by_global_norm(replicas.total(gradients), limit)
        # The optimiser will add them up again.
        return [gradient / replicas.count() for gradient in clipped]

    def log_step(self, x, y, terms: Terms, loss, sample_weight=None) -> dict:
        """Updates the metrics of a training step and returns the logs."""
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(x)[0])
        logged = ["loss"]
        for tracker, logits in (
            (self.clean_accuracy, terms.clean_logits),
            (self.robust_accuracy, terms.adversarial_logits),
        ):
            if logits is not None:
                tracker.update_state(y, logits, sample_weight)
                logged.append(tracker.name)
        predictions = terms.clean_logits if terms.clean_logits is not None else terms.adversarial_logits
        return self._logs(x, y, predictions, sample_weight, logged)

    def average_moving_statistics(self):
        """Makes the moving statistics of all replicas equal; Keras lets them drift apart, silently."""
        floats = [v for v in self.net.non_trainable_variables if tf.as_dtype(v.dtype).is_floating]
        if replicas.count() == 1 or not floats:
            return
        sums = replicas.total([tf.convert_to_tensor(v) for v in floats])
        for variable, value in zip(floats, sums, strict=True):
            variable.assign(value / replicas.count())

    # -- Keras ------------------------------------------------------------------------------------------

    def compile(self, optimizer="sgd", *, metrics=None, jit_compile=False, **kwargs):
        """As in Keras, without `loss`: the framework brings its own.

        XLA is off unless asked for: on CPU it makes convolutions about ten times slower.
        """
        if kwargs.get("loss") is not None:
            raise InputError(f"{type(self).__name__} brings its own loss. Leave `loss` out of `compile`.")
        super().compile(optimizer=optimizer, metrics=metrics, jit_compile=jit_compile, **kwargs)

    def call(self, inputs, training=False):
        return self.net(inputs, training=True) if training else self.shipped(inputs, training=False)

    def make_train_function(self, force=False):
        # An optimizer that makes its variables inside the first step has that step traced twice.
        if self.optimizer is not None and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.net.trainable_variables)
        if self.train_function is None or force:
            super().make_train_function(force=True)
            self.train_function = repeatable(self.train_function)
        return self.train_function

    def make_test_function(self, force=False):
        if self.test_function is None or force:
            super().make_test_function(force=True)
            self.test_function = repeatable(self.test_function)
        return self.test_function

    def unpack(self, data):
        """`(images, int32 labels [N], sample weights or None)` of what Keras gives to a step."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if y is None:
            raise InputError("Adversarial training needs labels: fit on (images, labels).")
        x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
        check(
            x.dtype.is_floating,
            f"Expected images as floats in [0, 1]. Received: {x.dtype.name}. Divide them by 255.",
        )
        check(
            y.shape.rank in (None, 1) or y.shape[1:] == (1,),
            f"Expected labels as integers of shape [batch]. Received: the shape {y.shape}. Of one-hot "
            "labels take the argmax.",
        )
        y = tf.cast(tf.reshape(y, [tf.shape(x)[0]]), tf.int32)
        if sample_weight is not None:
            sample_weight = tf.cast(sample_weight, self.image_dtype)
        return tf.cast(x, self.image_dtype), y, sample_weight

    def train_step(self, data):
        x, y, sample_weight = self.unpack(data)
        x_adv = self.craft(x, y) if self.needs_attack else x
        terms, loss, gradients = self.gradients(x, x_adv, y, sample_weight)
        self.update_weights(gradients)
        return self.log_step(x, y, terms, loss, sample_weight)

    def test_step(self, data):
        x, y, sample_weight = self.unpack(data)
        net = self.shipped
        logits = net(x, training=False)
        # Image by image: the last batch may be short on one replica, or filled up with images of no weight.
        self._loss_tracker.update_state(margin_crossentropy(y, tf.cast(logits, x.dtype)), sample_weight)
        self.clean_accuracy.update_state(y, logits, sample_weight)
        logged = ["loss", "clean_accuracy"]
        if self.validation_attack is not None:
            # A metric counts the batches because Keras resets metrics when an evaluation begins.
            seed = rng.fold(self.seed, 1, self._validated_batches.result())
            self._validated_batches.update_state(1.0)
            victim = self.victim(training=False, averaged=self.averaged is not None)
            # Any attack may measure, and only those that craft for training know float64.
            images = tf.cast(x, tf.float32)
            x_adv = self.validation_attack(victim, images, y, ids=self.positions(x), seed=seed)
            self.robust_accuracy.update_state(y, net(x_adv, training=False), sample_weight)
            logged.append("robust_accuracy")
        return self._logs(x, y, logits, sample_weight, logged)

    def _logs(self, x, y, predictions, sample_weight, logged) -> dict:
        results = self.compute_metrics(x, y, predictions, sample_weight)
        ours = {"loss", "clean_accuracy", "robust_accuracy", "validated_batches"}
        return {name: value for name, value in results.items() if name not in ours or name in logged}

    def _get_metrics_result_or_logs(self, logs):
        # What our steps leave out would make Keras take the mean of what the replicas log for themselves.
        results = self.get_metrics_result()
        return {name: results.get(name, value) for name, value in logs.items()}

    def save(self, filepath, overwrite=True, **kwargs):
        """Writes the plain classifier."""
        self.shipped.save(filepath, overwrite=overwrite, **kwargs)

    def export(self, filepath, **kwargs):
        """Exports the plain classifier; `athe_tf.export` adds its features and its card."""
        self.shipped.export(filepath, **kwargs)


def _takes_float64(net) -> bool:
    inputs = getattr(net, "inputs", None) or ()
    return any(tf.as_dtype(each.dtype) == tf.float64 for each in inputs)


def _images_before(x):
    """How many images of the global batch are on replicas before this one."""
    count = tf.shape(x)[0]
    if replicas.count() == 1:
        return 0
    if x.shape[0] is not None:
        return replicas.index() * count
    # A last batch that the replicas do not share evenly, in validation.
    mine = tf.one_hot(replicas.index(), replicas.count()) * tf.cast(count, tf.float32)
    return tf.cast(tf.cumsum(replicas.total([mine])[0], exclusive=True)[replicas.index()], tf.int32)
