from .cluster import Cluster
from .keras_patches import repair_fit
from .settings import DISTRIBUTIONS, DistributionSettings
from .startup import initialize
from .strategy import Distribution, WorkerLost

__all__ = [
    "DISTRIBUTIONS",
    "Cluster",
    "Distribution",
    "DistributionSettings",
    "WorkerLost",
    "initialize",
    "repair_fit",
]
