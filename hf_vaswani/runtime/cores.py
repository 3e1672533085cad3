"""How many cores this process may use, and how its threads share them with other processes."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Rounds of GNU OpenMP's waiting loop, a tenth of a millisecond; its own default is 300 000.
ROUNDS = 3_000
# Either says how threads wait; what the user sets is kept.
WAIT_SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
CONTROL_GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def available_cores() -> int:
    """Cores that the system lets this process use, which in a container or a job may be few of the machine's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(math.ceil(min(cores, cpu_quota())), 1)


def cpu_quota(groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS) -> float:
    """Cores that a container's CPU limit amounts to, such as 1.5 of `docker run --cpus 1.5`; infinite without one.

    Args:
        groups: where the control groups are mounted, of either version.
        own: file with this process's groups.
    """
    quotas = [math.inf]
    folders = [groups, groups / "cpu"]
    if own.exists():
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "cpu", "cpu,cpuacct"):
                group = groups / controllers / path.lstrip("/")
                folders += [group, *(parent for parent in group.parents if groups in parent.parents)]
    for folder in dict.fromkeys(folders):
        try:
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            quotas.append(float(quota) / float(period))
        except (OSError, ValueError, ZeroDivisionError):  # not there, or "max"
            continue
    return min(quota for quota in quotas if quota > 0)  # version 1 has -1 for no limit


@contextmanager
def short_waits() -> Iterator[None]:
    """Have OpenMP's threads wait actively for a short time only, where the block is the first to load it.

    After each parallel loop threads wait for the slowest. They spin, and a spinning thread keeps its core from the
    very thread that it waits for when another process needs one too. Beside busy processes, two threads on two cores
    took ten times as long for a step as one; with this limit, no longer than one. On idle cores a step took 9%
    more time than without it; with a third of these rounds, half as much again.
    """
    if any(name in os.environ for name in WAIT_SETTINGS):
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = str(ROUNDS)  # read once, when GNU OpenMP is loaded
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]
