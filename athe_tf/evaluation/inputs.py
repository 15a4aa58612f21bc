"""What an evaluation is about, and what is known before the first attack."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.model_checks import zero_gradients
from athe_tf.attacks.engine.results import AttackResult, Precomputed
from athe_tf.data.images import ImageSource
from athe_tf.evaluation import model_diagnosis
from athe_tf.evaluation.images import LazyImages, digest_of, on_grid, part_of
from athe_tf.models.digest import identify
from athe_tf.models.gradient_sources import majority_of, wrong_passes
from athe_tf.models.victim import Victim
from athe_tf.utils.errors import InputError, cause, check
from athe_tf.utils.images_and_labels import check_classes, check_images, checked_batch

# Names of images and labels in the dictionaries of TensorFlow Datasets, and how many images are read at once.
TFDS_NAMES, BATCH = ("image", "label"), 256


def read_images(data, max_examples: int | None, num_classes: int | None):
    """Images `[N, H, W, C]` as float32 in [0, 1], and labels `[N]` as int32.

    Args:
        data: `(images, labels)`, a `tf.data.Dataset`, or an image set of `athe_tf.data`.
        max_examples: Use only the first images, at most this many.
        num_classes: Labels must be smaller than this, if it is known.
    """
    images, labels = _arrays(data, max_examples)
    return checked_batch(images, labels, num_classes)


def open_images(data, max_examples: int | None, num_classes: int | None):
    """As `read_images`, but an image set of `athe_tf.data` is not read, and gives `LazyImages`."""
    if isinstance(data, ImageSource):
        check(len(data) > 0, "There are no images: the data set is empty.")
        images = LazyImages(data, np.arange(len(data))[:max_examples])
        labels = data.all_labels()[:max_examples]
        check_classes(labels, num_classes)
        return images, labels.astype(np.int32)
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], LazyImages):
        return tuple(data)
    return read_images(data, max_examples, num_classes)


def _arrays(data, max_examples):
    if hasattr(data, "arrays"):
        check(len(data) > 0, "There are no images: the data set is empty.")
        return data.arrays(max_examples)
    if isinstance(data, tf.data.Dataset):
        return _collect(data, max_examples)
    fits = isinstance(data, (tuple, list)) and len(data) == 2
    check(fits, f"Expected (images, labels) or a tf.data.Dataset. Received: {type(data).__name__}.")
    return [np.asarray(part)[:max_examples] for part in data]


def _collect(data: tf.data.Dataset, max_examples: int | None):
    """The images and labels of a data set in batches or not, as tuples or as TFDS' dictionaries."""
    spec = data.element_spec
    if isinstance(spec, dict) and {*TFDS_NAMES} <= {*spec}:
        data = data.map(lambda element: tuple(element[name] for name in TFDS_NAMES))
    pairs, spec = data, data.element_spec
    check(
        isinstance(spec, tuple) and len(spec) == 2 and all(isinstance(one, tf.TensorSpec) for one in spec),
        "Expected a tf.data.Dataset of (image, label), or of dictionaries with 'image' and 'label'. "
        f"Received: {spec}. Choose these two with dataset.map(...).",
    )
    check(
        max_examples is not None or data.cardinality() != tf.data.INFINITE_CARDINALITY,
        "The data set never ends. Expected each image once. Remove dataset.repeat(), or set max_examples.",
    )
    images, labels = spec
    found, count = [], 0
    try:
        if images.shape.rank is None:  # only an element tells
            images, labels = next(iter(data), spec)
        check(
            images.shape.rank in (None, 3, 4) and (images.dtype.is_floating or images.dtype.is_integer),
            "Expected images of shape [H, W, C] in a tf.data.Dataset, or batches of them. Received: shape "
            f"{images.shape}, dtype {images.dtype.name}. Decode them with dataset.map(...).",
        )
        if images.shape.rank == 3 and labels.shape[:1] != images.shape[:1]:  # one image, not a batch
            pairs = pairs.batch(BATCH)
        for batch in pairs:
            found.append([part.numpy() for part in batch])
            count += len(found[-1][1])
            if max_examples is not None and count >= max_examples:
                break
        check(count > 0, "There are no images: the data set is empty.")
        x, y = (np.concatenate(parts)[:max_examples] for parts in zip(*found, strict=True))
    except (tf.errors.OpError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        sizes = any(word in str(error) for word in ("shape", "dimension"))
        remedy = "Expected images of one size. Resize them" if sizes else "Mend its pipeline"
        raise InputError(f"The data set cannot be read: {cause(error)}. {remedy}.") from error
    if x.dtype == np.uint8:
        check_images(x)
        x = x / np.float32(255)
    return x, y


@dataclasses.dataclass
class EvaluationInputs:
    """A model, images, a threat model, and what is known before the first attack.

    Attributes:
        victim: The model.
        images: `[N, H, W, C]` in [0, 1], or `LazyImages`.
        labels: `[N]`.
        norm: Norm of the threat model.
        epsilon: Its radius.
        seed: Seed of the attacks.
        batch_size: Images per forward pass.
        passes: How many passes decide about an image of a randomized model, and over how many gradients are
            averaged.
        rows: The images that are attacked here; `None` for all. Nothing is known about the others.
        clean: What the model predicts for the clean images.
        diagnosis: What is unusual about the model.
        grid: Whether all images are 8-bit images, if it is known.
        single: The model in one pass, if it is randomized and `victim` decides by several.
        clean_wrong: Then, how many passes are wrong for each clean image.
    """

    victim: Victim
    images: Any
    labels: np.ndarray
    norm: str
    epsilon: float
    seed: int
    batch_size: int
    passes: tuple[int, int] = (1, 1)
    rows: np.ndarray | None = None
    clean: model_diagnosis.CleanPredictions = None  # type: ignore[assignment]
    diagnosis: model_diagnosis.ModelDiagnosis = None  # type: ignore[assignment]
    grid: bool | None = None
    single: Victim | None = None
    clean_wrong: np.ndarray | None = None

    @classmethod
    def open(
        cls,
        victim: Victim,
        images,
        labels,
        norm: str,
        epsilon: float,
        seed: int,
        batch_size: int,
        passes=(1, 1),
        rows: np.ndarray | None = None,
        recall: Callable | None = None,
    ):
        """Makes the clean pass and diagnoses the model.

        Images and labels must have been checked, as `read_images` does. `recall` returns what shards found
        out in their clean passes, from the inputs without that.
        """
        inputs = cls(victim, images, labels, norm, epsilon, seed, batch_size, tuple(passes), rows)
        if rows is not None:
            images, labels = part_of(images, rows), labels[rows]
        wrong, predict = None, model_diagnosis.predict_clean_images
        if recall is None:
            clean = predict(victim, images, labels, batch_size)
        else:
            clean, inputs.grid, wrong = recall(inputs)
        diagnosis = inputs.diagnosis = model_diagnosis.diagnose(victim, images, labels, clean)
        if not diagnosis.deterministic and max(passes) >= 2:
            if wrong is None:
                wrong = wrong_passes(victim, images, labels, passes[0], batch_size)
            clean = dataclasses.replace(clean, correct=2 * wrong <= passes[0])
            inputs.victim, inputs.single = majority_of(victim, *passes), victim
            vars(inputs).pop("model_digest", None)  # that of one pass, which `recall` asked for
            inputs.clean_wrong = inputs._at_rows(wrong)
        inputs.clean = dataclasses.replace(clean, correct=inputs._at_rows(clean.correct))
        return inputs

    def _at_rows(self, values: np.ndarray) -> np.ndarray:
        """An array for all images with the values of those that are attacked here."""
        if self.rows is None:
            return values
        whole = np.zeros(len(self.images), values.dtype)
        whole[self.rows] = values
        return whole

    def clean_arrays(self) -> dict[str, np.ndarray]:
        """What is known about the clean images of a shard, for `recall`."""
        clean, rows = self.clean, self.rows
        assert rows is not None
        first = int((rows < model_diagnosis.MAX_EXAMPLES).sum())
        wrong = {} if self.clean_wrong is None else {"wrong": self.clean_wrong[rows]}
        return {
            "correct": clean.correct[rows], "confidence": clean.confidence, "predicted": clean.predicted,
            "logits": clean.logits[:first], "nonfinite": np.array(clean.nonfinite),
            "eight_bit": np.array(self.eight_bit), **wrong,
        }  # fmt: skip

    @property
    def eight_bit(self) -> bool:
        """Whether all images that are attacked here are 8-bit images."""
        if self.grid is None:
            self.grid = on_grid(self.images if self.rows is None else part_of(self.images, self.rows))
        return self.grid

    def judged(self, result: AttackResult, rows: np.ndarray) -> np.ndarray | None:
        """Judges what an attack found by fresh passes of a randomized model; the others become robust.

        Returns how many passes are wrong for each image, or `None` if the model is not randomized.
        """
        if self.single is None or self.clean_wrong is None:
            return None
        wrong, passes = self.clean_wrong[rows].copy(), self.victim.passes
        # Also images that were wrong in the attack's own passes before they were changed.
        found = np.flatnonzero(result.success & self.clean.correct[rows])
        x, y = result.x_adv[found], self.labels[rows[found]]
        wrong[found] = wrong_passes(self.single, x, y, passes, self.batch_size)
        result.queries[found] += passes
        lost = found[2 * wrong[found] <= passes]
        result.success[lost], result.norm[lost] = False, np.inf
        result.x_adv[lost] = self.images[rows[lost]]
        return wrong

    def run(
        self, attack: Attack, rows: slice | np.ndarray, among: slice | None = None, **kwargs
    ) -> AttackResult:
        """Runs an attack on some of the images, and hands on what is known about them.

        Args:
            attack: The attack.
            rows: Which images.
            among: The set that they are a part of: what an attack draws from the set, and the cost of its
                checks, are the same as in an attack on the whole set. Defaults to `None`: `rows` themselves.
            **kwargs: Further arguments of `Attack.run`.
        """
        ids = np.arange(len(self.images))[rows]
        known = self._known(ids)
        if kwargs.get("state") is not None:
            images = self.images_digest if isinstance(self.images, LazyImages) else None
            known = dataclasses.replace(known, model=self.model_digest, images=images)
        if among is not None:
            whole = part_of(self.images, np.arange(len(self.images))[among]), self.labels[among]
            known = dataclasses.replace(known, whole=whole, checked=ids < self.batch_size)
        x, y = part_of(self.images, ids), self.labels[ids]
        kwargs |= {"seed": self.seed, "batch_size": self.batch_size}
        return attack.run(self.victim, x, y, ids=ids, precomputed=known, **kwargs)

    def check_model(self, attack: Attack, rows: slice) -> list[str]:
        """What an attack on these images says about the model."""
        ids = np.arange(len(self.images))[rows]
        first = (ids if self.rows is None else np.intersect1d(ids, self.rows))[: self.batch_size]
        known = self._known(ids)
        return attack.schedule.check_model(self.victim, self.images[first], self.labels[first], known)

    def _known(self, rows: np.ndarray) -> Precomputed:
        return Precomputed(
            correct=self.clean.correct[rows],
            deterministic=self.diagnosis.deterministic,
            warnings=self.diagnosis.scale_warnings,
            zero_gradients=lambda: self.zero_gradients,
        )

    @functools.cached_property
    def zero_gradients(self) -> float:
        """The share of images of the first batch at which the margin has a zero gradient."""
        first = slice(self.batch_size) if self.rows is None else self.rows[: self.batch_size]
        return zero_gradients(self.victim, self.images[first], self.labels[first])

    @property
    def num_classes(self) -> int:
        """The number of classes of the model."""
        return int(self.clean.logits.shape[1])

    @functools.cached_property
    def model_digest(self) -> str | None:
        """Identifies the model; `None`, with a warning, if that is impossible."""
        return identify(self.victim)

    @functools.cached_property
    def images_digest(self) -> str:
        """Identifies images and labels."""
        return digest_of(self.images, self.labels)

    def identity(self) -> dict:
        """What a state on disk belongs to."""
        about = {"images and labels": self.images_digest, "examples": len(self.images)}
        threat = {"norm": self.norm, "epsilon": self.epsilon, "seed": self.seed}
        if max(self.passes) > 1:
            threat |= {"passes": "{}, {} for gradients".format(*self.passes)}
        return {"model": self.model_digest, **about, **threat}
