"""A limit for the memory of a process."""


def limit_memory(most: int) -> None:
    """Bound the memory of this process, where the system can: an allocation beyond it raises a `MemoryError`.

    Args:
        most: bytes.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
