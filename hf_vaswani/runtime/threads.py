"""The threads of a run on a CPU: as many as the user asks for, or else as many as measurements find fastest.

In each parallel loop, threads wait for the slowest, so that a single other busy process can make all cores together
slower than one. The last bits of results depend on the number of threads, so it is kept unless another number is
clearly faster, and a resumed run starts with its checkpoint's number.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch.nn import functional as F

from ..errors import counted
from .cores import affinity_mask, available_cores, cpu_quota
from .launcher import threads_of_user
from .machine import processes_here
from .processes import print_main

# How many times as fast fewer, or more, threads must be to be chosen. Threads with short waits lose little next to
# other processes; those that spin, as they do if OpenMP was loaded before this package, become ten times as slow.
FEWER, MORE = 2.0, 1.3
# A measurement: how often each number of threads is tried, seconds per try, operations per round.
TRIES, SECONDS, OPERATIONS = 3, 0.04, 2e8
# The share of the highest speed below which steps are slow. Seconds over which speed is measured, seconds between
# choices of threads, and steps between checks of the speed.
SLOW, WINDOW, PATIENCE, STEPS_BETWEEN_LOOKS = 0.5, 5.0, 30.0, 10


def requested_threads(cpu_threads: int | None) -> tuple[int | None, str]:
    """The number of threads that the user asks for, if any, and the setting that says so."""
    if cpu_threads:
        return cpu_threads, "training.cpu_threads"
    return threads_of_user(), "OMP_NUM_THREADS"


def cores_of_run(cpu_threads: int | None, processes: int) -> int:
    """The number of this machine's cores that a run may use: as many as it asks for in its processes, or else all."""
    requested, _ = requested_threads(cpu_threads)
    return min(requested * processes_here(processes), available_cores()) if requested else available_cores()


def share_of_cores(accelerator: Accelerator) -> int:
    """The number of cores for this process: its affinity mask's, shared with other processes of the run."""
    if accelerator.num_processes == 1:
        return available_cores()
    own = affinity_mask()
    machine = (platform.node(), os.environ.get("GROUP_RANK"))
    masks = [mask for place, mask in gather_object([(machine, own)]) if place == machine]
    quota = cpu_quota() / processes_here(accelerator.num_processes)
    return max(min(fair_share(own, masks), int(min(quota, len(own)))), 1)


def fair_share(own: set[int], masks: list[set[int]]) -> int:
    """How many of its own cores a process gets, given the masks of all processes that may share them."""
    return int(sum(1 / sum(core in mask for mask in masks) for core in own) + 1e-6)


def numbers_to_try(most: int, current: int) -> list[int]:
    """Numbers of threads worth measuring: the current one first, then all, all but one, and by halves down to one."""
    numbers = [current, most, most - 1]
    while most > 1:
        most //= 2
        numbers.append(most)
    return list(dict.fromkeys(number for number in numbers if number > 0))


@contextmanager
def threads_set(number: int) -> Iterator[None]:
    """Compute on this many threads while the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure(numbers: list[int], rounds: Callable[[], None]) -> dict[int, float]:
    """Seconds that the same work takes with each number of threads: the median of several tries, taken in turn."""
    before, tries = torch.get_num_threads(), {number: [] for number in numbers}
    for _ in range(TRIES):
        for number in numbers:
            torch.set_num_threads(number)
            rounds()  # creates the threads
            began, done = time.perf_counter(), 0
            while time.perf_counter() - began < SECONDS:
                rounds()
                done += 1
            tries[number].append((time.perf_counter() - began) / done)
    torch.set_num_threads(before)
    return {number: sorted(seconds)[TRIES // 2] for number, seconds in tries.items()}


def feed_forward(d_model: int, inner: int, tokens: int) -> Callable[[], None]:
    """Work like a run's: a feed-forward network of its sizes with residual connection and norm."""
    tokens = max(min(tokens, int(OPERATIONS / (4 * d_model * inner))), 64)
    # Ones: drawing random numbers would disturb the run's.
    x, up, down = torch.ones(tokens, d_model), torch.ones(d_model, inner) / inner, torch.ones(inner, d_model) / inner

    @torch.no_grad()
    def work() -> None:
        F.layer_norm(x + F.relu(x @ up) @ down, (d_model,))

    return work


def best_number(seconds: dict[int, float], current: int) -> int:
    """The fastest number of threads, if it is clearly faster than the current one."""
    best = min(seconds, key=seconds.get)
    return best if seconds[current] > (FEWER if best < current else MORE) * seconds[best] else current


def serving_number(most: int, work: Callable[[], None]) -> int:
    """The number of threads to use, at most `most`: all of them, unless fewer are clearly faster at present."""
    return best_number(measure(numbers_to_try(most, most), work), most) if most > 1 else most


class AdaptiveThreads:
    """Chooses the number of threads in each process of a run, at its start and again when it becomes slow.

    Args:
        share: maximum number of threads of a process.
        work: timed with different numbers of threads.
        clock: returns the seconds spent on steps.

    Attributes:
        tokens: number of tokens trained on since the start of the window in which the speed is measured.
    """

    def __init__(self, accelerator: Accelerator, share: int, work: Callable[[], None], clock: Callable[[], float]):
        self.accelerator = accelerator
        self.share = share
        self.work = work
        self.clock = clock
        self.best_speed = 0.0
        self.last_choice = clock()
        self.begin_window()

    def choose(self) -> None:
        """Measure and set the number of threads, the same in all processes, and say so if it changes."""
        current = torch.get_num_threads()
        numbers = numbers_to_try(self.share, current)
        seconds = measure(numbers, self.work) if len(numbers) > 1 else {current: 1.0}
        number = best_number(seconds, current)
        if self.accelerator.num_processes > 1:
            number = min(gather_object([number]))
        torch.set_num_threads(number)
        if number != current:
            ratio = seconds[current] / seconds.get(number, seconds[current])
            busy = "other processes use the cores" if number < current else "cores that were busy are free"
            print_main(
                f"switched from {current} to {counted(number, 'thread')}, {_speed(ratio)} as fast in a short test: "
                f"{busy}. Set --cpu_threads for a fixed number",
                self.accelerator,
            )

    def begin_window(self) -> None:
        """Start to measure the speed of steps."""
        self.window_began, self.tokens = self.clock(), 0

    def is_due(self) -> bool:
        """Whether to choose again: steps have become slow, or fewer threads than possible are in use."""
        now = self.clock()
        if now - self.window_began < WINDOW:
            return False
        speed = self.tokens / (now - self.window_began)
        self.begin_window()
        self.best_speed = max(self.best_speed, speed)
        is_slow = speed < SLOW * self.best_speed
        if not is_slow and torch.get_num_threads() >= self.share or now - self.last_choice < PATIENCE:
            return False
        self.last_choice = now
        return True


def begin_threads(
    accelerator: Accelerator,
    cpu_threads: int | None,
    stored: int,
    work: Callable[[], None],
    clock: Callable[[], float],
) -> AdaptiveThreads | None:
    """Set the number of threads that a run begins with, and say why if that leaves cores idle.

    Args:
        cpu_threads: number of threads that the recipe asks for, if any.
        stored: number of threads in the checkpoint that the run resumes from; 0 without one.
        work, clock: as for [`AdaptiveThreads`].

    Returns:
        What adapts the number; `None` if the user sets it.
    """
    requested, by = requested_threads(cpu_threads)
    share = share_of_cores(accelerator)
    torch.set_num_threads(requested or min(stored or share, share))
    here, cores = processes_here(accelerator.num_processes), os.cpu_count() or 1
    number = requested or share
    if not cpu_threads and number * here < cores:
        line = counted(number, "thread") + (f" in each of {here} processes" if here > 1 else "")
        why = f"as {by} says" if requested else "as many as the affinity mask and limits of this process allow"
        print_main(f"{line} on {counted(cores, 'core')}, {why}. Set --cpu_threads for another number", accelerator)
    if requested:
        return None
    threads = AdaptiveThreads(accelerator, share, work, clock)
    threads.choose()
    return threads


def _speed(ratio: float) -> str:
    """A ratio of speeds; large ones, on a busy machine, differ from one moment to the next."""
    return f"{ratio:.1f} times" if ratio < 10 else "more than 10 times"
