"""Work divided among Ray actors, on one machine or many, with results in the order of the items.

Plain actors rather than Ray Data: an item is then exactly what the caller makes it, whatever the number of actors and
blocks, and results arrive in order while others are still computed, so that they can be written and resumed like those
of a single process. The actors share nothing but the code; items and results travel through Ray.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..errors import InputError, reason

Item = TypeVar("Item")
Result = TypeVar("Result")

# How often an item is given to another process after the one that worked on it has died. There must be an end to an
# item that kills its process each time, for example because it is too large for the memory.
RETRIES = 8
# Items that each actor has at a time, so that it never waits for the next; and items per actor whose results may wait
# for an earlier one.
AHEAD, WAITING = 2, 8
SECONDS_TO_CONNECT = 10.0


class OrderedWorker:
    """The class of an actor, which has the work function."""

    def __init__(self, work: Callable[[Any], Any]):
        # One core each: threads of its own would compete with the other actors'.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._work = work

    def ready(self) -> None:
        """Do nothing: once this returns, the process is known to be up."""

    def do(self, item: object) -> tuple[Any, tuple[bool, str] | None]:
        """Return a result, or whether the error is an [`InputError`], with its message."""
        try:
            return self._work(item), None
        except InputError as error:
            return None, (True, str(error))
        except Exception as error:  # some cannot be pickled
            return None, (False, f"{type(error).__name__}: {error}")


class RayActors(Generic[Item, Result]):
    """Actors that all do the same work, while [`ray_session`] lasts.

    Args:
        work: what each of them does with an item. It is pickled, as are items and results.
        number: number of actors, each on a core; by default, as many as the cluster has cores.

    Attributes:
        number: number of actors.

    Raises:
        InputError: the cluster has too few cores for them.
    """

    def __init__(self, work: Callable[[Item], Result], number: int | None = None):
        import ray

        there = int(ray.cluster_resources().get("CPU", 0))
        if there < (number or 1):
            raise InputError(
                f"{number or 1} actors need as many CPUs, but the Ray cluster has {there}. Request fewer."
            )
        self.number = number or there
        actor = ray.remote(OrderedWorker).options(num_cpus=1, max_restarts=-1, max_task_retries=-1)
        self._work = ray.put(work)  # kept for actors that take the place of others
        self._actors = [actor.remote(self._work) for _ in range(self.number)]

    def close(self) -> None:
        """End the actors."""
        import ray

        for actor in self._actors:
            ray.kill(actor)

    def map(self, items: Iterable[Item]) -> Iterator[Result]:
        """Do the work on each item, and yield the results in order.

        When an actor's process or machine dies, its items are given to others while Ray replaces it.

        Args:
            items: read as actors become free.

        Raises:
            InputError: the work raised it, or an item was lost with its process too many times.
            RuntimeError: the work failed in another way.
        """
        import ray

        items, is_more = iter(items), True
        waiting: deque[_Job] = deque()  # in the order of the items
        lost: deque[_Job] = deque()  # of these, those to be done again
        pending: dict[Any, tuple[_Job, int]] = {}  # reference → the job, and the number of the actor that has it
        absent: dict[Any, int] = {}  # reference that is ready once the actor of this number is
        while True:
            while (number := self._free(pending.values(), absent.values())) is not None:
                if lost:
                    job = lost.popleft()
                elif is_more and len(waiting) < WAITING * self.number:
                    job = _Job(next(items, None))
                    if job.item is None:
                        is_more = False
                        continue
                    waiting.append(job)
                else:
                    break
                # No retries by Ray, which would wait for the same actor: any other one does the work again.
                reference = self._actors[number].do.options(max_task_retries=0).remote(job.item)
                pending[reference] = job, number
            while waiting and waiting[0].is_done:
                yield waiting.popleft().result
            if not waiting and not is_more:
                return
            done, _ = ray.wait([*pending, *absent], num_returns=1) if pending or absent else ([], [])
            for reference in done:
                if absent.pop(reference, None) is not None:
                    continue
                job, number = pending.pop(reference)
                try:
                    job.result, job.is_done = _result(reference), True
                except ray.exceptions.RayError as error:
                    job.losses += 1
                    if job.losses > RETRIES:
                        raise _lost(error) from None
                    lost.append(job)
                    if number not in absent.values():
                        absent[self._actors[number].ready.remote()] = number

    def _free(self, busy: Iterable[tuple["_Job", int]], absent: Iterable[int]) -> int | None:
        """The number of the actor with the least to do; `None` if all have enough."""
        load = dict.fromkeys(set(range(self.number)) - set(absent), 0)
        for _, number in busy:
            if number in load:
                load[number] += 1
        least = min(load, key=lambda number: load[number], default=None)
        return least if least is not None and load[least] < AHEAD else None


@dataclass(eq=False)
class _Job:
    """An item on its way, and how often it was lost."""

    item: Any
    result: Any = None
    is_done: bool = False
    losses: int = 0


def _result(reference: object) -> Any:
    """The result of an actor's work.

    Raises:
        RayError: the actor was lost.
        InputError, RuntimeError: the work failed.
    """
    import ray

    try:
        result, error = ray.get(reference)
    except ray.exceptions.RayTaskError as failure:  # items that cannot be read where the actor is, say
        raise RuntimeError(str(failure)) from None
    if error is not None:
        is_of_input, message = error
        raise InputError(message) if is_of_input else RuntimeError(message)
    return result


def _lost(error: Exception) -> InputError:
    return InputError(
        f"The process of a Ray actor was killed {RETRIES + 1} times during the same work, as happens when memory "
        f"runs out ({' '.join(str(error).split())[:200]}). Run the same command again to continue."
    )


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
    """Refuse an address at which nothing answers: Ray itself would wait for minutes."""
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
