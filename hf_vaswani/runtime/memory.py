"""Memory on a CPU: what one pass has freed, the next one takes."""

import ctypes
import sys

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have freed memory stay with this process; false, and nothing done, where malloc is not glibc's.

    glibc gives large tensors, such as the logits, pages of their own and returns them when they are freed. Each pass
    then has the system zero the same pages again, a page fault each: an eighth of the time of training a small model.
    The process stays as large as it once was, and grows past that by what lies between pieces still in use.
    """
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: LARGEST_INT, M_TOP_PAD: 2**26}
    return all([mallopt(name, value) for name, value in settings.items()])
