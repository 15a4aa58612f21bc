"""What an evaluation will cost: passes that the loop counts, and seconds from a few that are measured."""

import resource
import time

import numpy as np

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.gradient import PGD
from athe_tf.attacks.square import Square
from athe_tf.evaluation import evaluator
from athe_tf.evaluation.attack_run import PlannedAttack, make_plan
from athe_tf.evaluation.inputs import EvaluationInputs, open_images
from athe_tf.evaluation.model_diagnosis import logarithms
from athe_tf.evaluation.options import CommonOptions, EvaluationOptions
from athe_tf.models.victim import Victim

# Images and steps of the trial attack that tells how many images will stay; forward passes that are timed.
TRIAL, STEPS, QUERIES = 256, 10, 20
# An image that falls does so early in its first round: the share of that round it takes, about.
EARLY = 0.3


def plan_evaluation(victim: Victim, data, options: EvaluationOptions, **given) -> tuple[float, list[tuple]]:
    """What `athe_tf.evaluate` with the same arguments will cost; takes about a minute.

    Returns:
        The share of correctly classified images that withstand a trial attack; and for every attack its
        label, why it is not run (or `None`), forward and backward passes with the seconds that they take:
        `[3, 3]`, in the rows if every image falls at the first step, as the trial says, and if all stay; and
        the memory of this process in GiB.
    """
    common = CommonOptions(**given)
    chosen = evaluator._protocol(common.attacks or None, common.protocol)
    (norm, epsilon), *others = evaluator.threat_models(chosen, common.epsilon, common.norm, options)
    plan = make_plan(
        common.attacks or chosen.attacks, epsilon, norm, published=chosen.epsilon, epsilons=options.epsilons,
        logit_scale=options.logit_scale, others=others, margin=evaluator._margin_of(victim, options),
    )  # fmt: skip
    images, labels = open_images(data, common.max_examples, victim.num_classes)
    victim = logarithms(victim) if options.probabilities else victim
    inputs = EvaluationInputs.open(victim, images, labels, norm, epsilon, common.seed, common.batch_size)
    evaluator._check_inputs(inputs, chosen, plan, options)
    forward = peak_memory()  # after the clean images
    price, compiling, stay = measure(inputs)
    found, memory = [], {False: forward, True: peak_memory()}
    for one in plan:
        costs = _costs(one, inputs, price, compiling, stay)
        found.append((one.label, one.not_run, costs, memory[bool(costs[:, 1].any())]))
    return stay, found


def peak_memory() -> float:
    """The most memory that this process had so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # which counts KiB on Linux


def measure(inputs: EvaluationInputs) -> tuple[np.ndarray, float, float]:
    """Seconds per image of a forward and a backward pass, those to compile an attack, and the share of images
    that withstand PGD.
    """
    rows = np.flatnonzero(inputs.clean.correct)
    if not len(rows):
        return np.zeros(2), 0.0, 0.0
    epsilon, trial = inputs.epsilon or 1e-6, rows[:TRIAL]
    pgd = PGD(epsilon, inputs.norm, steps=STEPS, loss="margin")
    began = time.perf_counter()
    result = inputs.run(pgd, trial)
    first, stays = time.perf_counter() - began, ~result.success
    share = float(stays.mean())
    # As many as will stay, which attacks mostly work on, so that batches are as full as they will be.
    count = max(1, min(round(share * len(rows)), 2 * inputs.batch_size))
    timed = np.resize(trial[stays] if stays.any() else trial, count)
    forward = _seconds(inputs, Square(epsilon, inputs.norm, n_queries=QUERIES), timed, 0.0)
    price = np.array([forward, _seconds(inputs, pgd, timed, forward)])
    return price, max(0.0, first - price @ (result.queries.sum(), result.gradients.sum())), share


def _seconds(inputs: EvaluationInputs, attack: Attack, rows: np.ndarray, forward: float) -> float:
    """Seconds per pass and image, best of two after one that compiles; backward if there are any."""
    found = []
    for _ in range(3):
        began = time.perf_counter()
        result = inputs.run(attack, rows)
        queries, gradients = float(result.queries.sum()), float(result.gradients.sum())
        spent = time.perf_counter() - began - forward * queries
        found.append(spent / (gradients or max(queries, 1.0)))
    return max(min(found[1:]), 0.0)


def _costs(
    planned: PlannedAttack, inputs: EvaluationInputs, price: np.ndarray, compiling: float, stay: float
) -> np.ndarray:
    if planned.attack is None or planned.not_run is not None:
        return np.zeros((3, 3))
    images = int(inputs.clean.correct[: planned.spec.limit].sum())
    members = planned.attack.schedule.members(inputs.victim)
    first, whole = _round(members[0], inputs.victim), np.zeros(2)
    for member in members:
        whole += member.rounds(inputs.victim) * _round(member, inputs.victim)
    usual = stay * whole + (1 - stay) * EARLY * first
    passes = images * np.array([np.minimum(first, 1.0), usual, whole])
    # Every member of a cascade is compiled, unless no image gets there.
    return np.column_stack([passes, passes @ price + compiling * np.array([1, len(members), len(members)])])


def _round(attack: Attack, victim: Victim) -> np.ndarray:
    """The most forward and backward passes of a round."""
    costs = attack.costs(victim)
    forward = costs.steps * costs.forward + costs.before[0] + costs.after
    return np.array([forward, costs.steps * costs.backward + costs.before[1]], float)
