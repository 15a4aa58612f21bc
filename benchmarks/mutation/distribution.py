"""Slips in `athe_tf/distribution/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
