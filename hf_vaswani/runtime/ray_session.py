"""A connection to a Ray cluster, on one machine or many."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError, reason

SECONDS_TO_CONNECT = 10.0


@contextmanager
def ray_session(address: str | None = None, log_to_driver: bool = False) -> Iterator[None]:
    """Connect to a Ray cluster while the block runs; an existing connection is used, and kept afterwards.

    Args:
        address: `"HOST:PORT"`, `"auto"` for the cluster that this machine belongs to, or `"local"` for a new one on
            this machine alone. By default the value of RAY_ADDRESS, else this machine's cluster, else a new one.
        log_to_driver: whether what other processes print is printed here, too.

    Raises:
        InputError: no cluster answers.
    """
    # Ray would otherwise send usage statistics to its developers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or None
    _check_that_it_answers(address)
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=log_to_driver, logging_level="ERROR")
    except Exception as error:  # a plain one, too, if Ray takes too long to start here
        why = reason(error).removesuffix(".")
        if address in (None, "local"):
            raise InputError(f"Ray cannot be started: {why}. Try again when this machine is less busy.") from None
        raise _no_cluster(address, why) from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_that_it_answers(address: str | None) -> None:
    """Reject an address at which nothing answers: Ray itself would wait for minutes."""
    host, colon, port = (address or "").rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, getattr(error, "strerror", None) or error) from None


def _no_cluster(address: str, why: object) -> InputError:
    return InputError(
        f"No Ray cluster answers at {address}: {why}. Start one with ray start --head, or start one on this machine "
        "only with --address local."
    )
