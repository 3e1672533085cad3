"""How many cores this process may use."""

import os


def available_cores() -> int:
    """Cores that the system lets this process use, which in a container or a job may be few of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
