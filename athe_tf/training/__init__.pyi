from .adversarial_model import AdversarialModel, Cost, Terms
from .alp import ALP
from .cure import CURE
from .epsilon import EpsilonSchedule
from .fast_at import FastAT
from .free_at import FreeAT
from .llr import LLR
from .mart import MART
from .optimizers import MomentumSGD
from .pgd_at import PGDAT
from .registry import FRAMEWORKS, get
from .schedules import Cosine, Cyclic, Periodic, Piecewise, make_schedule
from .standard import Standard
from .swa import SWA
from .trades import TRADES

__all__ = [
    "ALP",
    "CURE",
    "FRAMEWORKS",
    "LLR",
    "MART",
    "PGDAT",
    "SWA",
    "TRADES",
    "AdversarialModel",
    "Cosine",
    "Cost",
    "Cyclic",
    "EpsilonSchedule",
    "FastAT",
    "FreeAT",
    "MomentumSGD",
    "Periodic",
    "Piecewise",
    "Standard",
    "Terms",
    "get",
    "make_schedule",
]
