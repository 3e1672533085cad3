"""How far a run has come: the part of a checkpoint that does not consist of tensors."""

import json
import typing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...errors import InputError
from ...files import read_json, type_errors


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

    def to_json(self) -> str:
        """The text of `progress.json`."""
        return json.dumps(asdict(self))


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
