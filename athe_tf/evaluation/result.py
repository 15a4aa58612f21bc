"""`Result`, which is in `athe_tf.results`."""

from athe_tf.results.result import AttackOutcome as AttackOutcome
from athe_tf.results.result import Result as Result
