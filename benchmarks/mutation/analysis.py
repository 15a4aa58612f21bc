"""Slips in `athe_tf/analysis/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
