"""AutoAttack: a fixed cascade of strong attacks with nothing to tune, in TensorFlow, on any device."""

from collections.abc import Sequence

from athe_tf import attacks as attack_names
from athe_tf.attacks.engine.attack import Attack, checked_batch
from athe_tf.attacks.engine.driver import clean_pass
from athe_tf.attacks.engine.logit_checks import check_logits, scale_warnings
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.attacks.engine.victim import Victim, victim
from athe_tf.attacks.engine.victim_checks import PASSES, steady_logits, zero_gradients
from athe_tf.utils.errors import InputError, NotApplicable, check, check_choice

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
BLACK_BOX = ("square",)
# Passes of a randomised model that the `rand` version averages.
RANDOM_PASSES = 20
# Passes of an image in the first batch that the checks take: clean, repeated, with its gradient.
CHECKING = 1 + PASSES + 1
# More than this share of all images, fallen to Square alone, says that gradients mislead.
SUSPICIOUS = 0.002


class AutoAttack(Attack):
    """AutoAttack (Croce and Hein, 2020; in l1, 2021): APGD, FAB and Square, each on what the last left.

    The whole set goes through one attack before the next; survivors are gathered into full batches, images
    leave a batch as soon as they fall. Robust accuracy is what stands at the end.

    | version | cascade |
    |---|---|
    | `standard` | APGD on cross-entropy, targeted APGD, targeted FAB, Square |
    | `plus` | the same and APGD on DLR, untargeted FAB, with five restarts |
    | `rand` | APGD on cross-entropy and on DLR, averaging 20 passes; for models that contain chance |
    | `custom` | the `attacks` that you name |

    In l1 APGD has five restarts and begins in larger balls, and `apgd-t` has five targets, as in the
    released code.

    `run` works on everything that maps images to logits. With `state` it can be interrupted at any moment.
    `run_individually` runs every attack on all images, for a table of attacks.

    Example:

    >>> attack = athe_tf.attacks.AutoAttack(epsilon=8 / 255)
    >>> result = attack.run(model, x, y, state="runs/autoattack.npz")
    >>> robust_accuracy = 1 - result.success.mean()
    >>> print(attack.table(result))

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`.
        version: `"standard"` (default), `"plus"`, `"rand"` or `"custom"`.
        attacks: For `"custom"`: names, which get the profile's settings, or `Attack` objects.
        profile: `"full"` (default); `"lite"` and `"smoke"` are faster and weaker, and say so.

    References: https://arxiv.org/abs/2003.01690, https://arxiv.org/abs/2103.01208
    """

    name = "autoattack"
    default_version = "standard"
    default_profile = "full"

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        version: str | None = None,
        attacks: Sequence | None = None,
        profile: str | None = None,
    ):
        super().__init__(epsilon, norm)
        self.version = self.default_version if version is None else version
        self.profile = self.default_profile if profile is None else profile
        check_choice("version", self.version, (*VERSIONS, "custom"))
        check_choice("profile", self.profile, PROFILES)
        if (attacks is not None) != (self.version == "custom"):
            raise InputError(
                "`attacks` names the cascade of version='custom', and of no other version. "
                f"Received: version={self.version!r}, attacks={attacks!r}."
            )
        chosen = VERSIONS[self.version] if attacks is None else attacks
        check(len(chosen) > 0, "`attacks` must name at least one attack. Received: attacks=[].")
        self.attacks = [self._member(member) for member in chosen]
        names = [member.name for member in self.attacks]
        check(len(set(names)) == len(names), f"Every attack may be named once. Received: {names}.")

    def _member(self, member) -> Attack:
        if isinstance(member, Attack):
            same = member.threat.norm == self.threat.norm and member.threat.epsilon == self.threat.epsilon
            check(
                same and member.in_ball,
                f"All attacks of a cascade share its norm and epsilon. Received: '{member.name}' with "
                f"norm={member.threat.norm!r}, epsilon={member.threat.epsilon:g}.",
            )
            return member
        return attack_names.get(
            member, epsilon=self.threat.epsilon, norm=self.threat.norm, **self._settings_of(member)
        )

    def _settings_of(self, name: str) -> dict:
        """The arguments of a member of the cascade."""
        profile, l1 = PROFILES[self.profile], self.threat.norm == "l1"
        plus, rand = self.version == "plus", self.version == "rand"
        repeated = 5 if (plus or (l1 and not rand)) and self.profile != "smoke" else 1
        apgd = {"steps": profile["steps"], "passes": RANDOM_PASSES if rand else 1, "larger_epsilon": l1}
        fab = {"steps": profile["steps"], "reuse_passes": True, "stop_at_epsilon": True}
        known = {
            "apgd-ce": apgd | {"restarts": repeated},
            "apgd-dlr": apgd | {"restarts": repeated},
            "apgd-t": apgd | {"n_targets": min(profile["targets"], 5) if l1 else profile["targets"]},
            "fab": fab | {"restarts": 5 if plus and self.profile != "smoke" else 1},
            "fab-t": fab | {"n_targets": profile["targets"]},
            "square": {"n_queries": profile["queries"]},
        }
        return known.get(name, {})

    # -- the contract -----------------------------------------------------------------------------------

    def cascade(self, victim: Victim) -> list[Attack]:
        """The attacks that this victim allows: without a third class there is no DLR."""
        return [member for member in self.attacks if _applicable(member, victim)]

    def rounds(self, victim: Victim) -> int:
        return sum(member.rounds(victim) for member in self.cascade(victim))

    def craft(self, victim: Victim, x, y, ids, seed):
        raise InputError(
            "AutoAttack is for evaluation: attack.run(model, x, y). Train, and validate, with an attack such "
            "as PGD or APGD."
        )

    def run(self, model, x, y, ids=None, seed=0, batch_size: int = 128, progress=None, state=None):
        """As every attack's `run`; `result.notes` holds what speaks against the model or the result."""
        target = victim(model)
        x, y = checked_batch(x, y, target.num_classes)
        notes = self.check_model(target, x[:batch_size], y[:batch_size])
        result = super().run(target, x, y, ids, seed, batch_size, progress, state)
        result.queries[:batch_size] += CHECKING
        result.gradients[:batch_size] += 1
        result.notes = [*self._shortcomings(target), *notes, *self._suspicions(result)]
        return result

    def run_individually(self, model, x, y, **kwargs) -> dict[str, AttackResult]:
        """Every attack of the cascade on all images, by name.

        Args:
            model: A `Victim`, or anything that `athe_tf.victim` takes.
            x: Images `[N, H, W, C]` in [0, 1].
            y: Integer labels `[N]`.
            **kwargs: As for `run`; a `state` is the name that the files of all attacks begin with.
        """
        target, state = victim(model), kwargs.pop("state", None)
        x, y = checked_batch(x, y, target.num_classes)
        notes = self.check_model(
            target, x[: kwargs.get("batch_size", 128)], y[: kwargs.get("batch_size", 128)]
        )
        results = {}
        for member in self.cascade(target):
            path = None if state is None else f"{state}.{member.name}.npz"
            results[member.name] = member.run(target, x, y, state=path, **kwargs)
        notes = [*self._shortcomings(target), *notes, *black_box_suspicions(results)]
        for result in results.values():
            result.notes = notes
        return results

    def settings(self) -> dict:
        members = {member.name: member.settings() for member in self.attacks}
        return super().settings() | {"version": self.version, "profile": self.profile, "attacks": members}

    def table(self, result: AttackResult) -> str:
        """The cascade line by line: what stands after each attack, and how long it took."""
        lines = [f"{'clean':<10} {100 * (~result.success | (result.rounds > 0)).mean():6.2f} %"]
        for stage in result.stages:
            standing = 100 * result.robust_after(stage).mean()
            lines.append(f"{stage.name:<10} {standing:6.2f} %  {stage.seconds:8.1f} s")
        return "\n".join(lines)

    # -- what speaks against a result ------------------------------------------------------------------

    def check_model(self, target: Victim, x, y) -> list[str]:
        """Looks at a batch, and says what makes AutoAttack's answer doubtful; refuses probabilities."""
        _, logits = clean_pass(target, x, y, len(x))
        check_logits(logits)
        notes = scale_warnings(logits, y)
        if not steady_logits(target, x) and self.version != "rand":
            notes.append(
                "The model answers differently each time it is asked. Use version='rand', which averages "
                f"{RANDOM_PASSES} passes; the standard version over-estimates its robustness."
            )
        silent = zero_gradients(target, x, y)
        if silent > 0:
            notes.append(
                f"{silent:.1%} of the images have no gradient at all. Attacks that climb gradients cannot "
                "move them; trust only the black-box attack."
            )
        return notes

    def _shortcomings(self, target: Victim) -> list[str]:
        notes = []
        if self.profile != "full":
            notes.append(
                f"The profile '{self.profile}' is weaker than AutoAttack: {_listed(self.profile)} instead of "
                f"{_listed('full')}. Its robust accuracy is an upper bound. Use the profile 'full' for a "
                "number to publish."
            )
        left_out = [member.name for member in self.attacks if member not in self.cascade(target)]
        if left_out:
            notes.append(
                f"Left out: {', '.join(left_out)}, which need more classes than {target.num_classes}."
            )
        return notes

    def _suspicions(self, result: AttackResult) -> list[str]:
        """What the cascade itself shows: Square finds what the attacks with gradients before it missed."""
        notes = []
        before = ~result.success | (result.rounds > 0)
        for index, stage in enumerate(result.stages):
            after = result.robust_after(stage)
            found = float(before.mean() - after.mean())
            if stage.name in BLACK_BOX and index >= 2 and found > SUSPICIOUS:
                notes.append(
                    f"'{stage.name}' broke {found:.1%} of the images after {index} attacks with gradients "
                    "had failed on them. Gradients of this model may mislead: look for masking."
                )
            before = after
        return notes


def black_box_suspicions(results: dict[str, AttackResult]) -> list[str]:
    """A black box that beats an attack with gradients, each on its own, on all images."""
    accuracy = {name: float(1 - result.success.mean()) for name, result in results.items()}
    return [
        f"'{blind}' alone leaves {accuracy[blind]:.1%} and '{name}' alone {accuracy[name]:.1%}: a black box "
        "beats an attack with gradients. Gradients of this model may mislead: look for masking."
        for blind in BLACK_BOX
        if blind in accuracy
        for name in accuracy
        if name not in BLACK_BOX and accuracy[blind] < accuracy[name] - SUSPICIOUS
    ]


def _listed(profile: str) -> str:
    return ", ".join(f"{number} {what}" for what, number in PROFILES[profile].items())


def _applicable(member: Attack, target: Victim) -> bool:
    try:
        member.check_victim(target)
    except NotApplicable:
        return False
    return True


class AutoAttackPlus(AutoAttack):
    """AutoAttack in its version `plus`."""

    name = "autoattack-plus"
    default_version = "plus"


class AutoAttackRand(AutoAttack):
    """AutoAttack in its version `rand`, for models that contain chance."""

    name = "autoattack-rand"
    default_version = "rand"


class AutoAttackLite(AutoAttack):
    """AutoAttack in its profile `lite`: about a quarter of the cost, and weaker."""

    name = "autoattack-lite"
    default_profile = "lite"


class AutoAttackSmoke(AutoAttack):
    """AutoAttack in its profile `smoke`: to see that it runs."""

    name = "autoattack-smoke"
    default_profile = "smoke"
