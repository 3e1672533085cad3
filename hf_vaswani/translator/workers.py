"""Work on batches side by side, in processes with one thread each that share the weights of the one that forks them.

A batch is far from twice as fast on two threads as on one, since most of its operations are small; two batches on one
thread each are. A forked process finds the model and the batches in its memory as they are at that moment, so that
nothing is copied, and nothing can be out of date.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TypeVar

import torch

from ..runtime.machine import free_memory

# Memory that a worker takes besides the weights: a batch's caches and scores, and the pages that Python writes to.
WORKER_BYTES = 200 * 2**20

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerDied(RuntimeError):
    """A worker process ended before its work did."""

    def __init__(self, exitcode: int | None):
        super().__init__(
            f"A worker process was killed (exit code {exitcode}), probably because memory ran out. "
            "Use fewer workers: num_workers=1 needs the least memory."
        )


def can_fork() -> bool:
    """Whether worker processes can be forked: on Linux, and not from a process that is itself a worker."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def memory_error(workers: int) -> str | None:
    """The error if there is not enough memory for this many workers, else `None`; also if that is unknown."""
    free = free_memory()
    if workers < 2 or workers * WORKER_BYTES <= free:
        return None
    return (
        f"num_workers={workers} needs about {workers * WORKER_BYTES / 2**30:.1f} GiB of memory, but only "
        f"{free / 2**30:.1f} GiB is available. Choose {max(1, int(free // WORKER_BYTES))} or fewer."
    )


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[tuple[int, Result]]:
    """Do the work on each item in forked processes, starting in the order of the items.

    Args:
        work: takes an item and returns something that can be pickled.

    Yields:
        The position of each item and its result, in the order in which they are finished.

    Raises:
        WorkerDied: a process was killed.
        Exception: the first exception that the work raises; no item is started after it.
    """
    context = multiprocessing.get_context("fork")
    waiting = iter(range(len(items)))
    processes = {}
    try:
        for _ in range(min(workers, len(items))):
            connection, end = context.Pipe()
            process = context.Process(target=_serve, args=(end, work, items), daemon=True)
            with warnings.catch_warnings():
                # Python warns of locks that other threads hold: a worker uses only torch's and its own.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            end.close()
            processes[connection] = process
            connection.send(next(waiting))
        while processes:
            for connection in wait(list(processes)):
                try:
                    position, result, error = pickle.loads(connection.recv_bytes())
                except (EOFError, ConnectionError):
                    processes[connection].join()
                    raise WorkerDied(processes[connection].exitcode) from None
                if error is not None:
                    raise error
                following = next(waiting, None)
                connection.send(following)
                if following is None:
                    processes.pop(connection).join()
                    connection.close()
                yield position, result
    finally:
        for connection, process in processes.items():
            process.kill()
            process.join()
            connection.close()


def _serve(connection: Connection, work: Callable[[object], object], items: Sequence[object]) -> None:
    """Run a worker: do the work on the items whose positions it receives, until it receives `None`."""
    # Ctrl-C reaches all processes of a terminal: the main one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The threads of the process that forked this one do not exist here.
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with suppress(EOFError, ConnectionError):
        while (position := connection.recv()) is not None:
            try:
                answer = (position, work(items[position]), None)
            except Exception as error:
                answer = (position, None, _portable(error))
            connection.send_bytes(pickle.dumps(answer))


def _portable(error: Exception) -> Exception:
    """The error, or one that says the same if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


__all__ = ["WorkerDied", "can_fork", "memory_error", "in_parallel"]
