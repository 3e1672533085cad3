"""Translates any number of lines of text, in order and window by window, into plain text or JSON lines.

A line that cannot be translated gets an empty translation and is reported; other lines are not affected.
"""

import io
import json
import re
import select
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import torch

from ..data.resumable_output import ResumableOutput, StreamOutput
from ..data.sources.text_files import CHUNK, Report, compressed, lines_of
from ..errors import is_out_of_memory, reason
from ..text.source_warnings import translation_warning
from .mbr import DEFAULT_SAMPLES, RankedCandidate, candidate_arguments, rankings
from .reranking import Reranker, beam_candidates
from .search import window_size
from .segments import Hypothesis, Result, SourceTooLong

if TYPE_CHECKING:
    from .pipeline import TranslationPipeline

MOST_CHARACTERS = 1 << 20
PAUSE = 0.05
SPLIT_HINT = ": use --split_sentences"
LINE_BREAK = re.compile(r"\r\n|\r|\n")


class Line(NamedTuple):
    """A line to translate, and what its translation must begin with."""

    text: str
    prefix: str = ""


def windows(
    lines: Iterable[Line], number: int = 0, is_waiting: Callable[[], bool] = lambda: False
) -> Iterator[list[Line]]:
    """Cut lines into windows.

    Args:
        lines: read as needed.
        number: number of windows that came before, since the first ones are smaller.
        is_waiting: whether the next line has yet to arrive, so that the lines read so far form a window.

    Yields:
        128 lines, then 512, 2048 and 4096, or fewer if they hold 2^20 characters. If reading ends in an error, the
        lines before it are yielded first.
    """
    window: list[Line] = []
    characters = 0
    try:
        for line in lines:
            window.append(line)
            characters += len(line.text)
            if len(window) == window_size(number) or characters >= MOST_CHARACTERS or is_waiting():
                yield window
                window, characters, number = [], 0, number + 1
    except Exception:
        if window:
            yield window
        raise
    if window:
        yield window


class IncomingLines:
    """The lines of a stream as they arrive, such as standard input; [`is_waiting`] tells when they pause."""

    def __init__(self, stream: BinaryIO, name: str, report: Report):
        self._stream, self._lines_in_hand = stream, 0
        self._lines = lines_of(self._chunks(), name, report)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._lines_in_hand -= 1
        return line

    def is_waiting(self) -> bool:
        """Whether no whole line is available, and none begins to arrive within 50 ms."""
        if self._lines_in_hand > 0:
            return False
        try:
            return not select.select([self._stream], [], [], PAUSE)[0]
        except (OSError, ValueError, io.UnsupportedOperation):  # not a stream that can be waited for
            return self._stream.isatty()

    def _chunks(self) -> Iterator[bytes]:
        while chunk := self._stream.read1(CHUNK):
            self._lines_in_hand += chunk.count(b"\n")
            yield chunk


class LineTranslator:
    """Translates windows of lines.

    Args:
        pipeline: a translation pipeline.
        utility, samples: as in [`translate_mbr`]; with a utility, it chooses the translations.
        reranker: if given, it chooses among the translations of the beam.
        n_best: number of translations per line.
        seed: seed for samples, which depend only on it and the window.
        options: further arguments of the pipeline. A sentence beyond the length limit is not translated, unless
            `split_sentences=True` divides it. Translations that may be wrong have a `warning`.

    Attributes:
        progress: called after each batch with the number of lines finished since the last call.

    Raises:
        ValueError: the pipeline rejects an argument.
    """

    def __init__(
        self,
        pipeline: "TranslationPipeline",
        utility: str | None = None,
        samples: int = DEFAULT_SAMPLES,
        reranker: Reranker | None = None,
        n_best: int | None = None,
        seed: int = 0,
        **options,
    ):
        self.utility, self.reranker, self.n_best, self.seed = utility, reranker, n_best, seed
        if utility:
            options |= candidate_arguments(samples)
        elif reranker:
            options |= beam_candidates(pipeline.model, options.get("num_beams"))
        elif n_best:
            options["n_best"] = n_best
        # Of many candidates, only the one that is chosen matters.
        fixed = {"on_error": "return", "return_warnings": not utility}
        if given := sorted(fixed.keys() & options.keys()):
            raise ValueError(f"{' and '.join(given)} cannot be changed here. Leave out.")
        self.translator = pipeline.translator(**fixed, **options)
        self.progress: Callable[[int], None] | None = None

    def __call__(self, lines: Sequence[Line]) -> list[Result]:
        """A result for each line: its translations, best first, or why there are none."""
        texts = [line.text for line in lines]
        torch.manual_seed(self.seed + zlib.crc32("\n".join(texts).encode("utf-8", "surrogatepass")))
        if not self.utility:
            prefixes = [line.prefix for line in lines]
            results = self.translator.translate(texts, prefixes, progress=self.progress)
            if not self.reranker:
                return results
            ranked = self.reranker(texts, results)
            return [result if isinstance(result, Exception) else result[: self.n_best or 1] for result in ranked]
        candidates = partial(self.translator.translate, progress=self.progress)
        return [
            ranking if isinstance(ranking, Exception) else self._as_hypotheses(text, ranking[: self.n_best or 1])
            for text, ranking in zip(texts, rankings(candidates, texts, self.utility))
        ]

    def _as_hypotheses(self, source: str, ranking: list[RankedCandidate]) -> list[Any]:
        """Ranked candidates in the form of the pipeline's hypotheses."""
        ratio = getattr(self.translator.model.config, "length_ratio", None)
        warnings = [translation_warning(source, best.text, ratio) for best in ranking]
        return [
            {"translation_text": best.text, "utility": best.utility, **({"warning": warning} if warning else {})}
            for best, warning in zip(ranking, warnings)
        ]


class TranslatedWindow(NamedTuple):
    """The output of a window, as plain values that can be passed between processes."""

    lines: list[str]  # of the output
    # The position in the window, from 0, of each line that could not be translated, and why.
    errors: list[tuple[int, str]]
    warnings: list[tuple[int, str]] = []  # the position of each line whose translation may be wrong, and why


# Formats a line of the output, from a line of the input and its translations.
LineWriter = Callable[[Line, Result], str]
WindowWork = Callable[[list[Line]], TranslatedWindow]


def translate_window(
    translate: Callable[[list[Line]], list[Result]], write_line: LineWriter, window: list[Line]
) -> TranslatedWindow:
    """Translate a window into its part of the output; arguments as in [`translate_lines`]."""
    results = translate(window)
    errors = [(place, error_message(result)) for place, result in enumerate(results) if isinstance(result, Exception)]
    warnings = [
        (place, result[0]["warning"])
        for place, result in enumerate(results)
        if not isinstance(result, Exception) and "warning" in result[0]
    ]
    return TranslatedWindow(list(map(write_line, window, results)), errors, warnings)


def sequential(work: WindowWork, items: Iterable[list[Line]]) -> Iterator[tuple[list[Line], TranslatedWindow]]:
    """Apply `work` to one window after another; yields each window with its output."""
    return ((window, work(window)) for window in items)


def translated_windows(
    lines: Iterable[Line],
    translate: Callable[[list[Line]], list[Result]],
    write_line: LineWriter,
    number: int = 0,
    is_waiting: Callable[[], bool] = lambda: False,
    over: Callable[..., Iterator[tuple[list[Line], TranslatedWindow]]] = sequential,
) -> Iterator[tuple[list[Line], TranslatedWindow]]:
    """Translate lines, and yield each window of them with its output.

    Args:
        lines: read as needed.
        translate: translates a window, as a [`LineTranslator`] does.
        write_line: [`as_text`] or [`as_json`].
        number, is_waiting: as in [`windows`].
        over: applies the work to all windows and yields them in order: [`sequential`], or several processes.
    """
    work = partial(translate_window, translate, write_line)
    # Closed at once if the caller stops: other processes wait for the next window.
    with closing(over(work, windows(lines, number, is_waiting))) as translated:
        yield from translated


def translate_lines(
    lines: Iterable[Line],
    translate: Callable[[list[Line]], list[Result]],
    write_line: LineWriter,
    output: ResumableOutput | StreamOutput,
    report: Report,
    progress: Callable[[int], None] = lambda done: None,
    is_waiting: Callable[[], bool] = lambda: False,
    over: Callable[..., Iterator[tuple[list[Line], TranslatedWindow]]] = sequential,
    warn: Report = lambda number, why: None,
) -> None:
    """Translate lines into an output that is already open.

    Args:
        lines: the lines that are not in the output yet, read as needed.
        translate, write_line, is_waiting, over: as in [`translated_windows`].
        report: called with the number, from 1, of each line that could not be translated, and why.
        progress: called after each window with the number of lines done so far.
        warn: like `report`, for each line whose translation may be wrong.
    """
    number = output.progress.windows
    with closing(translated_windows(lines, translate, write_line, number, is_waiting, over)) as translated:
        for window, result in translated:
            write_window(window, result, output, report, warn)
            progress(output.progress.lines)
    output.finish()


def write_window(
    window: list[Line], result: TranslatedWindow, output: ResumableOutput | StreamOutput, report: Report, warn: Report
) -> None:
    """Add a window to the output, report lines that could not be translated, and warn of doubtful translations."""
    report_window(result, output.progress.lines, report, warn)
    content = "".join(f"{line}\n" for line in result.lines)
    output.write(content.encode("utf-8", "replace"), window)


def report_window(result: TranslatedWindow, before: int, report: Report, warn: Report) -> None:
    """Report lines that could not be translated, and warn of doubtful translations.

    Args:
        before: number of lines in earlier windows.
    """
    for call, messages in ((report, result.errors), (warn, result.warnings)):
        for place, message in messages:
            call(before + 1 + place, message)


def as_text(line: Line, result: Result) -> str:
    """The best translation on one line, or ""."""
    return "" if isinstance(result, Exception) else without_line_breaks(result[0]["translation_text"])


def without_line_breaks(text: str) -> str:
    """Replace line breaks with spaces, for a file in which a line break would shift all lines after it."""
    return LINE_BREAK.sub(" ", text)


def write_translations(path: Path, translations: Iterable[str], name: str | Path = "") -> None:
    """Write translations to a file, one per line, compressed if its final name ends in .gz or .zst."""
    text = "".join(f"{without_line_breaks(text)}\n" for text in translations)
    path.write_bytes(compressed(text.encode(), name))


def as_json(line: Line, result: Result) -> str:
    """A JSON record of a line and its translations.

    It has `source` and `translations`, best first, each with `text` and whatever else was requested; and `error` if
    there is no translation.
    """
    record: dict[str, Any] = {"source": line.text, "translations": []}
    if isinstance(result, Exception):
        record["error"] = error_message(result)
    else:
        record["translations"] = [_as_record(hypothesis) for hypothesis in result]
    return json.dumps(record, ensure_ascii=False)


def error_message(error: Exception) -> str:
    """Why a line has no translation."""
    if isinstance(error, SourceTooLong):
        return f"{error}{SPLIT_HINT}"
    return reason(error) if is_out_of_memory(error) else " ".join(f"{type(error).__name__}: {error}".split())


def _as_record(hypothesis: Hypothesis) -> dict[str, object]:
    further = {name: value for name, value in hypothesis.items() if name != "translation_text"}
    return {"text": hypothesis["translation_text"], **further}
