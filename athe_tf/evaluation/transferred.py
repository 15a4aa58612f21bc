"""The transfer protocol: what is made on every model, tried on every other."""

from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.transfer import transfer_matrix
from athe_tf.evaluation.attack_plan import Planned
from athe_tf.evaluation.inputs import Case


def measure_transfer(case: Case, name: str, substitutes: dict[str, Victim], plan: list[Planned]) -> dict:
    """`"transfer"` of `evaluation.json`: a row for each source and attack, a column for each model.

    Args:
        case: The model, its images and the threat model.
        name: How the model is called.
        substitutes: The other models by their names.
        plan: The attacks to make images with.
    """
    models = {name: case.target, **substitutes}
    matrices = [
        transfer_matrix(
            models, case.images, case.labels, planned.attack, seed=case.seed, batch_size=case.batch_size
        )
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
