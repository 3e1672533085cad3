"""What a training says while it runs: a progress bar on a terminal, plain lines elsewhere, and a file of records."""

import json
import sys
from pathlib import Path

from tqdm import tqdm

LOG_FILE = "log.jsonl"


class TrainingLog:
    """Shows records of a training and appends them to `log.jsonl`, one JSON object a line.

    Args:
        folder: of the file; `None` where this process is not the one that reports.
        update, max_updates: where the training starts and ends, in updates. Records of later updates, left by a run
            that was stopped after its last checkpoint, are removed.
    """

    def __init__(self, folder: Path | None, update: int, max_updates: int):
        self.path = folder / LOG_FILE if folder else None
        self.on_terminal = sys.stderr.isatty()
        if self.path and self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["update"] <= update]
            self.path.write_text("".join(kept), encoding="utf-8")
        self.bar = tqdm(
            total=max_updates, initial=update, unit=" updates", disable=not (self.path and self.on_terminal)
        )

    def advance(self) -> None:
        """One more update is done."""
        self.bar.update()

    def record(self, update: int, **values: float) -> None:
        """Store the values of an update and show them."""
        if not self.path:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"update": update, **values}) + "\n")
        shown = "  ".join(f"{name} {_short(value)}" for name, value in values.items())
        if self.on_terminal and "loss" in values:
            self.bar.set_postfix_str(shown)
        else:
            self.say(f"update {update}: {shown}")

    def say(self, message: str) -> None:
        """A line for the reader."""
        if self.path:
            self.bar.write(message) if self.on_terminal else print(message, flush=True)

    def close(self) -> None:
        self.bar.close()


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
