"""A connection to a Ray cluster, on one machine or many, and work that it does."""

import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..errors import InputError, reason
from .parts import Part, Result, Work

SECONDS_TO_CONNECT = 10.0
# How often Ray gives a part to another process after the one that worked on it has died.
RETRIES = 8


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


def map_on_ray(number: int | None, what: str, work: Work, parts: Iterable[Part]) -> Iterator[Result]:
    """Work on parts in Ray's tasks, and yield the results in their order.

    Args:
        number: of tasks at a time; by default, two for each core.
        what: the work, for a message: "tokenize the text".
        work: travels to the tasks once for each process, and parts and results to and fro.

    Raises:
        InputError: Ray cannot do it, or `work` has raised it.
    """
    import ray

    @ray.remote(num_cpus=1, max_retries=RETRIES)
    def run(work: Work, part: Part) -> Result:
        return work(part)

    number = number or 2 * int(ray.cluster_resources().get("CPU", 1))
    pending, shared = deque(), ray.put(work)
    try:
        for part in parts:
            if len(pending) == number:
                yield ray.get(pending.popleft())
            pending.append(run.remote(shared, part))
        while pending:
            yield ray.get(pending.popleft())
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"Ray could not {what}: {why} Run the same command again.") from None


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
