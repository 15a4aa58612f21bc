"""What an evaluation is about, and what is known before the first attack."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.model_checks import zero_gradients
from athe_tf.attacks.engine.results import AttackResult, Precomputed
from athe_tf.evaluation import model_diagnosis
from athe_tf.models.digest import identify
from athe_tf.models.gradient_sources import majority_of, wrong_passes
from athe_tf.models.victim import Victim
from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import InputError, cause, check
from athe_tf.utils.images_and_labels import check_images, checked_batch

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
        images: `[N, H, W, C]` in [0, 1].
        labels: `[N]`.
        norm: Norm of the threat model.
        epsilon: Its radius.
        seed: Seed of the attacks.
        batch_size: Images per forward pass.
        clean: What the model predicts for the clean images.
        diagnosis: What is unusual about the model.
        single: The model in one pass, if it is randomized and `victim` decides by several.
        clean_wrong: Then, how many passes are wrong for each clean image.
    """

    victim: Victim
    images: np.ndarray
    labels: np.ndarray
    norm: str
    epsilon: float
    seed: int
    batch_size: int
    clean: model_diagnosis.CleanPredictions
    diagnosis: model_diagnosis.ModelDiagnosis
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
    ):
        """Makes the clean pass and diagnoses the model.

        Images and labels must have been checked, as `read_images` does. Of `passes`, the first decide about
        an image of a randomized model, and gradients are averaged over the second.
        """
        clean = model_diagnosis.predict_clean_images(victim, images, labels, batch_size)
        diagnosis = model_diagnosis.diagnose(victim, images, labels, clean)
        known = images, labels, norm, epsilon, seed, batch_size
        if diagnosis.deterministic or max(passes) < 2:
            return cls(victim, *known, clean, diagnosis)
        wrong = wrong_passes(victim, images, labels, passes[0], batch_size)
        clean = dataclasses.replace(clean, correct=2 * wrong <= passes[0])
        return cls(majority_of(victim, *passes), *known, clean, diagnosis, victim, wrong)

    def judged(self, result: AttackResult, rows: np.ndarray) -> np.ndarray | None:
        """Judges what an attack found by fresh passes of a randomized model; the others become robust.

        Returns how many passes are wrong for each image, or `None` if the model is not randomized.
        """
        if self.single is None or self.clean_wrong is None:
            return None
        found, wrong, passes = result.found, self.clean_wrong[rows].copy(), self.victim.passes
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
            known = dataclasses.replace(known, model=self.model_digest)
        if among is not None:
            whole = self.images[among], self.labels[among]
            known = dataclasses.replace(known, whole=whole, checked=ids < self.batch_size)
        x, y = self.images[rows], self.labels[rows]
        kwargs |= {"seed": self.seed, "batch_size": self.batch_size}
        return attack.run(self.victim, x, y, ids=ids, precomputed=known, **kwargs)

    def check_model(self, attack: Attack, rows: slice) -> list[str]:
        """What an attack on these images says about the model."""
        x, y = self.images[rows][: self.batch_size], self.labels[rows][: self.batch_size]
        known = self._known(np.arange(len(self.images))[rows])
        return attack.schedule.check_model(self.victim, x, y, known)

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
        return zero_gradients(self.victim, self.images[: self.batch_size], self.labels[: self.batch_size])

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
        return array_digest(self.images, self.labels)

    def identity(self) -> dict:
        """What a state on disk belongs to."""
        about = {"model": self.model_digest, "images and labels": self.images_digest}
        threat = {"norm": self.norm, "epsilon": self.epsilon, "seed": self.seed}
        if self.single is not None:
            threat |= {"passes": f"{self.victim.passes}, {self.victim.source.passes} for gradients"}
        return {**about, "examples": len(self.images), **threat}
