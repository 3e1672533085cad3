"""Translations as pairs to train on: back-translation, forward translation, and sequence-level distillation.

A command first writes all translations of each text with their scores, window by window, so that it resumes, and
then chooses among them.

Source: Sennrich et al., "Improving Neural Machine Translation Models with Monolingual Data", ACL 2016
(back-translation); Kim & Rush, "Sequence-Level Knowledge Distillation", EMNLP 2016.
"""

import itertools
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..core.generation_vaswani import MAX_TOKENS_OVER_SOURCE
from ..data.sources.text_files import Pair, compressed
from ..errors import TrainingError, counted
from ..files import atomic_write
from ..generation.settings import position_limit
from ..text.normalization import is_blank
from ..translator.lines import Line
from ..translator.mbr import UTILITIES
from ..translator.segments import Result
from ..translator.translator import Translator

Side = Literal["source", "target"]
# A text with the other sides of its pairs, if it comes from pairs.
Text = tuple[str, list[str]]
# A translation, its score, and whether it was cut off at the maximum length.
Candidate = tuple[str, float, bool]


@dataclass(frozen=True)
class Selection:
    """Which translations become pairs."""

    side: Side = "source"  # the side of the pairs that was translated
    # The metric, a key of `UTILITIES`, by which only the translation closest to one of the text's own is kept:
    # sequence-level interpolation (Kim & Rush 2016, section 3.3).
    keep_closest: str | None = None
    keep_share: float | None = None  # keep this share of all translations, those with the best scores
    min_score: float | None = None  # keep translations with at least this score


@dataclass
class PairCounts:
    """How many translations were kept, and how many were left out for each reason."""

    lines: int = 0  # texts that were translated
    failed: int = 0  # texts without a translation, such as those that are too long
    translations: int = 0  # translations of the other texts
    repeated: int = 0  # translations that are the same as a better one of the same text
    empty: int = 0  # translations without text
    cut: int = 0  # translations that were cut off at the maximum length
    farther: int = 0  # translations left out because another one is closer to the text's own translation
    low: int = 0  # translations left out because of their scores
    pairs: int = 0  # translations that are left, each a pair

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


def texts_from_pairs(pairs: Iterable[Pair], side: Side) -> Iterator[Text]:
    """One side of pairs, without blank texts; pairs that follow each other with the same text count once."""
    place = int(side == "target")
    groups = itertools.groupby((pair for pair in pairs if all(pair)), key=itemgetter(place))
    return ((text, [pair[1 - place] for pair in group]) for text, group in groups if not is_blank(text))


def as_candidates(translator: Translator, line: Line, result: Result) -> str:
    """A text and its translations as JSON, each a [`Candidate`], best first."""
    if isinstance(result, Exception):
        return json.dumps({"text": line.text, "translations": None}, ensure_ascii=False)
    found: list[Candidate] = []
    for hypothesis in result:
        longest = greatest_length(translator, hypothesis.get("pivot_text", line.text))
        translation = " ".join(hypothesis["translation_text"].split("\n")).strip()
        score = float(hypothesis.get("score", hypothesis.get("utility", 0.0)))
        # The tokenizer adds an end token. A translation that was cut had none, and so becomes longer than `longest`.
        length = len(translator.tokenizer(text_target=translation)["input_ids"])
        found.append((translation, score if math.isfinite(score) else -1e30, length > longest))
    return json.dumps({"text": line.text, "translations": found}, ensure_ascii=False)


def greatest_length(translator: Translator, text: str) -> int:
    """The maximum number of tokens in a translation of a text, not counting the start token."""
    arguments, model = translator.request.arguments, translator.model
    if (number := arguments.get("max_new_tokens")) is not None:
        length = number
    elif (given := arguments.length()) is not None:
        length = given - 1
    else:
        offset = getattr(model.generation_config, "max_length_offset", None)
        source_length = len(translator.tokenizer(text)["input_ids"])
        length = source_length + (MAX_TOKENS_OVER_SOURCE if offset is None else offset)
    positions = position_limit(model.get_decoder())
    return length if positions is None else min(length, positions - 1)  # the start token takes the first one


def write_pairs(candidates: Path, output: Path, selection: Selection, texts: Iterable[Text]) -> PairCounts:
    """Choose among translations, and write the pairs as JSON lines with `source`, `target` and `score`.

    Args:
        candidates: a file of translations, with one record per text.
        output: file to write, compressed if it ends in .gz or .zst.
        texts: the texts, which are read only for `keep_closest`.

    Raises:
        TrainingError: if nothing is left.
        OSError: if the file cannot be written.
    """
    closest = _closest(candidates, selection.keep_closest, texts) if selection.keep_closest else None
    counts = PairCounts()
    scores = [score for _, _, score in _usable(candidates, PairCounts(), closest)]
    least = -math.inf if selection.min_score is None else selection.min_score
    share = selection.keep_share
    number = len(scores) if share is None else max(round(share * len(scores)), 1)
    # Among equal scores, the earlier ones are kept.
    ranks = np.argsort(np.argsort(-np.array(scores, dtype=np.float64), kind="stable"), kind="stable")

    def kept() -> Iterator[str]:
        for (text, translation, score), rank in zip(_usable(candidates, counts, closest), ranks):
            if rank >= number or score < least:
                counts.low += 1
                continue
            counts.pairs += 1
            source, target = (text, translation) if selection.side == "source" else (translation, text)
            record = {"source": source, "target": target, "score": score}
            yield f"{json.dumps(record, ensure_ascii=False)}\n"

    with atomic_write(output) as part, open(part, "wb") as file:
        lines = kept()
        while content := "".join(itertools.islice(lines, 4096)):
            file.write(compressed(content.encode("utf-8", "replace"), output))
        if not counts.pairs:
            remedy = " Lower --min_score." if counts.low else ""
            raise TrainingError(f"{output}: no pairs are left ({counts.in_words()}).{remedy}")
    return counts


def _closest(candidates: Path, metric: str, texts: Iterable[Text]) -> list[int]:
    """For each text, the place among its translations of the one closest to any of the text's own."""
    lines = zip(_usable_by_text(candidates, PairCounts()), texts, strict=True)
    return [
        int(UTILITIES[metric](list(found), own).max(1).argmax()) if len(found) > 1 and own else 0
        for (_, found), (_, own) in lines
    ]


def _usable(candidates: Path, counts: PairCounts, closest: list[int] | None) -> Iterator[tuple[str, str, float]]:
    """Text, translation and score of the translations that may be kept; counts all of them."""
    for number, (text, found) in enumerate(_usable_by_text(candidates, counts)):
        for place, (translation, score) in enumerate(found.items()):
            if closest is None or place == closest[number]:
                yield text, translation, score
            else:
                counts.farther += 1


def _usable_by_text(candidates: Path, counts: PairCounts) -> Iterator[tuple[str, dict[str, float]]]:
    """Each text, and the scores of its translations that are not empty, cut or repeated, best first; counts all."""
    with candidates.open(encoding="utf-8") as file:
        for line in file:
            record: dict[str, Any] = json.loads(line)
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
