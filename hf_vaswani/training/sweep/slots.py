"""How many runs of a sweep a machine takes side by side, and what each of them gets of it."""

import os
from dataclasses import dataclass

import torch

from ...runtime.cores import available_cores
from ...runtime.launcher import threads_of_user
from ..check import is_set
from .plan import SweepPlan

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Slot:
    """What one of the runs side by side gets.

    Attributes:
        gpu: that it sees, as CUDA_VISIBLE_DEVICES names it; `None` on other devices.
        threads: on a CPU; `None` where the recipe says, or where a GPU computes.
    """

    gpu: str | None = None
    threads: int | None = None


def slots(plan: SweepPlan, jobs: int | None) -> list[Slot]:
    """One slot for each run at a time.

    On GPUs, these are one per GPU, or as many as are asked for, dealt out over the GPUs. On a CPU, they are the cores
    divided by the threads that the recipe or OMP_NUM_THREADS asks for, or else one per core, and the cores are divided
    among them. The threads depend on the whole sweep, not on what is left of it: a resumed run keeps its number.

    Args:
        jobs: that the user asks for.
    """
    if devices := gpus():
        return [Slot(devices[number % len(devices)]) for number in range(jobs or len(devices))]
    if _is_mps():
        return [Slot()] * (jobs or 1)
    number = jobs or min(runs_side_by_side(plan), len(plan.runs))
    by_recipe = _threads_of_recipe(plan)
    threads = None if by_recipe else threads_of_user() or max(available_cores() // number, 1)
    return [Slot(threads=threads)] * number


def runs_side_by_side(plan: SweepPlan) -> int:
    """How many runs the machine takes at a time, however many the sweep has."""
    if devices := gpus():
        return len(devices)
    if _is_mps():
        return 1
    return max(available_cores() // (_threads_of_recipe(plan) or threads_of_user() or 1), 1)


def _threads_of_recipe(plan: SweepPlan) -> int:
    """The most threads that a run's recipe asks for; 0 where none does."""
    return max((run.recipe.training.cpu_threads or 0 for run in plan.runs), default=0)


def _is_mps() -> bool:
    return torch.backends.mps.is_available() and not is_set("ACCELERATE_USE_CPU")


def gpus() -> list[str]:
    """The GPUs that this process sees, as CUDA_VISIBLE_DEVICES names them."""
    if is_set("ACCELERATE_USE_CPU"):
        return []
    number = torch.cuda.device_count()
    names = [name.strip() for name in os.environ.get(VISIBLE_DEVICES, "").split(",") if name.strip()]
    return names[:number] if names else [str(index) for index in range(number)]
