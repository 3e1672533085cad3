"""Standard output, progress bar, and the warnings of commands that process text line by line."""

import io
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...data.sources.sides import SAMPLE, language_warning
from ...data.sources.text_files import iterate_lines
from ...errors import counted
from ...text.inputs import mojibake_warning
from ...text.languages import own_languages, unmarked_warning
from ...text.normalization import clean, normalized
from .options import with_option_names

SHOWN = 20


class LineReports:
    """Prints warnings about lines to standard error: the first 20 right away, the total number in [`summarize`].

    Translations that may be wrong are only counted.
    """

    def __init__(self):
        self.count, self.doubtful, self.first = 0, 0, ""

    def of(self, name: str) -> Callable[[int, str], None]:
        """A function that reports what is wrong with a line of this file: `report(number, what)`."""

        def report(number: int, what: str) -> None:
            self.count += 1
            if self.count <= SHOWN:
                tqdm.write(f"warning: {name}, line {number:,}: {what}.", file=sys.stderr)

        return report

    def of_translations(self, name: str) -> Callable[[int, str], None]:
        """A function that counts the translation of a line of this file as one that may be wrong."""

        def report(number: int, why: str) -> None:
            self.doubtful += 1
            self.first = self.first or f"{name}, line {number:,}: {why}"

        return report

    def summarize(self) -> None:
        if self.doubtful:
            translations = counted(self.doubtful, "translation")
            print(f"warning: {translations} may be wrong; the first: {self.first}.", file=sys.stderr)
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


def first_lines(path: str | None) -> list[str]:
    """A sample of a file; empty for a stream, which can be read only once."""
    return list(islice(iterate_lines(path, lambda *_: None), SAMPLE)) if path and Path(path).is_file() else []


def source_warnings(
    name: str, texts: Sequence[str], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> list[str]:
    """Warnings about sources.

    Args:
        name: what the texts are called.
        texts: all of them, or a sample.
    """
    warnings = (
        language_warning(name, texts, *own_languages(model.config, tokenizer)),
        mojibake_warning(name, texts),
        _unknown_warning(name, texts, tokenizer),
    )
    return [warning for warning in warnings if warning]


def file_warnings(
    path: str | None, target_language: str | None, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> list[str]:
    """Warnings about the first lines of a file of sources, and if a target language must be chosen for them."""
    texts = first_lines(path)
    warnings = source_warnings(str(path), texts, model, tokenizer)
    if unmarked := unmarked_warning(tokenizer, texts, target_language):
        warnings.append(f"warning: {with_option_names(unmarked)}")
    return warnings


def _unknown_warning(name: str, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> str | None:
    texts = [normalized(clean(text), tokenizer) for text in texts]
    rows = tokenizer(texts, verbose=False)["input_ids"] if texts else []
    if not (count := sum(tokenizer.unk_token_id in row for row in rows)):
        return None
    return (
        f"warning: {count:,} of {len(texts):,} lines of {name} have characters or words that the model's vocabulary "
        "lacks. It cannot translate them."
    )
