from .adversarial_model import AdversarialModel, Cost, Terms
from .averaging import EMA, SWA, WeightAverage
from .awp import AWP
from .fast_at import NFGSM, FastAT, GradAlign, gradalign_weight
from .free_at import FreeAT
from .llr import CURE, LLR
from .mart import MART
from .optimizers import TorchSGD
from .options import FRAMEWORKS, FrameworkOptions, get, options_of
from .pgd_at import ALP, PGDAT, Standard
from .schedules import Cosine, Cyclic, EpsilonSchedule, Periodic, Piecewise, make_schedule
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
