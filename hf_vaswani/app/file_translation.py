"""Translates an uploaded file line by line, as `hf-vaswani translate` does, into a file to download."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..data.sources.text_files import check_file, iterate_lines
from ..errors import InputError, counted
from ..translation.lines import Line, LineTranslator, as_text, translate_lines
from ..translation.resumable_output import StreamOutput
from .limits import LARGEST_FILE, explained
from .models import NO_LANGUAGES, Languages, LoadedModel

MOST_REPORTS = 20


@dataclass(frozen=True)
class FileTranslation:
    """A translated file, in a folder of its own, its number of lines, and the first 20 problems with them."""

    path: Path
    lines: int
    reports: list[str]

    def summary(self) -> list[str]:
        """What the page says about it."""
        return [f"{counted(self.lines, 'line')} translated.", *self.reports]


def translate_file(
    loaded: LoadedModel,
    path: str | Path | None,
    folder: Path,
    languages: Languages = NO_LANGUAGES,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FileTranslation:
    """Translate a text file line by line, and long lines in pieces.

    Args:
        folder: where the translation goes, into a new folder of its own.
        progress: called with the number of lines translated so far, and the number of all lines.
    """
    if path is None:
        raise InputError("No file was chosen. Choose a text file with one sentence per line.")
    source = Path(path)
    if (size := source.stat().st_size) > LARGEST_FILE:
        raise InputError(
            f"The file is {size / 2**20:.1f} MB, but at most {LARGEST_FILE // 2**20} MB are allowed. Split it, "
            "or translate it with: hf-vaswani translate MODEL --input FILE --output FILE"
        )
    reports: list[str] = []

    def report(number: int, message: str) -> None:
        if len(reports) < MOST_REPORTS:
            reports.append(f"Line {number:,}: {message}")

    with _under_its_own_name(source), explained():
        check_file(source)
        # Read in full first: compressed files are larger than they look.
        lines, characters = [], 0
        for line in iterate_lines(source, report):
            lines.append(Line(line))
            characters += len(line) + 1
            if characters > LARGEST_FILE:
                raise InputError(f"Decompressed, the file has more than {LARGEST_FILE // 2**20} MB. Split it.")
        if not lines:
            raise InputError("The file is empty.")
        translator = LineTranslator(loaded.pipeline(languages), split_sentences=True, num_workers=1)
        target = Path(tempfile.mkdtemp(dir=folder)) / f"{_stem(source)}.translated.txt"
        done = 0

        def more(number: int) -> None:
            nonlocal done
            done += number
            progress(min(done, len(lines)), len(lines))

        translator.engine.progress = more

        def translate(window: list[Line]):
            with loaded.lock:
                return translator(window)

        progress(0, len(lines))
        with target.open("wb") as file:
            translate_lines(lines, translate, as_text, StreamOutput(file), report)
    return FileTranslation(target, len(lines), reports)


@contextmanager
def _under_its_own_name(path: Path) -> Iterator[None]:
    """Make errors name an uploaded file as its owner knows it, without the folder where it was stored."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace(str(path), path.name)) from None


def _stem(path: Path) -> str:
    """A file's name without its suffixes, in characters that every system accepts."""
    stem = path.name.partition(".")[0]
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in stem)[:60] or "text"
