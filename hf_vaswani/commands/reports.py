"""Standard output, the progress bar, and warnings about lines, for commands that process text line by line."""

import io
import sys
from collections.abc import Callable

from tqdm import tqdm

from ..errors import counted

SHOWN = 20


class LineReports:
    """Prints warnings about lines to standard error: the first 20 right away, the total number in [`summarize`].

    Args:
        unit: what is numbered.
        doubtful_shown: of translations that may be wrong, how many are shown.
    """

    def __init__(self, unit: str = "line", doubtful_shown: int = 1):
        self.unit, self.doubtful_shown = unit, doubtful_shown
        self.count, self.doubtful = 0, 0
        self.examples: list[str] = []

    def of(self, name: str) -> Callable[[int, str], None]:
        """A function that reports what is wrong with a line of this file: `report(number, what)`."""

        def report(number: int, what: str) -> None:
            self.count += 1
            if self.count <= SHOWN:
                tqdm.write(f"warning: {name}, {self.unit} {number:,}: {what}.", file=sys.stderr)

        return report

    def of_translations(self, name: str) -> Callable[[int, str], None]:
        """A function that counts the translation of a line of this file as one that may be wrong."""

        def report(number: int, why: str) -> None:
            self.doubtful += 1
            if self.doubtful <= self.doubtful_shown:
                self.examples.append(f"{name}, {self.unit} {number:,}: {why}.")

        return report

    def summarize(self) -> None:
        if self.doubtful:
            translations = counted(self.doubtful, "translation")
            first, *others = self.examples
            print("\n  ".join([f"warning: {translations} may be wrong; the first: {first}", *others]), file=sys.stderr)
        if self.count > SHOWN:
            print(f"warning: {self.count:,} warnings in total; only the first {SHOWN} are shown.", file=sys.stderr)


def progress_bar(total: int | None = None, done: int = 0, is_shown: bool = True) -> tqdm:
    """A progress bar with sentences per second, shown only on a terminal."""
    is_hidden = not (is_shown and sys.stderr.isatty())
    return tqdm(total=total, initial=done, unit=" sentences", disable=is_hidden, dynamic_ncols=True)


def accept_any_character() -> None:
    """Have standard output and error show "?" for a character that their encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def write_result(text: str) -> None:
    """Write what other programs read to standard output: as UTF-8, whatever its encoding, so that nothing is lost."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
        stream.reconfigure(encoding="utf-8")
    print(text, end="")
