"""Work that one process does for all, and work that is divided among all."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TypeVar

from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list, gather_object
from tqdm import tqdm

from ..errors import InputError, TrainingError, TrainingInterrupted, reason
from .signals import is_first_process

T = TypeVar("T")
Item = TypeVar("Item")
E = TypeVar("E", InputError, TrainingError, TrainingInterrupted)


def print_main(message: str, processes: Accelerator | PartialState | None = None) -> None:
    """Print a line for the user, without disturbing a progress bar.

    Args:
        processes: only the main one of these prints; by default, this process does.
    """
    if processes is None or processes.is_main_process:
        tqdm.write(message)
        sys.stdout.flush()


def on_main_process(processes: Accelerator | PartialState, work: Callable[[], T]) -> T:
    """Do some work in the main process, and return its result, or raise its error, in all processes."""
    if processes.num_processes == 1:
        return work()
    result, error = _outcome(work) if processes.is_main_process else (None, None)
    outcome = broadcast_object_list([result, serialize_error(error)])
    _raise(processes, error, outcome[1])
    return outcome[0]


def first_on_each_machine(processes: Accelerator | PartialState, work: Callable[[], T]) -> T:
    """Do some work in all processes: in the first one on each machine before the others, which find what it cached.

    An error in one process is raised in all.
    """
    if processes.num_processes == 1:
        return work()
    result = error = None
    for turn in (True, False):
        if processes.is_local_main_process is turn:
            result, error = _outcome(work)
        received = next((entry for entry in gather_object([serialize_error(error)]) if entry), None)
        _raise(processes, error, received)
    return result


def over_processes(
    processes: Accelerator | PartialState, work: Callable[[Item], T], items: Iterable[Item] = ()
) -> Iterator[tuple[Item, T]]:
    """Divide the work on items among the processes: the k-th process does the k-th item of each round.

    All processes must call this, and they reach its end together.

    Args:
        work: takes an item and returns something that can be pickled. An error in one process is raised in all.
        items: only the main process's items are used.

    Yields:
        In the main process, each item and its result, in order. The other processes yield nothing.
    """
    items, error, rank = iter(items if processes.is_main_process else ()), None, processes.process_index
    while error is None:
        batch = []
        try:
            batch.extend(islice(items, processes.num_processes))  # keeps those before an error
        except Exception as failure:
            error = failure
        batch, received = broadcast_object_list([batch, serialize_error(error)])
        if batch:
            result, failure = _outcome(partial(work, batch[rank])) if rank < len(batch) else (None, None)
            outcomes = gather_object([(result, serialize_error(failure))])
            _raise(processes, failure, next((failed for _, failed in outcomes if failed), None))
            if processes.is_main_process:
                try:
                    for item, (result, _) in zip(batch, outcomes):
                        yield item, result
                except GeneratorExit:  # the main process cannot use the results, and reports why
                    broadcast_object_list([[], (InputError, "The main process has stopped.")])
                    raise
        _raise(processes, error, received)
        if not batch:
            return


@contextmanager
def reported_once() -> Iterator[None]:
    """Have only the first process of each machine report an error in the block.

    This is for errors before the processes know of each other.
    """
    try:
        yield
    except InputError as error:
        error.is_repeated = not is_first_process()
        raise


def _outcome(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return work(), None
    except Exception as error:
        return None, error


SerializedError = tuple[type, tuple[str | int, ...]]


def serialize_error(error: Exception | None) -> SerializedError | None:
    """An error in the form that other processes receive: its type and its arguments."""
    if error is None:
        return None
    if isinstance(error, TrainingInterrupted):
        return TrainingInterrupted, (str(error), error.signal)
    if isinstance(error, InputError | TrainingError):
        return type(error), (str(error),)
    return TrainingError, (f"Another process failed: {type(error).__name__}: {reason(error)}",)


def _raise(processes: Accelerator | PartialState, own: Exception | None, received: SerializedError | None) -> None:
    if own is not None:
        if isinstance(own, InputError | TrainingError | TrainingInterrupted):
            raise in_all_processes(processes, own)
        raise own
    if received:
        kind, parts = received
        raise in_all_processes(processes, kind(*parts))


def in_all_processes(processes: Accelerator | PartialState, error: E) -> E:
    """Mark an error that all processes raise, so that only the main process reports it."""
    error.is_repeated = not processes.is_main_process
    return error
