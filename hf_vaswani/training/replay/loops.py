"""The names by which a trail knows what makes the optimizer steps."""

from collections.abc import Callable

from ..run import TrainingRun

LOOP, TRAINER = "loop", "trainer"


def loop_name(steps: Callable[[TrainingRun], None]) -> str:
    """ "loop" for the one on Accelerate, "trainer" for transformers' Trainer: the modules that they stand in."""
    return steps.__module__.rpartition(".")[2]


def loop_of(name: str) -> Callable[[TrainingRun], None]:
    """What makes the steps, by the name that [`loop_name`] gives it."""
    if name == TRAINER:
        from ..trainer import run_steps
    else:
        from ..loop import run_steps
    return run_steps
