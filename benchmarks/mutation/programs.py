"""Slips in `athe_tf/programs/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
