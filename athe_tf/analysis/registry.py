"""The analyses by name; readable without TensorFlow. A new one is one new file and one entry here."""

from athe_tf.analysis.angles import Angles
from athe_tf.analysis.attack_steps import AttackSteps, TrainingSteps
from athe_tf.analysis.attack_with_fn import AttackWithFN
from athe_tf.analysis.class_bias import ClassBias
from athe_tf.analysis.decision_map import DecisionMap
from athe_tf.analysis.fn_direction import FNDirection
from athe_tf.analysis.gradient_ratio import GradientRatio
from athe_tf.analysis.gradient_scattering import GradientScattering
from athe_tf.analysis.hessian import Hessian
from athe_tf.analysis.landscape import Landscape
from athe_tf.analysis.linearity import Linearity
from athe_tf.analysis.perturbations import Perturbations
from athe_tf.analysis.result import AnalysisResult

#: From the name of each analysis of one model to its class.
ANALYSES: dict[str, type[AnalysisResult]] = {
    one.analysis: one
    for one in (
        GradientRatio, ClassBias, Angles, AttackWithFN, FNDirection, AttackSteps, Perturbations, Linearity,
        Hessian, Landscape, GradientScattering, DecisionMap,
    )
}  # fmt: skip
#: The analysis of several training runs at once.
RUN_ANALYSES: dict[str, type[AnalysisResult]] = {"training_steps": TrainingSteps}
#: All of them.
ALL_ANALYSES = ANALYSES | RUN_ANALYSES
