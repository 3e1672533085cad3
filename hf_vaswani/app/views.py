"""What the page shows, as HTML: escaped texts, each in its own direction, with linked words."""

import re
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from ..errors import counted
from ..evaluation.beam_tree_figure import number_text
from ..evaluation.token_text import readable_tokens
from ..generation.output_scores import Hypothesis
from ..text.words import Span, word_spans
from .translate import Sentence, Translation

# How tokenizers mark the beginning, the inside, and the end of words.
MARKS = re.compile(r"^(?:▁+|##|Ġ+|￭)|(?:@@|</w>|￭|▁+)$")
# How many characters between two tokens may belong to neither: whitespace, or what the tokenizer does not know.
FARTHEST = 24
MOST_ROWS = 200
HOW_TO = "Point at a word, tap it, or use the arrow keys to see which source words it comes from."


class LinkedSentence(NamedTuple):
    """A sentence and its translation, the spans of their words, and pairs of numbers of linked words."""

    source: str
    target: str
    source_words: list[Span]
    target_words: list[Span]
    links: list[tuple[int, int]]


def link_words(tokenizer: PreTrainedTokenizerBase, source: str, hypothesis: Hypothesis) -> LinkedSentence:
    """Link the words of a sentence to those of its translation; without an alignment there are no links."""
    target = hypothesis["translation_text"]
    source_words, target_words = word_spans(source), word_spans(target)
    links: set[tuple[int, int]] = set()
    if "alignment" in hypothesis:
        sides = ((source, source_words, "source_tokens"), (target, target_words, "target_tokens"))
        numbers = [
            [words_at(words, span) for span in token_spans(readable_tokens(tokenizer, hypothesis[name]), text)]
            for text, words, name in sides
        ]
        for of_source, of_target in hypothesis["alignment"]:
            links |= {(s, t) for s in numbers[0][of_source] for t in numbers[1][of_target]}
    return LinkedSentence(source, target, source_words, target_words, sorted(links))


def words_at(words: Sequence[Span], span: Span | None) -> list[int]:
    """Numbers of the words that share a character with a span."""
    if span is None:
        return []
    return [number for number, (start, end) in enumerate(words) if start < span[1] and span[0] < end]


def token_spans(tokens: Sequence[str], text: str) -> list[Span | None]:
    """The span of each token in a text, from left to right; None if its letters are not found."""
    folded, at, spans = _folded(text), 0, []
    for token in tokens:
        found = None
        for letters in dict.fromkeys((token, MARKS.sub("", token), MARKS.sub("", MARKS.sub("", token)))):
            letters = _folded(letters.replace("▁", " ")).strip()
            start = folded.find(letters, at, at + len(letters) + FARTHEST) if letters else -1
            if start >= 0:
                found = (start, start + len(letters))
                break
        spans.append(found)
        at = found[1] if found else at
    return spans


def _folded(text: str) -> str:
    """The text, at the same length, without differences that tokenizers ignore: upper case, compatibility forms."""
    plain = (unicodedata.normalize("NFKC", character).lower() for character in text)
    return "".join(new if len(new) == 1 else old for new, old in zip(plain, text))


def linked_text(tokenizer: PreTrainedTokenizerBase, translation: Translation) -> str:
    """Each sentence beside its translation, each word with the numbers of the words that it is linked to."""
    if not translation.has_links:
        return ""
    rows = [
        _linked_row(link_words(tokenizer, sentence.piece.text, sentence.hypotheses[0]))
        for sentence in translation.sentences
        if sentence.hypotheses
    ]
    if not rows:
        return ""
    return (
        f'<div class="linked" role="group" aria-label="Word links"><p class="hint">{HOW_TO}</p>'
        f'<p class="link" role="status"></p>{"".join(rows)}</div>'
    )


def _linked_row(linked: LinkedSentence) -> str:
    of_source: dict[int, list[int]] = {}
    of_target: dict[int, list[int]] = {}
    for source, target in linked.links:
        of_source.setdefault(source, []).append(target)
        of_target.setdefault(target, []).append(source)
    source = _words(linked.source, linked.source_words, of_source)
    target = _words(linked.target, linked.target_words, of_target)
    return (
        f'<div class="pair"><p dir="auto" class="source">{source}</p><p dir="auto" class="target">{target}</p></div>'
    )


def _words(text: str, words: Sequence[Span], links: dict[int, list[int]]) -> str:
    parts, at = [], 0
    for number, (start, end) in enumerate(words):
        to = " ".join(map(str, links.get(number, ())))
        parts.append(f'{escape(text[at:start])}<span class="word" data-to="{to}">{escape(text[start:end])}</span>')
        at = end
    return "".join([*parts, escape(text[at:])])


def alternatives(sentences: Sequence[Sentence]) -> str:
    """The translations of each sentence with their scores, best first."""
    rows = [
        [str(number), str(rank), number_text(hypothesis["score"], 3), hypothesis["translation_text"]]
        for number, sentence in enumerate((s for s in sentences if s.hypotheses), start=1)
        for rank, hypothesis in enumerate(sentence.hypotheses, start=1)
        if "score" in hypothesis
    ]
    return table("Translations and their scores", ["sentence", "rank", "score", "translation"], rows, numbers=3)


def table(caption: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], numbers: int = 0) -> str:
    """A table, with at most 200 rows shown.

    Args:
        numbers: how many columns from the left hold numbers.
    """
    if not rows:
        return ""
    rest = len(rows) - MOST_ROWS
    head = "".join(f'<th scope="col">{escape(header)}</th>' for header in headers)
    body = "".join(
        f"<tr>{''.join(_cell(value, place < numbers) for place, value in enumerate(row))}</tr>"
        for row in rows[:MOST_ROWS]
    )
    more = f"<p>Not shown: {counted(rest, 'more row')}.</p>" if rest > 0 else ""
    return (
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _cell(value: Any, is_number: bool) -> str:
    return f'<td{" class=number" if is_number else ""} dir="auto">{escape(str(value))}</td>'


def paragraphs(*texts: str) -> str:
    """Texts as paragraphs, one below the other."""
    return "".join(f'<p dir="auto">{escape(text)}</p>' for text in texts)


def figure(svg: str, label: str) -> str:
    """A figure in its own size, which scrolls if the page is narrower; `svg` is markup, and `label` plain text."""
    return f'<div class="figure" role="region" tabindex="0" aria-label="{escape(label)}">{svg}</div>'


def image(png: str, description: str, caption: str) -> str:
    """A PNG image, given in base64, with a description in words and a caption below."""
    return (
        f'<figure class="figure" role="region" tabindex="0" aria-label="Heat map">'
        f'<img src="data:image/png;base64,{png}" alt="{escape(description)}">'
        f'<figcaption dir="auto">{escape(caption)}</figcaption></figure>'
    )
