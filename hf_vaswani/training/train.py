"""A run from recipe to finished folder: check, build, fit, export."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin

from ..errors import InputError
from ..runtime.launcher import end_with_launcher, is_set
from ..runtime.machine import keep_freed_memory
from ..runtime.process_group import join_processes
from ..runtime.processes import on_main_process, reported_once
from ..runtime.threads import requested_threads, share_of_cores
from .build import build, open_run
from .check import available_trackers, check
from .fit import fit
from .loop import run_steps
from .optimization.progress import StepListener
from .recipe.recipe import Recipe
from .run import TrainingRun
from .setup.precision import precision_to_begin_with

if TYPE_CHECKING:
    from ..records.run_report import RunReport


def train(
    recipe: Recipe, steps: Callable[[TrainingRun], None] = run_steps, listeners: Sequence[StepListener] = ()
) -> "RunReport | None":
    """Train a model, or resume its run, and write the final model to `training.output_dir`.

    The folder then holds the model with the weights that `training.average` selects, its tokenizer,
    `generation_config.json`, a model card, translations of the test sets, curves and `results.json`. With
    `training.push_to_hub`, the model is then on the Hub, too.

    Args:
        steps: runs the optimizer steps: this package's loop on Accelerate, or transformers' Trainer.
        listeners: called, in their order, after those of the package, at each step, validation and checkpoint.

    Returns:
        The report, in the main process; `None` in the others.

    Raises:
        InputError: for errors that the user can correct, before any long work starts.
        TrainingInterrupted: at SIGTERM or Ctrl-C, once the state is saved.
        TrainingError: if training cannot continue, because the loss is not finite or the disk is full; or if the
            finished model cannot be uploaded.
    """
    end_with_launcher()
    with reported_once():
        for kind in ("DEEPSPEED", "MEGATRON_LM"):
            if is_set(f"ACCELERATE_USE_{kind}"):
                raise InputError(
                    f"ACCELERATE_USE_{kind}: {kind} is not supported. To train on several devices, use DDP or FSDP."
                )
    with processes_of(recipe) as processes:
        checked = check(recipe, processes)
        setup = build(checked)
        with open_run(setup) as checkpoint:
            outcome = fit(setup, checkpoint, steps, listeners)
            from .export import export  # only after training: what it imports is as large as all the rest

            report = export(setup, outcome)
            on_main_process(processes, lambda: outcome.uploads.finish() if outcome.uploads else None)
            return report


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
            requested, _ = requested_threads(recipe.training.cpu_threads)
            torch.set_num_threads(requested or share_of_cores(accelerator))
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
