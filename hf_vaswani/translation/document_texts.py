"""Translates the texts of a document: equal ones once, and one that cannot be translated stays as it is."""

import io
from collections.abc import Callable, Iterator, Sequence

from ..data.sources.text_files import Report
from ..pipeline.engine import Result
from .lines import Line, TranslatedWindow, as_text, one_by_one, translate_lines
from .resumable_output import StreamOutput


def translate_texts(
    texts: Sequence[str],
    translate: Callable[[list[Line]], list[Result]],
    report: Report,
    progress: Callable[[int], None] = lambda done: None,
    over: Callable[..., Iterator[tuple[list[Line], TranslatedWindow]]] = one_by_one,
    warn: Report = lambda number, why: None,
) -> list[str]:
    """A translation for each text.

    Args:
        translate, report, progress, over, warn: as in [`translate_lines`], with texts instead of lines; equal texts
            count as one.
    """
    different, output = list(dict.fromkeys(texts)), io.BytesIO()
    lines = map(Line, different)
    translate_lines(lines, translate, as_filled, StreamOutput(output), report, progress, over=over, warn=warn)
    translations = dict(zip(different, output.getvalue().decode().split("\n")))
    return [translations[text] for text in texts]


def as_filled(line: Line, result: Result) -> str:
    """The best translation on one line; the text itself if there is none."""
    return line.text if isinstance(result, Exception) else as_text(line, result)
