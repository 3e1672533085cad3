"""Which weights become the final model: a mean of checkpoints (section 6.1), or those of a single one.

The mean of the last checkpoints is better than the last one if the loss has become flat, and worse if it is still
falling, as in a short fine-tuning. The candidates are therefore compared on the validation set, unless the recipe
chooses one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...hub.run_report import ComparedWeights, FinalWeights
from ..recipe.arguments import TrainingArguments
from .best_weights import ranked
from .checkpoint import checkpoint_folders, find_damage, step_of, weights_file
from .output_folder import BEST, CHECKPOINTS


@dataclass(frozen=True)
class Candidate:
    """Weights that may become the final model: those of a checkpoint, or the mean of several.

    Attributes:
        name: a description in words.
        paths: the folders of the checkpoints or best weights.
    """

    name: str
    paths: tuple[Path, ...]

    @property
    def steps(self) -> list[int]:
        """The steps after which the weights were stored."""
        return [step_of(path) for path in self.paths]

    @property
    def files(self) -> list[Path]:
        """The files with the weights for translation."""
        return [weights_file(path) for path in self.paths]


def candidates(arguments: TrainingArguments, folder: Path, report: Callable[[str], None]) -> list[Candidate]:
    """The weights to choose from; only one candidate if the recipe names it. Damaged checkpoints are skipped.

    Args:
        folder: the output folder.
        report: called with a line about each checkpoint that is skipped.

    Raises:
        InputError: if there are no intact weights.
    """
    kind, checkpoints = arguments.average, checkpoint_folders(folder / CHECKPOINTS)
    # A session that was killed may have validated steps that the run, resumed with other limits, did not take again.
    end = step_of(checkpoints[-1]) if checkpoints else math.inf
    best = [path for path in ranked(folder / BEST) if step_of(path) <= end]
    if kind == "best" and not best:
        report(
            "There were no validations, so there are no best weights: the final model is the mean of the last "
            "checkpoints"
        )
        kind = "last"
    last = _whole(checkpoints, arguments.average_last, report) if kind != "best" else []
    found = {
        "last": _mean("last", "checkpoint", last),
        "last alone": _mean("last", "checkpoint", last[-1:]),
        "best": _mean("best", "weights in validation", best[: arguments.keep_best]),
        "best alone": _mean("best", "weights in validation", best[:1]),
    }
    kept: dict[tuple[int, ...], Candidate] = {}
    for name in found if kind == "auto" else [kind]:
        if found[name].paths:
            # Candidates from the same steps have the same weights, whatever they are called.
            kept.setdefault(tuple(sorted(found[name].steps)), found[name])
    if not kept:
        raise InputError(
            f"{folder} contains no intact weights for the final model. Raise training.max_steps to train further."
        )
    return list(kept.values())


def _whole(checkpoints: list[Path], last: int, report: Callable[[str], None]) -> list[Path]:
    """The intact ones of the last N checkpoints; if there are none, the newest intact one."""
    wanted = checkpoints[-last:]
    whole = [path for path in wanted if find_damage(path) is None]
    for path in wanted:
        if path not in whole:
            report(f"{path} is damaged and not used for the final model")
    return whole or [path for path in checkpoints[:-last] if find_damage(path) is None][-1:]


def _mean(which: str, what: str, paths: list[Path]) -> Candidate:
    if len(paths) == 1:
        return Candidate(f"the {which} {what}", tuple(paths))
    plural = what.replace("checkpoint", "checkpoints")
    return Candidate(f"the mean of the {which} {len(paths)} {plural}", tuple(paths))


def lowest(losses: list[float]) -> int:
    """The index of the lowest loss, the first of equal ones; NaN counts as the highest."""
    return min(range(len(losses)), key=lambda i: losses[i] if losses[i] == losses[i] else math.inf)


def describe(arguments: TrainingArguments, compared: list[Candidate], losses: list[float]) -> FinalWeights:
    """The weights that became the final model, and the candidates that they were compared with."""
    return FinalWeights(
        average=arguments.average,
        weights=compared[lowest(losses)].name,
        compared=[
            ComparedWeights(weights=candidate.name, steps=candidate.steps, validation_loss=loss)
            for candidate, loss in zip(compared, losses)
        ],
    )
