"""The third phase: the steps of a run, and the listeners that follow them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import GenerationConfig

from ..core.configuration_vaswani import VaswaniConfig
from ..errors import TrainingInterrupted, counted
from ..runtime.processes import on_main_process, print_main
from .build import TrainingSetup
from .checkpoints.artifacts import BEST
from .checkpoints.best_weights import BestWeights
from .describe import describe
from .listeners import DeviceListener, EnergyListener
from .optimization.progress import Progress, StepListener
from .recorder import TrailRecorder
from .reporting.log import TrainingLog
from .run import TrainingRun

if TYPE_CHECKING:
    from .publishing.uploads import HubUploads


@dataclass(frozen=True)
class TrainingOutcome:
    """What is left after the last step; the weights are in the run's checkpoints.

    Attributes:
        progress: of the run, at its end.
        config, generation_config: of the model.
        uploads: the uploads to the Hub; `None` without any, and in all processes but the main one.
    """

    progress: Progress
    config: VaswaniConfig
    generation_config: GenerationConfig
    uploads: "HubUploads | None" = None


def fit(
    setup: TrainingSetup,
    checkpoint: Path | None,
    steps: Callable[[TrainingRun], None],
    listeners: Sequence[StepListener] = (),
) -> TrainingOutcome:
    """Train to the end, with validations and checkpoints along the way; the last step always saves a checkpoint.

    Args:
        checkpoint: the checkpoint to resume from, if there is one.
        steps: runs the optimizer steps.
        listeners: called after those of the package.

    Raises:
        TrainingInterrupted: at SIGTERM or Ctrl-C, once the state is saved.
        TrainingError: if gradients remain non-finite, or a checkpoint cannot be written.
    """
    run, processes = TrainingRun(setup, checkpoint), setup.processes
    for line in [*describe(setup), *warmup_warnings(run)] if processes.is_main_process else []:
        print_main(line)
    uploads = None
    if setup.repository and processes.is_main_process:
        from .publishing.uploads import HubUploads

        uploads = HubUploads(setup, setup.repository)
    # The order matters: the recorder stores the number of threads that a listener before it sets, and uploads come
    # after everything has been written.
    run.listeners += [
        *make_listeners(run, setup),
        TrailRecorder(setup, run, steps),
        *([uploads] if uploads else []),
        *listeners,
    ]
    if not run.is_over():
        try:
            with run.active():
                steps(run)
        except TrainingInterrupted:
            on_main_process(processes, lambda: uploads.wait() if uploads else None)
            raise
        from .reporting.figures import draw_run_curves

        on_main_process(processes, lambda: draw_run_curves(setup.folder))
        reason = run.early_end()
    else:
        reason = run.nothing_to_train() or run.early_end()
    if reason:
        print_main(reason, processes)
    model = run.raw_model
    return TrainingOutcome(run.progress, model.config, model.generation_config, uploads)


def warmup_warnings(run: TrainingRun) -> list[str]:
    """A warning if the run ends before the learning rate reaches its peak."""
    warmup, last = run.arguments.warmup_steps, run.last_step()
    if last is None or warmup <= last:
        return []
    return [
        f"warning: the learning rate does not reach its peak: training.warmup_steps={warmup}, but the run ends after "
        f"{counted(last, 'step')}. Lower the former, or raise the latter"
    ]


def make_listeners(run: TrainingRun, setup: TrainingSetup) -> list[StepListener]:
    """The listeners that follow every run, in the order in which they are called."""
    arguments, processes = setup.recipe.training, setup.processes
    log = TrainingLog(
        setup.folder if processes.is_main_process else None,
        run.progress,
        run.last_step(),
        run.clock,
        arguments.logging_steps,
        arguments.max_minutes,
        run.steps_per_epoch() if arguments.max_minutes else None,
        processes.log if arguments.report_to else None,
    )
    best = BestWeights(setup.folder / BEST, arguments.metric_for_best_model, arguments.keep_best, processes)
    devices = DeviceListener(processes, setup.model.config, arguments, run.clock)
    energy: list[StepListener] = [EnergyListener()] if processes.is_main_process else []
    return [log, devices, *energy, best]
