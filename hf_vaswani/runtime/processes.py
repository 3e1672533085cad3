"""Work that one process does for all, and work that is divided among all."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list, gather_object
from tqdm import tqdm

from ..errors import InputError, TrainingError, TrainingInterrupted
from .interrupts import is_first_process

T = TypeVar("T")
Item = TypeVar("Item")
E = TypeVar("E", InputError, TrainingError, TrainingInterrupted)


def say(message: str, processes: Accelerator | PartialState | None = None) -> None:
    """Print a line for the reader, beside a progress bar where there is one.

    Args:
        processes: of which the main one alone prints; by default this one does.
    """
    if processes is None or processes.is_main_process:
        tqdm.write(message)
        sys.stdout.flush()


def on_main_process(processes: Accelerator | PartialState, work: Callable[[], T]) -> T:
    """Do some work in the main process, and give all the same result, or raise an error in all."""
    if processes.num_processes == 1:
        return work()
    result, error = _outcome(work) if processes.is_main_process else (None, None)
    outcome = broadcast_object_list([result, _told(error)])
    _raise(processes, error, outcome[1])
    return outcome[0]


def first_on_each_machine(processes: Accelerator | PartialState, work: Callable[[], T]) -> T:
    """Do some work in all processes: in the first of each machine before the others, which find what it has cached.

    An error is raised in all.
    """
    if processes.num_processes == 1:
        return work()
    result = error = None
    for turn in (True, False):
        if processes.is_local_main_process is turn:
            result, error = _outcome(work)
        told = next((entry for entry in gather_object([_told(error)]) if entry), None)
        _raise(processes, error, told)
    return result


def over_processes(
    processes: Accelerator | PartialState, work: Callable[[Item], T], items: Iterable[Item] = ()
) -> Iterator[tuple[Item, T]]:
    """Work on items, divided among the processes: the k-th of each round of items is done by the k-th process.

    All processes call this, and come to its end together.

    Args:
        work: takes an item and gives what can be pickled. An error in one process is raised in all.
        items: those of the main process are worked on.

    Yields:
        In the main process each item and its result, in order. The other processes yield nothing.
    """
    items, error, rank = iter(items), None, processes.process_index
    while error is None:
        batch, error = _next_round(processes, items)
        batch, told = broadcast_object_list([batch, _told(error)])
        if batch:
            result, failure = _outcome(partial(work, batch[rank])) if rank < len(batch) else (None, None)
            outcomes = gather_object([(result, _told(failure))])
            _raise(processes, failure, next((failed for _, failed in outcomes if failed), None))
            if processes.is_main_process:
                try:
                    for item, (result, _) in zip(batch, outcomes):
                        yield item, result
                except GeneratorExit:  # the main process cannot use the results, and says why
                    broadcast_object_list([[], (InputError, "The main process has stopped.")])
                    raise
        _raise(processes, error, told)
        if not batch:
            return


def _next_round(processes: Accelerator | PartialState, items: Iterator[Any]) -> tuple[list[Any], Exception | None]:
    """An item for each process, fewer at the end, and the error in which reading them has ended."""
    batch: list[Any] = []
    if processes.is_main_process:
        try:
            for item in items:
                batch.append(item)
                if len(batch) == processes.num_processes:
                    break
        except Exception as error:
            return batch, error
    return batch, None


@contextmanager
def reported_once() -> Iterator[None]:
    """Have an error in the block reported by the first process of each machine alone, before the processes know of
    each other."""
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


Told = tuple[type, tuple[str | int, ...]]


def _told(error: Exception | None) -> Told | None:
    """An error in the form that other processes receive: its type and what it is made of."""
    if error is None:
        return None
    if isinstance(error, TrainingInterrupted):
        return TrainingInterrupted, (str(error), error.signal)
    if isinstance(error, InputError | TrainingError):
        return type(error), (str(error),)
    return TrainingError, (f"Another process failed: {type(error).__name__}: {error}",)


def _raise(processes: Accelerator | PartialState, own: Exception | None, told: Told | None) -> None:
    if own is not None:
        if isinstance(own, InputError | TrainingError | TrainingInterrupted):
            raise in_all_processes(processes, own)
        raise own
    if told:
        kind, parts = told
        raise in_all_processes(processes, kind(*parts))


def in_all_processes(processes: Accelerator | PartialState, error: E) -> E:
    """An error that all processes raise, to be reported by the main process alone."""
    error.is_repeated = not processes.is_main_process
    return error
