"""The devices of a run: the number of threads on a CPU, and, for the model card, the machines that trained."""

import torch
from accelerate import Accelerator

from ..core.configuration_vaswani import VaswaniConfig
from ..runtime.machine import describe_machine
from ..runtime.processes import on_main_process
from ..runtime.stopwatch import Stopwatch
from ..runtime.threads import STEPS_BETWEEN_LOOKS, AdaptiveThreads, begin_threads, feed_forward
from .checkpoints.progress import Progress
from .listeners import StepListener, StepResult
from .recipe.arguments import TrainingArguments


class DeviceListener(StepListener):
    """Sets the number of CPU threads, and records in a run's progress what it is trained on.

    The number is the one that the user asks for. Otherwise the run starts from that of the checkpoint, if any, and
    measures others at its start and when training becomes slow.
    """

    def __init__(self, processes: Accelerator, config: VaswaniConfig, arguments: TrainingArguments, clock: Stopwatch):
        self.processes, self.arguments, self.clock = processes, arguments, clock
        self.sizes = config.d_model, config.encoder_ffn_dim
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
        """Check now and then whether another number of threads is faster, unless the user asked for one."""
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
        if progress.processes is not None:
            progress.processes = [*dict.fromkeys([*progress.processes, self.processes.num_processes])]
