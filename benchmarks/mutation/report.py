"""Slips in `athe_tf/report/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
