"""How far a run has come, which its checkpoints record, and the listeners that hear of each step."""

import json
import typing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import nn

from ...errors import InputError
from ...files import read_json, type_errors
from .step_batches import StepBatches


@dataclass
class Progress:
    """How far a run has come.

    Attributes:
        step: optimizer steps done.
        epoch, part, batch: the position of the next batch: its epoch, the part of the epoch, its index in that part.
        seconds: training time, across all sessions of a resumed run.
        skipped: steps skipped because the loss or a gradient was not finite.
        skipped_in_a_row: those since the last good step.
        best_score: best value of `metric_for_best_model` so far; `None` before the first validation.
        validations_without_gain: number of validations since that best one.
        filters: what the filters found in the first epoch of a stream.
        is_unscheduled: whether this was saved because the run ended or a step was skipped, not because a checkpoint
            was due.
        log_window: sums since the last line of the log, so that the next line is the same as in an uninterrupted run.
        seen: "pairs", "source_tokens" and "target_tokens" in all steps.
        energy: joules, and the seconds in which they were measured, by kind of device.
        machines: descriptions of the machines that trained, each once.
        processes: the different numbers of processes that trained.
        threads: number of threads in each process on a CPU; 0 if it is not known.
    """

    step: int = 0
    epoch: int = 0
    part: int = 0
    batch: int = 0
    seconds: float = 0.0
    skipped: int = 0
    skipped_in_a_row: int = 0
    best_score: float | None = None
    validations_without_gain: int = 0
    filters: dict[str, int] = field(default_factory=dict)
    is_unscheduled: bool = False
    log_window: dict[str, float] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    energy: dict[str, list[float]] = field(default_factory=dict)
    machines: list[str] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    threads: int = 0

    def note_validation(self, measure: str, score: float) -> None:
        """Update the best validation score, and the number of validations since."""
        if is_better(measure, score, self.best_score):
            self.best_score, self.validations_without_gain = score, 0
        else:
            self.validations_without_gain += 1

    def is_out_of_patience(self, patience: int | None) -> bool:
        """Whether `patience` validations in a row brought no improvement; never without a limit."""
        return patience is not None and self.validations_without_gain >= patience

    def to_json(self) -> str:
        """The text of `progress.json`."""
        return json.dumps(asdict(self))


def is_better(measure: str, score: float, than: float | None) -> bool:
    """Whether a validation score is an improvement."""
    if than is None or than != than:
        return score == score
    return score < than if falls(measure) else score > than


def falls(measure: str) -> bool:
    """Whether lower is better, as for `"loss"`, and for `"es-gn_loss"`, that of a direction."""
    return measure.endswith("loss")


def read_progress(path: Path) -> Progress:
    """Read a `progress.json`.

    Raises:
        InputError: it is damaged.
    """
    types, stored = typing.get_type_hints(Progress), read_json(path, remedy="")
    errors = type_errors(stored, types) + [f"{name} is unknown" for name in stored if name not in types]
    if errors:
        raise InputError(f"{path.name}: {'; '.join(errors)}")
    return Progress(**stored)


@dataclass(frozen=True)
class StepResult:
    """The result of an optimizer step.

    Attributes:
        progress: of the run, including this step.
        loss: mean over the step's target tokens.
        learning_rate: the learning rate of the step.
        target_tokens: in all processes, without padding.
        batches: the batches that this process computed.
    """

    progress: Progress
    loss: float
    learning_rate: float
    target_tokens: int
    batches: StepBatches


@dataclass(frozen=True)
class ValidationResult:
    """The result of a validation.

    Attributes:
        progress: of the run.
        scores: by measure: loss, perplexity, accuracy, bleu, chrf, sentences.
        model: the model that was measured, which holds the moving average of its weights if one is kept; possibly
            sharded over processes.
    """

    progress: Progress
    scores: dict[str, float]
    model: nn.Module


class StepListener:
    """Base class of a run's listeners, called in every process; subclasses override the methods that they need.

    Example:

    ```python
    >>> class LossPrinter(StepListener):
    ...     def on_step_end(self, result):
    ...         print(result.progress.step, result.loss)

    >>> train(load_recipe("quickstart"), listeners=[LossPrinter()])
    ```
    """

    def on_run_begin(self, progress: Progress) -> None:
        """Called before the first step."""

    def on_step_end(self, result: StepResult) -> None:
        """Called after each optimizer step, before a validation or checkpoint that is due."""

    def on_validation(self, result: ValidationResult) -> None:
        """Called after each validation."""

    def on_save(self, progress: Progress) -> None:
        """Called before each checkpoint, to store in `progress` what the checkpoint should keep of the listener."""

    def on_checkpoint(self, checkpoint: Path) -> None:
        """Called after each checkpoint, once it is completely on the main process's disk.

        Args:
            checkpoint: its folder.
        """

    def on_run_end(self) -> None:
        """Called after the last step, and also if an error or a signal ended the run."""
