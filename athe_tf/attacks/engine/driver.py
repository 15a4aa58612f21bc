"""Runs an attack over a set of images: full batches of survivors, round after round."""

import dataclasses
import math
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
    max_passes: int | None = None


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
    result.memory = {
        attack.name: np.zeros((len(task.x), columns), np.float32)
        for attack in cascade
        if (columns := attack.memory_columns(task.victim))
    }
    budget = PassBudget(task, cascade[0], result)
    saved = None if state is None else _open_state(task, state, result, known)
    work = Work(task, cascade, result)
    for attack, stage in zip(cascade, result.stages, strict=True):
        if result.success.all():
            break
        queries = attack.prepare(task.victim, task.x, task.y, task.batch_size)
        if not (result.rounds > stage.first).any():  # else counted before an interruption
            result.queries += queries
        _run_stage(attack, stage, task, result, saved, work, budget)
    result.notes.extend(budget.notes())
    return result


def _stages(cascade, victim: Victim) -> list[Stage]:
    stages, first = [], 0
    for attack in cascade:
        stages.append(Stage(attack.name, first, attack.rounds(victim)))
        first += stages[-1].rounds
    return stages


def _run_stage(
    attack, stage: Stage, task: AttackTask, result, saved, work: "Work", budget: "PassBudget"
) -> None:
    admitted = task.attack.admits(attack, result)
    memory = result.memory.get(attack.name)
    seed = rng.fold(task.seed)
    began = time.perf_counter()
    for index in range(stage.rounds):
        wanted = admitted if memory is None else admitted & attack.takes_part(task.victim, index, memory)
        wanted &= budget.allows(attack, stage.first + index)
        survivors = result.survivors(stage.first + index)
        passed_over = survivors[~wanted[survivors]]
        result.rounds[passed_over] = np.maximum(result.rounds[passed_over], stage.first + index + 1)
        # After a resume, the same batches without the images whose round is over.
        batches = even_batches(survivors[wanted[survivors]], task.batch_size)
        batches = [rows[result.rounds[rows] == stage.first + index] for rows in batches]
        batches = [rows for rows in batches if len(rows)]
        if not batches:
            continue
        attempt = attack.compiled(task.victim, task.x.shape, "attempt")

        def one_batch(rows, index=index, attempt=attempt):
            names = tf.constant(task.ids[rows], tf.int64)
            remembered = [] if memory is None else [tf.constant(memory[rows])]
            images, labels = tf.constant(task.x[rows]), tf.constant(task.y[rows])
            return attempt(images, labels, names, seed, index, *remembered)

        for rows, outcome in map_batches(one_batch, batches):
            solved = record(result, rows, outcome, memory)
            result.rounds[rows] += 1
            stage.seconds += time.perf_counter() - began
            began = time.perf_counter()
            if saved is not None:
                saved.save(solved)
            work.report()
        if result.success.all():
            return


class Work:
    """Reports progress in passes of the network: those done, and the most that may be left.

    What is left assumes that no further adversarial example is found, so it only ever shrinks.
    """

    def __init__(self, task: AttackTask, cascade, result: AttackResult):
        self.task = task
        self.result = result
        pairs = zip(cascade, result.stages, strict=True)
        costs = [attack.round_passes(task.victim) for attack, stage in pairs for _ in range(stage.rounds)]
        # The passes of each round and all later ones.
        self.ahead = np.append(np.cumsum(costs[::-1])[::-1], 0.0)

    def report(self) -> None:
        """Tells how far the attack is, after a batch went through a round."""
        if self.task.progress is not None:
            robust, done = ~self.result.success, float(self.result.passes.sum())
            left = self.ahead[self.result.rounds[robust]].sum()
            self.task.progress(done, done + left, int(robust.sum()))


class PassBudget:
    """The largest number of forward and backward passes per image, if there is one.

    A round is not begun if it might exceed the budget, so no image ever goes through more passes.
    """

    def __init__(self, task: AttackTask, first, result: AttackResult):
        self.victim, self.limit, self.result = task.victim, task.max_passes, result
        if self.limit is None:
            return
        # In the memory of the result, and so in the state file: an image that is stopped stays so.
        self.stopped = result.memory.setdefault("max_passes", np.zeros((len(task.x), 1), np.float32))[:, 0]
        needed = 1 + math.ceil(first.round_passes(self.victim))
        check(
            self.limit >= needed,
            f"`max_passes` must allow for the first round of '{first.name}', which takes up to {needed} "
            f"passes per image. Received: max_passes={self.limit}. Allow more, or use fewer steps.",
        )

    def allows(self, attack, round_index: int) -> np.ndarray:
        """Which images can afford a round of an attack."""
        if self.limit is None:
            return np.ones(len(self.result.success), bool)
        affordable = self.result.passes + attack.round_passes(self.victim) <= self.limit
        # Images that went through this round before an interruption could afford it.
        exhausted = ~affordable & (self.result.rounds <= round_index) & ~self.result.success
        self.stopped[exhausted] = 1.0
        return self.stopped == 0.0

    def notes(self) -> list[str]:
        """What a reader must know."""
        count = 0 if self.limit is None else int(self.stopped.sum())
        if not count:
            return []
        return [
            f"{count} of {len(self.result.success)} images reached the budget of {self.limit} passes "
            "before the attack was over and count as robust: the accuracy is an upper bound."
        ]


def record(result: AttackResult, rows, outcome: Attempt, memory: np.ndarray | None = None) -> np.ndarray:
    """Adds the outcome of a round to the result, and returns the rows where it succeeded."""
    outcome = Attempt(*(None if value is None else value.numpy() for value in outcome))
    if memory is not None:
        memory[rows] = outcome.memory
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
        **({} if task.max_passes is None else {"max_passes": int(task.max_passes)}),
    }
