"""Memory of this machine: how much is free, and how a process reuses what it has freed."""

import ctypes
import math
import sys
from contextlib import suppress
from pathlib import Path

MEMORY_FILE = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Keep freed memory in this process; do nothing and return false if malloc is not glibc's.

    glibc gives large tensors, such as the logits, pages of their own and returns these to the system when they are
    freed. In each pass, the system then zeroes the same pages again, at a page fault each: an eighth of the time of
    training a small model. In return, the process stays as large as it once was, and grows further by fragmentation.
    """
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: LARGEST_INT, M_TOP_PAD: 2**26}
    return all([mallopt(name, value) for name, value in settings.items()])


def free_memory() -> float:
    """Bytes of free memory, swap included, but at most what the cgroup has left; infinite if the system does not say.

    Page cache that the cgroup can give back counts as free, as it does in the system's own figure.
    """
    limits = [math.inf]
    with suppress(OSError):
        values = dict(line.split(":") for line in MEMORY_FILE.read_text().splitlines())
        limits.append(sum(int(values[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree")))
    with suppress(OSError, ValueError):
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        pages = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        limits.append(max(0, limit - used + int(pages["inactive_file"])))
    return min(limits)
