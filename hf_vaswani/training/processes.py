"""What one process does for all."""

from collections.abc import Callable
from typing import TypeVar

from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list

from ..errors import InputError, TrainingError, TrainingInterrupted

T = TypeVar("T")
E = TypeVar("E", InputError, TrainingError, TrainingInterrupted)


def on_main_process(processes: Accelerator | PartialState, work: Callable[[], T]) -> T:
    """Do some work in the main process, and give all the same result, or raise the same error in all."""
    result = error = None
    if processes.is_main_process:
        try:
            result = work()
        except (InputError, TrainingError) as failure:
            if processes.num_processes == 1:
                raise
            error = failure
    if processes.num_processes > 1:
        result, kind, message = broadcast_object_list([result, type(error), str(error)])
        if kind in (InputError, TrainingError):
            raise in_all_processes(processes, kind(message))
    return result


def in_all_processes(processes: Accelerator | PartialState, error: E) -> E:
    """An error that all processes raise alike, to be said by the main process alone."""
    error.is_repeated = not processes.is_main_process
    return error
