"""AutoAttack: a fixed cascade of strong attacks without parameters to tune."""

from collections.abc import Sequence

from athe_tf.attacks import registry
from athe_tf.attacks.cascade import EOT_SAMPLES, Cascade
from athe_tf.attacks.engine.attack import Attack
from athe_tf.models.victim import Victim
from athe_tf.utils.errors import InputError, check_choice

#: What each version runs, in order.
VERSIONS: dict[str, tuple[str, ...]] = {
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
    "plus": ("apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"),
    "rand": ("apgd-ce", "apgd-dlr"),
}
#: Steps of APGD and FAB, targets, queries of Square. Only `full` is AutoAttack.
PROFILES: dict[str, dict[str, int]] = {
    "full": {"steps": 100, "targets": 9, "queries": 5000},
    "lite": {"steps": 50, "targets": 4, "queries": 1000},
    "smoke": {"steps": 10, "targets": 2, "queries": 200},
}


class AutoAttack(Cascade):
    """AutoAttack (Croce and Hein, 2020; in l1, 2021): APGD, FAB and Square, each on survivors of the last.

    The whole set goes through one attack before the next; survivors are gathered into full batches, and
    images leave a batch as soon as they are misclassified. The robust accuracy is the share of survivors.

    | version | cascade |
    |---|---|
    | `standard` | APGD on cross-entropy, targeted APGD, targeted FAB, Square |
    | `plus` | the same and APGD on DLR, untargeted FAB, with five restarts |
    | `rand` | APGD on cross-entropy and on DLR, averaging 20 passes; for randomized models |
    | `custom` | the `attacks` that you name |

    In l1 APGD has five restarts and begins in larger balls, and `apgd-t` has five targets, as in the
    released code.

    `run` works on anything that maps images to logits. With `state` it can be interrupted at any moment.
    `run_individually` runs every attack on all images, for a table of attacks. The names `autoattack-plus`,
    `autoattack-rand`, `autoattack-lite` and `autoattack-smoke` stand for versions and profiles.

    Example:

    >>> attack = athe_tf.attacks.AutoAttack(epsilon=8 / 255)
    >>> result = attack.run(model, x, y, state="autoattack.npz")
    >>> robust_accuracy = 1 - result.success.mean()
    >>> table = attack.table(result)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`.
        version: `"standard"` (default), `"plus"`, `"rand"` or `"custom"`.
        attacks: For `"custom"`: names, which get the profile's settings, or `Attack` objects.
        profile: `"full"` (default); `"lite"`, about a quarter of the cost, and `"smoke"`, a quick trial, are
            weaker, and the notes of their results say so.

    References: https://arxiv.org/abs/2003.01690, https://arxiv.org/abs/2103.01208
    """

    name = "autoattack"
    title = "AutoAttack"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        version: str = "standard",
        attacks: Sequence | None = None,
        profile: str = "full",
    ):
        super().__init__(epsilon, norm)
        self.version, self.profile = version, profile
        check_choice("version", self.version, (*VERSIONS, "custom"))
        check_choice("profile", self.profile, PROFILES)
        if (attacks is not None) != (self.version == "custom"):
            raise InputError(
                "`attacks` is required for version='custom', and not accepted otherwise. "
                f"Received: version={self.version!r}, attacks={attacks!r}."
            )
        chosen = VERSIONS[self.version] if attacks is None else attacks
        self.averages = self.version == "rand"
        self.compose([self._member(member) for member in chosen])

    def _member(self, member) -> Attack:
        if isinstance(member, Attack):
            return member
        return registry.get(member, epsilon=self.epsilon, norm=self.norm, **self._settings_of(member))

    def _settings_of(self, name: str) -> dict:
        """The arguments of a member of the cascade."""
        profile, l1 = PROFILES[self.profile], self.threat.sparse
        plus, rand = self.version == "plus", self.version == "rand"
        repeated = 5 if (plus or (l1 and not rand)) and self.profile != "smoke" else 1
        apgd = {"steps": profile["steps"], "eot_samples": EOT_SAMPLES if rand else 1, "larger_epsilon": l1}
        fab = {"steps": profile["steps"], "reuse_passes": True, "stop_on_success": True}
        known = {
            "apgd-ce": apgd | {"restarts": repeated},
            "apgd-dlr": apgd | {"restarts": repeated},
            "apgd-t": apgd | {"n_targets": min(profile["targets"], 5) if l1 else profile["targets"]},
            "fab": fab | {"restarts": 5 if plus and self.profile != "smoke" else 1},
            "fab-t": fab | {"n_targets": profile["targets"]},
            "square": {"n_queries": profile["queries"]},
        }
        return known.get(name, {})

    def shortcomings(self, victim: Victim) -> list[str]:
        notes = []
        if self.profile != "full":
            notes.append(
                f"The profile '{self.profile}' is weaker than AutoAttack: {_listed(self.profile)} instead of "
                f"{_listed('full')}. Its robust accuracy is an upper bound. Use the profile 'full' for a "
                "number to publish."
            )
        return [*notes, *super().shortcomings(victim)]


def _listed(profile: str) -> str:
    return ", ".join(f"{number} {what}" for what, number in PROFILES[profile].items())
