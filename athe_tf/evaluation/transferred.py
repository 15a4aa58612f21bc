"""The transfer protocol: adversarial examples crafted on every model, tested on every other."""

from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.transfer import transfer_matrix
from athe_tf.evaluation.attack_plan import PlannedAttack
from athe_tf.evaluation.inputs import EvaluationInputs


def measure_transfer(
    inputs: EvaluationInputs, name: str, substitutes: dict[str, Victim], plan: list[PlannedAttack]
) -> dict:
    """`"transfer"` of `evaluation.json`: a row per source and attack, a column per model.

    Args:
        inputs: The model, its images and the threat model.
        name: The name of the model.
        substitutes: The other models by name.
        plan: The attacks to craft adversarial examples with.
    """
    models = {name: inputs.victim, **substitutes}
    data = inputs.images, inputs.labels
    matrices = [
        transfer_matrix(models, *data, planned.attack, seed=inputs.seed, batch_size=inputs.batch_size)
        for planned in plan
        if planned.attack is not None
    ]
    return {
        "sources": [f"{source}, {matrix.attack}" for matrix in matrices for source in matrix.names],
        "targets": list(models),
        "attack": " and ".join(matrix.attack for matrix in matrices),
        "accuracy": [row.tolist() for matrix in matrices for row in matrix.accuracies],
        "clean": matrices[0].clean.tolist(),
    }
