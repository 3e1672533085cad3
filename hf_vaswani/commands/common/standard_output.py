"""What commands write to standard output: messages in its own encoding, and results as UTF-8."""

import io
import sys


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
