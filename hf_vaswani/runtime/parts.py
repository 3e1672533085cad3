"""Work on one part of a text after another, in several processes; the results come in the order of the parts."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, TypeVar

from ..errors import InputError

Part = TypeVar("Part")
Result = TypeVar("Result")
# What is done with a part; and what does it with all of them, here or elsewhere.
Work = Callable[[Part], Result]
MapParts = Callable[[Work, Iterable[Part]], Iterator[Result]]
KILLED = "A process was killed, perhaps for want of memory. Run the same command again, with fewer --num_workers."


def map_parts(processes: int, work: Work, parts: Iterable[Part]) -> Iterator[Result]:
    """Yield the results of parts in their order. Only a few parts for each process are in memory.

    Args:
        work: can be copied to another process, once to each.

    Raises:
        InputError: a process was killed.
    """
    parts = iter(parts)
    first = list(islice(parts, 2))
    if processes == 1 or len(first) < 2:
        yield from map(work, chain(first, parts))
        return
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, context, _start, (work,)) as pool:
            pending = deque()
            for part in chain(first, parts):
                if len(pending) == 2 * processes:
                    yield pending.popleft().result()
                pending.append(pool.submit(_do, part))
            while pending:
                yield pending.popleft().result()
    except BrokenProcessPool:
        raise InputError(KILLED) from None


def in_process(work: Callable[..., Result], *arguments: Any) -> Result:
    """The result of work that is done in a process of its own, whose memory is free afterwards.

    Raises:
        InputError: the process was killed.
    """
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(work, *arguments).result()
    except BrokenProcessPool:
        raise InputError(KILLED) from None


_work: Any = None


def _start(work: Work) -> None:
    global _work
    _work = work


def _do(part: Any) -> Any:
    return _work(part)
