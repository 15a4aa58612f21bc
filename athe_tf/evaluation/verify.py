"""Cross-examination: the same attack, at the same epsilon, by independent code.

FGSM and PGD-20 exist in cleverhans, foolbox and the Adversarial Robustness Toolbox. Each of them attacks the
same images of the same model, with the same radius, steps and step size; only the random starts differ. What
they return is judged here, by the same pass, and the accuracies stand side by side.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.engine.attack import Attack
from athe_tf.evaluation.inputs import Case
from athe_tf.evaluation.peer_names import check_tools
from athe_tf.utils.errors import InputError

# Images that are attacked: a difference of one point is ten of them.
IMAGES = 1000
STEPS = 20
NORMS = {"linf": np.inf, "l2": 2}


@dataclasses.dataclass(frozen=True)
class Task:
    """What every package is asked to do: one step of epsilon, or many from a random start."""

    case: Case
    steps: int

    @property
    def name(self) -> str:
        """As a report calls it."""
        return "fgsm" if self.steps == 1 else f"pgd-{self.steps}"

    @property
    def step_size(self) -> float:
        """Length of a step."""
        return self.case.epsilon if self.steps == 1 else self.case.epsilon / 4

    def attack(self) -> Attack:
        """The same by our code, counted as the others count: at the last iterate."""
        case = self.case
        return attacks.get(
            self.name, epsilon=case.epsilon, norm=case.norm, step_size=self.step_size, select="last"
        )

    def batches(self):
        """Images and labels, batch by batch."""
        for start in range(0, min(IMAGES, len(self.case.images)), self.case.batch_size):
            part = slice(start, min(start + self.case.batch_size, IMAGES))
            yield self.case.images[part], self.case.labels[part]


def verify(case: Case, tools) -> list[dict]:
    """The entries of `"verify"` in `evaluation.json`; a package that cannot be asked says why.

    Args:
        case: The model, its images and the threat model; the first 1,000 images are attacked.
        tools: Names of packages: `"cleverhans"`, `"foolbox"`, `"art"`.
    """
    check_tools(tools)
    entries = []
    for task in (Task(case, 1), Task(case, STEPS)):
        ours = None
        for tool in tools:
            entry = {"tool": tool, "attack": task.name}
            try:
                theirs = _their_accuracy(tool, task)
            except InputError as error:
                entries.append(entry | {"not_run": str(error)})
                continue
            ours = _our_accuracy(task) if ours is None else ours
            entries.append(entry | {"ours": ours, "theirs": theirs, "difference": ours - theirs})
    return entries


def _our_accuracy(task: Task) -> float:
    case = task.case
    result = task.attack().run(
        case.target, case.images[:IMAGES], case.labels[:IMAGES], seed=case.seed, batch_size=case.batch_size
    )
    return float((~result.success).mean())


def _their_accuracy(tool: str, task: Task) -> float:
    if task.case.norm not in NORMS:
        raise InputError(f"Cross-examination exists in linf and l2. Received: norm={task.case.norm!r}.")
    make = _ADAPTERS[tool](task)
    tf.random.set_seed(task.case.seed)
    state = np.random.get_state()
    np.random.seed(task.case.seed)  # what ART draws from; put back afterwards
    try:
        flags = [_robust(task, x, y, make(x, y)) for x, y in task.batches()]
    finally:
        np.random.set_state(state)
    return float(np.concatenate(flags).mean())


def _robust(task: Task, x, y, found) -> np.ndarray:
    """Which images are right, clean and as the package returned them, put back into the ball if need be."""
    found = task.attack().threat.project(x, tf.convert_to_tensor(found, tf.float32))
    answers = [task.case.target.compiled_logits(images).numpy() for images in (tf.constant(x), found)]
    return np.logical_and.reduce([logits.argmax(axis=1) == y for logits in answers])


# -- the packages -------------------------------------------------------------------------------------------


def _missing(package: str, command: str, error: ImportError) -> InputError:
    return InputError(f"The package '{package}' cannot be imported ({error}). Install it: {command}")


def _cleverhans(task: Task) -> Callable:
    try:
        from cleverhans.tf2.attacks.fast_gradient_method import fast_gradient_method
        from cleverhans.tf2.attacks.projected_gradient_descent import projected_gradient_descent
    except ImportError as error:
        raise _missing("cleverhans", "pip install cleverhans", error) from error
    # One function for all batches: cleverhans traces anew for every callable it meets.
    model, norm = task.case.target.compiled_logits, NORMS[task.case.norm]

    def make(x, y):
        images, labels = tf.constant(x), tf.constant(y, tf.int64)
        limits = {"clip_min": 0.0, "clip_max": 1.0, "y": labels, "sanity_checks": False}
        if task.steps == 1:
            return fast_gradient_method(model, images, task.case.epsilon, norm, **limits)
        return projected_gradient_descent(
            model,
            images,
            task.case.epsilon,
            task.step_size,
            task.steps,
            norm,
            rand_init=True,
            rand_minmax=task.case.epsilon,
            **limits,
        )

    return make


def _foolbox(task: Task) -> Callable:
    try:
        import foolbox
    except ImportError as error:
        raise _missing("foolbox", 'pip install "athe_tf[crosscheck]"', error) from error
    model = foolbox.TensorFlowModel(task.case.target.compiled_logits, bounds=(0.0, 1.0))
    kinds = {
        "linf": (foolbox.attacks.LinfFastGradientAttack, foolbox.attacks.LinfPGD),
        "l2": (foolbox.attacks.L2FastGradientAttack, foolbox.attacks.L2PGD),
    }
    one, many = kinds[task.case.norm]
    if task.steps == 1:
        attack = one()
    else:
        attack = many(abs_stepsize=task.step_size, steps=task.steps, random_start=True)

    def make(x, y):
        # int64, because eagerpy cannot promote int32 under NumPy 2.
        _, clipped, _ = attack(model, tf.constant(x), tf.constant(y, tf.int64), epsilons=task.case.epsilon)
        return clipped

    return make


def _art(task: Task) -> Callable:
    try:
        from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescent
        from art.estimators.classification import TensorFlowV2Classifier
    except ImportError as error:
        command = 'pip install "athe_tf[crosscheck]"'
        raise _missing("adversarial-robustness-toolbox", command, error) from error
    model = TensorFlowV2Classifier(
        lambda x, training=False: task.case.target.compiled_logits(tf.cast(x, tf.float32)),
        nb_classes=task.case.target.num_classes,
        input_shape=task.case.images.shape[1:],
        loss_object=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        clip_values=(0.0, 1.0),
    )
    common = {"norm": NORMS[task.case.norm], "eps": task.case.epsilon, "batch_size": 10**6}
    if task.steps == 1:
        attack = FastGradientMethod(model, **common)
    else:
        attack = ProjectedGradientDescent(
            model,
            eps_step=task.step_size,
            max_iter=task.steps,
            num_random_init=1,
            verbose=False,
            **common,
        )
    return lambda x, y: attack.generate(x, y)


_ADAPTERS = {"cleverhans": _cleverhans, "foolbox": _foolbox, "art": _art}
