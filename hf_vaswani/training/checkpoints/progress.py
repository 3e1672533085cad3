"""How far a run has come: the part of a checkpoint that is not tensors."""

import json
import typing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import read_json, type_errors

# Fields whose names in the file are those of the first version.
STORED_NAMES = {"step": "update", "is_unscheduled": "is_irregular"}


@dataclass
class Progress:
    """How far a run has come.

    Attributes:
        step: optimizer steps done.
        epoch, part, batch: where the next batch stands: its epoch, the part of the epoch, its place in that part.
        seconds: time spent in training, resumed runs included.
        skipped: steps left out because of a loss or gradient that was not finite.
        skipped_in_a_row: those since the last good step.
        best_score: of the measure that early stopping watches; `None` before the first validation.
        validations_without_gain: since that best one.
        filters: what filters found in the first epoch of a stream.
        is_unscheduled: saved because the run ended, not because a checkpoint was due.
        log_window: sums since the last line of the log, so that the next line is that of an uninterrupted run.
        seen: "pairs", "source_tokens" and "target_tokens" in all steps; `None` where an earlier version, which did
            not count them, began the run.
        energy: joules, and the seconds in which they were measured, by kind of device.
        machines: that trained, in words, each once.
        processes: numbers of them that trained, each once; `None` as with `seen`.
        threads: of each process on a CPU; 0 where that is not known.
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
    seen: dict[str, int] | None = field(default_factory=dict)
    energy: dict[str, list[float]] = field(default_factory=dict)
    machines: list[str] = field(default_factory=list)
    processes: list[int] | None = field(default_factory=list)
    threads: int = 0

    def to_json(self) -> str:
        """The content of `progress.json`."""
        return json.dumps({STORED_NAMES.get(name, name): value for name, value in asdict(self).items()})

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        """What [`to_json`] wrote, in this version or an earlier one."""
        names = {stored: name for name, stored in STORED_NAMES.items()}
        values = {names.get(name, name): value for name, value in json.loads(text).items()}
        return cls(**{"seen": None, "processes": None, **values})


def progress_error(path: Path) -> str | None:
    """What is wrong with the types in a `progress.json`; `None` where nothing is."""
    types: dict[str, Any] = {
        STORED_NAMES.get(name, name): kind for name, kind in typing.get_type_hints(Progress).items()
    }
    try:
        errors = type_errors(read_json(path, remedy=""), types, optional=True)
    except InputError as error:
        return str(error).removesuffix(".")
    return f"{path.name}: {'; '.join(errors)}" if errors else None
