"""The output of a run while it trains: a progress bar or plain lines, a log file, and a figure of its curves."""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from ...files import atomic_write, replace_link, writing
from ...runtime.processes import print_main
from ..checkpoints.artifacts import LOG_FILE, saving
from ..listeners import Stopwatch
from ..optimization.progress import Progress, StepListener, StepResult, ValidationResult

# Drawing takes a second, which should not slow down a run noticeably.
SECONDS_BETWEEN_FIGURES = 60
# The share of a run's time after which its pace is known well enough to say how far it will come, and at most how many
# seconds.
PACE_SHARE, PACE_SECONDS = 0.02, 30


class TrainingLog(StepListener):
    """Shows records of a run and appends them to `log.jsonl`, one JSON object per line.

    Args:
        folder: the output folder; `None` if this process is not the one that reports.
        progress: of the run. Records of later steps, left by a session that was stopped after its last checkpoint, are
            removed.
        last_step: the step at which the run ends, if it is known.
        clock: measures the time spent in steps.
        logging_steps: number of steps between records of the training loss.
        max_minutes: the run's limit, in minutes of training.
        steps_per_epoch: number of steps in an epoch, if it is known.
        track: called in every process with the values of a record and `step=`; passes them to trackers.
    """

    def __init__(
        self,
        folder: Path | None,
        progress: Progress,
        last_step: int | None,
        clock: Stopwatch,
        logging_steps: int,
        max_minutes: float | None = None,
        steps_per_epoch: int | None = None,
        track: Callable[..., None] | None = None,
    ):
        self.folder = folder
        self.last_step, self.max_minutes, self.steps_per_epoch = last_step, max_minutes, steps_per_epoch
        self.has_forecast = max_minutes is None or folder is None
        self.clock, self.logging_steps = clock, logging_steps
        self.track = track
        self.on_terminal = sys.stderr.isatty()
        if folder and os.path.lexists(folder / LOG_FILE):
            self._cut(folder / LOG_FILE, progress.step)
        self.bar: tqdm | None = None
        self.drawn, self.window_started = time.monotonic(), clock()
        # When the first step ended, and its number. What comes before it says nothing about the pace.
        self.paced_from: tuple[float, int] | None = None
        # The loss sum continues that of the session before; the speed is measured in this one only.
        self.loss_sum = progress.log_window.get("loss", 0.0)
        self.steps = int(progress.log_window.get("steps", 0))
        self.target_tokens = 0

    def _cut(self, path: Path, step: int) -> None:
        """Remove records of later steps and damaged lines, by replacing the log atomically."""
        with writing(path):
            replace_link(path)
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            kept = [line for line in lines if 0 <= _step_of(line) <= step]
            if kept != lines:
                with atomic_write(path) as part:
                    part.write_text("".join(kept), encoding="utf-8")

    def on_run_begin(self, progress: Progress) -> None:
        self.bar = tqdm(
            total=self.last_step, initial=progress.step, unit=" steps", disable=not (self.folder and self.on_terminal)
        )
        self.drawn, self.window_started = time.monotonic(), self.clock()

    def on_step_end(self, result: StepResult) -> None:
        """Count a step and, if a record is due, record the mean loss and the speed since the last one."""
        self.loss_sum += result.loss
        self.steps += 1
        self.target_tokens += result.target_tokens
        self.bar.update()
        progress = result.progress
        self.paced_from = self.paced_from or (time.monotonic(), progress.step)
        if not self.has_forecast:
            self._forecast(progress)
        if progress.step % self.logging_steps:
            return
        self.record(
            progress,
            epoch=progress.epoch,
            loss=self.loss_sum / self.steps,
            learning_rate=result.learning_rate,
            target_tokens_per_second=self.target_tokens / (self.clock() - self.window_started),
            minutes=progress.seconds / 60,
        )
        self.loss_sum, self.steps, self.target_tokens = 0.0, 0, 0
        self.window_started = self.clock()

    def on_validation(self, result: ValidationResult) -> None:
        """Record the scores, and draw the curves unless they were drawn less than a minute ago."""
        self.record(result.progress, **{f"validation_{name}": score for name, score in result.scores.items()})
        if self.folder and time.monotonic() - self.drawn >= SECONDS_BETWEEN_FIGURES:
            from .figures import draw_run_curves

            draw_run_curves(self.folder)
            self.drawn = time.monotonic()

    def on_save(self, progress: Progress) -> None:
        """Keep the sums since the last record of the training loss."""
        progress.log_window = {"loss": self.loss_sum, "steps": self.steps}

    def on_run_end(self) -> None:
        if self.bar is not None:
            self.bar.close()

    def record(self, progress: Progress, **values: float) -> None:
        """Store the values of a step and show them."""
        if self.track:
            self.track(values, step=progress.step)
        if not self.folder:
            return
        log, failed = self.folder / LOG_FILE, f"The log of step {progress.step} cannot be written to {self.folder}"
        with saving(failed), log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"update": progress.step, **values}) + "\n")
        shown = "  ".join(f"{name} {_short(value)}" for name, value in values.items())
        if "loss" in values and self.on_terminal:
            self.bar.set_postfix_str(shown)
            return
        minutes = self._minutes_left(progress) if "loss" in values else None
        print_main(f"step {progress.step}: {shown}" + ("" if minutes is None else f"  minutes_left {_short(minutes)}"))

    def _forecast(self, progress: Progress) -> None:
        """Say once, as soon as the pace is known, how many steps the time limit leaves."""
        since, step = self.paced_from
        elapsed = time.monotonic() - since
        if progress.step == step or elapsed < min(60 * PACE_SHARE * self.max_minutes, PACE_SECONDS):
            return
        self.has_forecast = True
        left = max(60 * self.max_minutes - progress.seconds, 0)
        steps = progress.step + round(left * (progress.step - step) / elapsed)
        if self.last_step is not None and steps >= self.last_step:
            steps, what = self.last_step, f"all {self.last_step:,} steps"
        else:
            what = f"about {steps:,} of {self.last_step:,} steps" if self.last_step else f"about {steps:,} steps"
        size = self.steps_per_epoch
        epochs = f": {_short(steps / size)} epochs of {size:,} steps" if size else ""
        print_main(f"At this speed, max_minutes={self.max_minutes:g} is enough for {what}{epochs}")

    def _minutes_left(self, progress: Progress) -> float | None:
        """Minutes until the run ends; `None` if that is not known."""
        ends = []
        if self.last_step is not None and self.paced_from and progress.step > self.paced_from[1]:
            since, step = self.paced_from
            pace = (time.monotonic() - since) / 60 / (progress.step - step)
            ends.append((self.last_step - progress.step) * pace)
        if self.max_minutes is not None:
            ends.append(self.max_minutes - progress.seconds / 60)
        return max(min(ends), 0) if ends else None


def last_logged(folder: Path, name: str) -> float | None:
    """The last value of that name in the log of a run; `None` if it was not logged."""
    return next(reversed(logged(folder, name).values()), None)


def logged(folder: Path, name: str) -> dict[int, float]:
    """All values of that name in the log of a run, by step."""
    path = folder / LOG_FILE
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return {_step_of(f"{line}\n"): value for line in lines if (value := _value(line, name)) is not None}


def _step_of(line: str) -> int:
    """The step of a line of the log; -1 if the line is damaged."""
    step = _value(line, "update") if line.endswith("\n") else None
    return -1 if step is None else int(step)


def _value(line: str, name: str) -> float | None:
    """A finite number in a line of the log; `None` if the line has none of that name, or is damaged."""
    try:
        value = json.loads(line)[name]
        return value if math.isfinite(value) else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _short(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
