"""Slips in `athe_tf/saving/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
