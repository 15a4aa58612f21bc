"""How many steps an attack needs, and how many training needs: Fig. 2 left of the HE paper."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import AnalysisOptions, Subject, function_of
from athe_tf.utils.errors import check


class AttackSteps(AnalysisResult):
    """Accuracy against the number of steps of the attack; made by `attack_steps`.

    Example:

    >>> athe_tf.analysis.attack_steps(model, (x, y), attack, steps=(1, 2)).accuracies.shape
    (2,)

    Args:
        steps: Numbers of steps.
        accuracies: Accuracy under the attack with each.
    """

    analysis = "attack_steps"
    summary = "accuracy against steps of the attack (HE, Fig. 2 left)"
    what_to_see = (
        "Accuracy under attacks of more and more steps. A curve that is flat at its end: further steps find "
        "no more adversarial images. A curve that still falls: the attack has not converged."
    )
    xlabel = "steps of the attack"

    steps: tuple[int, ...]
    accuracies: np.ndarray

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        steps: tuple[int, ...] = argument((1, 2, 3, 5, 7, 10, 20), "Numbers of steps, ascending."),
    ) -> "AttackSteps":
        """Measures accuracy against the number of steps of the attack.

        The attack is repeated with each number of steps and the same step size.
        """
        attacks = (subject.attack.replace(steps=count) for count in steps)
        accuracies = [subject.accuracy(one) for one in subject.track(attacks, len(steps))]
        facts = subject.facts(attack=subject.ball_text)
        return cls(**facts, steps=tuple(steps), accuracies=np.array(accuracies))

    @property
    def key_numbers(self):
        return {
            f"accuracy at {_count(self.steps[0])} (%)": 100 * float(self.accuracies[0]),
            f"at {_count(self.steps[-1])} (%)": 100 * float(self.accuracies[-1]),
        }

    def draw(self, axes, series, results):
        (ax,) = axes
        ax.plot(self.steps, 100 * self.accuracies, label=self.model, **drawing.line_style(series))
        ax.set_xticks(self.steps)
        drawing.finish(ax, self.xlabel, "accuracy (%)")


def _count(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"


class TrainingSteps(AttackSteps):
    """Accuracy under one attack against the number of attack steps in training; made by `training_steps`.

    Example:

    >>> athe_tf.analysis.training_steps({1: model, 2: model}, (x, y), attack).steps
    (1, 2)
    """

    analysis = "training_steps"
    summary = "accuracy against attack steps in training, from runs (HE, Fig. 2 left)"
    what_to_see = (
        "Accuracy of models that were trained with attacks of different numbers of steps. A curve that is "
        "high on the left: few steps in training are enough."
    )
    xlabel = "steps of the attack in training"


attack_steps = function_of(AttackSteps.compute)


def training_steps(models, data, attack=None, options: AnalysisOptions | None = None) -> TrainingSteps:
    """Measures the accuracy of models that were trained with different numbers of attack steps (Fig. 2).

    Example:

    >>> result = athe_tf.analysis.training_steps({1: model, 2: model}, (x, y), attack)

    Args:
        models: From the number of attack steps in training to the model; at least two.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: The attack for all. Defaults to PGD-20 within 8/255.
        options: Number of images and the like.

    Reference:
        Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, Fig. 2.
    """
    from athe_tf.attacks.gradient import PGD

    check(
        len(models) >= 2,
        f"Expected models of at least two numbers of training steps. Received: {len(models)}.",
    )
    attack = PGD(8 / 255, steps=20) if attack is None else attack
    steps = tuple(sorted(models))
    subjects = [Subject(TrainingSteps, models[count], data, attack, options) for count in steps]
    tracked = subjects[0].track(subjects, len(subjects))
    accuracies = [subject.accuracy(attack) for subject in tracked]
    return TrainingSteps(**subjects[0].facts(), steps=steps, accuracies=np.array(accuracies))
