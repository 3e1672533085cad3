"""Learning rates: the paper's schedule (equation 3) and the usual others, exact at every step."""

import math
from collections.abc import Callable


def learning_rate(schedule: str, step: int, *, peak: float, warmup: int, max_steps: int | None, d_model: int) -> float:
    """The learning rate of a step.

    Args:
        schedule: `"paper"`: peak · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), where `peak` is a factor,
            1 in the paper. The others rise linearly to `peak` during warm-up and then: `"inverse_sqrt"` falls with
            the root of the step, `"linear"` to 0 at `max_steps`, `"cosine"` likewise, `"constant"` stays.
        step: counted from 1.
        warmup, max_steps: in steps; the latter for the linear and cosine schedules alone.
    """
    if schedule == "paper":
        return peak * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    if step <= warmup:
        return peak * step / warmup

    def progress() -> float:
        """From warm-up to the last step, 0 to 1."""
        return min((step - warmup) / max(max_steps - warmup, 1), 1.0)

    after_warmup: dict[str, Callable[[], float]] = {
        "inverse_sqrt": lambda: (warmup / step) ** 0.5,
        "linear": lambda: 1 - progress(),
        "cosine": lambda: (1 + math.cos(math.pi * progress())) / 2,
        "constant": lambda: 1.0,
    }
    return peak * after_warmup[schedule]()
