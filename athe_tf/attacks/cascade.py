"""What cascades share: several attacks one after another, each on the survivors of the last."""

from collections.abc import Sequence

from athe_tf.attacks.engine import model_checks
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.driver import clean_pass
from athe_tf.attacks.engine.results import AttackResult, Precomputed
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.models.victim import Victim
from athe_tf.saving.opening import victim as as_victim
from athe_tf.utils.errors import InputError, NotApplicable, check
from athe_tf.utils.images_and_labels import checked_batch

BLACK_BOX = ("square",)
# Passes through a randomized model that attacks for such models average.
EOT_SAMPLES = 20
# Queries of the checks per image of the first batch: clean, repeated, with its gradient.
CHECK_QUERIES = 1 + model_checks.REPEATED_PASSES + 1
# If Square alone finds more than this share of all images, gradients may mislead.
SUSPICIOUS_SHARE = 0.002


class CascadeSchedule(Schedule):
    """Several attacks, each on the survivors of the last, with checks of the model before and after."""

    check_passes = (CHECK_QUERIES, 1)

    def members(self, victim: Victim) -> list[Attack]:
        """The attacks that can be run on this victim: DLR needs a third class."""
        return [member for member in self.attack.attacks if _applicable(member, victim)]

    def remarks(self, victim: Victim, result: AttackResult, told: list[str]) -> list[str]:
        """What a reader must know about the cascade, the model and the result."""
        return [*self.attack.shortcomings(victim), *told, *self.attack.suspicions(result)]

    def check_model(self, victim: Victim, x, y, precomputed: Precomputed | None = None) -> list[str]:
        """Warnings about a model, from a batch of images; raises `InputError` for probabilities."""
        if precomputed is None:
            _, logits = clean_pass(victim, x, y, len(x))
            model_checks.check_logits(logits)
            notes = model_checks.scale_warnings(logits, y)
            deterministic = model_checks.deterministic_logits(victim, x)
            flat = model_checks.zero_gradients(victim, x, y)
        else:
            notes, deterministic = list(precomputed.warnings), precomputed.deterministic
            flat = precomputed.zero_gradients()
        if not any(member.depends_on_scale for member in self.attack.attacks):
            notes = []  # they are about the scale of the logits
        if not deterministic and not self.attack.averages:
            notes.append(
                "The logits of the model change from pass to pass, and one pass is a matter of chance. Use "
                f"'autoattack-rand', which averages {EOT_SAMPLES} passes, instead of '{self.attack.name}'."
            )
        if flat > 0:
            notes.append(
                f"{flat:.1%} of the images have a zero gradient. Gradient attacks cannot move them; trust "
                "only the black-box attack."
            )
        return notes


class Cascade(Attack):
    """Several attacks, each on the survivors of the last, with checks of the model before and after.

    A subclass calls `compose` in its constructor, and says in `shortcomings` what a reader must know about
    its number.
    """

    #: What a message calls it.
    title = "A cascade"
    #: Whether it averages the passes of randomized models.
    averages = False
    schedule_class = CascadeSchedule

    def compose(self, attacks: Sequence[Attack]) -> None:
        """Sets the attacks, in order; raises `InputError` unless they fit together."""
        check(len(attacks) > 0, "`attacks` must name at least one attack. Received: attacks=[].")
        self.attacks = list(attacks)
        names = [member.name for member in self.attacks]
        check(len(set(names)) == len(names), f"The attacks of a cascade must differ. Received: {names}.")
        for member in self.attacks:
            same = member.in_ball and (member.norm, member.epsilon) == (self.norm, self.epsilon)
            found = f"'{member.name}' with norm={member.norm!r}, epsilon={member.epsilon:g}"
            check(same, f"All attacks of a cascade share its norm and epsilon. Received: {found}.")

    def shortcomings(self, victim: Victim) -> list[str]:
        """What makes the result weaker than its name promises, as sentences."""
        left_out = ", ".join(member.name for member in self.attacks if not _applicable(member, victim))
        if not left_out:
            return []
        return [f"Left out: {left_out}, which need more than {victim.num_classes} classes."]

    def rounds(self, victim: Victim) -> int:
        return sum(member.rounds(victim) for member in self.schedule.members(victim))

    def craft(self, victim: Victim, x, y, ids, seed):
        usage = "attack.run(model, x, y). Train, and validate, with an attack such as PGD or APGD"
        raise InputError(f"{self.title} is for evaluation: {usage}.")

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
        notes = self.schedule.check_model(victim, x[first], y[first])
        results = {}
        for member in self.schedule.members(victim):
            path = None if state is None else f"{state}.{member.name}.npz"
            results[member.name] = member.run(victim, x, y, state=path, **kwargs)
        notes = [*self.shortcomings(victim), *notes, *black_box_warnings(results)]
        for result in results.values():
            result.notes = notes
        return results

    def table(self, result: AttackResult) -> str:
        """The cascade line by line: the robust accuracy after each attack, and its time."""
        lines = [f"{'clean':<10} {100 * (~result.success | (result.rounds > 0)).mean():6.2f}%"]
        for stage in result.stages:
            robust = 100 * result.robust_after(stage).mean()
            lines.append(f"{stage.name:<10} {robust:6.2f}%  {stage.seconds:8.1f} s")
        return "\n".join(lines)

    def suspicions(self, result: AttackResult) -> list[str]:
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


def black_box_warnings(results: dict[str, AttackResult]) -> list[str]:
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


def _applicable(member: Attack, victim: Victim) -> bool:
    try:
        member.check_victim(victim)
    except NotApplicable:
        return False
    return True
