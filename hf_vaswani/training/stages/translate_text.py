"""A stage that translates: lines of text → translations with their scores, window by window → pairs to train on.

The translations are kept in the stage's folder until the pairs are written, so that a stage that was stopped resumes
at its last window and produces the same pairs, byte for byte.
"""

import gzip
import itertools
import json
import math
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm
from transformers import pipeline

from ...core.generation_vaswani import MAX_TOKENS_OVER_SOURCE
from ...data.sources.text_files import iterate_lines
from ...errors import InputError, TrainingError, TrainingInterrupted, counted
from ...files import atomic_write
from ...pipeline.engine import Result, TranslationEngine
from ...pipeline.source_limits import position_limit
from ...runtime.processes import say
from ...runtime.signals import StopSignals
from ...text.invisible import is_blank
from ...translation.lines import SPLIT_HINT, LineTranslator, translate_lines
from ...translation.load import fingerprint
from ...translation.resumable_output import NothingToResume, NotResumable, ResumableOutput, progress_file
from ...translation.utility import UTILITIES
from ...translation.windows import Line
from ..recipe.arguments import DataArguments
from ..setup.splits import own_sources, stream_of
from ..setup.text_mix import OWN, sources_of
from .arguments import PAIRS_FILE, SELECTION, TranslateArguments
from .teacher import Teacher, open_teacher, search_of

TRANSLATIONS_FILE = "translations.jsonl"
PROGRESS_FILE = progress_file(Path(TRANSLATIONS_FILE)).name


@dataclass
class PairCounts:
    """How many translations of a stage's text were kept, and how many were left out for each reason.

    Attributes:
        lines: lines of text.
        failed: lines without a translation, such as those that are too long.
        translations: translations of the other lines.
        repeated: translations that are the same as a better one of the same line.
        empty: translations without text.
        cut: translations that were cut off at the maximum length.
        farther: translations left out because another one is closer to the text's own translation.
        low: translations left out because of their scores.
        pairs: translations that are left, each a pair.
    """

    lines: int = 0
    failed: int = 0
    translations: int = 0
    repeated: int = 0
    empty: int = 0
    cut: int = 0
    farther: int = 0
    low: int = 0
    pairs: int = 0

    def in_words(self) -> str:
        """The counts as one line for the user."""
        left_out = {
            "repeated": self.repeated, "empty": self.empty, "cut off": self.cut,
            "not the closest": self.farther, "with low scores": self.low,
        }  # fmt: skip
        words = ", ".join(f"{number:,} {what}" for what, number in left_out.items() if number)
        failed = f"; {counted(self.failed, 'line')} not translated" if self.failed else ""
        return f"{counted(self.pairs, 'pair')} of {counted(self.lines, 'line')}" + (
            f"; left out: {words}{failed}" if words else failed
        )


def make_pairs(
    folder: Path, arguments: TranslateArguments, data: DataArguments, overwrite: bool = False, workers: int = 1
) -> PairCounts:
    """Translate the text of a stage into the pairs file in its folder, resuming translations that were begun.

    Args:
        arguments: of the stage, with paths in place of stage names.
        data: of the recipe.
        overwrite: start over if the existing translations cannot be resumed.
        workers: number of processes that translate, on a CPU.

    Raises:
        InputError: if the text or the model cannot be used or, without `overwrite`, differs from what the
            translations were begun with.
        TrainingInterrupted: on SIGTERM or Ctrl-C, with all completed windows saved.
        TrainingError: if nothing is left to train on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TRANSLATIONS_FILE
    with _stopped_by_signals(folder):
        if path.exists() and not (has_all_translations(folder) or (folder / PROGRESS_FILE).exists()):
            path.unlink()  # killed before any progress was recorded
        try:
            translate_rest(path, arguments, data, workers)
        except NotResumable:
            if not overwrite:
                raise
            for name in (TRANSLATIONS_FILE, PROGRESS_FILE):
                (folder / name).unlink(missing_ok=True)
            translate_rest(path, arguments, data, workers)
        closest = None
        if arguments.keep_closest:
            closest = closest_translations(path, arguments.keep_closest, texts_with_translations(arguments, data))
        counts = write_pairs(path, folder / PAIRS_FILE, arguments, closest)
    if not counts.pairs:
        remedy = " Lower translate.min_score." if counts.low else ""
        raise TrainingError(
            f"{folder}: no pairs are left of {counted(counts.lines, 'line')} ({counts.in_words()}).{remedy}"
        )
    return counts


def has_all_translations(folder: Path) -> bool:
    """Whether all lines of a stage's text are translated, although the pairs may not have been written yet."""
    path = folder / TRANSLATIONS_FILE
    return path.exists() and path.stat().st_size > 0 and not (folder / PROGRESS_FILE).exists()


def translate_rest(path: Path, arguments: TranslateArguments, data: DataArguments, workers: int = 1) -> None:
    """Translate the lines that are not in a file of translations yet.

    Raises:
        NotResumable: if the file belongs to another text, model or search.
    """
    try:
        output = ResumableOutput(
            path, resume=True, continues="Free up disk space, then run the same command again to continue."
        )
    except NothingToResume:  # it is complete
        return
    with closing(output):
        translate_all(output, open_teacher(arguments, data), arguments, data, workers)


@contextmanager
def _stopped_by_signals(folder: Path) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C stop the block at once, with a message that says how to resume.

    Raises:
        TrainingInterrupted: on a signal.
    """
    with StopSignals(at_once=True) as signals:
        try:
            yield
        except KeyboardInterrupt:
            message = (
                f"Stopped by {signals.name}; what was translated is saved in {folder}. Run the same command again to "
                "continue."
            )
            raise TrainingInterrupted(message, signals.received or signal.SIGINT) from None


def translate_all(
    output: ResumableOutput, teacher: Teacher, arguments: TranslateArguments, data: DataArguments, workers: int
) -> None:
    """Translate all lines of a stage's text that are not in its output yet."""
    translator = pipeline("translation", model=teacher.model, tokenizer=teacher.tokenizer, **teacher.languages)
    try:
        translate = LineTranslator(
            translator,
            n_best=arguments.n_best,
            seed=arguments.seed,
            return_scores=None if arguments.mbr else True,
            num_workers=workers,
            **search_of(arguments, teacher.model),
        )
    except (ValueError, RuntimeError) as error:
        raise InputError(f"translate: {error}") from None
    known_by = arguments.model_dump(exclude={"model", "input", *SELECTION})
    lines = (Line(teacher.prefix + text) for text in texts_of(arguments, data))
    output.begin({"model": fingerprint(teacher.model, teacher.tokenizer), **known_by}, lines)
    if output.progress.lines:
        say(f"continuing after {counted(output.progress.lines, 'line')}")
    with tqdm(initial=output.progress.lines, unit=" lines", disable=not sys.stderr.isatty()) as bar:
        translate.engine.progress = bar.update
        translate_lines(
            lines,
            translate,
            partial(as_record, teacher, translate.engine),
            output,
            say_not_translated,
            lambda done: bar.update(done - bar.n),
        )


def say_not_translated(number: int, why: str) -> None:
    """Report a line without a translation, without the hint to split it into sentences, which no stage can do."""
    say(f"line {number:,}, not counting blank and held-out ones, is not translated: {why.removesuffix(SPLIT_HINT)}")


def texts_of(arguments: TranslateArguments, data: DataArguments) -> Iterator[str]:
    """The texts to translate, without blank ones: the lines of files, and one side of pairs, those of the recipe's own
    training text or of other stages. Pairs that follow each other with the same text on that side count once."""
    return (text for text, _ in texts_with_translations(arguments, data))


def texts_with_translations(arguments: TranslateArguments, data: DataArguments) -> Iterator[tuple[str, list[str]]]:
    """The texts to translate, each with the other sides of its pairs; lines of files have none."""
    side = int(arguments.side == "target")
    for name in arguments.inputs:
        found: Iterable[tuple[str, list[str]]]
        if name == OWN or Path(name).name == PAIRS_FILE:
            pairs = (pair for source in sources_of(name, own_sources(data)) for pair in stream_of(data, source))
            found = ((pair[side], [pair[1 - side]]) for pair in pairs if all(pair))
            if name != OWN:
                groups = itertools.groupby(found, key=itemgetter(0))
                found = ((text, [other for _, [other] in group]) for text, group in groups)
        else:
            found = ((line, []) for line in iterate_lines(name))
        yield from ((text, others) for text, others in found if not is_blank(text))


def as_record(teacher: Teacher, engine: TranslationEngine, line: Line, result: Result) -> str:
    """A line and its translations as JSON: `[text, score, whether it was cut]` for each, best first."""
    text = line.text.removeprefix(teacher.prefix)
    if isinstance(result, Exception):
        return json.dumps({"text": text, "translations": None}, ensure_ascii=False)
    most = greatest_length(engine, line.text)
    found = []
    for hypothesis in result:
        translation = " ".join(hypothesis["translation_text"].split("\n")).strip()
        score = float(hypothesis.get("score", hypothesis.get("utility", 0.0)))
        # The tokenizer adds an end token. A translation that was cut had none, and so becomes longer than `most`.
        length = len(teacher.tokenizer(text_target=translation)["input_ids"])
        found.append([translation, score if math.isfinite(score) else -1e30, length > most])
    return json.dumps({"text": text, "translations": found}, ensure_ascii=False)


def greatest_length(engine: TranslationEngine, text: str) -> int:
    """The maximum number of tokens in a translation of a text, not counting the start token."""
    arguments, model = engine.arguments, engine.pipeline.model
    if (number := arguments.get("max_new_tokens")) is not None:
        length = number
    elif (given := arguments.length()) is not None:
        length = given - 1
    else:
        offset = getattr(model.generation_config, "max_length_offset", None)
        source_length = len(engine.pipeline.tokenizer(text)["input_ids"])
        length = source_length + (MAX_TOKENS_OVER_SOURCE if offset is None else offset)
    positions = position_limit(model.get_decoder())
    return length if positions is None else min(length, positions - 1)  # the start token takes the first one


def closest_translations(translations: Path, metric: str, texts: Iterable[tuple[str, list[str]]]) -> list[int]:
    """For each line, the place among its translations, best first, of the one closest to any of the text's own:
    sequence-level interpolation (Kim & Rush 2016, section 3.3).

    Args:
        translations: the file of translations, with one record per line.
        metric: a key of `UTILITIES`.
        texts: for each line, the text and its own translations.
    """
    lines = zip(_lines_of(translations, PairCounts()), texts, strict=True)
    return [
        int(UTILITIES[metric](list(found), own).max(1).argmax()) if len(found) > 1 else 0
        for (_, found), (_, own) in lines
    ]


def write_pairs(
    translations: Path, output: Path, arguments: TranslateArguments, closest: list[int] | None = None
) -> PairCounts:
    """Atomically write a gzip file with the pairs to train on, sources first.

    Args:
        translations: the file of translations, with one record per line.
        arguments: of the stage; they say which translations are good enough.
        closest: for each line, the place of the only translation to keep.
    """
    counts = PairCounts()
    scores = [score for _, _, score in _usable(translations, PairCounts(), closest)]
    least = -math.inf if arguments.min_score is None else arguments.min_score
    number = len(scores) if arguments.keep_share is None else max(round(arguments.keep_share * len(scores)), 1)
    # Among equal scores, the earlier ones are kept.
    ranks = np.argsort(np.argsort(-np.array(scores, dtype=np.float64), kind="stable"), kind="stable")
    # Without file name and time, so that the same pairs give the same bytes.
    with atomic_write(output) as part, open(part, "wb") as file, gzip.GzipFile("", "wb", 6, file, 0) as compressed:
        for (text, translation, score), rank in zip(_usable(translations, counts, closest), ranks):
            if rank >= number or score < least:
                counts.low += 1
                continue
            counts.pairs += 1
            pair = (text, translation) if arguments.side == "source" else (translation, text)
            record: dict[str, Any] = {**dict(zip(("source", "target"), pair)), "score": score}
            compressed.write(f"{json.dumps(record, ensure_ascii=False)}\n".encode("utf-8", "replace"))
    return counts


def _usable(translations: Path, counts: PairCounts, closest: list[int] | None) -> Iterator[tuple[str, str, float]]:
    """Text, translation and score of the translations that may be kept; counts all of them."""
    for number, (text, found) in enumerate(_lines_of(translations, counts)):
        for place, (translation, score) in enumerate(found.items()):
            if closest is None or place == closest[number]:
                yield text, translation, score
            else:
                counts.farther += 1


def _lines_of(translations: Path, counts: PairCounts) -> Iterator[tuple[str, dict[str, float]]]:
    """The text of each line, and the scores of its translations that are not empty, cut or repeated, best first;
    counts all of them."""
    with translations.open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            counts.lines += 1
            counts.failed += record["translations"] is None
            found: dict[str, float] = {}
            for translation, score, is_cut in record["translations"] or []:
                counts.translations += 1
                if not translation:
                    counts.empty += 1
                elif is_cut:
                    counts.cut += 1
                elif translation in found:
                    counts.repeated += 1
                else:
                    found[translation] = score
            yield record["text"], found
