"""What commands say while they work through lines: how fast, and what was wrong with which line."""

import sys
from collections.abc import Callable

from tqdm import tqdm

SHOWN = 20


class LineReports:
    """Warnings of lines on standard error: the first 20 at once, all by their number in [`summarize`]."""

    def __init__(self):
        self.count = 0

    def of(self, name: str) -> Callable[[int, str], None]:
        """A function that takes the number of a line of this file and what is wrong there."""

        def report(number: int, what: str) -> None:
            self.count += 1
            if self.count <= SHOWN:
                tqdm.write(f"warning: {name}, line {number:,}: {what}.", file=sys.stderr)

        return report

    def summarize(self) -> None:
        if self.count > SHOWN:
            print(f"warning: {self.count:,} warnings in all, of which you see the first {SHOWN}.", file=sys.stderr)


def progress_bar(total: int | None = None, done: int = 0, is_shown: bool = True) -> tqdm:
    """A bar with sentences a second, on a terminal alone."""
    is_hidden = not (is_shown and sys.stderr.isatty())
    return tqdm(total=total, initial=done, unit=" sentences", disable=is_hidden, dynamic_ncols=True)
