from .apgd import APGD, APGDDLR, APGDT
from .autoattack import AutoAttack
from .carlini_wagner import CWL2
from .constraint_relaxation import ConstraintRelaxation
from .ddn import DDN
from .deepfool import DeepFool
from .engine.attack import Attack
from .engine.results import AttackResult, RoundResult
from .engine.victim import Victim, victim
from .epsilon_search import EpsilonSearch
from .estimated_gradient import NES, SPSA
from .fab import FAB, TargetedFAB
from .feature import FeatureAttack
from .feature_norm import FeatureNormPGD
from .fmn import FMN
from .gradient import BIM, FGSM, MIM, PGD, AdaptivePGD, CWLinf
from .gradient_attack import IterativeAttack
from .local_linearity import LocalLinearity
from .multitargeted import MultiTargeted
from .rays import RayS
from .registry import ATTACKS, get, parse_name
from .scale_sweep import ScaleSweepPGD
from .spatial import Spatial
from .square import Square
from .swift import Swift
from .transfer import transfer_matrix
from .zoo import ZOO

__all__ = [
    "APGD",
    "APGDDLR",
    "APGDT",
    "ATTACKS",
    "BIM",
    "CWL2",
    "DDN",
    "FAB",
    "FGSM",
    "FMN",
    "MIM",
    "NES",
    "PGD",
    "SPSA",
    "ZOO",
    "AdaptivePGD",
    "Attack",
    "AttackResult",
    "AutoAttack",
    "CWLinf",
    "ConstraintRelaxation",
    "DeepFool",
    "EpsilonSearch",
    "FeatureAttack",
    "FeatureNormPGD",
    "IterativeAttack",
    "LocalLinearity",
    "MultiTargeted",
    "RayS",
    "RoundResult",
    "ScaleSweepPGD",
    "Spatial",
    "Square",
    "Swift",
    "TargetedFAB",
    "Victim",
    "get",
    "parse_name",
    "transfer_matrix",
    "victim",
]
