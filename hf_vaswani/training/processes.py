"""What one process does for all."""

from collections.abc import Callable
from typing import TypeVar

from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list

from ..errors import InputError, TrainingError

T = TypeVar("T")


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
            raise kind(message)
    return result
