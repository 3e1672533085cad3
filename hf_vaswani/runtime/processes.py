"""Work that one process does for all."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list, gather_object
from tqdm import tqdm

from ..errors import InputError, TrainingError, TrainingInterrupted
from .interrupts import is_first_process

T = TypeVar("T")
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
