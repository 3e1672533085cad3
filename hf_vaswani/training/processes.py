"""The processes that train, set up for their devices."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin

from ..runtime.launcher import is_set
from ..runtime.memory import keep_freed_memory
from ..runtime.process_group import join_processes
from ..runtime.processes import on_main_process
from ..runtime.threads import asked_threads, share_of_cores
from .check import available_trackers
from .recipe.recipe import Recipe
from .setup.precision import precision_to_begin_with


@contextmanager
def processes_of(recipe: Recipe) -> Iterator[Accelerator]:
    """Set up the processes that train, each for its device, while the block runs."""
    accelerator = make_accelerator(recipe)
    try:
        if accelerator.device.type == "cpu":
            if accelerator.mixed_precision == "fp16":
                # Accelerate silently ignores fp16 mixed precision on a CPU; torch supports it.
                accelerator.native_amp = True
                accelerator.scaler = torch.amp.GradScaler("cpu")
            asked, _ = asked_threads(recipe.training.cpu_threads)
            torch.set_num_threads(asked or share_of_cores(accelerator))
            keep_freed_memory()
        yield accelerator
        # A process that is done must not take down the group while another still writes.
        accelerator.wait_for_everyone()
    finally:
        # First the distributed model, then its process group: in the other order, their threads can deadlock.
        accelerator.free_memory()
        accelerator.end_training()
        # Another run in this process may want another precision.
        AcceleratorState._reset_state(reset_partial_state=True)


def make_accelerator(recipe: Recipe) -> Accelerator:
    """An Accelerator with the devices, processes and precision that recipe and launcher ask for."""
    arguments = recipe.training
    # The processes come first, and then agree on the precision.
    state = join_processes(cpu=is_set("ACCELERATE_USE_CPU"))
    precision = on_main_process(state, lambda: precision_to_begin_with(recipe, state.device))
    # One step, whatever the launcher was told: the loop itself divides by the tokens of the whole step.
    return Accelerator(
        mixed_precision=precision,
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        log_with=[name for name in arguments.report_to if name in available_trackers()] or None,
        project_dir=arguments.output_dir,
        kwargs_handlers=[DistributedDataParallelKwargs()],
    )
