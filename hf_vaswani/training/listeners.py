"""What listens to a run: one small protocol that both loops drive, with typed values and no way back to the loop."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from .checkpoints.progress import Progress
from .optimization.steps import StepBatches


@dataclass(frozen=True)
class StepResult:
    """What an optimizer step has left.

    Attributes:
        progress: of the run, the step included.
        loss: mean over the step's target tokens.
        learning_rate: that the step was made with.
        target_tokens: in all processes, without padding.
        batches: that this process computed.
    """

    progress: Progress
    loss: float
    learning_rate: float
    target_tokens: int
    batches: StepBatches


@dataclass(frozen=True)
class ValidationResult:
    """What a validation has measured.

    Attributes:
        progress: of the run.
        scores: by measure: loss, perplexity, accuracy, bleu, chrf, sentences.
        model: that was measured, with the moving average of its weights where one is kept; as it is spread over
            processes.
    """

    progress: Progress
    scores: dict[str, float]
    model: nn.Module


class StepListener:
    """Hears of what happens in a run, in every process; what does not concern it is left as it is here."""

    def on_run_begin(self, progress: Progress) -> None:
        """Before the first step."""

    def on_step_end(self, result: StepResult) -> None:
        """After each optimizer step, before a validation or a checkpoint that is due."""

    def on_validation(self, result: ValidationResult) -> None:
        """After each validation."""

    def on_save(self, progress: Progress) -> None:
        """Before each checkpoint: what it should hold of the listener goes into its progress."""

    def on_checkpoint(self, checkpoint: Path) -> None:
        """After each checkpoint, which is whole on the disk of the main process.

        Args:
            checkpoint: its folder.
        """

    def on_run_end(self) -> None:
        """After the last step, and where an error or a signal ended the run."""
