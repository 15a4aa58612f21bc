from .cluster import Cluster
from .keras_patches import repair_fit
from .settings import DISTRIBUTIONS, DistributionSettings
from .strategy import Distribution, WorkerLost, initialize

__all__ = [
    "DISTRIBUTIONS",
    "Cluster",
    "Distribution",
    "DistributionSettings",
    "WorkerLost",
    "initialize",
    "repair_fit",
]
