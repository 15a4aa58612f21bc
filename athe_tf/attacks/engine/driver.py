"""Runs an attack over a set of images: full batches of survivors, round after round."""

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.journal import PROBES, TOLERANCE, Journal, fingerprint
from athe_tf.attacks.engine.parallel import even_batches, map_in_lanes
from athe_tf.attacks.engine.results import AttackResult, Attempt, Stage, misclassified
from athe_tf.attacks.engine.victim import Victim
from athe_tf.utils import rng

if TYPE_CHECKING:
    from athe_tf.attacks.engine.attack import Attack


@dataclasses.dataclass
class Task:
    """Everything a run is about."""

    attack: "Attack"
    target: Victim
    x: np.ndarray
    y: np.ndarray
    ids: np.ndarray
    seed: int
    batch_size: int
    progress: Callable | None


def run(task: Task, state=None) -> AttackResult:
    """Attacks all images that are classified correctly, and tells what became of each.

    Args:
        task: What to do.
        state: Path of a file that keeps the state, or `None`.
    """
    result, logits = clean_pass(task.target, task.x, task.y, task.batch_size, task.attack.succeeded)
    cascade = task.attack.cascade(task.target)
    for attack in cascade:
        attack.check_victim(task.target)
    result.stages = _stages(cascade, task.target)
    journal = None
    if state is not None:
        journal = open_journal(task, state, logits)
        result.queries[:PROBES] += 1
        _restore(journal, result)
    work = Work(task, cascade, result)
    for attack, stage in zip(cascade, result.stages, strict=True):
        if result.success.all():
            break
        queries = attack.prepare(task.target, task.x, task.y, task.batch_size)
        if not (result.rounds > stage.first).any():  # on record already, where the stage had begun
            result.queries += queries
        _run_stage(attack, stage, task, result, journal, work)
    return result


def _stages(cascade, target: Victim) -> list[Stage]:
    stages, first = [], 0
    for attack in cascade:
        stages.append(Stage(attack.name, first, attack.rounds(target)))
        first += stages[-1].rounds
    return stages


def _run_stage(attack: "Attack", stage: Stage, task: Task, result, journal, work: "Work") -> None:
    attempt = attack.compiled(task.target, task.x.shape, "attempt")
    seed = rng.fold(task.seed)
    began = time.perf_counter()
    for index in range(stage.rounds):
        standing = result.standing(stage.first + index)
        # After a resume, the same batches without the images whose round is over.
        batches = [
            rows[result.rounds[rows] == stage.first + index]
            for rows in even_batches(standing, task.batch_size)
        ]

        def one_batch(rows, index=index):
            names = tf.constant(task.ids[rows], tf.int64)
            return attempt(tf.constant(task.x[rows]), tf.constant(task.y[rows]), names, seed, index)

        for rows, outcome in map_in_lanes(one_batch, [rows for rows in batches if len(rows)]):
            fell = record(result, rows, outcome)
            result.rounds[rows] += 1
            stage.seconds += time.perf_counter() - began
            began = time.perf_counter()
            if journal is not None:
                journal.save_images(result.x_adv, fell)
                journal.save(_state(result))
            work.done(attack, len(rows))
        if result.success.all():
            return


class Work:
    """Counts passes of the network, for whoever watches: those done, and those left at most.

    What is left assumes that no further image falls, so it only ever shrinks.
    """

    def __init__(self, task: Task, cascade, result: AttackResult):
        self.task = task
        self.result = result
        pairs = zip(cascade, result.stages, strict=True)
        costs = [attack.round_passes(task.target) for attack, stage in pairs for _ in range(stage.rounds)]
        # The passes of all rounds from a given one on.
        self.ahead = np.append(np.cumsum(costs[::-1])[::-1], 0.0)
        self.passes = 0.0

    def done(self, attack: "Attack", images: int) -> None:
        """A batch went through a round."""
        self.passes += images * attack.round_passes(self.task.target)
        if self.task.progress is not None:
            standing = ~self.result.success
            left = self.ahead[self.result.rounds[standing]].sum()
            self.task.progress(self.passes, self.passes + left, int(standing.sum()))


def record(result: AttackResult, rows, outcome: Attempt) -> np.ndarray:
    """Adds the outcome of a round to what is known, and returns the rows that fell."""
    outcome = Attempt(*(value.numpy() for value in outcome))
    result.queries[rows] += outcome.queries
    result.gradients[rows] += outcome.gradients
    result.nonfinite[rows] += outcome.nonfinite
    result.norm[rows] = np.minimum(result.norm[rows], outcome.norm)
    fell = rows[outcome.success]
    result.success[fell] = True
    result.x_adv[fell] = outcome.x_adv[outcome.success]
    return fell


def clean_pass(
    target: Victim, x, y, batch_size: int, succeeded: Callable = misclassified
) -> tuple[AttackResult, np.ndarray]:
    """The state before any attack, and the clean logits: one query an image."""
    logits = np.concatenate([batch.numpy() for _, batch in clean_logits(target, x, batch_size)])
    if target.num_classes is None:  # a callable tells only now
        target.num_classes = int(logits.shape[-1])
    return AttackResult.before(x, succeeded(logits, y).numpy()), logits


def clean_logits(target: Victim, x, batch_size: int):
    """Yields `(start, logits)` over a set of images, through one compiled pass."""
    for start in range(0, len(x), batch_size):
        yield start, target.compiled_logits(tf.convert_to_tensor(x[start : start + batch_size], tf.float32))


# -- the state ----------------------------------------------------------------------------------------------

KEPT = ("success", "queries", "gradients", "norm", "nonfinite", "rounds")


def open_journal(task: Task, path, logits: np.ndarray) -> Journal:
    """The journal of a task; it refuses a file that belongs to another."""
    identity = {
        "attack": task.attack.name,
        **task.attack.settings(),
        "seed": int(task.seed),
        "examples": len(task.x),
        "images and labels": fingerprint(task.x, task.y, task.ids),
    }
    again = task.target.compiled_logits(tf.constant(task.x[:PROBES])).numpy()
    first = logits[:PROBES]
    steady = np.allclose(first, again, rtol=0, atol=TOLERANCE * max(float(np.abs(first).max()), 1e-6))
    return Journal(path, identity, first if steady else None)


def _state(result: AttackResult) -> dict[str, np.ndarray]:
    arrays = {name: getattr(result, name) for name in KEPT}
    return arrays | {"seconds": np.array([stage.seconds for stage in result.stages])}


def _restore(journal: Journal, result: AttackResult) -> None:
    arrays = journal.load()
    if arrays is None:
        return
    for name in KEPT:
        getattr(result, name)[:] = arrays[name]
    for stage, seconds in zip(result.stages, arrays["seconds"], strict=True):
        stage.seconds = float(seconds)
    journal.load_images(result.x_adv, np.flatnonzero(result.success & (result.rounds > 0)))
