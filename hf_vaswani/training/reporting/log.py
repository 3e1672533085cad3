"""What a training says while it runs: a progress bar or plain lines, a file of records, a picture of curves."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from ...errors import TrainingError, reason
from ...evaluation.curves import draw_curves
from ..checkpoints.checkpoint import Progress
from ..checkpoints.output_folder import CURVES_FILE, LOG_FILE

# Drawing takes a second, which no training shall notice.
SECONDS_BETWEEN_PICTURES = 60


class TrainingLog:
    """Shows records of a training and appends them to `log.jsonl`, one JSON object a line.

    Args:
        folder: of the files; `None` where this process is not the one that reports.
        progress: of the training; it changes while the training runs. Records of later updates, left by a run that
            was stopped after its last checkpoint, are removed.
        last_update: where the training ends, as far as that is known.
        max_minutes: when it ends at the latest.
        track: called with the values of a record and `step=`, in every process; passes them on to trackers.
    """

    def __init__(
        self,
        folder: Path | None,
        progress: Progress,
        last_update: int | None,
        max_minutes: float | None = None,
        track: Callable[..., None] | None = None,
    ):
        self.folder = folder
        self.progress = progress
        self.last_update, self.max_minutes = last_update, max_minutes
        self.track = track
        self.on_terminal = sys.stderr.isatty()
        if folder and (folder / LOG_FILE).exists():
            self._cut()
        self.bar = tqdm(
            total=last_update, initial=progress.update, unit=" updates", disable=not (folder and self.on_terminal)
        )
        # The loss is summed over all runs of a training, the speed is that of this one.
        self.loss_sum = progress.log_window.get("loss", 0.0)
        self.updates = int(progress.log_window.get("updates", 0))
        self.paused = 0.0
        self._begin_speed()
        self.started, self.first_update = time.monotonic(), progress.update
        self.drawn, self.is_picture_old = self.started, True

    def _cut(self) -> None:
        """Remove records of later updates and lines that are damaged. The log is there whole all the while."""
        path, unfinished = self.folder / LOG_FILE, self.folder / f"{LOG_FILE}.part"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if 0 <= _update_of(line) <= self.progress.update]
        if kept == lines:
            return
        try:
            unfinished.write_text("".join(kept), encoding="utf-8")
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise TrainingError(f"{path} cannot be written: {reason(error)}. Make room, then try again.") from error

    def _begin_speed(self) -> None:
        self.target_tokens, self.window_started = 0, time.monotonic()

    def window_state(self) -> dict[str, float]:
        """The sums since the last record of the training loss, for a checkpoint."""
        return {"loss": self.loss_sum, "updates": self.updates}

    def advance(self, loss: float, target_tokens: int) -> None:
        """One more update is done."""
        self.loss_sum += loss
        self.updates += 1
        self.target_tokens += target_tokens
        self.bar.update()

    def record_window(self, learning_rate: float) -> None:
        """Record the mean loss and the speed of the updates since the last such record."""
        seconds = time.monotonic() - self.window_started
        self.record(
            epoch=self.progress.epoch,
            loss=self.loss_sum / self.updates,
            learning_rate=learning_rate,
            target_tokens_per_second=self.target_tokens / seconds,
            minutes=self.progress.seconds / 60,
        )
        self.loss_sum, self.updates = 0.0, 0
        self._begin_speed()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out of the speed what is no training."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.window_started += time.monotonic() - began
            self.paused += time.monotonic() - began

    def clock(self) -> float:
        """Seconds from some moment on, pauses left out."""
        return time.monotonic() - self.paused

    def record(self, **values: float) -> None:
        """Store the values of this update and show them."""
        if self.track:
            self.track(values, step=self.progress.update)
        if not self.folder:
            return
        self.is_picture_old = True
        try:
            with (self.folder / LOG_FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"update": self.progress.update, **values}) + "\n")
        except OSError as error:
            raise TrainingError(
                f"The log of update {self.progress.update} cannot be written to {self.folder}: {reason(error)}. Make "
                "room, then the same command goes on from the last checkpoint."
            ) from error
        shown = "  ".join(f"{name} {_short(value)}" for name, value in values.items())
        if "loss" not in values:
            self.say(f"update {self.progress.update}: {shown}")
        elif self.on_terminal:
            self.bar.set_postfix_str(shown)
        else:
            minutes = self._minutes_left()
            left = "" if minutes is None else f"  minutes_left {_short(minutes)}"
            self.say(f"update {self.progress.update}: {shown}{left}")

    def draw_at_times(self) -> None:
        """Draw the curves, unless they were drawn less than a minute ago."""
        if time.monotonic() - self.drawn >= SECONDS_BETWEEN_PICTURES:
            self.draw()

    def draw(self, copy: Path | None = None) -> bool:
        """Draw the curves up to now, and copy the picture to a path.

        Returns:
            Whether it is there. A picture that cannot be drawn ends no training.
        """
        if not self.folder:
            return False
        if not (self.folder / LOG_FILE).exists():
            if copy:
                self.say(
                    f"No {CURVES_FILE}: nothing was logged in {self.progress.update:,} updates. A lower "
                    "training.logging_steps or training.eval_steps gives it points."
                )
            return False
        picture = self.folder / CURVES_FILE
        try:
            if self.is_picture_old or not picture.exists():
                draw_curves(self.folder / LOG_FILE, picture)
                self.drawn, self.is_picture_old = time.monotonic(), False
            if copy:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(picture, copy)
            return True
        except Exception as error:
            self.say(f"{CURVES_FILE} could not be drawn: {reason(error)}")
            return False

    def say(self, message: str) -> None:
        """A line for the reader."""
        if self.folder:
            self.bar.write(message) if self.on_terminal else print(message, flush=True)

    def close(self) -> None:
        self.bar.close()

    def _minutes_left(self) -> float | None:
        """Until the training ends, as far as that is known."""
        ends = []
        if self.last_update is not None:
            done = self.progress.update - self.first_update
            pace = (time.monotonic() - self.started) / 60 / max(done, 1)
            ends.append((self.last_update - self.progress.update) * pace)
        if self.max_minutes is not None:
            ends.append(self.max_minutes - self.progress.seconds / 60)
        return max(min(ends), 0) if ends else None


def _update_of(line: str) -> int:
    """The update of a line of the log; -1 where the line is damaged."""
    try:
        return int(json.loads(line)["update"]) if line.endswith("\n") else -1
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return -1


def _short(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
