"""Which steps of a run are replayed: the first ones, and those from one checkpoint to the next."""

from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...hub.trail import FIRST_STEPS, Environment, Trail
from ..checkpoints.checkpoint import step_of

# The value of `--from` that stands for no checkpoint at all.
NO_CHECKPOINT = "none"


@dataclass(frozen=True)
class Part:
    """Consecutive steps of a run, made with the same device, processes, precision and loop.

    Attributes:
        first, last: the first and the last step; the last one is recorded in the trail.
        checkpoint: the one that the steps start from; `None` for the start of the run.
        target: the checkpoint that the steps lead to, if it still exists.
    """

    first: int
    last: int
    checkpoint: Path | None = None
    target: Path | None = None

    def __str__(self) -> str:
        steps = f"steps {self.first:,} to {self.last:,}" if self.last > self.first else f"step {self.first:,}"
        return f"{steps}, from {self.checkpoint.name}" if self.checkpoint else steps


def launched(environment: Environment) -> tuple[str, int, str, str]:
    """What cannot change within one launch: device, number of processes, precision and loop."""
    return environment.device, environment.processes, environment.mixed_precision, environment.loop


def environments_within(trail: Trail, first: int, last: int) -> list[Environment]:
    """The environments in which a run made a range of steps, in order."""
    return [trail.environment_of(first), *(entry for entry in trail.environments if first < entry.first_step <= last)]


def is_one_launch(trail: Trail, first: int, last: int) -> bool:
    """Whether a run made all steps of a range with the same device, processes, precision and loop."""
    return len({launched(entry) for entry in environments_within(trail, first, last)}) == 1


def first_part(trail: Trail, steps: int | None) -> Part | None:
    """The part with a run's first steps; `None` if its start is not recorded.

    Args:
        steps: how many of them; by default as many as are recorded one by one.
    """
    recorded = [record.step for record in trail.steps if is_one_launch(trail, 1, record.step)]
    within = [step for step in recorded if step <= (steps or FIRST_STEPS)]
    return Part(1, within[-1]) if within and trail.initial else None


def shortfall(trail: Trail, last: int, steps: int | None) -> str | None:
    """Why the first part ends before the requested step, in words; `None` if it does not.

    Args:
        last: the last step of the part.
        steps: how many steps were requested.
    """
    if steps is None or last == steps:
        return None
    following = next((record.step for record in trail.steps if record.step > last), None)
    if following is None:
        return f"--steps {steps}: no step after {last:,} is recorded. Replaying up to that step."
    if not is_one_launch(trail, 1, following):
        words = f"the steps up to {following:,} used a different device, number of processes, precision, or loop"
        return f"--steps {steps}: {words}. Replaying up to {last:,}."
    words = f"no step between {last:,} and {following:,} is recorded"
    return f"--steps {steps}: {words}. Replaying up to {last:,}; to go further, set --steps {following}."


def checkpoint_part(trail: Trail, checkpoints: list[Path], wanted: str | None) -> Part | None:
    """The part from a checkpoint to the next recorded one; `None` if there is no such part.

    Args:
        checkpoints: those that can be resumed from.
        wanted: name, path or step of a checkpoint, or "none"; by default the one with the fewest steps to the next,
            the last of several.

    Raises:
        InputError: if the wanted checkpoint does not exist, or leads to no recorded one.
    """
    if wanted == NO_CHECKPOINT:
        return None
    parts = [part for path in checkpoints if (part := _from(trail, path, checkpoints))]
    if wanted is None:
        return min(reversed(parts), key=lambda part: part.last - part.first, default=None)
    found = [part for part in parts if part.checkpoint and _is_named(part.checkpoint, wanted)]
    if not found:
        names = (
            ", ".join(part.checkpoint.name for part in parts if part.checkpoint) or f"{NO_CHECKPOINT} (no checkpoint)"
        )
        raise InputError(
            f"--from {wanted}: the run has no such checkpoint that leads to a recorded one. Choose from: {names}"
        )
    return found[0]


def _from(trail: Trail, checkpoint: Path, checkpoints: list[Path]) -> Part | None:
    first = step_of(checkpoint) + 1
    # The first steps are all recorded; later ones only at checkpoints, which may be gone by now.
    recorded = {record.step for record in trail.steps if record.step >= first}
    there = {step_of(path) for path in checkpoints}
    last = min((step for step in recorded if step > FIRST_STEPS or step in there), default=None)
    if last is None or not is_one_launch(trail, first, last):
        return None
    target = next((path for path in checkpoints if step_of(path) == last), None)
    return Part(first, last, checkpoint, target)


def _is_named(checkpoint: Path, wanted: str) -> bool:
    return Path(wanted).name == checkpoint.name or (wanted.isdecimal() and int(wanted) == step_of(checkpoint))
