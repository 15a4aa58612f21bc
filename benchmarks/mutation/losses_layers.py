"""Slips in `athe_tf/losses.py` and `athe_tf/layers/`."""

from benchmarks.mutation.slip import Slip

SLIPS: tuple[Slip, ...] = ()
