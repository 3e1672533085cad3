"""Keeps the best weights of a run by their validation score."""

import json
import math
from pathlib import Path

from accelerate import Accelerator

from ...files import check_types, read_json
from ...runtime.processes import on_main_process
from ..optimization.progress import StepListener, ValidationResult, falls, is_better
from ..optimization.weights import Tensors, gather_weights
from .artifacts import saving
from .checkpoint import WEIGHTS_FILE, checkpoint_folders, find_damage, remove, save_weights, step_of, tidy, write_whole

# The file with the scores of a validation, and its key that names the score by which the weights are ranked.
SCORES_FILE, RANKED_BY = "scores.json", "ranked_by"


class BestWeights(StepListener):
    """Keeps the weights that scored best in validation, in folders `update-…` with the weights and `scores.json`.

    Args:
        folder: the parent of these folders.
        measure: the measure that ranks them.
        keep: how many to keep.
        processes: the processes that train, over which the model may be sharded.
    """

    def __init__(self, folder: Path, measure: str, keep: int, processes: Accelerator | None = None):
        self.folder = folder
        self.measure = measure
        self.keep = keep
        self.processes = processes

    def on_validation(self, result: ValidationResult) -> None:
        """Keep the weights of the validated model if they are among the best."""
        if self.keep:
            # In float32, also if the model computes in 16 bits with mixed precision.
            values, step = gather_weights(result.model), result.progress.step
            on_main_process(self.processes, lambda: self.consider(values, step, result.scores))

    def consider(self, values: Tensors, step: int, scores: dict[str, float]) -> None:
        """Store weights if they are among the best, and remove the worst beyond `keep`.

        Args:
            scores: those of the validation, by measure.

        Raises:
            TrainingError: if they cannot be written. Weights kept before are left as they were.
        """
        tidy(self.folder)
        path = self.folder / f"update-{step:08d}"
        others = [other for other in ranked(self.folder) if other != path]
        if len(others) >= self.keep and not is_better(
            self.measure, scores[self.measure], read_score(others[self.keep - 1])[1]
        ):
            return

        def write(part: Path) -> None:
            save_weights(values, part / WEIGHTS_FILE)
            (part / SCORES_FILE).write_text(json.dumps({**scores, RANKED_BY: self.measure}))

        with saving(f"The best weights of step {step} cannot be written to {path}"):
            write_whole(path, write)
        for worse in ranked(self.folder)[self.keep :]:
            remove(worse)


def ranked(folder: Path) -> list[Path]:
    """The kept weights whose files are intact, best first; with equal scores, the earlier step first.

    Raises:
        InputError: as in [`read_score`].
    """

    def rank(path: Path) -> tuple[float, int]:
        measure, score = read_score(path)
        if score != score:  # NaN cannot be ordered
            return math.inf, step_of(path)
        return score if falls(measure) else -score, step_of(path)

    return sorted((path for path in checkpoint_folders(folder) if find_damage(path) is None), key=rank)


def read_score(path: Path) -> tuple[str, float]:
    """The measure by which kept weights are ranked, and their score.

    Raises:
        InputError: if their file does not contain both.
    """
    scores = read_json(path / SCORES_FILE)
    measure = scores.get(RANKED_BY)
    kinds = {RANKED_BY: str} | ({measure: float} if isinstance(measure, str) else {})
    check_types(path / SCORES_FILE, scores, kinds)
    return measure, scores[measure]
