"""Reuses memory on a CPU: the next pass takes what the last one freed."""

import ctypes
import sys

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
