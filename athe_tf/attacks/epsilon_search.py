"""A search over epsilon, which makes a minimum-norm attack of one with a fixed radius."""

import math

import tensorflow as tf

from athe_tf.attacks import registry
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.loop import whole_batches
from athe_tf.attacks.engine.results import Costs, RoundResult
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.models.victim import Victim
from athe_tf.threat import per_example
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.where import where_rows


class EpsilonSearch(MinimumNormAttack):
    """Runs an attack at several radii, chosen for each image, and keeps the nearest adversarial image.

    The first radius is epsilon. It is doubled until the attack succeeds; then the interval between the
    largest radius that failed and the smallest norm that was found is halved. Every image has its own radii,
    in one compiled loop. Step sizes that an attack derives from epsilon follow the radius.

    Example:

    >>> attack = EpsilonSearch(epsilon=8 / 255, attack="pgd-20", attack_arguments={"loss": "margin"})
    >>> typical_distance = np.median(attack.run(model, x, y).norm)

    Args:
        epsilon: The first radius, and that at which the images found are counted, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`, as far as the attack has it.
        attack: Name of an attack with a fixed radius. Defaults to `"apgd-ce-20"`.
        attack_arguments: Further arguments of the attack, as a dictionary. Defaults to none.
        search_steps: Radii that are tried per image; the number in `"epsilon-search-5"`. Defaults to 10.
        clip_to_epsilon: Test images beyond epsilon once more, projected back to it. Defaults to `False`.
    """

    name = "epsilon-search"
    number_argument = "search_steps"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        attack: str = "apgd-ce-20",
        attack_arguments: dict | None = None,
        search_steps: int = 10,
        clip_to_epsilon: bool = False,
    ):
        check_at_least(1, search_steps=search_steps)
        super().__init__(epsilon, norm, steps=search_steps, clip_to_epsilon=clip_to_epsilon)
        valid = attack_arguments is None or isinstance(attack_arguments, dict)
        check(valid, f"`attack_arguments` must be a dictionary. Received: {type(attack_arguments).__name__}.")
        self.attack = attack
        self.attack_arguments = dict(attack_arguments or {})
        self.search_steps = int(search_steps)
        self.inner = self._at(epsilon)
        fixed = self.inner.in_ball and not isinstance(self.inner, MinimumNormAttack)
        if not fixed or type(self.inner.schedule).prepare is not Schedule.prepare:
            raise InputError(
                "A search over epsilon needs an attack with a fixed radius that prepares nothing beforehand. "
                f"Received: attack={self.inner.name!r}. Use one such as 'pgd-20', 'apgd-ce' or 'square'."
            )

    def _at(self, radius) -> Attack:
        return registry.get(self.attack, epsilon=radius, norm=self.norm, **self.attack_arguments)

    def check_victim(self, victim: Victim) -> None:
        self.inner.check_victim(victim)
        schedule = self.inner.schedule
        if schedule.memory_columns(victim) or len(schedule.members(victim)) > 1:
            raise InputError(
                f"A search over epsilon needs an attack whose rounds do not depend on each other. Received: "
                f"attack={self.attack!r}. Use one such as 'apgd-t' or 'pgd-50x5'."
            )

    def costs(self, victim: Victim) -> Costs:
        rounds = self.search_steps * self.inner.rounds(victim)
        return Costs(rounds, self.inner.costs(victim).most, after=int(self.clip_to_epsilon))

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """All radii, one after another."""
        farthest = self.threat.length(tf.maximum(x, 1.0 - x))

        def body(step, low, nearest, norm, counts):
            radius = tf.where(tf.math.is_finite(norm), (low + norm) / 2.0, 2.0 * low)
            radius = tf.where(low > 0, radius, tf.where(tf.math.is_finite(norm), norm / 2.0, first))
            radius = tf.minimum(radius, farthest)
            success, x_adv, length, more = self._all_rounds(victim, x, y, ids, rng.fold(seed, step), radius)
            nearer = success & (length < norm)
            nearest = where_rows(nearer, x_adv, nearest)
            low = tf.where(success, low, radius)
            return step + 1, low, nearest, tf.where(nearer, length, norm), counts + more

        # A first radius of zero would never grow.
        first = tf.fill(tf.shape(x)[:1], max(float(self.threat.epsilon), 1e-3))
        loop = (0, tf.zeros_like(first), x, tf.fill(tf.shape(first), math.inf), self._no_counts(x))
        _, _, nearest, norm, counts = tf.while_loop(
            lambda step, *_: step < self.search_steps, body, loop, parallel_iterations=1
        )
        queries, gradients, nonfinite, zero, judged = tf.unstack(counts)
        if self.clip_to_epsilon:
            nearest, norm, tested = self._clipped(victim, x, y, nearest, norm)
            queries += tested
        judged = None if victim.source is victim else judged
        success = self.threat.within(norm)
        return RoundResult(nearest, success, queries, gradients, norm, nonfinite, None, judged, zero)

    @staticmethod
    def _no_counts(x):
        """Queries, gradients, those not finite and those zero, questions to the judge, `[5, N]`."""
        return tf.zeros([5, tf.shape(x)[0]], tf.int32)

    def _all_rounds(self, victim: Victim, x, y, ids, seed, radius) -> tuple:
        """The attack at a radius for each image, round after round until it succeeds."""
        inner, rounds = self._at(per_example(radius)), self.inner.rounds(victim)

        def body(index, success, x_adv, norm, counts):
            with whole_batches():  # the radii belong to the whole batch
                now = inner.run_round(victim, x, y, ids, seed, index)
            left = ~success
            optional = [tf.zeros_like(y) if one is None else one for one in (now.zero_gradients, now.judged)]
            counts += tf.where(left, tf.stack([now.queries, now.gradients, now.nonfinite, *optional]), 0)
            x_adv, norm = where_rows(left, now.x_adv, x_adv), tf.where(left, now.norm, norm)
            return index + 1, success | now.success, x_adv, norm, counts

        nowhere = tf.fill(tf.shape(x)[:1], math.inf)
        return tf.while_loop(
            lambda index, success, *_: (index < rounds) & ~tf.reduce_all(success),
            body,
            (0, nowhere < 0, x, nowhere, self._no_counts(x)),
            parallel_iterations=1,
        )[1:]
