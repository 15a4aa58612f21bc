"""Slips in `athe_tf/data/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
