"""The names that a trail uses for the two loops that make the optimizer steps."""

from collections.abc import Callable

from ..run import TrainingRun

LOOP, TRAINER = "loop", "trainer"


def loop_name(steps: Callable[[TrainingRun], None]) -> str:
    """The name of a loop, from its module: `"loop"` for Accelerate, `"trainer"` for transformers' Trainer."""
    return steps.__module__.rpartition(".")[2]
