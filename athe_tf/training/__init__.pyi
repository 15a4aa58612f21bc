from .adversarial_model import AdversarialModel, Cost, Terms
from .alp import ALP
from .averaging import EMA, SWA, WeightAverage
from .awp import AWP
from .cure import CURE
from .fast_at import FastAT
from .free_at import FreeAT
from .gradalign import GradAlign, gradalign_weight
from .llr import LLR
from .mart import MART
from .n_fgsm import NFGSM
from .optimizers import TorchSGD
from .options import FRAMEWORKS, FrameworkOptions, get, options_of
from .pgd_at import PGDAT
from .schedules import Cosine, Cyclic, EpsilonSchedule, Periodic, Piecewise, make_schedule
from .standard import Standard
from .trades import TRADES

__all__ = [
    "ALP",
    "AWP",
    "CURE",
    "EMA",
    "FRAMEWORKS",
    "LLR",
    "MART",
    "NFGSM",
    "PGDAT",
    "SWA",
    "TRADES",
    "AdversarialModel",
    "Cosine",
    "Cost",
    "Cyclic",
    "EpsilonSchedule",
    "FastAT",
    "FrameworkOptions",
    "FreeAT",
    "GradAlign",
    "Periodic",
    "Piecewise",
    "Standard",
    "Terms",
    "TorchSGD",
    "WeightAverage",
    "get",
    "gradalign_weight",
    "make_schedule",
    "options_of",
]
