"""Runs attacks over a set of images."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from athe_tf import attacks as attack_names
from athe_tf.attacks.base import Attack, checked_batch
from athe_tf.attacks.driver import clean_logits, clean_pass
from athe_tf.attacks.logit_checks import check_logits, scale_warnings
from athe_tf.attacks.victim import Victim, victim
from athe_tf.errors import InputError, NotApplicable, check
from athe_tf.evaluation.report import AttackReport, Report

# Images whose clean logits are looked at for warnings.
WARN_FROM = 1000


def evaluate(
    model,
    data,
    *,
    attacks: Sequence = ("fgsm", "pgd-20", "cw-linf-20"),
    epsilon: float = 8 / 255,
    norm: str = "linf",
    max_examples: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    name: str | None = None,
    dataset: str = "data",
    progress: Callable | None = None,
) -> Report:
    """Measures how robust a model is.

    Every attack is run on every image that is classified correctly. The answer is a flag for each image and
    attack; the headline is the worst case, the share of images that survive all of them.

    Example:

    >>> report = athe_tf.evaluate(net, (images, labels), attacks=["pgd-20", "cw-linf-20"], epsilon=8 / 255)
    >>> print(report)

    Args:
        model: Anything that maps images to logits: a Keras model, a path (`.keras`, SavedModel, workdir), a
            callable, a `Victim`.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attacks: Names, or `Attack` objects, which bring their own epsilon.
        epsilon: Radius of the threat model in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`.
        max_examples: Use the first so many images only.
        batch_size: Images that go through the model at once.
        seed: Of the attacks.
        name: How the report calls the model.
        dataset: How the report calls the data.
        progress: Called with `(attack name, attempts done, attempts at most, images still robust)`.
    """
    target = _victim(model)
    raw_images, raw_labels = _arrays(data, max_examples)
    images, labels = checked_batch(raw_images, raw_labels, target.num_classes)
    chosen = [_attack(attack, epsilon, norm) for attack in attacks]
    logits = _first_logits(target, images[:WARN_FROM], batch_size)
    check_logits(logits)
    correct = ~clean_pass(target, images, labels, batch_size)[0].success
    reports = []
    for attack in chosen:
        observer = _observer(progress, attack)
        line = run_attack(attack, target, images, labels, batch_size, seed, observer)
        line.counts = within(attack, norm, epsilon)
        reports.append(line)
    return Report(
        model=name or target.name,
        dataset=dataset,
        norm=norm,
        epsilon=float(epsilon),
        seed=seed,
        correct=correct,
        attacks=reports,
        warnings=scale_warnings(logits, labels[:WARN_FROM]),
    )


def _first_logits(target: Victim, images, batch_size: int) -> np.ndarray:
    return np.concatenate([batch.numpy() for _, batch in clean_logits(target, images, batch_size)])


def within(attack: Attack, norm: str, epsilon: float) -> bool:
    """Whether an attack stays within a threat model, so that its verdicts may count for it."""
    return attack.in_ball and attack.threat.norm == norm and attack.threat.epsilon <= epsilon + 1e-9


def run_attack(
    attack: Attack, target: Victim, images, labels, batch_size: int, seed: int, progress=None
) -> AttackReport:
    """One line of the report; an attack that cannot be run on this victim says so in it."""
    began = time.perf_counter()
    try:
        result = attack.run(target, images, labels, seed=seed, batch_size=batch_size, progress=progress)
    except NotApplicable as error:
        return AttackReport(attack.name, None, reason=str(error))
    found = result.norm[result.success & (result.norm > 0)]
    return AttackReport(
        attack.name,
        robust=~result.success,
        seconds=time.perf_counter() - began,
        queries=int(result.queries.sum()),
        gradients=int(result.gradients.sum()),
        nonfinite=int(result.nonfinite.sum()),
        median_norm=float(np.median(found)) if len(found) else None,
        settings=attack.settings(),
    )


def _victim(model) -> Victim:
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        from athe_tf.evaluation.loading import open_victim

        return open_victim(model)
    return victim(model)


def _attack(attack, epsilon, norm) -> Attack:
    if isinstance(attack, Attack):
        return attack
    if not isinstance(attack, str):
        raise InputError(f"Expected the name of an attack or an Attack. Received: {attack!r}.")
    return attack_names.get(attack, epsilon=epsilon, norm=norm)


def _observer(progress, attack):
    if progress is None:
        return None
    return lambda done, most, robust: progress(attack.name, done, most, robust)


def _arrays(data, max_examples):
    if hasattr(data, "arrays"):
        return data.arrays(max_examples)
    if isinstance(data, tf.data.Dataset):
        return _collect(data, max_examples)
    check(
        isinstance(data, (tuple, list)) and len(data) == 2,
        f"Expected (images, labels) or a tf.data.Dataset. Received: {type(data).__name__}.",
    )
    images, labels = (np.asarray(part)[:max_examples] for part in data)
    return images, labels


def _collect(batches, max_examples):
    images, labels, count = [], [], 0
    for x, y in batches:
        images.append(x.numpy())
        labels.append(y.numpy())
        count += len(y)
        if max_examples is not None and count >= max_examples:
            break
    check(count > 0, "There are no images: the data set is empty.")
    return np.concatenate(images)[:max_examples], np.concatenate(labels)[:max_examples]
