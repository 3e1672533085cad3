"""Locks of files and folders, which the system lets go of when their holder ends or is killed."""

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

ARE_THERE_LOCKS = fcntl is not None


def lock(descriptor: int) -> None:
    """Hold an open file or folder until it is closed; without effect where system or file system has no locks.

    Raises:
        BlockingIOError: where another process holds it.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return
