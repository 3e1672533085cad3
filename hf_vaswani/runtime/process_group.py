"""The processes that a launcher started, on one machine or several, and the work that a command shares among them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module

import torch
from accelerate import PartialState
from accelerate.state import AcceleratorState

from ..errors import InputError
from .launcher import end_with_launcher, is_set, process_errors, processes_started
from .threads import requested_threads, share_of_cores

# The others wait for the slowest process, or for the first one while it prepares a large corpus.
PATIENCE = timedelta(days=1)


@dataclass(frozen=True)
class SingleProcess:
    """A process that runs alone, with or without a launcher; it has the attributes of `PartialState`."""

    num_processes: int = 1
    process_index: int = 0
    is_main_process: bool = True
    is_local_main_process: bool = True


def join_processes(cpu: bool) -> PartialState:
    """Join the other processes that the launcher started, if any.

    Args:
        cpu: whether they compute on the CPU, even if there are other devices.
    """
    if torch.distributed.is_available():
        # This module's functions have the group that exists when it is imported as a default argument. The threads of
        # the group would outlive it, and one that needs Python while Python exits aborts the process.
        import_module("torch.distributed.nn")
    return PartialState(cpu=cpu, timeout=PATIENCE)


@contextmanager
def process_group(cpu: bool) -> Iterator[PartialState]:
    """The group of processes that a launcher started, while the block runs.

    Args:
        cpu: as for [`join_processes`].
    """
    processes = join_processes(cpu)
    try:
        yield processes
        # A process that is done must not take down the group while another is still working.
        processes.wait_for_everyone()
    finally:
        processes.destroy_process_group()
        AcceleratorState._reset_state(reset_partial_state=True)


@contextmanager
def launched_processes() -> Iterator[PartialState | SingleProcess]:
    """The processes that share the work of a command while the block runs, each set up for its device.

    On CPUs, they divide the cores among themselves, unless the user sets the number of threads.

    Raises:
        InputError: the launcher started fewer processes than requested.
    """
    if processes_started() == 1:
        if errors := process_errors(1):
            raise InputError.of(errors)
        yield SingleProcess()
        return
    end_with_launcher()
    has_devices = torch.accelerator.is_available() and not is_set("ACCELERATE_USE_CPU")
    with process_group(cpu=not has_devices) as processes:
        if processes.device.type == "cpu":
            requested, _ = requested_threads(None)
            torch.set_num_threads(requested or share_of_cores(processes))
        yield processes
