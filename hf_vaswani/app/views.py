"""What the page shows, as HTML: escaped texts, each in its own direction, with linked words."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from ..errors import counted
from ..evaluation.beam_tree_figure import number_text
from ..text.token_spans import readable_tokens, token_spans
from ..text.words import Span, word_spans, words_at
from ..translator.segments import Hypothesis
from .translate import Sentence, Translation

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
    """Link the words of a sentence to the words of its translation; without an alignment there are no links."""
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


def linked_text(tokenizer: PreTrainedTokenizerBase, translation: Translation) -> str:
    """Each sentence next to its translation, each word with the numbers of the words that it is linked to."""
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
    """The translations of each sentence with their scores, and confidence if the model has one, best first."""
    found = [
        (number, rank, hypothesis)
        for number, sentence in enumerate((s for s in sentences if s.hypotheses), start=1)
        for rank, hypothesis in enumerate(sentence.hypotheses, start=1)
        if "score" in hypothesis
    ]
    names = ["score", *(["confidence"] if any("confidence" in hypothesis for *_, hypothesis in found) else [])]
    rows = [
        [str(number), str(rank), *(number_text(hypothesis[name], 3) for name in names), hypothesis["translation_text"]]
        for number, rank, hypothesis in found
    ]
    headers = ["sentence", "rank", *names, "translation"]
    return table("Translations and their scores", headers, rows, numbers=2 + len(names))


def table(caption: str, headers: Sequence[str], rows: Sequence[Sequence[object]], numbers: int = 0) -> str:
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


def _cell(value: object, is_number: bool) -> str:
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
