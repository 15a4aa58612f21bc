"""Runs an attack over a set of images: full batches of survivors, round after round."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack_state import AttackState
from athe_tf.attacks.engine.clean_facts import CleanFacts
from athe_tf.attacks.engine.journal import Journal
from athe_tf.attacks.engine.model_digest import identify, source_of
from athe_tf.attacks.engine.parallel import even_batches, map_batches
from athe_tf.attacks.engine.results import AttackResult, Attempt, Stage, misclassified
from athe_tf.attacks.engine.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import check


@dataclasses.dataclass
class AttackTask:
    """What to attack, with what, and how."""

    attack: Any  # an `Attack`, whose module imports this one
    victim: Victim
    x: np.ndarray
    y: np.ndarray
    ids: np.ndarray
    seed: int
    batch_size: int
    progress: Callable | None


def run(task: AttackTask, state=None, known: CleanFacts | None = None) -> AttackResult:
    """Attacks all images that are classified correctly, and returns the outcome for each image.

    Args:
        task: What to do.
        state: Path of a file that keeps the state, or `None`.
        known: What is known already; replaces the clean pass.
    """
    if known is None:
        result, _ = clean_pass(task.victim, task.x, task.y, task.batch_size, task.attack.succeeded)
    else:
        result = AttackResult.before(task.x, known.correct if task.attack.targeted else ~known.correct)
    cascade = task.attack.cascade(task.victim)
    for attack in cascade:
        attack.check_victim(task.victim)
    result.stages = _stages(cascade, task.victim)
    saved = None if state is None else _open_state(task, state, result, known)
    work = Work(task, cascade, result)
    for attack, stage in zip(cascade, result.stages, strict=True):
        if result.success.all():
            break
        queries = attack.prepare(task.victim, task.x, task.y, task.batch_size)
        if not (result.rounds > stage.first).any():  # else counted before an interruption
            result.queries += queries
        _run_stage(attack, stage, task, result, saved, work)
    return result


def _stages(cascade, victim: Victim) -> list[Stage]:
    stages, first = [], 0
    for attack in cascade:
        stages.append(Stage(attack.name, first, attack.rounds(victim)))
        first += stages[-1].rounds
    return stages


def _run_stage(attack, stage: Stage, task: AttackTask, result, saved, work: "Work") -> None:
    attempt = attack.compiled(task.victim, task.x.shape, "attempt")
    seed = rng.fold(task.seed)
    began = time.perf_counter()
    for index in range(stage.rounds):
        survivors = result.survivors(stage.first + index)
        # After a resume, the same batches without the images whose round is over.
        batches = even_batches(survivors, task.batch_size)
        batches = [rows[result.rounds[rows] == stage.first + index] for rows in batches]

        def one_batch(rows, index=index):
            names = tf.constant(task.ids[rows], tf.int64)
            return attempt(tf.constant(task.x[rows]), tf.constant(task.y[rows]), names, seed, index)

        for rows, outcome in map_batches(one_batch, [rows for rows in batches if len(rows)]):
            solved = record(result, rows, outcome)
            result.rounds[rows] += 1
            stage.seconds += time.perf_counter() - began
            began = time.perf_counter()
            if saved is not None:
                saved.save(solved)
            work.done(attack, len(rows))
        if result.success.all():
            return


class Work:
    """Counts passes of the network, to report progress: those done, and the most that may be left.

    What is left assumes that no further adversarial example is found, so it only ever shrinks.
    """

    def __init__(self, task: AttackTask, cascade, result: AttackResult):
        self.task = task
        self.result = result
        pairs = zip(cascade, result.stages, strict=True)
        costs = [attack.round_passes(task.victim) for attack, stage in pairs for _ in range(stage.rounds)]
        # The passes of each round and all later ones.
        self.ahead = np.append(np.cumsum(costs[::-1])[::-1], 0.0)
        self.passes = 0.0

    def done(self, attack, images: int) -> None:
        """A batch went through a round."""
        self.passes += images * attack.round_passes(self.task.victim)
        if self.task.progress is not None:
            robust = ~self.result.success
            left = self.ahead[self.result.rounds[robust]].sum()
            self.task.progress(self.passes, self.passes + left, int(robust.sum()))


def record(result: AttackResult, rows, outcome: Attempt) -> np.ndarray:
    """Adds the outcome of a round to the result, and returns the rows where it succeeded."""
    outcome = Attempt(*(value.numpy() for value in outcome))
    result.queries[rows] += outcome.queries
    result.gradients[rows] += outcome.gradients
    result.nonfinite[rows] += outcome.nonfinite
    result.norm[rows] = np.minimum(result.norm[rows], outcome.norm)
    solved = rows[outcome.success]
    result.success[solved] = True
    result.x_adv[solved] = outcome.x_adv[outcome.success]
    return solved


def clean_pass(
    victim: Victim, x, y, batch_size: int, succeeded: Callable = misclassified
) -> tuple[AttackResult, np.ndarray]:
    """The result before any attack, and the clean logits; costs one query per image."""
    logits = np.concatenate([batch.numpy() for _, batch in clean_logits(victim, x, batch_size)])
    if victim.num_classes is None:  # known only now if the victim is a callable
        victim.num_classes = int(logits.shape[-1])
    check(
        int(np.max(y)) < logits.shape[-1],
        f"Labels must lie in [0, {logits.shape[-1]}). Received: min={np.min(y)}, max={np.max(y)}.",
    )
    return AttackResult.before(x, succeeded(logits, y).numpy()), logits


def clean_logits(victim: Victim, x, batch_size: int):
    """Yields `(start, logits)` over a set of images, through one compiled pass."""
    for start in range(0, len(x), batch_size):
        yield start, victim.compiled_logits(tf.convert_to_tensor(x[start : start + batch_size], tf.float32))


def _open_state(task: AttackTask, path, result: AttackResult, known: CleanFacts | None) -> AttackState | None:
    """The state of a task, read back if there is one; `None` if the model cannot be identified."""
    model = None if known is None else known.model
    model = identify(task.victim) if model is None else model
    if model is None:
        return None
    saved = AttackState(Journal(path, _identity(task, model)), result)
    saved.restore()
    return saved


def _identity(task: AttackTask, model: str) -> dict:
    """What the state of a task belongs to."""
    return {
        **source_of(type(task.attack)),
        "attack": task.attack.name,
        **task.attack.settings(),
        "seed": int(task.seed),
        "examples": len(task.x),
        "images and labels": array_digest(task.x, task.y, task.ids),
        "model": model,
    }
