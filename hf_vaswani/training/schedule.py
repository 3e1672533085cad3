"""Learning-rate schedules: the paper's (equation 3) and other common ones, exact at every optimizer step.

A schedule is a function in the registry `SCHEDULES`; the recipe's key `lr_scheduler_type` selects one by its name.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Course(NamedTuple):
    """What a schedule depends on besides the step.

    Attributes:
        peak: the highest learning rate; for the paper's schedule, a factor instead, which is 1 in the paper.
        warmup, max_steps: in optimizer steps; `max_steps` matters only for schedules that decay until the end.
    """

    peak: float
    warmup: int
    max_steps: int | None
    d_model: int

    def progress(self, step: int) -> float:
        """The fraction of the steps after warm-up that are done, from 0 to 1."""
        return min((step - self.warmup) / max(self.max_steps - self.warmup, 1), 1.0)


# Step, counted from 1 → learning rate.
Rate = Callable[[int, Course], float]


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes.

    Attributes:
        rate: gives the learning rate of each step.
        default_peak: the peak if the recipe gives no `learning_rate`; `None` if the recipe must give one.
        needs_warmup: whether there must be at least one step of warm-up.
    """

    rate: Rate
    default_peak: float | None = None
    needs_warmup: bool = False

    @cached_property
    def falls_to_end(self) -> bool:
        """Whether it depends on the last step, so that a run with another `max_steps` is another run."""
        short, long = (Course(peak=1.0, warmup=1, max_steps=steps, d_model=1) for steps in (100, 200))
        return any(self.rate(step, short) != self.rate(step, long) for step in range(1, 101))


SCHEDULES: dict[str, Schedule] = {}


def schedule(name: str, **traits) -> Callable[[Rate], Rate]:
    """Register a schedule; `traits` are the other attributes of [`Schedule`]."""

    def register(rate: Rate) -> Rate:
        SCHEDULES[name] = Schedule(rate, **traits)
        return rate

    return register


def learning_rate(name: str, step: int, *, peak: float, warmup: int, max_steps: int | None, d_model: int) -> float:
    """The learning rate of an optimizer step, counted from 1; for the other arguments see [`Course`]."""
    return SCHEDULES[name].rate(step, Course(peak, warmup, max_steps, d_model))


def warmed_up(after_warmup: Rate) -> Rate:
    """A schedule that rises linearly to the peak during warm-up, and then follows `after_warmup`."""

    def rate(step: int, course: Course) -> float:
        if step <= course.warmup:
            return course.peak * step / course.warmup
        return after_warmup(step, course)

    return rate


@schedule("paper", default_peak=1.0, needs_warmup=True)
def _paper(step: int, course: Course) -> float:
    """Equation 3, which includes the warm-up."""
    return course.peak * course.d_model**-0.5 * min(step**-0.5, step * course.warmup**-1.5)


@schedule("inverse_sqrt", needs_warmup=True)
@warmed_up
def _inverse_sqrt(step: int, course: Course) -> float:
    return course.peak * (course.warmup / step) ** 0.5


@schedule("linear")
@warmed_up
def _linear(step: int, course: Course) -> float:
    return course.peak * (1 - course.progress(step))


@schedule("cosine")
@warmed_up
def _cosine(step: int, course: Course) -> float:
    return course.peak * ((1 + math.cos(math.pi * course.progress(step))) / 2)


@schedule("constant")
@warmed_up
def _constant(step: int, course: Course) -> float:
    return course.peak
