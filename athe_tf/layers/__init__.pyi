from .batch_norm import BatchNorm
from .cosine_dense import CosineDense
from .log_mean_softmax import LogMeanSoftmax

__all__ = ["BatchNorm", "CosineDense", "LogMeanSoftmax"]
