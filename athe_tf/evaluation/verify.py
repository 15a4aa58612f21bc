"""Cross-examination: the same attack, at the same epsilon, by independent code.

FGSM and PGD-20 exist in cleverhans, foolbox and the Adversarial Robustness Toolbox. Each of them attacks the
same images of the same model, with the same radius, steps and step size; only the random starts differ. The
images that they return are classified here, and the accuracies are reported side by side.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.engine.attack import Attack
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.options import check_peers
from athe_tf.utils.errors import InputError

# Images that are attacked: a difference of one point is ten of them.
IMAGES = 1000
STEPS = 20
NORMS = {"linf": np.inf, "l2": 2}


@dataclasses.dataclass(frozen=True)
class PeerTask:
    """What every package is asked to do: one step of size epsilon, or several from a random start."""

    inputs: EvaluationInputs
    steps: int

    @property
    def name(self) -> str:
        """The attack's name."""
        return "fgsm" if self.steps == 1 else f"pgd-{self.steps}"

    @property
    def step_size(self) -> float:
        """Size of a step."""
        return self.inputs.epsilon if self.steps == 1 else self.inputs.epsilon / 4

    def attack(self) -> Attack:
        """The same attack by our code; like the others, it returns the last iterate."""
        threat = {"epsilon": self.inputs.epsilon, "norm": self.inputs.norm}
        return attacks.get(self.name, **threat, step_size=self.step_size, select="last")

    def batches(self):
        """Images and labels, batch by batch."""
        for start in range(0, min(IMAGES, len(self.inputs.images)), self.inputs.batch_size):
            part = slice(start, min(start + self.inputs.batch_size, IMAGES))
            yield self.inputs.images[part], self.inputs.labels[part]


def verify(inputs: EvaluationInputs, peers) -> list[dict]:
    """The entries of `"verify"` in `evaluation.json`; for a package that cannot be used, the reason.

    The first 1,000 images are attacked.
    """
    check_peers(peers)
    entries = []
    for task in (PeerTask(inputs, 1), PeerTask(inputs, STEPS)):
        ours = None
        for peer in peers:
            entry = {"tool": peer, "attack": task.name}
            try:
                theirs = _their_accuracy(peer, task)
            except InputError as error:
                entries.append(entry | {"not_run": str(error)})
                continue
            if ours is None:
                ours = float((~inputs.run(task.attack(), slice(IMAGES)).success).mean())
            entries.append(entry | {"ours": ours, "theirs": theirs, "difference": ours - theirs})
    return entries


def _their_accuracy(peer: str, task: PeerTask) -> float:
    if task.inputs.norm not in NORMS:
        raise InputError(f"Other packages attack in linf and l2 only. Received: norm={task.inputs.norm!r}.")
    if not task.inputs.victim.differentiable:
        raise InputError("FGSM and PGD need gradients, and a file for another runtime has none.")
    adapter, package, command = _ADAPTERS[peer]
    try:
        make = adapter(task)
    except ImportError as error:
        message = f"The package '{package}' cannot be imported ({error}). Install it: {command}"
        raise InputError(message) from error
    tf.random.set_seed(task.inputs.seed)
    state = np.random.get_state()
    np.random.seed(task.inputs.seed)  # ART draws from this generator; restored afterward
    try:
        flags = [_robust(task, x, y, make(x, y)) for x, y in task.batches()]
    finally:
        np.random.set_state(state)
    return float(np.concatenate(flags).mean())


def _robust(task: PeerTask, x, y, found) -> np.ndarray:
    """Which images are classified correctly, clean and as returned by the package (in the ball)."""
    found = task.attack().threat.project(x, tf.convert_to_tensor(found, tf.float32))
    answers = [task.inputs.victim.compiled_logits(images).numpy() for images in (tf.constant(x), found)]
    return np.logical_and.reduce([logits.argmax(axis=1) == y for logits in answers])


def _cleverhans(task: PeerTask) -> Callable:
    from cleverhans.tf2.attacks.fast_gradient_method import fast_gradient_method
    from cleverhans.tf2.attacks.projected_gradient_descent import projected_gradient_descent

    # One function for all batches: cleverhans retraces for every new callable.
    model, norm = task.inputs.victim.compiled_logits, NORMS[task.inputs.norm]
    epsilon, steps = task.inputs.epsilon, task.steps

    def make(x, y):
        images, labels = tf.constant(x), tf.constant(y, tf.int64)
        limits = {"clip_min": 0.0, "clip_max": 1.0, "y": labels, "sanity_checks": False}
        if steps == 1:
            return fast_gradient_method(model, images, epsilon, norm, **limits)
        return projected_gradient_descent(
            model, images, epsilon, task.step_size, steps, norm, rand_init=True, rand_minmax=epsilon, **limits
        )

    return make


def _foolbox(task: PeerTask) -> Callable:
    import foolbox

    model = foolbox.TensorFlowModel(task.inputs.victim.compiled_logits, bounds=(0.0, 1.0))
    kinds = {
        "linf": (foolbox.attacks.LinfFastGradientAttack, foolbox.attacks.LinfPGD),
        "l2": (foolbox.attacks.L2FastGradientAttack, foolbox.attacks.L2PGD),
    }
    one, many = kinds[task.inputs.norm]
    several = {"abs_stepsize": task.step_size, "steps": task.steps, "random_start": True}
    attack = one() if task.steps == 1 else many(**several)

    def make(x, y):
        # int64, because eagerpy cannot promote int32 under NumPy 2.
        _, clipped, _ = attack(model, tf.constant(x), tf.constant(y, tf.int64), epsilons=task.inputs.epsilon)
        return clipped

    return make


def _art(task: PeerTask) -> Callable:
    from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescent
    from art.estimators.classification import TensorFlowV2Classifier

    model = TensorFlowV2Classifier(
        lambda x, training=False: task.inputs.victim.compiled_logits(tf.cast(x, tf.float32)),
        nb_classes=task.inputs.victim.num_classes,
        input_shape=task.inputs.images.shape[1:],
        loss_object=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        clip_values=(0.0, 1.0),
    )
    common = {"norm": NORMS[task.inputs.norm], "eps": task.inputs.epsilon, "batch_size": 10**6}
    if task.steps == 1:
        attack = FastGradientMethod(model, **common)
    else:
        attack = ProjectedGradientDescent(
            model, eps_step=task.step_size, max_iter=task.steps, num_random_init=1, verbose=False, **common
        )
    return attack.generate


# From a name to the adapter, the package and the command that installs it.
_CROSSCHECK = 'pip install "athe_tf[crosscheck]"'
_ADAPTERS = {
    "cleverhans": (_cleverhans, "cleverhans", "pip install cleverhans"),
    "foolbox": (_foolbox, "foolbox", _CROSSCHECK),
    "art": (_art, "adversarial-robustness-toolbox", _CROSSCHECK),
}
