"""The name by which a trail knows what makes the optimizer steps."""

from collections.abc import Callable

from ..run import TrainingRun

LOOP, TRAINER = "loop", "trainer"


def loop_name(steps: Callable[[TrainingRun], None]) -> str:
    """`"loop"` for the one on Accelerate, `"trainer"` for transformers' Trainer: the modules that they stand in."""
    return steps.__module__.rpartition(".")[2]
