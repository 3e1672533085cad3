"""How many runs of a sweep a machine trains side by side, and which resources each run gets."""

import os
from dataclasses import dataclass

import torch

from ...runtime.cores import available_cores
from ...runtime.launcher import is_set, threads_of_user
from .plan import SweepPlan

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Slot:
    """The resources of one of the runs side by side.

    Attributes:
        gpu: the GPU that the run sees, as CUDA_VISIBLE_DEVICES names it; `None` on other devices.
        threads: the number of threads on a CPU; `None` if the recipe sets it, or on another device.
    """

    gpu: str | None = None
    threads: int | None = None


def slots(plan: SweepPlan, jobs: int | None) -> list[Slot]:
    """The slots of a sweep, one for each run that trains at the same time.

    On GPUs, there is one slot per GPU by default; with `jobs`, that many are dealt out over the GPUs. On a CPU, there
    is one slot per run, up to `jobs` or by default the number of cores divided by the threads that the recipe or
    OMP_NUM_THREADS asks for (one if neither does); if neither does, the cores are divided among the slots. The threads
    depend on the whole sweep, not on what is left of it, so that a resumed run keeps its number of threads.

    Args:
        jobs: the number of runs side by side that the user asks for, if any.
    """
    if devices := gpus():
        return [Slot(devices[number % len(devices)]) for number in range(jobs or len(devices))]
    if _is_mps():
        return [Slot()] * (jobs or 1)
    number = min(jobs or runs_side_by_side(plan), len(plan.runs))
    by_recipe = _threads_of_recipe(plan)
    threads = None if by_recipe else threads_of_user() or max(available_cores() // number, 1)
    return [Slot(threads=threads)] * number


def runs_side_by_side(plan: SweepPlan) -> int:
    """How many runs the machine can train at a time, however many the sweep has."""
    if devices := gpus():
        return len(devices)
    if _is_mps():
        return 1
    return max(available_cores() // (_threads_of_recipe(plan) or threads_of_user() or 1), 1)


def _threads_of_recipe(plan: SweepPlan) -> int:
    """The most threads that the recipe of any run asks for; 0 if none does."""
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
