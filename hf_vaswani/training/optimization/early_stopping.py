"""Early stopping: counts the validations without improvement, and tells when they are too many."""

from .progress import Progress

# Measures for which lower is better; for the others, higher is.
FALLING = {"loss"}


def is_better(measure: str, score: float, than: float | None) -> bool:
    """Whether a validation score is an improvement."""
    if than is None or than != than:
        return score == score
    return score < than if measure in FALLING else score > than


def note_validation(progress: Progress, measure: str, score: float) -> None:
    """Update the best validation score and the number of validations since."""
    if is_better(measure, score, progress.best_score):
        progress.best_score, progress.validations_without_gain = score, 0
    else:
        progress.validations_without_gain += 1


def is_out_of_patience(progress: Progress, patience: int | None) -> bool:
    """Whether `patience` validations in a row brought no improvement; never without a limit."""
    return patience is not None and progress.validations_without_gain >= patience
