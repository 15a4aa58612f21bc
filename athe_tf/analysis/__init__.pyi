from .angles import Angles, angles
from .attack_steps import AttackSteps, TrainingSteps, attack_steps, training_steps
from .attack_with_fn import AttackWithFN, attack_with_fn
from .class_bias import ClassBias, class_bias
from .decision_map import DecisionMap, decision_map
from .fn_direction import FNDirection, PlaneDirections, fn_direction, plane_directions
from .gradient_ratio import GradientRatio, gradient_ratio
from .gradient_scattering import GradientScattering, gradient_scattering
from .hessian import Hessian, hessian
from .landscape import Landscape, landscape
from .linearity import Linearity, linearity
from .overlap import Overlap, overlap
from .perturbations import Perturbations, perturbations
from .registry import ANALYSES, read, write
from .result import AnalysisResult, Comparison, compare
from .subject import AnalysisOptions

__all__ = [
    "ANALYSES",
    "AnalysisOptions",
    "AnalysisResult",
    "Angles",
    "AttackSteps",
    "AttackWithFN",
    "ClassBias",
    "Comparison",
    "DecisionMap",
    "FNDirection",
    "GradientRatio",
    "GradientScattering",
    "Hessian",
    "Landscape",
    "Linearity",
    "Overlap",
    "Perturbations",
    "PlaneDirections",
    "TrainingSteps",
    "angles",
    "attack_steps",
    "attack_with_fn",
    "class_bias",
    "compare",
    "decision_map",
    "fn_direction",
    "gradient_ratio",
    "gradient_scattering",
    "hessian",
    "landscape",
    "linearity",
    "overlap",
    "perturbations",
    "plane_directions",
    "read",
    "training_steps",
    "write",
]
