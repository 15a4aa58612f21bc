"""Slips in `athe_tf/utils/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
