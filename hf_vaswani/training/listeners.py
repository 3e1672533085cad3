"""Listeners of a run: a small protocol that both loops drive, with typed values and no access back to the loop."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from .checkpoints.progress import Progress
from .optimization.steps import StepBatches


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
    """Base class of a run's listeners, called in every process; subclasses override the methods that they need."""

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
