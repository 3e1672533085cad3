"""How many cores this process may use, and how its threads share them with other processes."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Rounds of GNU OpenMP's waiting loop, a tenth of a millisecond; its own default is 300,000.
ROUNDS = 3_000
# Either variable says how threads wait; a value set by the user is kept.
WAIT_SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
CONTROL_GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def affinity_mask() -> set[int]:
    """The cores that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def available_cores() -> int:
    """The number of cores that this process may use, in a container or batch job often only a few of the machine's."""
    return max(math.ceil(min(len(affinity_mask()), cpu_quota())), 1)


def cpu_quota(groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS) -> float:
    """The CPU limit of a container in cores, such as 1.5 for `docker run --cpus 1.5`; infinite without one.

    Args:
        groups: where the control groups, version 1 or 2, are mounted.
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
    """Limit how long OpenMP's threads spin while they wait, if the block is the first to load OpenMP.

    After each parallel loop, threads spin until the slowest is done. If another process needs a core too, a spinning
    thread keeps its own from the very thread that it waits for. Next to busy processes, two threads on two cores took
    ten times as long for a step as one thread; with this limit, no longer than one. On idle cores, a step took 9%
    longer than without it; with a third of these rounds, half as long again.
    """
    if any(name in os.environ for name in WAIT_SETTINGS):
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = str(ROUNDS)  # read once, when GNU OpenMP is loaded
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]
