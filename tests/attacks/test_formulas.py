"""Losses, single steps and constants of the attacks against their formulas, in NumPy and float64."""

import math

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks import apgd_steps, constraint_relaxation, losses
from athe_tf.attacks.cascade import black_box_warnings
from athe_tf.attacks.engine.gradients import Adam, gradient_of, mean_gradient
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.model_checks import saturated_share
from athe_tf.attacks.engine.results import AttackResult, Costs, RoundResult, Stage, misclassified
from athe_tf.attacks.moving_radius import Walk
from athe_tf.attacks.square import Hills
from athe_tf.threat import threat_model
from athe_tf.utils import rng

RNG = np.random.default_rng(0)
# Rows in which every class is the first, the second, the third or the last somewhere; all below zero.
LOGITS = RNG.permuted(np.tile([-1.0, -1.5, -2.5, -4.0, -7.0], (40, 1)), axis=1)
LABELS = np.arange(40) % 5
TARGETS = (LABELS + 1 + np.arange(40) % 4) % 5
ROWS = np.arange(40)
TRUE = LOGITS[ROWS, LABELS]
OTHERS = np.where(np.arange(5) == LABELS[:, None], -np.inf, LOGITS).max(1)
TOP = -np.sort(-LOGITS, axis=1)
ORDERS = {"linf": np.inf, "l2": 2, "l1": 1}


def test_the_margin_is_the_best_other_logit_minus_the_true_one():
    np.testing.assert_allclose(losses.margin(LOGITS, LABELS), OTHERS - TRUE, rtol=1e-12)
    np.testing.assert_allclose(losses.gap(LOGITS, LABELS, TARGETS), LOGITS[ROWS, TARGETS] - TRUE, rtol=1e-12)


def test_the_ratio_divides_by_the_gap_of_the_first_and_the_third_logit():
    expected = (OTHERS - TRUE) / (TOP[:, 0] - TOP[:, 2])
    np.testing.assert_allclose(losses.dlr(LOGITS, LABELS), expected, rtol=1e-9)


def test_the_targeted_ratio_divides_by_the_gap_of_the_first_and_the_mean_of_third_and_fourth():
    expected = (LOGITS[ROWS, TARGETS] - TRUE) / (TOP[:, 0] - (TOP[:, 2] + TOP[:, 3]) / 2)
    np.testing.assert_allclose(losses.dlr_targeted(LOGITS, LABELS, TARGETS), expected, rtol=1e-9)
    four = LOGITS[:, :4], LABELS % 4, (LABELS + 1) % 4
    top = -np.sort(-four[0], axis=1)
    expected = (four[0][ROWS, four[2]] - four[0][ROWS, four[1]]) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2)
    np.testing.assert_allclose(losses.dlr_targeted(*four), expected, rtol=1e-9)


def test_the_he_loss_is_cross_entropy_with_the_true_logit_lowered():
    lowered = LOGITS - 3.0 * np.eye(5)[LABELS]
    expected = np.log(np.exp(lowered).sum(1)) - lowered[ROWS, LABELS]
    np.testing.assert_allclose(losses.he(LOGITS, LABELS, shift=3.0), expected, rtol=1e-9)


def test_kl_compares_with_clean_logits_that_have_no_gradient():
    clean, moved = (tf.constant(logits) for logits in RNG.normal(size=(2, 3, 4)))
    with tf.GradientTape() as tape:
        tape.watch([clean, moved])
        value = losses.kl(moved, None, clean)
    p, q = (np.exp(v) / np.exp(v).sum(1, keepdims=True) for v in (clean.numpy(), moved.numpy()))
    np.testing.assert_allclose(value, (p * np.log(p / q)).sum(1), rtol=1e-9)
    of_clean, of_moved = tape.gradient(value, [clean, moved])
    assert of_clean is None
    np.testing.assert_allclose(of_moved, q - p, atol=1e-12)


def test_an_image_with_a_logit_that_is_not_finite_counts_as_misclassified():
    logits = tf.constant([[2.0, 1.0], [np.inf, 1.0], [2.0, np.nan], [1.0, 2.0]])
    np.testing.assert_array_equal(misclassified(logits, [0, 0, 0, 0]), [False, True, True, True])


# -- Auto-PGD ----------------------------------------------------------------------------------------------


def checked(policy, points, losses_there, best_losses, memory, x):
    """The memory of a policy after points with these losses, and with these best losses so far."""
    for i, loss, best in zip(points, losses_there, best_losses, strict=True):
        here = apgd_steps.Iterate(x, x, tf.constant(loss, tf.float32))
        highest = apgd_steps.Iterate(x, x, tf.constant(best, tf.float32))
        _, memory = policy.checkpoint(tf.constant(i), x, here, highest, memory)
    return memory


def test_exactly_three_of_four_rises_halve_the_step():
    # Of 20 steps, the first checkpoint is after 4.
    policy, x = apgd_steps.MomentumSteps(threat_model("linf", 0.1), 20), tf.zeros([2, 1, 1, 1])
    rising = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [3.0, 4.0]]
    memory = checked(policy, range(5), rising, rising, policy.memory(x, x, resumed=False), x)
    np.testing.assert_allclose(memory[1], [0.1, 0.2])


def test_a_best_loss_that_rose_since_the_last_checkpoint_keeps_the_step():
    # Between the checkpoints after 4 and 7 all losses rise, and the best loss rises, or not, at the fifth.
    policy, x = apgd_steps.MomentumSteps(threat_model("linf", 0.1), 20), tf.zeros([2, 1, 1, 1])
    rising = [[float(i)] * 2 for i in range(8)]
    best = [[9.0, 9.0]] * 5 + [[10.0, 9.0]] * 3
    memory = checked(policy, range(8), rising, best, policy.memory(x, x, resumed=False), x)
    np.testing.assert_allclose(memory[1], [0.2, 0.1])


def test_rises_are_counted_anew_after_a_checkpoint():
    # Four of four rises keep the step; then none of three halves it, although the best loss rose.
    policy, x = apgd_steps.MomentumSteps(threat_model("linf", 0.1), 20), tf.zeros([1, 1, 1, 1])
    there = [[0.0], [1.0], [2.0], [3.0], [4.0], [3.0], [2.0], [1.0]]
    best = [[4.0]] * 5 + [[5.0]] * 3
    memory = checked(policy, range(8), there, best, policy.memory(x, x, resumed=False), x)
    np.testing.assert_allclose(memory[1], [0.1])


def test_apgd_gives_the_highest_loss_also_where_all_losses_are_negative():
    # The margin is at most x_1 - x_0 - 1, which is highest at one corner of the ball.
    def logits(x):
        first, second = x[:, 0, 0, 0], x[:, 1, 0, 0]
        return tf.stack([first - second, tf.fill(tf.shape(first), -1.0)], axis=1)

    victim = attacks.Victim(logits, num_classes=2)
    attack = attacks.APGD(0.1, steps=5, loss="margin")
    found = attack(victim, np.full((3, 2, 1, 1), 0.5, "float32"), np.zeros(3, int))
    np.testing.assert_allclose(found[:, :, 0, 0], [[0.4, 0.6]] * 3, atol=1e-6)


def test_apgd_starts_on_the_surface_of_the_ball():
    x = tf.fill([3, 4, 4, 1], 0.5)
    for norm in ("linf", "l2"):
        threat = threat_model(norm, 0.1)
        start = apgd_steps.MomentumSteps(threat, 20).start(x, tf.range(3), 0)
        np.testing.assert_allclose(threat.distance(x, start), 0.1, rtol=1e-5)


def test_sparse_steps_follow_the_sparsity_of_the_best_point():
    policy, x = apgd_steps.SparseSteps(threat_model("l1", 8.0), 100), tf.zeros([3, 5, 10, 2])
    memory = policy.memory(x, x, resumed=False)
    np.testing.assert_allclose([m[0] for m in memory], [8.0, 20.0, 100.0])  # a fifth of all pixels
    # The best points have moved 94, 95 and 100 pixels of 100: below 95% is sparser.
    best = np.zeros([3, 100], "float32")
    for row, moved in enumerate((94, 95, 100)):
        best[row, :moved] = 1.0
    best = tf.reshape(tf.constant(best), x.shape)
    here, highest = (apgd_steps.Iterate(v, v, tf.zeros(3)) for v in (x + 0.5, best))
    for i in (1, 2, 3):  # every 4% of the steps
        _, same = policy.checkpoint(tf.constant(i), x, here, highest, memory)
        np.testing.assert_array_equal(same, memory)
    point, memory = policy.checkpoint(tf.constant(4), x, here, highest, memory)
    np.testing.assert_allclose(memory[0], [8.0, 8 / 1.5, 8 / 1.5], rtol=1e-6)
    np.testing.assert_allclose(memory[1], np.array([94, 95, 100]) / 1.5, rtol=1e-6)
    np.testing.assert_array_equal(memory[2], [94, 95, 100])
    np.testing.assert_array_equal(point.x[0], best[0])
    np.testing.assert_array_equal(point.x[1:], here.x[1:])
    for _ in range(7):  # down to a tenth of epsilon
        _, memory = policy.checkpoint(tf.constant(8), x, here, highest, memory)
    np.testing.assert_allclose(memory[0], 0.8, rtol=1e-6)


def test_a_resumed_sparse_climb_begins_with_the_sparsity_of_its_start():
    policy, x = apgd_steps.SparseSteps(threat_model("l1", 8.0), 100), tf.zeros([1, 5, 2, 1])
    start = tf.reshape(tf.constant([1.0] * 3 + [0.0] * 7), x.shape)
    step_size, pixels, moved = policy.memory(x, start, resumed=True)
    np.testing.assert_allclose([step_size[0], pixels[0], moved[0]], [8.0, 2.0, 3.0])


def test_the_l1_schedule_is_three_and_two_epsilons_for_a_third_of_the_steps_each():
    attack = attacks.get("apgd-ce-100", epsilon=2.0, norm="l1", larger_epsilon=True)
    assert [(ball.epsilon, steps) for ball, steps in attack.stages()] == [(6.0, 30), (4.0, 30), (2.0, 40)]


# -- minimum-norm attacks ----------------------------------------------------------------------------------


def shortest_move(gap, normal, norm):
    """The way to the plane `<normal, d> = -gap` of least norm, where the box does not matter."""
    size = abs(normal)
    if norm == "l2":
        return -gap * normal / (normal**2).sum()
    if norm == "linf":
        return -gap * np.sign(normal) / size.sum()
    return np.where(size == size.max(), -gap / normal, 0.0)


@pytest.mark.parametrize("alpha_max", [1.0, 0.1])
@pytest.mark.parametrize("norm", ORDERS)
def test_a_step_of_fab_mixes_the_extrapolated_projections_of_iterate_and_image(norm, alpha_max):
    # The first iterate is much nearer to the plane than its image, the second not.
    shape, eta = (2, 3, 2, 1), 1.5
    images = RNG.uniform(0.4, 0.6, shape)
    normal = RNG.uniform(1.0, 2.0, shape) * RNG.choice([-1.0, 1.0], shape)
    points = images + np.array([0.05, 0.01]).reshape(2, 1, 1, 1) * np.sign(normal)
    gap = np.array([0.02, -0.3])
    expected = []
    for x, point, w, g in zip(images, points, normal, gap, strict=True):
        own, other = shortest_move(g, w, norm), shortest_move(g + (w * (x - point)).sum(), w, norm)
        lengths = [np.linalg.norm(move.ravel(), ORDERS[norm]) for move in (own, other)]
        alpha = min(lengths[0] / sum(lengths), alpha_max)
        expected.append((1 - alpha) * (point + eta * own) + alpha * (x + eta * other))
    attack = attacks.FAB(0.1, norm, alpha_max=alpha_max, eta=eta)
    found = attack._step(*(tf.constant(v, tf.float32) for v in (images, points, gap, normal)))
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_fab_keeps_the_nearest_of_its_adversarial_points():
    attack = attacks.FAB(0.1, "l2")
    images, nearest = tf.zeros([3, 1, 1, 1]), tf.fill([3, 1, 1, 1], 0.5)
    points = tf.reshape(tf.constant([0.6, 0.3, 0.3]), [3, 1, 1, 1])
    wrong = tf.constant([True, True, False])
    kept, norm = attack._keep_nearer(images, points, wrong, nearest, tf.fill([3], 0.5))
    np.testing.assert_allclose(np.ravel(kept), [0.5, 0.3, 0.5])
    np.testing.assert_allclose(norm, [0.5, 0.3, 0.5])


def walk(radius, norm, delta):
    radius, norm = (tf.constant(v, tf.float32) for v in (radius, norm))
    return Walk(delta, radius, delta, norm)


def test_the_radius_of_fmn_shrinks_below_the_smallest_norm_and_grows_where_it_failed():
    attack = attacks.FMN(0.1, "l2", steps=10, gamma=0.2)
    delta = tf.reshape(tf.constant([[0.3, 0.4]] * 4), [4, 2, 1, 1])
    gradient = tf.reshape(tf.constant([[6.0, 8.0]] * 4), [4, 2, 1, 1])
    state = walk([1.0, 1.0, 1.0, math.inf], [0.3, 5.0, 5.0, math.inf], delta)
    success, loss = tf.constant([True, True, False, False]), tf.constant([1.0, 1.0, -2.0, -2.0])
    found = attack.next_radius(tf.constant(0), state, success, loss, gradient)
    # The norm of the first; 1 - gamma; 1 + gamma; the length so far and what the linear margin asks for.
    np.testing.assert_allclose(found, [0.3, 0.8, 1.2, 1.001 * (0.5 + 0.2)], rtol=1e-6)
    halfway = 0.001 + (0.2 - 0.001) / 2
    found = attack.next_radius(tf.constant(5), state, success, loss, gradient)
    np.testing.assert_allclose(found[1:3], [1 - halfway, 1 + halfway], rtol=1e-6)


def test_the_radius_of_ddn_moves_by_gamma_and_its_perturbation_has_that_length():
    attack = attacks.DDN(0.1, gamma=0.2)
    delta = tf.reshape(tf.constant([[0.3, 0.4], [3.0, 4.0]]), [2, 2, 1, 1])
    state = walk([1.0, 2.0], [math.inf, math.inf], delta)
    found = attack.next_radius(tf.constant(3), state, tf.constant([True, False]), None, None)
    np.testing.assert_allclose(found, [0.8, 2.4], rtol=1e-6)
    fitted = attack.project_to_radius(delta, tf.reshape(found, [-1, 1, 1, 1]))
    np.testing.assert_allclose(attack.threat.length(fitted), [0.8, 2.4], rtol=1e-6)
    assert attack.first_radius == 1.0 and attacks.FMN(0.1).first_radius == math.inf


def test_values_anneal_like_a_cosine_from_the_first_to_the_last():
    attack = attacks.FMN(0.1, steps=8)
    found = [float(attack.annealed(tf.constant(i), 3.0, 1.0)) for i in (0, 2, 4, 8)]
    np.testing.assert_allclose(found, [3.0, 2 + math.sqrt(0.5), 2.0, 1.0], rtol=1e-6)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_step_of_deepfool_is_the_linear_distance_and_a_hundred_thousandth(norm):
    normal = RNG.normal(size=(2, 3, 2, 1))
    attack = attacks.DeepFool(0.1, norm)
    moved = attack._step(tf.constant([-2.0, -0.5]), tf.constant(normal, tf.float32))
    dual = np.linalg.norm(normal.reshape(2, -1), {"linf": 1, "l2": 2}[norm], axis=1)
    np.testing.assert_allclose(attack.threat.length(moved), np.array([2.0, 0.5]) / dual + 1e-5, rtol=1e-5)
    risen = (normal * moved.numpy()).sum((1, 2, 3))
    np.testing.assert_allclose(risen, [2.0, 0.5] + 1e-5 * dual, rtol=1e-5)


def cw_search(attack, count, **changes):
    x = tf.fill([count, 2, 1, 1], 0.5)
    return attack._initial(x, tf.zeros_like(x))._replace(**changes)


def test_cw_multiplies_c_by_ten_until_it_succeeds_and_then_bisects():
    attack = attacks.CWL2(0.1, steps=100, initial_c=0.01)
    over = tf.fill([3], 100)
    search = cw_search(
        attack,
        3,
        iteration=over,
        found=tf.constant([False, True, False]),
        c=tf.constant([0.01, 0.5, 0.2]),
        too_small=tf.constant([0.0, 0.1, 0.0]),
        large_enough=tf.constant([math.inf, math.inf, 1.0]),
    )
    after = attack._next_run(search, tf.zeros([3, 2, 1, 1]))
    np.testing.assert_allclose(after.c, [0.1, 0.3, 0.6], rtol=1e-6)
    np.testing.assert_allclose(after.too_small, [0.01, 0.1, 0.2], rtol=1e-6)
    np.testing.assert_array_equal(after.large_enough, [math.inf, 0.5, 1.0])
    np.testing.assert_array_equal(after.runs, [1, 1, 1])
    np.testing.assert_array_equal(after.iteration, [0, 0, 0])
    assert not after.found.numpy().any()


def test_cw_slows_down_twice_where_it_succeeded_and_ends_where_it_did_not():
    # After a tenth of the steps; an improvement of less than a ten-thousandth is none.
    attack = attacks.CWL2(0.1, steps=100)
    search = cw_search(
        attack,
        5,
        iteration=tf.constant([10, 10, 10, 10, 9]),
        lowest=tf.constant([0.99985, 0.99995, 0.99995, 0.99995, 0.99995]),
        milestone=tf.ones(5),
        found=tf.constant([True, True, True, False, True]),
        rate=tf.constant([1.0, 1.0, 0.01, 1.0, 1.0]),
    )
    after = attack._next_run(search, tf.zeros([5, 2, 1, 1]))
    np.testing.assert_allclose(after.rate, [1.0, 0.1, 1.0, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(after.runs, [0, 0, 1, 1, 0])
    np.testing.assert_allclose(after.milestone[0], 0.99985)
    assert np.isinf(after.milestone[1:4]).all()


def test_the_objective_of_cw_is_the_squared_length_and_c_times_the_missing_margin():
    # One pixel, and logits (0, 2 x - 1): at x = 0.3 the first class leads by 0.4.
    victim = attacks.Victim(lambda x: tf.stack([0 * x[:, 0, 0, 0], 2 * x[:, 0, 0, 0] - 1], 1), num_classes=2)
    attack = attacks.CWL2(0.1, confidence=0.5, learning_rate=0.25)
    x, label = tf.fill([1, 1, 1, 1], 0.3), tf.constant([0])
    origin = tf.atanh(2 * x - 1)
    search = attack._initial(x, 0.1 + tf.zeros_like(x))._replace(c=tf.constant([3.0]))
    after, *_ = attack._iterate(victim, search, x, label, origin)
    image = 0.5 * (1 + np.tanh(np.arctanh(-0.4) + 0.1))
    np.testing.assert_allclose(after.lowest, (image - 0.3) ** 2 + 3.0 * (0.5 + 1 - 2 * image), rtol=1e-5)
    np.testing.assert_allclose(np.ravel(after.offset), 0.1 + 0.25, rtol=1e-5)  # Adam's first step
    assert not after.found.numpy().any()


def test_cw_starts_further_restarts_a_tenth_beside_the_image():
    seen = []

    class Witness(attacks.CWL2):
        def _initial(self, x, start):
            seen.append(start)
            return super()._initial(x, start)

    victim = attacks.Victim(lambda x: tf.reshape(x, [-1, 300])[:, :3], num_classes=3)
    x, y, ids = tf.fill([50, 10, 10, 3], 0.5), tf.zeros([50], tf.int32), tf.range(50)
    attack = Witness(0.1, steps=1, search_steps=1, restarts=2)
    for round_index in range(2):
        attack.run_round(victim, x, y, ids, rng.fold(0), tf.constant(round_index))
    assert not seen[0].numpy().any()
    np.testing.assert_allclose(seen[1].numpy().std(), 0.1, rtol=0.03)


# -- starts, directions and targets ------------------------------------------------------------------------


def pixels_as_logits(count):
    return attacks.Victim(lambda x: tf.reshape(x, [tf.shape(x)[0], -1])[:, :count], num_classes=count)


def test_every_pair_of_every_image_has_its_own_direction_and_every_iteration_others():
    drawn = []

    class Witness(attacks.NES):
        @staticmethod
        def draw(seed, ids, shape):
            drawn.append((int(seed), np.asarray(ids)))
            return rng.normal(seed, ids, shape)

    x, y = tf.fill([3, 2, 2, 1], 0.5), tf.zeros([3], tf.int32)
    attack = Witness(0.1, samples=4, steps=2, chunk=100)
    victim = attacks.Victim(lambda v: 9.0 * tf.one_hot(tf.zeros(tf.shape(v)[:1], tf.int32), 3), num_classes=3)
    attack.search(victim, x, y, tf.constant([7, 8, 9]), rng.fold(0))
    assert len(drawn) == 2
    for _, ids in drawn:
        np.testing.assert_array_equal(ids, np.arange(28, 40))  # 4 * id + pair
    assert drawn[0][0] != drawn[1][0]


def test_the_margin_of_the_he_loss_is_multiplied_by_the_scale_that_the_loss_sees():
    logits = tf.constant([[6.0, 3.0, -3.0]])
    victim = attacks.Victim(lambda x: logits, num_classes=3)
    victim.scale = 15.0
    for logit_scale, factor in (("model", 1.0), (30.0, 2.0)):
        attack = attacks.PGD(0.1, loss="he", margin=0.2, logit_scale=logit_scale)
        loss, seen = attack.objective(victim, tf.constant([0]), [])(None)
        lowered = factor * (logits.numpy()[0] - 15.0 * 0.2 * np.array([1, 0, 0]))
        np.testing.assert_allclose(loss, np.log(np.exp(lowered).sum()) - lowered[0], rtol=1e-6)
        np.testing.assert_array_equal(seen, logits)


def test_more_targets_do_not_change_the_starts_of_earlier_ones():
    victim = pixels_as_logits(5)
    seeds = {}
    for count in (2, 4):
        attack = attacks.get("multitargeted-1x2", epsilon=0.1, n_targets=count)
        for number in range(2 * count):
            seed = int(attack.round_seed(victim, rng.fold(0), number))
            seeds.setdefault(attack.split(victim, number), set()).add(seed)
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == len(seeds) == 8


def test_restarts_of_gradient_attacks_have_seeds_of_their_own():
    attack = attacks.PGD(0.1, restarts=3)
    assert len({int(attack.round_seed(None, rng.fold(0), number)) for number in range(3)}) == 3


def test_the_first_round_of_constraint_relaxation_steps_by_half_of_epsilon_and_once_by_a_quarter():
    points = []

    def logits(x):
        """The margin of the second class is highest where the first pixel is 0.495, and never positive."""
        first = x[:, 0, 0, 0]
        points.append(float(first[0]))
        return tf.stack([0 * first + 9.0, -tf.abs(first - 0.495)], axis=1)

    attack = attacks.get("cr", epsilon=0.04)
    attack.threat.random_start = lambda x, *_: x - 0.04
    victim = attacks.Victim(logits, num_classes=2)
    attack._short_pgd(victim, tf.fill([1, 2, 1, 1], 0.5), tf.zeros([1], tf.int32), tf.range(1), rng.fold(0))
    expected = [0.46, 0.48, 0.5, 0.48, 0.5, 0.48, 0.49, 0.51, 0.49, 0.51, 0.49]
    np.testing.assert_allclose(points, expected, atol=1e-6)


def test_every_target_and_restart_of_constraint_relaxation_has_its_own_start():
    seeds = []
    attack = attacks.get("cr", epsilon=0.04, n_targets=2, restarts=2, cycles=1)

    def random_start(x, ids, seed):
        seeds.append(int(seed[0]))
        return x

    attack.threat.random_start = random_start
    victim, x = pixels_as_logits(3), tf.fill([1, 2, 2, 1], 0.5)
    memory = tf.constant([[1.0, 2.0, np.inf, np.inf, np.inf]])
    for number in range(2, 6):
        attack._reach_target(
            victim, x, tf.zeros([1], tf.int32), tf.range(1), rng.fold(0), tf.constant([number]), memory
        )
    assert len(seeds) == len(set(seeds)) == 4


def test_the_scales_of_a_sweep_replace_that_of_the_head_after_a_round_on_the_margin():
    victim, y = pixels_as_logits(3), tf.zeros([2], tf.int32)
    victim.scale = 15.0
    attack = attacks.get("pgd-scale-sweep", epsilon=0.1, scales=[1, 30], restarts=2)
    assert attack.rounds(victim) == 6
    factors = [attack.round_inputs(victim, [], y, None, 0, number)[0].numpy() for number in range(6)]
    np.testing.assert_allclose(factors, np.tile([[0.0], [1 / 15], [2.0]], (2, 2)), rtol=1e-6)


def test_pgd_stays_at_the_iterate_that_succeeded():
    # Misclassified between 0.505 and 0.515 only: steps of 0.01 come there, and would leave it again.
    def logits(x):
        first = x[:, 0, 0, 0]
        inside = tf.cast(tf.abs(first - 0.51) < 0.005, tf.float32)
        return tf.stack([0.0 * first + 1.0, first + 9.0 * inside - 5.0], axis=1)

    victim = attacks.Victim(logits, num_classes=2)
    result = attacks.BIM(0.1, steps=5, step_size=0.01).run(victim, np.full((1, 1, 1, 1), 0.5, "float32"), [0])
    assert result.success.all() and result.gradients.tolist() == [2]
    np.testing.assert_allclose(np.ravel(result.x_adv), 0.51, atol=1e-6)


def test_zoo_keeps_its_budget_where_every_probe_is_a_suspect():
    # Probes beside the image are misclassified, the image itself never is: three queries for each update.
    def logits(x):
        beside = tf.reduce_max(tf.abs(x - 0.5), axis=[1, 2, 3]) > 1e-5
        return tf.where(beside[:, tf.newaxis], [[0.0, 1.0]], [[1.0, 0.0]])

    victim, x = attacks.Victim(logits, num_classes=2), tf.fill([1, 2, 2, 1], 0.5)
    for budget in range(5, 12):
        attack = attacks.ZOO(0.1, n_queries=budget, learning_rate=1e-9)
        found = attack.run_round(victim, x, tf.zeros([1], tf.int32), tf.range(1), rng.fold(0), 0)
        assert not found.success.numpy().any()
        # An update takes up to four with the last test, and the clean query is one.
        updates = (budget - 2) // 3
        assert found.queries.numpy().tolist() == [3 * updates + 1] and 3 * updates + 2 <= budget


def test_a_window_of_square_may_hold_what_both_windows_held_and_its_share_of_what_was_never_used():
    for norm, power in (("l2", 2), ("l1", 1)):
        hills = Hills(attacks.Square(2.0, norm), (4, 4, 3))
        delta = np.zeros((1, 4, 4, 3))
        delta[0, 0, 0], delta[0, 3, 3] = [0.5, 0.2, 0.1], [0.3, 0.0, 0.4]
        windows = np.zeros((1, 4, 4, 1), bool)
        windows[0, 0, 0] = True
        held = np.array([0.5, 0.2, 0.1]) ** power
        unused = 2.0**power - (abs(delta) ** power).sum()
        expected = (unused / 3 + held) ** (1 / power) * (1 if power == 2 else 3)
        found = hills._available(tf.constant(delta, tf.float32), windows)
        np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-5)


def test_a_black_box_attack_may_find_a_five_hundredth_before_it_is_suspicious():
    def robust(share):
        success = np.arange(1000) >= 1000 * share
        result = AttackResult.before(np.zeros([1000, 1, 1, 1]), success)
        return result

    for gradient, square, suspicious in ((0.5, 0.499, 0), (0.5, 0.497, 1), (0.5, 0.6, 0)):
        results = {"apgd-ce": robust(gradient), "square": robust(square)}
        assert len(black_box_warnings(results)) == suspicious


def test_a_margin_of_sixteen_is_saturated():
    assert saturated_share([[16.0, 0.0], [15.9, 0.0]], [0, 0]) == 0.5


# -- the engine --------------------------------------------------------------------------------------------


def test_adam_has_the_decays_of_the_paper():
    adam = Adam(0.0, 0.0).updated(tf.constant(2.0)).updated(tf.constant(-1.0))
    np.testing.assert_allclose(adam.mean, 0.9 * 0.2 - 0.1, rtol=1e-6)
    np.testing.assert_allclose(adam.square, 0.999 * 0.004 + 0.001, rtol=1e-4)
    mean, root = adam.unbiased(2.0)
    np.testing.assert_allclose(mean, 0.08 / (1 - 0.9**2), rtol=1e-5)
    np.testing.assert_allclose(root, math.sqrt(0.004996 / (1 - 0.999**2)) + 1e-8, rtol=1e-4)


def test_a_gradient_with_one_entry_that_is_not_finite_keeps_the_others():
    x = tf.constant(np.array([4.0, 0.0, 9.0, 1.0], "float32").reshape(2, 2, 1, 1))
    outputs, gradient, bad = gradient_of(lambda v: (tf.reduce_sum(tf.sqrt(v), [1, 2, 3]), "kept"), x)
    np.testing.assert_allclose(np.ravel(gradient), [0.25, 0.0, 1 / 6, 0.5], rtol=1e-6)
    assert outputs == "kept" and bad.numpy().tolist() == [[1, 0], [0, 0]]


def test_averaged_gradients_and_outputs_are_means_over_passes():
    passes = tf.Variable(0.0)

    def objective(v):
        factor = passes.assign_add(1.0)
        loss = factor * tf.reduce_sum(v, [1, 2, 3])
        return loss, (loss,)

    x = tf.ones([2, 1, 3, 1])
    (loss,), gradient, bad = mean_gradient(objective, x, 4)
    np.testing.assert_allclose(gradient, np.full(x.shape, 2.5))  # the mean of 1, 2, 3, 4
    np.testing.assert_allclose(loss, [7.5, 7.5])
    assert bad.numpy().tolist() == [[0, 0], [0, 0]] and float(passes) == 4


def test_a_gradient_that_is_zero_in_all_entries_is_marked():
    x = tf.constant(np.array([4.0, 1.0, 9.0, 1.0], "float32").reshape(2, 2, 1, 1))
    factors = tf.constant([0.0, 1.0])
    _, gradient, bad = gradient_of(lambda v: (factors * tf.reduce_sum(v * v, [1, 2, 3]), None), x)
    np.testing.assert_allclose(np.ravel(gradient), [0.0, 0.0, 18.0, 2.0])
    assert bad.numpy().tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("count", [1, 7, 20])
def test_a_shrinking_loop_freezes_each_row_when_it_is_done_and_tests_only_the_others_last(count):
    goals = RNG.integers(1, 12, count).astype("int32")
    seen = []

    def body(i, state, constants):
        (value,) = state
        seen.append(int(tf.shape(value)[0]))
        odd = tf.fill(tf.shape(value), i % 2)
        return [value + 1], value + 1 >= constants[0], tf.stack([odd, 2 * odd], axis=1), 1 - odd

    def last(state, constants):
        return [state[0] + 100], tf.ones_like(state[0])

    loop = shrinking_loop(body, [tf.zeros([count], tf.int32)], [tf.constant(goals)], 8, last)
    steps = np.minimum(goals, 8)
    np.testing.assert_array_equal(loop.state[0], np.where(goals > 8, 108, goals))
    np.testing.assert_array_equal(loop.steps, steps)
    np.testing.assert_array_equal(loop.tested, goals > 8)
    np.testing.assert_array_equal(loop.faults, np.stack([steps // 2, 2 * (steps // 2)], axis=1))
    np.testing.assert_array_equal(loop.judged, (steps + 1) // 2 + (goals > 8))
    # In eighths of the batch.
    part = -(-count // 8)
    left = [int((goals > i).sum()) for i in range(len(seen))]
    np.testing.assert_array_equal(seen, [-(-n // part) * part if n < count else count for n in left])


def test_an_image_is_broken_only_if_the_judge_says_so_and_only_then_is_it_asked():
    asked = []

    def judge(x):
        asked.append(np.ravel(x).tolist())
        return tf.concat([x[:, 0, 0], 0.5 + 0 * x[:, 0, 0]], axis=1)  # class 1 below 0.5

    source = attacks.Victim(lambda x: x, num_classes=2)
    victim = attacks.Victim(judge, num_classes=2, source=source)
    x, y = tf.reshape(tf.constant([0.1, 0.9, 0.1]), [3, 1, 1, 1]), tf.zeros([3], tf.int32)
    seen_by_source = tf.constant([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    attack = attacks.PGD(0.1)
    success, questions = attack.verdict(victim, x, seen_by_source, y)
    assert success.numpy().tolist() == [True, False, False] and questions.numpy().tolist() == [1, 1, 0]
    np.testing.assert_allclose(asked, [[0.1, 0.9]])
    success, questions = attack.verdict(victim, x, seen_by_source, y, last=True)
    assert success.numpy().tolist() == [True, False, True] and questions.numpy().tolist() == [1, 1, 1]


def test_a_round_costs_its_steps_and_what_comes_before_and_after():
    assert Costs(steps=5, forward=2, backward=3, before=(1, 4), after=2).most == 5 * (2 + 3) + 5 + 2
    assert Costs(steps=5).most == 6


class Scripted(attacks.Attack):
    """Four rounds that find what a table says, image by image, and remember who came to them."""

    name = "scripted"
    restarts = 4
    norms_found = np.array([[9, 9, 9, 9], [3, 9, 9, 9], [4, 5, 2, 9], [6, 8, 7, 9]], "float32")
    successes = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], bool)

    def __init__(self, epsilon=0.5, norm="linf"):
        super().__init__(epsilon, norm)
        self.seen: list[list[int]] = [[], [], [], []]

    def costs(self, victim):
        return Costs(steps=2, backward=1)

    def run_round(self, victim, x, y, ids, seed, round_index):
        def note(ids, number):
            self.seen[number].extend(int(name) for name in ids)

        tf.numpy_function(note, [ids, round_index], [])
        norm, success = (
            tf.gather_nd(table, tf.stack([tf.cast(ids, tf.int32), tf.fill(tf.shape(ids), round_index)], 1))
            for table in (self.norms_found, self.successes)
        )
        ones = tf.ones_like(y)
        x_adv = x + 0.1 * tf.cast(tf.reshape(round_index + 1, [1, 1, 1, 1]), tf.float32)
        return RoundResult(x_adv, success, 3 * ones, 2 * ones, norm, ones)


def test_rounds_add_their_costs_keep_the_smallest_norm_and_see_only_who_is_left():
    # The first image is wrong from the start; the second falls in the first round, the third in the third.
    attack = Scripted()
    x = np.full((4, 1, 1, 1), 0.25, "float32")
    x[0] = 0.75
    victim = attacks.Victim(lambda v: tf.concat([0.5 - v[:, 0, 0], v[:, 0, 0] - 0.5], 1), num_classes=2)
    result = attack.run(victim, x, np.zeros(4, int), batch_size=2)
    assert [sorted(ids) for ids in attack.seen] == [[1, 2, 3], [2, 3], [2, 3], [3]]
    assert result.success.tolist() == [True, True, True, False]
    assert result.norm.tolist() == [0.0, 3.0, 2.0, 6.0]
    assert result.rounds.tolist() == [0, 1, 3, 4]
    assert result.queries.tolist() == [1, 4, 10, 13] and result.gradients.tolist() == [0, 2, 6, 8]
    assert result.nonfinite.tolist() == [0, 1, 3, 4]
    np.testing.assert_allclose(np.ravel(result.x_adv), [0.75, 0.35, 0.55, 0.25])
    assert result.found.tolist() == [1, 2]
    assert [result.survivors(i).tolist() for i in range(4)] == [[1, 2, 3], [2, 3], [2, 3], [3]]
    first, second = Stage("a", 0, 2), Stage("b", 2, 2)
    assert result.robust_after(first).tolist() == [False, False, True, True]
    assert result.robust_after(second).tolist() == [False, False, False, True]


# -- defaults ----------------------------------------------------------------------------------------------

PGD = {
    "steps": 20,
    "step_size": 0.2,
    "start": "uniform",
    "loss": "ce",
    "logit_scale": "model",
    "margin": 0.0,
    "restarts": 1,
    "select": "any",
    "targeted": False,
}
APGD = {
    "steps": 100,
    "restarts": 1,
    "loss": "ce",
    "logit_scale": "model",
    "larger_epsilon": False,
    "eot_samples": 1,
    "targeted": False,
}
FAB = {
    "steps": 100,
    "restarts": 1,
    "alpha_max": 0.1,
    "eta": 1.05,
    "beta": 0.9,
    "reuse_passes": False,
    "stop_on_success": False,
    "clip_to_epsilon": False,
}
WALK = {"steps": 100, "gamma": 0.05, "max_step_size": 1.0, "clip_to_epsilon": False, "targeted": False}
NES = {"steps": 20, "step_size": 0.2, "samples": 128, "sigma": 0.001, "chunk": 256, "targeted": False}
# What every attack does at a radius of 0.8 if it is told nothing else.
DEFAULTS: dict[str, dict] = {
    "fgsm": PGD | {"steps": 1, "step_size": 0.8, "start": "zero"},
    "bim": PGD | {"steps": 10, "start": "zero"},
    "pgd": PGD,
    "mim": PGD | {"steps": 10, "start": "zero", "decay": 1.0},
    "pgd-adam": PGD | {"steps": 10, "step_size": 0.1},
    "cw-linf": PGD | {"loss": "margin"},
    # A quarter of epsilon is 51 of 255 levels.
    "eight-bit-pgd": PGD | {"loss": "margin", "step_size": 51 / 255},
    "adaptive-pgd": PGD | {"loss": "he", "margin": 0.2},
    "fn-pgd": PGD,
    "pgd-scale-sweep": PGD | {"loss": "ce_at_scales", "scales": [1.0, 5.0, 10.0, 15.0, 30.0]},
    "multitargeted": PGD | {"loss": "gap", "n_targets": None},
    "feature": PGD | {"steps": 50, "step_size": 0.1, "loss": "feature", "n_targets": 500, "pool": None},
    "apgd-ce": APGD,
    "apgd-dlr": APGD | {"loss": "dlr"},
    "apgd-t": APGD | {"loss": "dlr_targeted", "n_targets": 9},
    "cr": {"cycles": 5, "n_targets": None, "restarts": 5, "give_up": 0.5, "come_close": 0.05},
    "deepfool": {"steps": 100, "overshoot": 0.02, "n_targets": 9, "clip_to_epsilon": False},
    "cw-l2": {
        "steps": 1000,
        "search_steps": 9,
        "initial_c": 0.01,
        "learning_rate": 0.01,
        "confidence": 0.0,
        "restarts": 1,
        "clip_to_epsilon": False,
        "targeted": False,
    },
    "fab": FAB,
    "fab-t": FAB | {"n_targets": 9},
    "ddn": WALK | {"init_radius": 1.0},
    "fmn": WALK,
    "epsilon-search": {
        "attack": "apgd-ce-20",
        "attack_arguments": {},
        "search_steps": 10,
        "clip_to_epsilon": False,
    },
    "square": {
        "n_queries": 5000,
        "p_init": 0.8,
        "rescale_schedule": False,
        "restarts": 1,
        "shared_window": False,
        "targeted": False,
    },
    "swift": {"come_close": 0.1, "n_targets": 3, "detector_queries": 200, "n_queries": 5000},
    "nes": NES,
    "spsa": NES,
    "zoo": {
        "n_queries": 20000,
        "mode": "linf",
        "sigma": 0.0001,
        "learning_rate": 0.01,
        "constant": 0.5,
        "targeted": False,
    },
    "rays": {"n_queries": 10000, "stop_on_success": True, "tolerance": 0.001},
    "spatial": {"steps": None, "rotation": 30.0, "translation": None, "grid": [5, 5, 31]},
}


@pytest.mark.parametrize("name", [name for name in attacks.ATTACKS if not name.startswith("autoattack")])
def test_defaults_are_the_published_ones(name):
    norm = attacks.ATTACKS.get(name).norms[0]
    settings = attacks.get(name, epsilon=0.8, norm=norm).settings()
    assert {key: value for key, value in settings.items() if key not in ("epsilon", "norm")} == DEFAULTS[name]


@pytest.mark.parametrize("profile, steps, targets, queries", [("lite", 50, 4, 1000), ("smoke", 10, 2, 200)])
def test_profiles_are_shorter_versions_of_autoattack(profile, steps, targets, queries):
    first, second, third, fourth = attacks.AutoAttack(0.1, profile=profile).attacks
    assert [first.steps, second.steps, third.steps] == [steps] * 3
    assert [second.n_targets, third.n_targets, fourth.n_queries] == [targets, targets, queries]
    assert third.reuse_passes and third.stop_on_success and not first.larger_epsilon


def test_the_numbers_of_constraint_relaxation_are_the_documented_ones():
    names = (
        "TARGET_ROUNDS",
        "CANDIDATES_PER_TARGET",
        "FIRST_STEPS",
        "SHORT_STEP",
        "RELAXED",
        "JUDGED",
        "CYCLE",
    )
    assert [getattr(constraint_relaxation, name) for name in names] == [2, 3, 10, 5, 10, 19, 30]
    assert constraint_relaxation.SHORTEST == 0.05


def test_a_step_of_constraint_relaxation_is_a_share_of_epsilon_in_a_ball_that_is_larger_at_first():
    attack = attacks.get("cr", epsilon=0.1)
    x, gradient = tf.fill([1, 2, 1, 1], 0.5), tf.ones([1, 2, 1, 1])
    for step, limit in ((0, 0.15), (constraint_relaxation.RELAXED, 0.1)):
        moved = attack._step(x, x + 0.08, gradient, tf.constant(step), tf.constant(0.5))
        np.testing.assert_allclose(np.ravel(moved - x), min(0.08 + 0.05, limit), atol=1e-6)
    far = attack._step(x, x + 0.14, gradient, tf.constant(0), tf.constant(0.5))
    np.testing.assert_allclose(np.ravel(far - x), 0.15, atol=1e-6)
    large = tf.fill([1, 20, 20, 1], 0.5)
    noise = np.ravel(attack._perturbed(large, large + 0.1, tf.constant(0.25), tf.range(1), 0) - large)
    # Pulled back to 0.075, and moved by up to 0.025 either way.
    np.testing.assert_allclose([noise.min(), noise.max()], [0.05, 0.1], atol=5e-4)
