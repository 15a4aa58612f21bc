from .apgd import APGD, APGDDLR, APGDT
from .autoattack import AutoAttack
from .carlini_wagner import CWL2
from .constraint_relaxation import ConstraintRelaxation
from .deepfool import DeepFool
from .eight_bit import EightBitPGD
from .engine.attack import Attack, Victim, victim
from .engine.results import AttackResult, RoundResult
from .epsilon_search import EpsilonSearch
from .estimated_gradient import NES, SPSA
from .fab import FAB, TargetedFAB
from .feature import FeatureAttack, FeatureNormPGD
from .gradient import BIM, FGSM, MIM, PGD, AdamPGD, AdaptivePGD, CWLinf, ScaleSweepPGD
from .gradient_attack import IterativeAttack
from .local_linearity import LocalLinearity
from .moving_radius import DDN, FMN
from .rays import RayS
from .registry import ATTACKS, get, parse_name
from .spatial import Spatial
from .square import Square
from .swift import Swift
from .targets import MultiTargeted
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
    "AdamPGD",
    "AdaptivePGD",
    "Attack",
    "AttackResult",
    "AutoAttack",
    "CWLinf",
    "ConstraintRelaxation",
    "DeepFool",
    "EightBitPGD",
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
