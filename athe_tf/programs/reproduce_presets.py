"""The budgets of `bin/reproduce`: what they change in the recipe of a paper."""

import dataclasses
from collections.abc import Mapping

from athe_tf.programs.config import TrainConfig

#: Settings that count epochs; they keep their place in a shorter run.
_IN_EPOCHS = ("epsilon_warmup", "epsilon_delay", "awp_start", "swa_start")


@dataclasses.dataclass(frozen=True)
class Preset:
    """A budget.

    Attributes:
        summary: One line for the reader of a table.
        seeds: Seeds of the runs.
        max_examples: Number of test images; `None` for all.
        epochs: Epochs by data set; `None` keeps those of the recipe. A data set that is missing is not part
            of the budget.
        models: Networks by data set.
        steps: Attack steps by framework, on CIFAR-10.
        batch_size: Images per step, on CIFAR-10.
    """

    summary: str
    seeds: tuple[int, ...] = (0,)
    max_examples: int | None = None
    epochs: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    models: Mapping[str, str] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    batch_size: int | None = None

    def includes(self, dataset: str) -> bool:
        """Whether runs on a data set are part of the budget."""
        return dataset in self.epochs

    def changes(self, recipe: TrainConfig) -> dict:
        """The settings in which a run within this budget differs from the recipe."""
        dataset = recipe.dataset
        epochs = self.epochs[dataset] or recipe.epochs
        wanted = {"model": self.models.get(dataset, recipe.model), "epochs": epochs}
        if dataset == "cifar10":
            wanted |= {"batch_size": self.batch_size or recipe.batch_size}
            wanted |= {"steps": self.steps.get(recipe.framework, recipe.steps)}
        wanted |= shortened(recipe, epochs)
        return {name: value for name, value in wanted.items() if value != getattr(recipe, name)}


def shortened(recipe: TrainConfig, epochs: int) -> dict:
    """Settings that count epochs, in proportion to another number of epochs."""
    ratio = epochs / recipe.epochs
    found: dict = {name: getattr(recipe, name) for name in _IN_EPOCHS if getattr(recipe, name)}
    found = {name: type(value)(max(1, round(value * ratio))) for name, value in found.items()}
    if recipe.lr_schedule == "piecewise":
        found["lr_drops"] = tuple(drop * ratio for drop in recipe.lr_drops)
    # Periods are whole epochs.
    found["lr_resets"] = tuple(float(round(reset * ratio)) for reset in recipe.lr_resets)
    return found


_ALL_DATA = ("cifar10", "mnist", "imagenet2012")
#: By the value of `--preset`.
PRESETS: dict[str, Preset] = {
    "mini": Preset(
        "10 epochs; on CIFAR-10 WRN-10-1, batch size 128, and 5 attack steps in PGD-AT, TRADES and ALP",
        seeds=(0, 1, 2),
        max_examples=500,
        epochs={"cifar10": 10, "mnist": 10},
        models={"cifar10": "wrn-10-1"},
        steps={"pgd_at": 5, "trades": 5, "alp": 5},
        batch_size=128,
    ),
    "small": Preset(
        "15 epochs, on MNIST 20; on CIFAR-10 a pre-activation ResNet-18",
        max_examples=1000,
        epochs={"cifar10": 15, "mnist": 20},
        models={"cifar10": "preact_resnet18_fast"},
    ),
    "paper": Preset("the full recipe", epochs=dict.fromkeys(_ALL_DATA)),
}
