"""How far an evaluation is."""

import dataclasses


@dataclasses.dataclass
class EvaluationProgress:
    """How far an evaluation is; the argument of a `progress` function.

    Example:

    >>> EvaluationProgress("pgd-20", 2, 4, done=100.0, total=400.0, robust=90, examples=120).accuracy
    0.75

    Attributes:
        attack: The label of the attack, or the name of another part of the evaluation.
        number: Its position among all attacks, from 1; 0 if it is not an attack.
        attacks: The number of attacks; 0 if this is not an attack.
        done: Forward and backward passes done in this attack.
        total: Passes in total, if no further adversarial example is found.
        robust: Images that are robust so far.
        examples: Number of images.
    """

    attack: str
    number: int
    attacks: int
    done: float
    total: float
    robust: int
    examples: int

    @property
    def accuracy(self) -> float:
        """The accuracy if no further adversarial example is found."""
        return self.robust / self.examples
