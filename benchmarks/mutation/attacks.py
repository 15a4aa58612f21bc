"""Slips in `athe_tf/attacks/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
