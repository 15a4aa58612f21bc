"""Slips in `athe_tf/training/`, and in the callbacks of training."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
