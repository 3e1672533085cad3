"""Translates any number of lines of text, in order and window by window, into plain text or JSON lines.

A line that cannot be translated gets an empty translation and a report, and costs no other line.
"""

import json
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Pipeline

from ..core.pipeline_inputs import source_limits
from ..data.sources.text_files import Report
from .mbr import translate_mbr
from .prefixes import translate_with_prefixes
from .resumable_output import ResumableOutput, StreamOutput
from .retries import translate_each
from .windows import Line, windows

LINE_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Untranslated:
    """Stands where the translations of a line would, and says why there are none."""

    why: str


Result = list[dict[str, Any]] | Untranslated


class LineTranslator:
    """Translates windows of lines.

    Args:
        translator: a translation pipeline.
        max_source_length: in tokens; default: what model and tokenizer can take. A longer line is not translated.
        split_sentences: it is translated in pieces instead.
        minimum_risk: arguments of [`translate_mbr`], where translations shall be chosen by minimum Bayes risk.
        n_best: translations a line.
        seed: of samples, which depend on it and the window alone.
        options: further arguments of the pipeline.
    """

    def __init__(
        self,
        translator: Pipeline,
        max_source_length: int | None = None,
        split_sentences: bool = False,
        minimum_risk: dict[str, Any] | None = None,
        n_best: int | None = None,
        seed: int = 0,
        **options,
    ):
        self.translator, self.minimum_risk, self.n_best, self.seed = translator, minimum_risk, n_best, seed
        self.options, self.split_sentences = dict(options), split_sentences
        self.limit = source_limits(translator.model, translator.tokenizer, max_source_length).whole
        if max_source_length:
            self.options["max_source_length"] = max_source_length
        if split_sentences:
            self.options["split_sentences"] = True

    def __call__(self, lines: Sequence[Line]) -> list[Result]:
        """A result for each line: its translations, best first, as the pipeline gives them; or why there are none."""
        results: list[Result | None] = list(self._too_long(lines))
        rows = [row for row, fault in enumerate(results) if fault is None]
        for row, result in zip(rows, self._translate([lines[row] for row in rows])):
            results[row] = result
        return results

    def _too_long(self, lines: Sequence[Line]) -> list[Untranslated | None]:
        if self.split_sentences or not lines:
            return [None] * len(lines)
        texts = [f"{self.translator.prefix}{line.text}" for line in lines]
        lengths = [len(ids) for ids in self.translator.tokenizer(texts).input_ids]
        return [
            Untranslated(f"{length:,} tokens, and at most {self.limit:,} are translated: use --split_sentences")
            if length > self.limit
            else None
            for length in lengths
        ]

    def _translate(self, lines: list[Line]) -> list[list[dict[str, Any]]]:
        texts = [line.text for line in lines]
        torch.manual_seed(self.seed + zlib.crc32("\n".join(texts).encode("utf-8", "surrogatepass")))
        if self.minimum_risk is None:
            n_best = {"n_best": self.n_best} if self.n_best else {}
            options = {**n_best, **self.options}
            if any(line.prefix for line in lines):
                return translate_with_prefixes(self.translator, texts, [line.prefix for line in lines], **options)
            results = self.translator(texts, **options)
            return [result if isinstance(result, list) else [result] for result in results]
        rankings = translate_mbr(self.translator, texts, **self.minimum_risk, **self.options)
        return [
            [
                {"translation_text": candidate.text, "utility": candidate.utility}
                for candidate in ranking[: self.n_best or 1]
            ]
            for ranking in rankings
        ]


def translate_lines(
    lines: Iterable[Line],
    translate: Callable[[list[Line]], list[Result]],
    write_line: Callable[[Line, Result], str],
    output: ResumableOutput | StreamOutput,
    report: Report,
    progress: Callable[[int], None] = lambda done: None,
    is_waiting: Callable[[], bool] = lambda: False,
) -> None:
    """Translate lines into an output that has begun.

    Args:
        lines: those that are not in the output yet, read as they are needed.
        translate: such as a [`LineTranslator`].
        write_line: [`as_text`] or [`as_json`].
        report: gets the number of each line that could not be translated, from 1 on, and why.
        progress: called with the number of lines that are done, after each window.
        is_waiting: as [`windows`] takes it.
    """
    for window in windows(lines, output.progress.windows, is_waiting):
        results = translate_each(translate, window, _failed)
        for number, result in enumerate(results, start=output.progress.lines + 1):
            if isinstance(result, Untranslated):
                report(number, result.why)
        content = "".join(f"{write_line(line, result)}\n" for line, result in zip(window, results))
        output.write(content.encode("utf-8", "replace"), window)
        progress(output.progress.lines)
    output.finish()


def as_text(line: Line, result: Result) -> str:
    """The best translation, as one line; an empty one where there is none."""
    return "" if isinstance(result, Untranslated) else one_line(result[0]["translation_text"])


def one_line(text: str) -> str:
    """A translation as a line of a file, in which a line end in it would move all those after it."""
    return LINE_BREAK.sub(" ", text)


def as_json(line: Line, result: Result) -> str:
    """A record with `source` and `translations`, best first, each with `text` and what else was asked for; or with
    `error`."""
    if isinstance(result, Untranslated):
        record = {"source": line.text, "translations": [], "error": result.why}
    else:
        translations = [{"text": entry["translation_text"], **_further(entry)} for entry in result]
        record = {"source": line.text, "translations": translations}
    return json.dumps(record, ensure_ascii=False)


def _failed(error: Exception) -> Untranslated:
    return Untranslated(" ".join(f"{type(error).__name__}: {error}".split()))


def _further(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "translation_text"}
