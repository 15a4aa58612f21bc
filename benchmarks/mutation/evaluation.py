"""Slips in `athe_tf/evaluation/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
