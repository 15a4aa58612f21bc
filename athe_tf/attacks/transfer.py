"""Transfer: adversarial images made on one model, tested on others."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.models.victim import Victim
from athe_tf.saving.opening import victim as as_victim
from athe_tf.utils.errors import check, check_integer
from athe_tf.utils.images_and_labels import checked_batch

#: The attacks of the hypersphere-embedding paper (Appendix C.4), and their settings: made by
#: `[athe_tf.attacks.get(name, **HE) for name in HE_ATTACKS]`.
HE_ATTACKS = ("pgd-20", "mim-20")
HE = {"epsilon": 0.031, "step_size": 0.003}


@dataclasses.dataclass
class TransferMatrix:
    """The accuracy of each model on adversarial images made on each; `print` it for a table.

    Attributes:
        attack: The attack's name.
        names: The models' names.
        accuracies: `[source, victim]`; the diagonal is the white box.
        clean: The accuracy of each model on clean images.
        settings: The settings of the attack.
    """

    attack: str
    names: list[str]
    accuracies: np.ndarray
    clean: np.ndarray
    settings: dict = dataclasses.field(default_factory=dict)

    @property
    def black_box(self) -> np.ndarray:
        """The lowest accuracy of each model on images from the others; its clean one if there are none."""
        others = np.where(np.eye(len(self.names), dtype=bool), np.inf, self.accuracies)
        return np.minimum(others.min(axis=0), self.clean)

    def __str__(self) -> str:
        found = [("(clean)", self.clean), *zip(self.names, self.accuracies, strict=True)]
        rows = [(f"{self.attack}: made on", self.names)]
        rows += [(label, [f"{100 * accuracy:.2f}" for accuracy in row]) for label, row in found]
        first = max(len(label) for label, _ in rows)
        width = max(len(cell) for _, cells in rows for cell in cells)
        lines = ["  ".join([label.ljust(first), *(c.rjust(width) for c in cells)]) for label, cells in rows]
        return "\n".join(lines)


def transfer_matrix(
    models, x, y, attack: Attack, *, names=None, seed: int = 0, batch_size: int = 128
) -> TransferMatrix:
    """The accuracy of every model on the adversarial images of every model.

    Images are made by calling the attack, for all examples, including those that the source misclassifies:
    for PGD and its variants the last iterate, as in the papers, not the first that fools the source.

    Example:

    >>> from athe_tf.attacks.transfer import HE, transfer_matrix
    >>> attack = athe_tf.attacks.get("pgd-20", **HE)
    >>> matrix = transfer_matrix({"TRADES": model, "TRADES+HE": model}, x, y, attack)
    >>> black_box_accuracy = matrix.black_box

    Args:
        models: Models, a list or a mapping from names; each anything that `athe_tf.victim` takes.
        x: Images `[N, H, W, C]` in [0, 1].
        y: Integer labels `[N]`.
        attack: An `Attack`.
        names: Names of the models in the table; their own by default.
        seed: Integer.
        batch_size: How many images go through a model at once.
    """
    check_integer("batch_size", batch_size, 1)
    if isinstance(models, Mapping):
        names, models = list(models) if names is None else names, list(models.values())
    victims = [as_victim(model) for model in models]
    check(len(victims) > 0, "Expected at least one model. Received: none.")
    names = _unique([v.name for v in victims]) if names is None else list(names)
    found = f"{len(names)} names for {len(victims)} models"
    check(len(names) == len(victims), f"Expected one name per model. Received: {found}.")
    for victim in victims:
        x, y = checked_batch(x, y, victim.num_classes)
    accuracies = np.empty((len(victims), len(victims)))
    for row, source in enumerate(victims):
        x_adv = _crafted(attack, source, x, y, seed, batch_size)
        accuracies[row] = [_accuracy(victim, x_adv, y, batch_size) for victim in victims]
    clean = np.array([_accuracy(victim, x, y, batch_size) for victim in victims])
    return TransferMatrix(attack.name, names, accuracies, clean, attack.settings())


def _unique(names: list[str]) -> list[str]:
    """Names, with a number added to those that are equal."""
    return [
        name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]


def _crafted(attack: Attack, source: Victim, x, y, seed, batch_size):
    parts = [
        attack(source, x[part], y[part], ids=np.arange(len(x))[part], seed=seed).numpy()
        for part in (slice(start, start + batch_size) for start in range(0, len(x), batch_size))
    ]
    return np.concatenate(parts)


def _accuracy(victim: Victim, x, y, batch_size) -> float:
    found = [np.asarray(logits).argmax(axis=1) for _, logits in clean_logits(victim, x, batch_size)]
    return float((np.concatenate(found) == y).mean())
