"""The attacks of a framework by name, as `TRADES(net, "pgd-10", epsilon=8 / 255)`."""

from athe_tf.attacks import registry
from athe_tf.attacks.engine.attack import Attack
from athe_tf.training.options import FrameworkOptions
from athe_tf.utils.errors import InputError, check


class NamedAttacks:
    """Makes the attacks that a framework was given by name.

    `"pgd-N"` gets the step size that `bin/train` uses with the framework, other attacks their own.

    Args:
        epsilon: Their radius; `None` if it was not given.
        norm: Their norm; `None` if it was not given.
        options: The options of the framework.
    """

    def __init__(self, epsilon: float | None, norm: str | None, options: FrameworkOptions):
        self.epsilon = epsilon
        self.norm = norm
        self.options = options
        self.used = False

    def get(self, attack: Attack | str | None, argument: str) -> Attack | None:
        """The attack of a name; anything else is returned unchanged."""
        if not isinstance(attack, str):
            return attack
        self.used = True
        if self.epsilon is None:
            raise InputError(
                f"An attack by name needs `epsilon`. Received: {argument}={attack!r} without it. Give its "
                "radius, such as epsilon=8/255."
            )
        settings: dict = {"epsilon": self.epsilon} | ({} if self.norm is None else {"norm": self.norm})
        if argument == "attack" and registry.parse_name(attack)[0] == "pgd":
            settings["step_size"] = self.options.step_size(self.epsilon)
        return registry.get(attack, **settings)

    def check_used(self) -> None:
        """Raises `InputError` if there is an epsilon or a norm, and no attack that they belong to."""
        given = [f"{name}={value!r}" for name, value in (("epsilon", self.epsilon), ("norm", self.norm))]
        check(
            self.used or (self.epsilon, self.norm) == (None, None),
            "`epsilon` and `norm` belong to attacks given by name, and this framework was given none. "
            f"Received: {', '.join(given)}. Name the attack, such as attack='pgd-10', or leave them out.",
        )
