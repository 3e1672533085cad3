"""Translates an uploaded document or file of lines, as `hf-vaswani translate` does, into a file to download."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..data.resumable_output import StreamOutput
from ..data.sources.text_files import check_file, iterate_lines
from ..documents.formats import DOCUMENTS, format_of
from ..documents.reading import read_document
from ..errors import InputError, counted
from ..text.languages import language_code, own_languages
from ..translator.documents import align_texts, translate_document
from ..translator.lines import Line, LineTranslator, as_text, translate_lines
from .limits import LARGEST_FILE, explained
from .models import NO_LANGUAGES, Languages, LoadedModel

MOST_REPORTS = 20


@dataclass(frozen=True)
class FileTranslation:
    """A translated file, in a folder of its own, its number of lines or texts, and the first 20 problems with them."""

    path: Path
    count: int
    reports: list[str]
    unit: str = "line"

    def summary(self) -> list[str]:
        """What the page says about it."""
        return [f"{counted(self.count, self.unit)} translated.", *self.reports]


def translate_file(
    loaded: LoadedModel,
    path: str | Path | None,
    folder: Path,
    languages: Languages = NO_LANGUAGES,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FileTranslation:
    """Translate a document, or another text file line by line; long lines in pieces.

    Args:
        folder: where the translation goes, into a new folder of its own.
        progress: called with the number of lines translated so far, and the number of all lines.
    """
    if path is None:
        raise InputError("No file was chosen. Choose a document, or a text file with one sentence per line.")
    source = Path(path)
    if (size := source.stat().st_size) > LARGEST_FILE:
        raise InputError(
            f"The file is {size / 2**20:.1f} MB, but at most {LARGEST_FILE // 2**20} MB are allowed. Split it, "
            "or translate it with: hf-vaswani translate MODEL --input FILE --output FILE"
        )
    kind = format_of(source.name)
    is_document = kind in DOCUMENTS
    unit = "text" if is_document else "line"
    reports: list[str] = []

    def report(number: int, message: str) -> None:
        if len(reports) < MOST_REPORTS:
            reports.append(f"{unit.capitalize()} {number:,}: {message}")

    with _under_its_own_name(source), explained():
        if is_document:
            document = read_document(kind, source.read_bytes())
            texts = list(dict.fromkeys(document.texts))
        else:
            check_file(source)
            texts = _read_lines(source, report)
        if not texts:
            raise InputError(f"There is no text in {source.name}." if is_document else "The file is empty.")
        translator = LineTranslator(loaded.pipeline(languages), split_sentences=True, num_workers=1)
        suffix = source.suffix.lower() if is_document else ".txt"
        target = Path(tempfile.mkdtemp(dir=folder)) / f"{_stem(source)}.translated{suffix}"
        done = 0

        def more(number: int) -> None:
            nonlocal done
            done += number
            progress(min(done, len(texts)), len(texts))

        translator.progress = more

        def translate(window: list[Line]):
            with loaded.lock:
                return translator(window)

        progress(0, len(texts))
        if is_document:

            def align(*texts):
                with loaded.lock:
                    return align_texts(loaded.model, loaded.tokenizer, *texts, **languages.arguments())

            language = language_code(languages.target or own_languages(loaded.model.config, loaded.tokenizer)[1])
            target.write_bytes(translate_document(document, translate, align, language, report, report))
        else:
            with target.open("wb") as file:
                translate_lines(map(Line, texts), translate, as_text, StreamOutput(file), report, warn=report)
    return FileTranslation(target, len(texts), reports, unit)


def _read_lines(source: Path, report: Callable[[int, str], None]) -> list[str]:
    """All lines of a file, which may be compressed, and then larger than it looks."""
    lines, characters = [], 0
    for line in iterate_lines(source, report):
        lines.append(line)
        characters += len(line) + 1
        if characters > LARGEST_FILE:
            raise InputError(f"Decompressed, the file has more than {LARGEST_FILE // 2**20} MB. Split it.")
    return lines


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
