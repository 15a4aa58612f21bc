"""Runs an attack over a set of images: full batches of survivors, round after round."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack_state import AttackState
from athe_tf.attacks.engine.clean_facts import CleanFacts
from athe_tf.attacks.engine.model_digest import identify, source_of
from athe_tf.attacks.engine.parallel import even_batches, map_batches
from athe_tf.attacks.engine.results import AttackResult, Attempt, Stage, misclassified
from athe_tf.attacks.engine.victim import Victim
from athe_tf.jobs.journal import Journal
from athe_tf.utils import rng
from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import check

# The memory of images that a budget of passes stopped.
STOPPED = "max_passes"


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
    add_stages(result, task.attack, task.victim, task.max_passes)
    budget = PassBudget(task, cascade[0], result)
    saved = None if state is None else _open_state(task, state, result, known)
    work = Work(task, cascade, result)
    whole = (task.x, task.y) if known is None or known.whole is None else known.whole
    for attack, stage in zip(cascade, result.stages, strict=True):
        if result.success.all():
            break
        queries = attack.prepare(task.victim, *whole, task.batch_size)
        if not (result.rounds > stage.first).any():  # else counted before an interruption
            result.queries += queries
        StageRun(attack, stage, task, result, budget).run(saved, work)
    return result


def add_stages(result: AttackResult, attack, victim: Victim, max_passes: int | None) -> None:
    """Adds the stages of an attack, and an empty memory for each image, to a result before the attack."""
    first = 0
    for member in attack.cascade(victim):
        result.stages.append(Stage(member.name, first, member.rounds(victim)))
        first += result.stages[-1].rounds
        columns = member.memory_columns(victim)
        if columns:
            result.memory[member.name] = np.full((len(result.success), columns), np.inf, np.float32)
    if max_passes is not None:
        result.memory[STOPPED] = np.zeros((len(result.success), 1), np.float32)


class StageRun:
    """The rounds of one attack of a cascade, over the images that are still robust."""

    def __init__(self, attack, stage: Stage, task: AttackTask, result: AttackResult, budget: "PassBudget"):
        self.attack, self.stage, self.task, self.result, self.budget = attack, stage, task, result, budget
        self.admitted = task.attack.admits(attack, result)
        self.memory = result.memory.get(attack.name)
        self.seed = rng.fold(task.seed)

    def run(self, saved: AttackState | None, work: "Work") -> None:
        """Runs round after round, until none or no image is left."""
        index = 0
        began = time.perf_counter()
        while index < self.stage.rounds and not self.result.success.all():
            survivors = self.result.survivors(self.stage.first + index)
            groups = self._groups(survivors, index)
            for solved in self._outcomes(groups, index):
                self.stage.seconds += time.perf_counter() - began
                began = time.perf_counter()
                if saved is not None:
                    saved.save(solved)
                work.report()
            index += len(groups)
            # Also of images that needed none of these rounds; after a resume some are further.
            left, rounds = survivors[~self.result.success[survivors]], self.result.rounds
            rounds[left] = np.maximum(rounds[left], self.stage.first + index)

    def _groups(self, survivors: np.ndarray, index: int) -> list[np.ndarray]:
        """The images of one round or, if these are so few that they do not fill a batch, of several.

        A batch of seven images takes nearly as long as one of sixty. Images that went through a round before
        an interruption are among them, so that a resumed run forms the same batches.
        """
        groups = [self._rows(survivors, index)]
        most = 1 if self.budget.limit is not None else self.attack.independent_rounds(self.task.victim, index)
        while len(groups) < most:
            rows = self._rows(survivors, index + len(groups))
            if sum(map(len, groups)) + len(rows) > self.task.batch_size:
                break
            groups.append(rows)
        return groups

    def _rows(self, survivors: np.ndarray, index: int) -> np.ndarray:
        """The images that need a round."""
        wanted = self.admitted & self.budget.allows(self.attack, self.stage.first + index)
        if self.memory is not None:
            wanted = wanted & self.attack.takes_part(self.task.victim, index, self.memory)
        return survivors[wanted[survivors]]

    def _outcomes(self, groups: list[np.ndarray], index: int) -> Iterator[np.ndarray]:
        """Runs rounds on their images; yields, batch by batch, the rows where they succeeded."""
        # Round by round: what one of them solves before an interruption is not attacked in a later one.
        images = np.concatenate(groups)
        rounds = np.repeat(np.arange(index, index + len(groups)), [len(rows) for rows in groups])
        batches = even_batches(np.arange(len(images)), self.task.batch_size)
        # After a resume, the same batches without what is over.
        over = self.result.success[images] | (self.result.rounds[images] > self.stage.first + rounds)
        batches = [kept for batch in batches if len(kept := batch[~over[batch]])]
        if not batches:
            return
        attempt = self.attack.compiled(self.task.victim, self.task.x.shape, "attempt")

        def one_batch(batch):
            remembered = [] if self.memory is None else [tf.constant(self.memory[images[batch]])]
            number = rounds[batch] if self.attack.rounds_in_parallel else rounds[batch[0]]
            return attempt(*self._tensors(images[batch]), tf.constant(number, tf.int32), *remembered)

        for batch, outcome in map_batches(one_batch, batches):
            yield self._record(images[batch], rounds[batch], outcome)

    def _tensors(self, rows: np.ndarray) -> list:
        """What `attempt` is given of these images, and the seed."""
        task = self.task
        names = tf.constant(task.ids[rows], tf.int64)
        return [tf.constant(task.x[rows]), tf.constant(task.y[rows]), names, self.seed]

    def _record(self, images: np.ndarray, rounds: np.ndarray, outcome: Attempt) -> np.ndarray:
        """Adds the outcome of a batch to the result, as if its rounds had been run one after another."""
        outcome = Attempt(*(None if value is None else value.numpy() for value in outcome))
        solved = []
        for number in np.unique(rounds):
            # Images that an earlier round has solved would not have come to this one.
            chosen = np.flatnonzero((rounds == number) & ~self.result.success[images])
            part = Attempt(*(None if value is None else value[chosen] for value in outcome))
            solved.append(record(self.result, images[chosen], part, self.memory))
            self.result.rounds[images[chosen]] = self.stage.first + number + 1
        return np.concatenate(solved)


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
        self.stopped = result.memory[STOPPED][:, 0]
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


def budget_notes(result: AttackResult, max_passes: int | None) -> list[str]:
    """What a reader must know about images that reached the budget of passes."""
    count = 0 if max_passes is None else int(result.memory[STOPPED].sum())
    if not count:
        return []
    return [
        f"{count} of {len(result.success)} images reached the budget of {max_passes} passes "
        "before the attack was over and count as robust: the accuracy is an upper bound."
    ]


def record(result: AttackResult, rows, outcome: Attempt, memory: np.ndarray | None = None) -> np.ndarray:
    """Adds the outcome of a round, as arrays, to the result, and returns the rows where it succeeded."""
    if memory is not None:
        memory[rows] = np.minimum(memory[rows], outcome.memory)
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
