"""What measures a run: the clock of its log, its devices and number of threads, its energy."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from accelerate import Accelerator
from transformers import PreTrainedConfig

from ..models.families import config_value
from ..runtime.machine import describe_machine
from ..runtime.processes import on_main_process
from ..runtime.threads import STEPS_BETWEEN_LOOKS, AdaptiveThreads, begin_threads, feed_forward
from .optimization.progress import Progress, StepListener, StepResult
from .recipe.arguments import TrainingArguments

JOULES_PER_KWH = 3.6e6


class Stopwatch:
    """A clock that stops during pauses."""

    def __init__(self):
        self._paused = 0.0

    def __call__(self) -> float:
        """Seconds since an arbitrary moment, without pauses."""
        return time.monotonic() - self._paused

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out the seconds that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._paused += time.monotonic() - began


class DeviceListener(StepListener):
    """Sets the number of CPU threads, and records in a run's progress what it is trained on.

    The number is the one that the user asks for. Otherwise the run starts from that of the checkpoint, if any, and
    measures others at its start and when training becomes slow.
    """

    def __init__(
        self, processes: Accelerator, config: PreTrainedConfig, arguments: TrainingArguments, clock: Stopwatch
    ):
        self.processes, self.arguments, self.clock = processes, arguments, clock
        self.sizes = config.d_model, config_value(config, "encoder_ffn_dim")
        self.threads: AdaptiveThreads | None = None

    def on_run_begin(self, progress: Progress) -> None:
        if self.processes.device.type == "cpu":
            work = feed_forward(*self.sizes, self.arguments.max_tokens)
            self.threads = begin_threads(
                self.processes, self.arguments.cpu_threads, progress.threads, work, self.clock
            )
            progress.threads = torch.get_num_threads()
        self._note(progress)

    def on_step_end(self, result: StepResult) -> None:
        """Check now and then whether another number of threads is faster, unless the user requested one."""
        threads, progress = self.threads, result.progress
        if threads is None:
            return
        threads.tokens += result.target_tokens
        if progress.step % STEPS_BETWEEN_LOOKS == 0 and on_main_process(self.processes, threads.is_due):
            with self.clock.pause():
                threads.choose()
            threads.begin_window()
            progress.threads = torch.get_num_threads()
            self._note(progress)

    def _note(self, progress: Progress) -> None:
        progress.machines = [*dict.fromkeys([*progress.machines, describe_machine(self.processes)])]
        progress.processes = [*dict.fromkeys([*progress.processes, self.processes.num_processes])]


class EnergyListener(StepListener):
    """Adds the energy that this machine's CPUs, GPUs and memory take, whoever uses them, to a run's progress.

    Without the package codecarbon (`pip install hf-vaswani[energy]`), nothing is measured.
    """

    def __init__(self):
        self._tracker: Any = None
        self._before: dict[str, list[float]] = {}
        self._total: dict[str, list[float]] = {}

    def on_run_begin(self, progress: Progress) -> None:
        try:
            from codecarbon import OfflineEmissionsTracker
        except ImportError:
            return
        self._before = self._total = progress.energy
        ignore = lambda *_: None  # noqa: E731
        # The country only affects emissions, which are not used.
        self._tracker = OfflineEmissionsTracker(
            country_iso_code="USA",
            output_methods=[],
            allow_multiple_runs=True,
            log_level="error",
            output_handlers=[SimpleNamespace(out=self._read, live_out=ignore, task_out=ignore, exit=ignore)],
        )
        self._tracker.start()

    def on_save(self, progress: Progress) -> None:
        if self._tracker:
            self._tracker.flush()  # passes its reading to `_read`
            progress.energy = self._total

    def on_run_end(self) -> None:
        if self._tracker:
            self._tracker.stop()

    def _read(self, total: object, delta: object) -> None:
        """Add the energy in this session, given in kWh, to that of earlier sessions of the run."""
        energy = {kind: list(values) for kind, values in self._before.items()}
        for kind in ("cpu", "gpu", "ram"):
            if kwh := getattr(total, f"{kind}_energy"):
                joules, seconds = energy.get(kind, [0.0, 0.0])
                energy[kind] = [joules + kwh * JOULES_PER_KWH, seconds + total.duration]
        self._total = energy
