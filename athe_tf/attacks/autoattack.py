"""AutoAttack: a fixed cascade of strong attacks without parameters to tune."""

from collections.abc import Sequence

from athe_tf.attacks import registry
from athe_tf.attacks.engine import model_checks
from athe_tf.attacks.engine.attack import Attack, checked_batch
from athe_tf.attacks.engine.clean_facts import CleanFacts
from athe_tf.attacks.engine.driver import clean_pass
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.engine.victim import victim as as_victim
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
# Passes through a randomized model that the `rand` version averages.
EOT_SAMPLES = 20
# Queries of the checks per image of the first batch: clean, repeated, with its gradient.
CHECK_QUERIES = 1 + model_checks.REPEATED_PASSES + 1
# If Square alone finds more than this share of all images, gradients may mislead.
SUSPICIOUS_SHARE = 0.002


class AutoAttack(Attack):
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
        self.version = version
        self.profile = profile
        check_choice("version", self.version, (*VERSIONS, "custom"))
        check_choice("profile", self.profile, PROFILES)
        if (attacks is not None) != (self.version == "custom"):
            raise InputError(
                "`attacks` is required for version='custom', and not accepted otherwise. "
                f"Received: version={self.version!r}, attacks={attacks!r}."
            )
        chosen = VERSIONS[self.version] if attacks is None else attacks
        check(len(chosen) > 0, "`attacks` must name at least one attack. Received: attacks=[].")
        self.attacks = [self._member(member) for member in chosen]
        names = [member.name for member in self.attacks]
        check(len(set(names)) == len(names), f"The attacks of a cascade must differ. Received: {names}.")

    def _member(self, member) -> Attack:
        if isinstance(member, Attack):
            same = member.in_ball and (member.norm, member.epsilon) == (self.norm, self.epsilon)
            found = f"'{member.name}' with norm={member.norm!r}, epsilon={member.epsilon:g}"
            check(same, f"All attacks of a cascade share its norm and epsilon. Received: {found}.")
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

    def cascade(self, victim: Victim) -> list[Attack]:
        """The attacks that can be run on this victim: DLR needs a third class."""
        return [member for member in self.attacks if _applicable(member, victim)]

    def rounds(self, victim: Victim) -> int:
        return sum(member.rounds(victim) for member in self.cascade(victim))

    def craft(self, victim: Victim, x, y, ids, seed):
        usage = "attack.run(model, x, y). Train, and validate, with an attack such as PGD or APGD"
        raise InputError(f"AutoAttack is for evaluation: {usage}.")

    def run(
        self, model, x, y, ids=None, seed=0, batch_size: int = 128, progress=None, state=None, known=None
    ):
        """As the `run` of every attack; `result.notes` has warnings about the model and the result."""
        victim = as_victim(model)
        if known is None:
            x, y = checked_batch(x, y, victim.num_classes)
        notes = self.check_model(victim, x[:batch_size], y[:batch_size], known)
        result = super().run(victim, x, y, ids, seed, batch_size, progress, state, known)
        result.queries[:batch_size] += CHECK_QUERIES
        result.gradients[:batch_size] += 1
        result.notes = [*self._shortcomings(victim), *notes, *self._suspicions(result)]
        return result

    def run_individually(self, model, x, y, **kwargs) -> dict[str, AttackResult]:
        """Every attack of the cascade on all images, by name.

        Args:
            model: A `Victim`, or anything that `athe_tf.victim` takes.
            x: Images `[N, H, W, C]` in [0, 1].
            y: Integer labels `[N]`.
            **kwargs: Those of `run`; `state` is a prefix for the files of all attacks.
        """
        victim, state = as_victim(model), kwargs.pop("state", None)
        x, y = checked_batch(x, y, victim.num_classes)
        first = slice(kwargs.get("batch_size", 128))
        notes = self.check_model(victim, x[first], y[first])
        results = {}
        for member in self.cascade(victim):
            path = None if state is None else f"{state}.{member.name}.npz"
            results[member.name] = member.run(victim, x, y, state=path, **kwargs)
        notes = [*self._shortcomings(victim), *notes, *black_box_suspicions(results)]
        for result in results.values():
            result.notes = notes
        return results

    def table(self, result: AttackResult) -> str:
        """The cascade line by line: the robust accuracy after each attack, and its time."""
        lines = [f"{'clean':<10} {100 * (~result.success | (result.rounds > 0)).mean():6.2f} %"]
        for stage in result.stages:
            robust = 100 * result.robust_after(stage).mean()
            lines.append(f"{stage.name:<10} {robust:6.2f} %  {stage.seconds:8.1f} s")
        return "\n".join(lines)

    def check_model(self, victim: Victim, x, y, known: CleanFacts | None = None) -> list[str]:
        """Warnings about a model, from a batch of images; raises `InputError` for probabilities."""
        if known is None:
            _, logits = clean_pass(victim, x, y, len(x))
            model_checks.check_logits(logits)
            notes = model_checks.scale_warnings(logits, y)
            deterministic = model_checks.deterministic_logits(victim, x)
        else:
            notes, deterministic = list(known.warnings), known.deterministic
        if not deterministic and self.version != "rand":
            notes.append(
                "The logits of the model change from pass to pass. Use version='rand', which averages "
                f"{EOT_SAMPLES} passes; the standard version over-estimates its robustness."
            )
        flat = model_checks.zero_gradients(victim, x, y) if known is None else known.zero_gradients()
        if flat > 0:
            notes.append(
                f"{flat:.1%} of the images have a zero gradient. Gradient attacks cannot move them; trust "
                "only the black-box attack."
            )
        return notes

    def _shortcomings(self, victim: Victim) -> list[str]:
        notes = []
        if self.profile != "full":
            notes.append(
                f"The profile '{self.profile}' is weaker than AutoAttack: {_listed(self.profile)} instead of "
                f"{_listed('full')}. Its robust accuracy is an upper bound. Use the profile 'full' for a "
                "number to publish."
            )
        left_out = ", ".join(member.name for member in self.attacks if not _applicable(member, victim))
        if left_out:
            notes.append(f"Left out: {left_out}, which need more than {victim.num_classes} classes.")
        return notes

    def _suspicions(self, result: AttackResult) -> list[str]:
        """A warning if Square finds adversarial examples that the gradient attacks before it missed."""
        notes = []
        before = ~result.success | (result.rounds > 0)
        for index, stage in enumerate(result.stages):
            after = result.robust_after(stage)
            found = float(before.mean() - after.mean())
            if stage.name in BLACK_BOX and index >= 2 and found > SUSPICIOUS_SHARE:
                notes.append(
                    f"'{stage.name}' found adversarial examples for {found:.1%} of the images after {index} "
                    "gradient attacks had failed on them. The model may mask its gradients."
                )
            before = after
        return notes


def black_box_suspicions(results: dict[str, AttackResult]) -> list[str]:
    """Warnings about black-box attacks that are stronger than a gradient attack, each on all images."""
    accuracy = {name: float(1 - result.success.mean()) for name, result in results.items()}
    return [
        f"'{blind}' alone leaves {accuracy[blind]:.1%} and '{name}' alone {accuracy[name]:.1%}: a black-box "
        "attack is stronger than a gradient attack. The model may mask its gradients."
        for blind in BLACK_BOX
        if blind in accuracy
        for name in accuracy
        if name not in BLACK_BOX and accuracy[blind] < accuracy[name] - SUSPICIOUS_SHARE
    ]


def _listed(profile: str) -> str:
    return ", ".join(f"{number} {what}" for what, number in PROFILES[profile].items())


def _applicable(member: Attack, victim: Victim) -> bool:
    try:
        member.check_victim(victim)
    except NotApplicable:
        return False
    return True
