"""The trail of a run: digests of what it began with, and of the results of its first steps and its checkpoints.

It is kept in `trail.json` while the run trains, and in its results and its card. Anyone with the card and the text can
replay the run's first steps and see whether the results are the same.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..configuration.keys import Sections

TRAIL_FILE = "trail.json"
# How many of the first steps are recorded one by one: enough to see whether a replay is the same.
FIRST_STEPS = 10
# How many of the checkpoints a card shows; the results have all of them.
SHOWN_CHECKPOINTS = 10


class RecordPart(BaseModel):
    """A part of what a run records. Keys of later versions are kept as they are."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class TextDigest(RecordPart):
    """The digests of a text.

    Attributes:
        pairs: number of pairs; `None` if they are streamed.
        digest: digest of all pairs; for a stream, of its description alone.
        ranges: short digests of consecutive ranges of pairs, all of the same length except the last.
        range_length: number of pairs in each range.
    """

    pairs: int | None = None
    digest: str
    ranges: list[str] = []
    range_length: int = 0


class Environment(RecordPart):
    """What steps are computed with, from a certain step on.

    Attributes:
        first_step: first step that was made in it.
        device: `"cpu"` or `"cuda"`.
        processor: the processor in words.
        threads: threads of each process on a CPU.
        loop: `"loop"` for the one on Accelerate, `"trainer"` for transformers' Trainer.
        versions: package versions; empty if they are not known.
    """

    first_step: int = 1
    device: str = "cpu"
    processor: str = ""
    threads: int = Field(default=0, ge=0)
    processes: int = Field(default=1, ge=1, le=1024)
    mixed_precision: Literal["no", "fp16", "bf16", "fp8"] = "no"
    loop: str = "loop"
    versions: dict[str, str] = {}

    @property
    def launch(self) -> tuple[str, int, str, str]:
        """What cannot change while processes run: device, number of processes, precision and loop."""
        return self.device, self.processes, self.mixed_precision, self.loop


class StepRecord(RecordPart):
    """The results of a step.

    Attributes:
        step: the step's number, counted from 1.
        loss: mean loss per target token, as `float.hex` writes it; `None` if the step was skipped.
        weights: digest of the weights after the step.
        ema: digest of their moving average, if one is kept.
        batches: digest of the token ids in the step's batches, for the first steps.
        is_unscheduled: whether its checkpoint was written only because the run ended.
    """

    step: int
    loss: str | None = None
    weights: str
    ema: str | None = None
    batches: str | None = None
    is_unscheduled: bool = False


class RunTrace(RecordPart):
    """The trail of a run.

    Attributes:
        recipe: section → key → value of everything that determines the steps.
        texts: digests of the text by split: train, validation.
        tokenizer: digest of the tokenizer's files.
        initial: digest of the weights before the first step; `None` if the record of the beginning is lost.
        teacher: digest of the weights of the models that it distills; `None` if it distills none.
        environments: in order of their first steps.
        steps: the first ones, and those with a checkpoint.
    """

    recipe: Sections = {}
    texts: dict[str, TextDigest]
    tokenizer: str | None = None
    initial: str | None = None
    teacher: str | None = None
    environments: list[Environment] = Field(min_length=1)
    steps: list[StepRecord] = []

    def to_json(self) -> str:
        """The content of `trail.json`, a line for each step."""
        values = self.model_dump(exclude_defaults=True)
        lines = [f'"{name}": {_listed(value)}' for name, value in values.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def environment_at(self, step: int) -> Environment:
        """The environment that a step was made in."""
        return [self.environments[0], *(e for e in self.environments if e.first_step <= step)][-1]

    def environments_within(self, first: int, last: int) -> list[Environment]:
        """The environments in which a range of steps was made, in order."""
        return [self.environment_at(first), *(e for e in self.environments if first < e.first_step <= last)]

    def is_one_launch(self, first: int, last: int) -> bool:
        """Whether a range of steps was made with the same device, processes, precision and loop."""
        return len({environment.launch for environment in self.environments_within(first, last)}) == 1

    def shown(self) -> "RunTrace":
        """The trail as a card shows it: not with all checkpoints, but with the last one and others evenly spaced."""
        first = [record for record in self.steps if record.step <= FIRST_STEPS]
        later = self.steps[len(first) :]
        stride = -(-len(later) // SHOWN_CHECKPOINTS) or 1
        return self.model_copy(update={"steps": [*first, *later[::-1][::stride][::-1]]})


def _listed(value: object) -> str:
    lines = value if isinstance(value, list) else []
    text = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in lines)
    return f"[\n{text}\n]" if lines else json.dumps(value, ensure_ascii=False)


def parse_trail(text: str | bytes) -> RunTrace | None:
    """What [`RunTrace.to_json`] wrote; `None` where it is damaged."""
    try:
        return RunTrace.model_validate_json(text)
    except (ValidationError, RecursionError):
        return None


def read_trail(folder: Path) -> RunTrace | None:
    """The trail in a run's folder; `None` where there is none that can be read."""
    with suppress(OSError):
        return parse_trail((folder / TRAIL_FILE).read_bytes())
