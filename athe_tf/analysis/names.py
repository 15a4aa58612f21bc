"""The analyses by name, with their settings in words; readable without TensorFlow."""

#: From the name of each analysis of one model to what it answers.
ANALYSES = {
    "gradient_ratio": "gradient norms of each kernel, adversarial over clean (HE, Fig. 3)",
    "class_bias": "lengths of class weights, and labels of adversarial images (HE, 3.4)",
    "angles": "angles to the true class and between classes (hypersphere heads)",
    "attack_with_fn": "PGD-1 and PGD-2 with and without normalized features (HE, Table 7)",
    "fn_direction": "directions of attacks with and without normalized features (HE, Fig. 1)",
    "attack_steps": "accuracy against steps of the attack (HE, Fig. 2 left)",
    "perturbations": "clean and adversarial images with their difference (HE, Fig. 2 right)",
    "linearity": "distance of the loss from its tangent against epsilon (LLR)",
    "hessian": "largest eigenvalues of the adversarial loss in the weights (PAS)",
    "landscape": "adversarial loss on a plane, in weights or pixels (PAS)",
    "gradient_scattering": "gradients of neighbouring weights against epsilon (PAS)",
    "decision_map": "classes on a plane of perturbations around an image",
}
#: The analysis of several training runs at once.
OF_RUNS = {"training_steps": "accuracy against attack steps in training, from runs (HE, Fig. 2 left)"}
