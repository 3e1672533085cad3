"""Which checkpoints are the best, how many of them are kept, and when nothing more is gained."""

import json
import math
from pathlib import Path

from accelerate import Accelerator
from safetensors import SafetensorError

from ...errors import TrainingError, reason
from ...files import check_types, read_json
from ...runtime.processes import on_main_process
from ..listeners import StepListener, ValidationResult
from ..optimization.weights import Tensors
from .checkpoint import WEIGHTS_FILE, checkpoint_folders, damage_of, remove, save_weights, step_of, tidy, write_whole
from .progress import Progress
from .state import gather_weights

# The scores of a validation, by measure, and which of them ranks the weights.
SCORES_FILE, RANKED_BY = "scores.json", "ranked_by"
# Measures of which less is better; of the others, more is.
FALLING = {"loss"}


def is_better(measure: str, score: float, than: float | None) -> bool:
    """Whether a validation score is a gain."""
    if than is None or than != than:
        return score == score
    return score < than if measure in FALLING else score > than


def note_validation(progress: Progress, measure: str, score: float) -> None:
    """Count the validations since the best one."""
    if is_better(measure, score, progress.best_score):
        progress.best_score, progress.validations_without_gain = score, 0
    else:
        progress.validations_without_gain += 1


class BestWeights(StepListener):
    """The weights that were best in validation: folders `update-…` with the weights and `scores.json`.

    Args:
        folder: that holds them.
        measure: by which they are ranked.
        keep: how many are kept.
        processes: over which a model that is listened for may be spread.
    """

    def __init__(self, folder: Path, measure: str, keep: int, processes: Accelerator | None = None):
        self.folder = folder
        self.measure = measure
        self.keep = keep
        self.processes = processes

    def on_validation(self, result: ValidationResult) -> None:
        """Keep the weights of the model that was measured where they are among the best."""
        if self.keep:
            # In 32 bits, which the model computes in 16 with mixed precision.
            values, step = gather_weights(result.model), result.progress.step
            on_main_process(self.processes, lambda: self.consider(values, step, result.scores))

    def consider(self, values: Tensors, step: int, scores: dict[str, float]) -> None:
        """Store weights if they are among the best; the worst of too many goes.

        Args:
            scores: of the validation, by measure.

        Raises:
            TrainingError: where they cannot be written. Those that were kept are as they were.
        """
        tidy(self.folder)
        path = self.folder / f"update-{step:08d}"
        others = [other for other in ranked(self.folder) if other != path]
        if len(others) >= self.keep and not is_better(
            self.measure, scores[self.measure], score_of(others[self.keep - 1])[1]
        ):
            return

        def write(part: Path) -> None:
            save_weights(values, part / WEIGHTS_FILE)
            (part / SCORES_FILE).write_text(json.dumps({**scores, RANKED_BY: self.measure}))

        try:
            write_whole(path, write)
        except (OSError, SafetensorError) as error:
            raise TrainingError(
                f"The best weights of step {step} cannot be written to {path}: {reason(error)}"
            ) from error
        for worse in ranked(self.folder)[self.keep :]:
            remove(worse)


def ranked(folder: Path) -> list[Path]:
    """The kept weights whose files are whole, the best first; of equal ones, the earlier first.

    Raises:
        InputError: as [`score_of`].
    """

    def rank(path: Path) -> tuple[float, int]:
        measure, score = score_of(path)
        if score != score:  # no number, and no order
            return math.inf, step_of(path)
        return score if measure in FALLING else -score, step_of(path)

    return sorted((path for path in checkpoint_folders(folder) if damage_of(path) is None), key=rank)


def score_of(path: Path) -> tuple[str, float]:
    """By what measure kept weights are ranked, and their score.

    Raises:
        InputError: where their file does not say so.
    """
    scores = read_json(path / SCORES_FILE)
    measure = scores.get(RANKED_BY)
    kinds = {RANKED_BY: str} | ({measure: float} if isinstance(measure, str) else {})
    check_types(path / SCORES_FILE, scores, kinds)
    return measure, scores[measure]
