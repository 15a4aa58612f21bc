"""What this process may use of its machine: containers and Slurm jobs get a part of it by cgroups."""

import math
import os
import pathlib

import psutil

CGROUP = pathlib.Path("/sys/fs/cgroup")
# Where version 2 of cgroups, and version 1, say how much memory may be used, and how much is in use.
MEMORY = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
# How much of each period the processes may compute, on all cores together.
CORES = (("cpu.max", None), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))


def available_memory() -> int:
    """Bytes of memory that this process can still get."""
    free = [psutil.virtual_memory().available]
    for folder in _groups("memory"):
        for limit, used in MEMORY:
            numbers = _numbers(folder / limit) + _numbers(folder / used)
            if len(numbers) == 2:
                # Pages of files count as used, and are given back when memory is short.
                cache = _numbers(folder / "memory.stat", "inactive_file", "total_inactive_file")
                free.append(numbers[0] - numbers[1] + min(max(cache, default=0), numbers[1]))
    return int(max(0, min(free)))


def cores() -> int:
    """The number of cores that this process may use."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = [float(affinity)]
    for folder in _groups("cpu"):
        for quota, period in CORES:
            numbers = _numbers(folder / quota) + ([] if period is None else _numbers(folder / period))
            if len(numbers) == 2 and min(numbers) > 0:
                allowed.append(numbers[0] / numbers[1])
    return max(1, math.ceil(min(allowed)))


def _groups(controller: str) -> list[pathlib.Path]:
    """The folders of the cgroups of this process, and of those that contain them."""
    try:
        lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for _, names, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if names and controller not in names.split(","):
            continue
        root = CGROUP / controller if names else CGROUP
        # In a container, its own group may be the root, whatever the path says.
        inside = root / path.lstrip("/")
        found += [root, *(each for each in (inside, *inside.parents) if root in each.parents)]
    return found


def _numbers(path: pathlib.Path, *names: str) -> list[int]:
    """The numbers in a file, or of some of its lines; none if there is no such file."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return []
    words = [word for line in lines if not names or line[0] in names for word in line]
    return [int(word) for word in words if word.isdigit()]
