"""The registry of analyses; readable without TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Entry:
    """An analysis in the registry.

    Args:
        summary: What it shows, in a few words.
        result: The name of the class of its result in `athe_tf.analysis`.
        needs: What a model must have: `"logits"`, `"features"`, `"weights"` or `"angles"`.
    """

    summary: str
    result: str
    needs: str = "logits"


#: From the name of each analysis of one model to its entry.
ANALYSES = {
    "gradient_ratio": Entry(
        "gradient norms of each kernel, adversarial over clean (HE, Fig. 3)", "GradientRatio", "weights"
    ),
    "class_bias": Entry(
        "lengths of class weights, and labels of adversarial images (HE, 3.4)", "ClassBias", "features"
    ),
    "angles": Entry("angles to the true class and between classes (hypersphere heads)", "Angles", "angles"),
    "attack_with_fn": Entry(
        "PGD-1 and PGD-2 with and without normalized features (HE, Table 7)", "AttackWithFN", "features"
    ),
    "fn_direction": Entry(
        "directions of attacks with and without normalized features (HE, Fig. 1)", "FNDirection", "features"
    ),
    "attack_steps": Entry("accuracy against steps of the attack (HE, Fig. 2 left)", "AttackSteps"),
    "perturbations": Entry(
        "clean and adversarial images with their difference (HE, Fig. 2 right)", "Perturbations"
    ),
    "linearity": Entry("distance of the loss from its tangent against epsilon (LLR)", "Linearity"),
    "hessian": Entry(
        "largest eigenvalues of the adversarial loss in the weights (PAS)", "Hessian", "weights"
    ),
    "landscape": Entry("adversarial loss on a plane, in weights or pixels (PAS)", "Landscape"),
    "gradient_scattering": Entry(
        "gradients of neighbouring weights against epsilon (PAS)", "GradientScattering", "weights"
    ),
    "decision_map": Entry("classes on a plane of perturbations around an image", "DecisionMap"),
}
#: From each space of `landscape` to the directions that can span its plane; the first is the default.
SPACES = {"weights": ("random", "eigenvectors"), "pixels": ("attack", "random")}
#: The analysis of several training runs at once.
OF_RUNS = {
    "training_steps": Entry(
        "accuracy against attack steps in training, from runs (HE, Fig. 2 left)", "TrainingSteps"
    )
}
