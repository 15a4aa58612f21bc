"""Runs an attack over a set of images: full batches of survivors, round after round.

A convolution keeps all cores busy, but the small operations between convolutions do not. Two independent
batches fill each other's gaps, so a CPU gets two streams, and each of several devices gets
batches of its own. Results do not depend on which images share a batch, so neither changes a result.
"""

import collections
import contextlib
import dataclasses
import functools
import math
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack_state import AttackState
from athe_tf.attacks.engine.results import (
    COUNTS,
    AttackResult,
    Precomputed,
    RoundResult,
    Stage,
    misclassified,
)
from athe_tf.jobs.journal import Journal
from athe_tf.models.digest import identify, source_of
from athe_tf.models.victim import Victim
from athe_tf.results.notices import Notice
from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import InputError, NotApplicable, cause, first_line
from athe_tf.utils.images_and_labels import check_classes
from athe_tf.utils.machine import cores

# Streams of a CPU: PGD-10 of a WRN-10-1 on 128 images takes 0.84 of the time in two streams on 2 cores, and
# more gain nothing. An accelerator queues its work anyway, and gets one stream.
STREAMS = 2
# Below this, half of a training batch is too small to be worth its own operations in the graph.
SMALLEST_HALF = 16
# The largest share of images with a gradient that gives no direction, and what more of them mean.
FAULTY = 0.01
FAULTS = (
    (
        "zero",
        "zero-gradients",
        "a gradient that was zero, which gives an attack no direction: the accuracy may be too high. Look "
        "for rounding, saturation or tf.stop_gradient in the model; try a black-box attack such as 'square'.",
    ),
    (
        "nonfinite",
        "nonfinite-gradients",
        "a gradient that was NaN or infinite, which was taken as zero: the accuracy may be too high. Look "
        "for tf.where, a square root, a logarithm or a division in the model whose gradient is not finite.",
    ),
)
# The memory of images that a budget of passes stopped.
STOPPED = "max_passes"
# The number of forward passes of the judge, if gradients come from another model.
JUDGE = "judge"


@dataclasses.dataclass
class RunSpec:
    """What to attack, with what, and how."""

    attack: Any  # an `Attack`, whose module imports this one
    victim: Victim
    x: np.ndarray
    y: np.ndarray
    ids: np.ndarray
    seed: int
    batch_size: int
    progress: Callable | None = None
    max_passes: int | None = None
    precomputed: Precomputed | None = None
    jit_compile: bool = False


def run(task: RunSpec, state=None) -> AttackResult:
    """Attacks all images that are classified correctly, and returns the outcome for each image.

    `state` is the path of a file that keeps the state, or `None`.
    """
    attack, victim, precomputed, schedule = task.attack, task.victim, task.precomputed, task.attack.schedule
    first = slice(task.batch_size)
    if precomputed is None:
        result, _ = clean_pass(victim, task.x, task.y, task.batch_size, attack.succeeded)
    else:
        result = AttackResult.before(task.x, precomputed.correct if attack.targeted else ~precomputed.correct)
    told = schedule.check_model(victim, task.x[first], task.y[first], precomputed)
    members = schedule.members(victim)
    for member in members:
        if victim not in member._compiled:  # else it was checked before
            member.check_victim(victim)
    add_stages(result, members, victim, task.max_passes)
    budget = None if task.max_passes is None else _pass_budget(task.max_passes, victim, members[0], result)
    saved = None if state is None else _open_state(task, state, result)
    report = None if task.progress is None else _progress_report(task.progress, victim, members, result)
    for member, stage in zip(members, result.stages, strict=True):
        if not result.success.all():
            admitted = schedule.eligible_images(member, result)
            _Stage(task, member, stage, result, budget, admitted).run(saved, report)
    checked = first if precomputed is None or precomputed.checked is None else precomputed.checked
    result.queries[checked] += schedule.check_passes[0]
    result.gradients[checked] += schedule.check_passes[1]
    result.notes = remarks(attack, victim, result, task.max_passes, told)
    return result


def remarks(
    attack, victim: Victim, result: AttackResult, max_passes: int | None, about_model: Sequence[str]
) -> list[str]:
    """What a reader must know about a result on all images, as sentences.

    `about_model` is what the schedule's `check_model` found.
    """
    told = [*about_model, *gradient_warnings(result)]
    count = 0 if max_passes is None else int(result.memory[STOPPED].sum())
    if count:
        told.append(
            f"{count} of {len(result.success)} images reached the budget of {max_passes} passes "
            "before the attack was over and count as robust: the accuracy is an upper bound."
        )
    return attack.schedule.remarks(victim, result, told)


def gradient_warnings(result: AttackResult) -> list[str]:
    """What gradients without a direction mean for a result; empty if at most 1% of the images had one."""
    faults = result.gradient_faults
    attacked = faults["attacked"]
    return [
        Notice(f"{faults[name] / attacked:.1%} of {attacked:,} attacked images had {cause}", id=id)
        for name, id, cause in FAULTS
        if faults[name] > FAULTY * attacked
    ]


def add_stages(result: AttackResult, members, victim: Victim, max_passes: int | None) -> None:
    """Adds the stages of an attack, and an empty memory for each image, to a result before the attack."""
    first = 0
    for member in members:
        result.stages.append(Stage(member.name, first, member.rounds(victim)))
        first += result.stages[-1].rounds
        columns = member.schedule.memory_columns(victim)
        if columns:
            result.memory[member.name] = np.full((len(result.success), columns), np.inf, np.float32)
    for name, wanted in ((STOPPED, max_passes is not None), (JUDGE, victim.source is not victim)):
        if wanted:
            result.memory[name] = np.zeros((len(result.success), 1), np.float32)


@dataclasses.dataclass
class _Stage:
    """The rounds of one attack of a cascade, over the images that are still robust."""

    task: RunSpec
    attack: Any
    stage: Stage
    result: AttackResult
    budget: Callable | None
    admitted: np.ndarray | None

    def __post_init__(self):
        self.schedule = self.attack.schedule
        self.memory = self.result.memory.get(self.attack.name)

    def run(self, saved: AttackState | None, report: Callable | None) -> None:
        """Runs round after round, until none or no image is left."""
        result, first = self.result, self.stage.first
        self._prepare()
        index = 0
        began = time.perf_counter()
        while index < self.stage.rounds and not result.success.all():
            survivors = result.survivors(first + index)
            groups = self._groups(survivors, index)
            for solved in self._outcomes(groups, index):
                self.stage.seconds += time.perf_counter() - began
                began = time.perf_counter()
                if saved is not None:
                    saved.save(solved)
                if report is not None:
                    report()
            index += len(groups)
            # Also of images that needed none of these rounds; after a resume some are further.
            left = survivors[~result.success[survivors]]
            result.rounds[left] = np.maximum(result.rounds[left], first + index)

    def _prepare(self) -> None:
        task = self.task
        known = task.precomputed
        whole = (task.x, task.y) if known is None or known.whole is None else known.whole
        queries = self.schedule.prepare(task.victim, *whole, task.batch_size)
        if not (self.result.rounds > self.stage.first).any():  # else counted before an interruption
            self.result.queries += queries

    def _groups(self, survivors: np.ndarray, index: int) -> list[np.ndarray]:
        """The images of one round or, if these are so few that they do not fill a batch, of several.

        A batch of seven images takes nearly as long as one of sixty. Images that went through a round before
        an interruption are among them, so that a resumed run forms the same batches.
        """
        groups = [self._rows(survivors, index)]
        most = self.schedule.independent_rounds(self.task.victim, index) if self.budget is None else 1
        while len(groups) < most:
            rows = self._rows(survivors, index + len(groups))
            if sum(map(len, groups)) + len(rows) > self.task.batch_size:
                break
            groups.append(rows)
        return groups

    def _rows(self, survivors: np.ndarray, index: int) -> np.ndarray:
        """The images that need a round."""
        flags = [self.admitted]
        if self.budget is not None:
            flags.append(self.budget(self.attack, self.stage.first + index))
        if self.memory is not None:
            flags.append(self.schedule.eligible(self.task.victim, index, self.memory))
        for wanted in flags:
            survivors = survivors if wanted is None else survivors[wanted[survivors]]
        return survivors

    def _outcomes(self, groups: list[np.ndarray], index: int) -> Iterator[np.ndarray]:
        """Runs rounds on their images; yields, batch by batch, the rows where they succeeded."""
        # Round by round: what one of them solves before an interruption is not attacked in a later one.
        images = np.concatenate(groups)
        rounds = np.repeat(np.arange(index, index + len(groups)), [len(rows) for rows in groups])
        workers = self._workers(images, rounds)
        batches = even_batches(np.arange(len(images)), self.task.batch_size, len(workers))
        # After a resume, the same batches without what is over.
        over = self.result.success[images] | (self.result.rounds[images] > self.stage.first + rounds)
        batches = [kept for batch in batches if len(kept := batch[~over[batch]])]
        for batch, outcome in map_batches(workers, batches) if batches else ():
            yield self._record(images[batch], rounds[batch], outcome)

    def _workers(self, images: np.ndarray, rounds: np.ndarray) -> list[Callable]:
        """Functions that run the rounds of a batch: one for each device, or as many as there are streams."""
        task, seed = self.task, tf.constant(self.task.seed, tf.int64)

        def worker(victim, device=None):
            size = task.batch_size if task.jit_compile else None
            function = self.attack.compiled(victim, task.x.shape, "run_round", size=size)

            def one_batch(batch):
                count, batch = len(batch), batch if size is None else np.resize(batch, size)
                rows = images[batch]
                number = rounds[batch] if self.schedule.rounds_in_parallel else rounds[batch[0]]
                names, number = tf.constant(task.ids[rows], tf.int64), tf.constant(number, tf.int32)
                memory = [] if self.memory is None else [tf.constant(self.memory[rows])]
                with contextlib.nullcontext() if device is None else tf.device(device):
                    x, y = tf.constant(task.x[rows]), tf.constant(task.y[rows])
                    try:
                        found = function(x, y, names, seed, number, *memory)
                    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
                        if size is None:
                            raise
                        reason = f"XLA cannot compile it: {first_line(error)}. Leave jit_compile out."
                        raise NotApplicable(reason) from error
                if size is None:
                    return found
                return RoundResult(*(None if value is None else value[:count] for value in found))

            return one_batch

        if task.victim.copies:
            return [worker(victim, device) for device, victim in task.victim.copies.items()]
        return [worker(task.victim)] * stream_count()

    def _record(self, images: np.ndarray, rounds: np.ndarray, outcome: RoundResult) -> np.ndarray:
        """Adds the outcome of a batch to the result, as if its rounds had been run one after another.

        Returns the rows where it succeeded.
        """
        arrays = [None if value is None else value.numpy() for value in outcome]
        result, solved, victim = self.result, [], self.task.victim
        passes = dict.fromkeys(COUNTS, 1)
        if np.any(arrays[RoundResult._fields.index("gradients")]):
            passes |= {"queries": victim.source.passes, "gradients": victim.source.passes}
        else:  # without gradients, the judge itself is asked
            passes["queries"] = victim.passes
        for number in np.unique(rounds):
            # Skip images already misclassified in an earlier round.
            chosen = np.flatnonzero((rounds == number) & ~result.success[images])
            rows = images[chosen]
            found = RoundResult(*(None if value is None else value[chosen] for value in arrays))
            for name in COUNTS:
                count = getattr(found, name)
                getattr(result, name)[rows] += 0 if count is None else count * passes[name]
            if found.judged is not None:
                result.memory[JUDGE][rows, 0] += found.judged * victim.passes
            if self.memory is not None:
                self.memory[rows] = np.minimum(self.memory[rows], found.memory)
            result.norm[rows] = np.minimum(result.norm[rows], found.norm)
            result.success[rows] = found.success
            result.x_adv[rows[found.success]] = found.x_adv[found.success]
            result.rounds[rows] = self.stage.first + number + 1
            solved.append(rows[found.success])
        return np.concatenate(solved)


def even_batches(rows: np.ndarray, batch_size: int, streams: int) -> list[np.ndarray]:
    """Rows in batches of at most `batch_size`, equal up to one row, so that no stream is idle.

    Even seven images go in two batches: a forward pass of a WRN-10-1 takes 0.79 of the time then.

    Example:

    >>> [len(batch) for batch in even_batches(np.arange(90), 128, streams=2)]
    [45, 45]
    """
    count = -(-len(rows) // batch_size)
    filled = -(-count // streams) * streams
    return np.array_split(rows, min(filled, len(rows))) if count else []


def map_batches(workers: Sequence[Callable], batches: Iterable) -> Iterator[tuple[Any, Any]]:
    """Yields `(batch, what a worker returned for it)` in order; every worker is busy with one batch.

    Example:

    >>> list(map_batches([abs, abs], [-1, -2]))
    [(-1, 1), (-2, 2)]
    """
    if len(workers) == 1:
        yield from ((batch, workers[0](batch)) for batch in batches)
        return
    free: queue.SimpleQueue = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def next_free(batch):
        worker = free.get()
        try:
            return worker(batch)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        in_flight: collections.deque = collections.deque()
        for batch in batches:
            in_flight.append((batch, pool.submit(next_free, batch)))
            if len(in_flight) > len(workers):
                done, future = in_flight.popleft()
                yield done, future.result()
        for batch, future in in_flight:
            yield batch, future.result()


def _progress_report(tell: Callable, victim: Victim, members, result: AttackResult) -> Callable:
    """A function that reports progress in passes of the network: those done, and the most that are left.

    What is left assumes that no further adversarial example is found, so it only ever shrinks.
    """
    pairs = zip(members, result.stages, strict=True)
    costs = [member.round_passes(victim) for member, stage in pairs for _ in range(stage.rounds)]
    # The passes of each round and all later ones.
    ahead = np.append(np.cumsum(costs[::-1])[::-1], 0.0)

    def report():
        robust, done = ~result.success, float(result.passes.sum())
        tell(done, done + ahead[result.rounds[robust]].sum(), int(robust.sum()))

    return report


def _pass_budget(max_passes: int, victim: Victim, first, result: AttackResult) -> Callable:
    """A function from an attack and a round to the images that can afford it.

    A round is not begun if it might exceed the budget, so no image ever goes through more passes.
    """
    needed = 1 + math.ceil(first.round_passes(victim))
    if max_passes < needed:
        raise InputError(
            f"`max_passes` must allow for the first round of '{first.name}', which takes up to {needed} "
            f"passes per image. Received: max_passes={max_passes}. Allow more, or use fewer steps."
        )
    # In the memory of the result, and so in the state file: an image that is stopped stays so.
    stopped = result.memory[STOPPED][:, 0]

    def allows(attack, round_index: int) -> np.ndarray:
        affordable = result.passes + attack.round_passes(victim) <= max_passes
        # Images that went through this round before an interruption could afford it.
        exhausted = ~affordable & (result.rounds <= round_index) & ~result.success
        stopped[exhausted] = 1.0
        return stopped == 0.0

    return allows


def clean_pass(
    victim: Victim, x, y, batch_size: int, succeeded: Callable = misclassified
) -> tuple[AttackResult, np.ndarray]:
    """The result before any attack, and the clean logits; costs one query per image."""
    logits = np.concatenate([batch.numpy() for _, batch in clean_logits(victim, x, batch_size)])
    classes = int(logits.shape[-1])
    if victim.num_classes != classes:  # known only now if the victim is a callable
        check_classes(np.asarray(y), classes)
        victim.num_classes = victim.num_classes or classes
    return AttackResult.before(x, succeeded(logits, y).numpy()), logits


def clean_logits(victim: Victim, x, batch_size: int):
    """Yields `(start, logits)` over a set of images, through one compiled pass.

    Raises `InputError` with what helps if the model cannot be called with them.
    """
    try:
        for start in range(0, len(x), batch_size):
            part = tf.convert_to_tensor(x[start : start + batch_size], tf.float32)
            yield start, victim.compiled_logits(part)
    except InputError:
        raise
    except Exception as error:
        what = f"The model '{victim.name}' cannot be called with images of shape {x.shape[1:]}: "
        told, one = "the channels are in the wrong place. ", np.asarray(x[:1])
        if _takes(victim, one.transpose(0, 3, 1, 2)):
            told += "Wrap it: lambda x: model(tf.transpose(x, [0, 3, 1, 2]))."
        elif _takes(victim, one.transpose(0, 2, 3, 1)):
            told += "Move the channels of the images to the end: images.transpose(0, 2, 3, 1)."
        elif _takes(victim, one.astype(np.uint8)):
            told = "it takes uint8, and integers have no gradient. Call its network on floats."
        else:
            remedy = "Use the data set that it was trained on, with images of the same size."
            raise InputError(f"{what}{cause(error)}. {remedy}") from error
        raise InputError(f"{what}{told}") from error


def _takes(victim: Victim, images) -> bool:
    """Whether a model can be called with these images."""
    try:
        victim._logits(tf.convert_to_tensor(images))
    except Exception:
        return False
    return True


def _open_state(task: RunSpec, path, result: AttackResult) -> AttackState | None:
    """The state of a task, read back if there is one; `None` if the model cannot be identified."""
    model = None if task.precomputed is None else task.precomputed.model
    model = identify(task.victim) if model is None else model
    if model is None:
        return None
    known = None if task.precomputed is None else task.precomputed.images
    identity = {
        **source_of(type(task.attack)),
        "attack": task.attack.name,
        **task.attack.settings(),
        "seed": int(task.seed),
        "examples": len(task.x),
        "images and labels": array_digest(known or task.x, task.y, task.ids),
        "model": model,
        **({} if task.max_passes is None else {"max_passes": int(task.max_passes)}),
    }
    saved = AttackState(Journal(path, identity), result)
    saved.restore()
    return saved


@functools.cache
def stream_count() -> int:
    """The number of streams on this machine."""
    accelerated = tf.config.list_physical_devices("GPU") or tf.config.list_physical_devices("TPU")
    return 1 if accelerated or cores() < STREAMS else STREAMS


def craft_in_parallel(craft: Callable, x, y, ids):
    """`craft(x, y, ids)`, computed on independent halves of the batch; graph code.

    Only for victims whose logits of an image do not depend on its batch. Random numbers belong to the ids, so
    they do not change.
    """
    count = x.shape[0]
    streams = stream_count()
    if streams == 1 or count is None or count % streams or count // streams < SMALLEST_HALF:
        return craft(x, y, ids)
    parts = zip(*(tf.split(value, streams) for value in (x, y, ids)), strict=True)
    return tf.concat([craft(*part) for part in parts], axis=0)
