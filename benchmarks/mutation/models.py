"""Slips in `athe_tf/models/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
