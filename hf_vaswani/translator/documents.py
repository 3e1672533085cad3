"""Translates the texts of a document: equal ones once, and one that cannot be translated stays as it is.

Texts with tags are aligned with their translations afterwards, whatever engine translated them.
"""

from collections.abc import Callable, Iterator, Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.sentence_splitting import split_sentences
from ..data.sources.text_files import Report
from ..documents.markup import read_markup
from ..documents.reading import Document
from ..documents.tag_placement import Alignment
from ..text.glossary import shortened
from ..text.words import word_spans
from .lines import Line, TranslatedWindow, as_text, report_window, sequential, translated_windows
from .pairs import align_pairs
from .segments import Result

# Of a document's texts, their translations, and whether there are tags in each.
Aligner = Callable[[Sequence[str], Sequence[str], Sequence[bool]], Sequence[Alignment | None]]


def translate_document(
    document: Document,
    translate: Callable[[list[Line]], list[Result]],
    align: Aligner,
    target_language: str | None,
    report: Report,
    warn: Report,
    progress: Callable[[int], None] = lambda done: None,
    over: Callable[..., Iterator[tuple[list[Line], TranslatedWindow]]] = sequential,
) -> bytes:
    """A document with translations in place of its texts.

    Args:
        align: aligns the texts that have tags with their translations, as [`align_texts`] does.
        target_language: code of the translations' language, if known.
        translate, report, warn, progress, over: as in [`translate_texts`].
    """
    if not document.texts:
        return document.fill([])
    translations = translate_texts(document.texts, translate, report, progress, over, warn)
    alignments = align(document.texts, translations, document.has_tags) if any(document.has_tags) else None
    return document.fill(translations, alignments, target_language)


def translate_texts(
    texts: Sequence[str],
    translate: Callable[[list[Line]], list[Result]],
    report: Report,
    progress: Callable[[int], None] = lambda done: None,
    over: Callable[..., Iterator[tuple[list[Line], TranslatedWindow]]] = sequential,
    warn: Report = lambda number, why: None,
) -> list[str]:
    """A translation for each text.

    Args:
        translate, report, progress, over, warn: as in [`translate_lines`], with texts instead of lines; equal texts
            count as one.
    """
    different, found = list(dict.fromkeys(texts)), []

    def quoted(call: Report) -> Report:
        """Numbers of texts say little of where they are in a document."""
        return lambda number, what: call(number, f"{shortened(different[number - 1])}: {what}")

    for _, window in translated_windows(map(Line, different), translate, as_filled, over=over):
        report_window(window, len(found), quoted(report), quoted(warn))
        found += window.lines
        progress(len(found))
    translations = dict(zip(different, found))
    return [translations[text] for text in texts]


def as_filled(line: Line, result: Result) -> str:
    """The best translation on one line, or the text itself."""
    return line.text if isinstance(result, Exception) else as_text(line, result)


def translate_markup(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    lines: Sequence[str],
    translate: Callable[[list[str]], list[str]],
    **languages: str,
) -> list[str]:
    """Translate lines with inline XML.

    Args:
        translate: translates texts.
        languages: as in [`align_texts`].
    """
    parts = [read_markup(line, is_html=False) for line in lines]
    texts = [text for one in parts for text in one.texts]
    different = list(dict.fromkeys(texts))
    found = dict(zip(different, translate(different)))
    translations = [found[text] for text in texts]
    has_tags = [has for one in parts for has in one.has_tags]
    filled = zip(translations, align_texts(model, tokenizer, texts, translations, has_tags, **languages))
    return [one.fill(filled) for one in parts]


def align_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    translations: Sequence[str],
    has_tags: Sequence[bool],
    **languages: str,
) -> list[Alignment | None]:
    """Align the texts that have tags with their translations, sentence by sentence where both have as many.

    Args:
        model: the model itself; another engine's model, or an ensemble, has no attention to align by.
        has_tags: of each text.
        languages: `src_lang` and `tgt_lang`, for multilingual tokenizers.

    Returns:
        For each text the links (source word, target word), by their numbers in `word_spans`; `None` for those without
        tags, and for those that cannot be aligned.
    """
    # Sentences of each different pair, and how many words are before them.
    parts: dict[tuple[str, str], list[tuple[str, str, int, int]]] = {}
    for text, translation, has in zip(texts, translations, has_tags):
        if has and text != translation and (text, translation) not in parts:
            parts[text, translation] = _paired_sentences(text, translation)
    pairs = list(dict.fromkeys((source, target) for own in parts.values() for source, target, *_ in own))
    if not pairs:
        return [None] * len(texts)
    try:
        links = dict(zip(pairs, align_pairs(model, tokenizer, pairs, **languages, words=word_spans)))
    except ValueError:  # without attention
        return [None] * len(texts)
    aligned = {
        pair: {
            (s + before, t + after) for source, target, before, after in own for s, t in links[source, target] or ()
        }
        for pair, own in parts.items()
    }
    return [aligned.get(pair) if has else None for pair, has in zip(zip(texts, translations), has_tags)]


def _paired_sentences(text: str, translation: str) -> list[tuple[str, str, int, int]]:
    sides = split_sentences(text), split_sentences(translation)
    if len(sides[0]) != len(sides[1]):
        sides = [text], [translation]
    paired, before, after = [], 0, 0
    for source, target in zip(*sides):
        paired.append((source.strip(), target.strip(), before, after))
        before, after = before + len(word_spans(source)), after + len(word_spans(target))
    return paired
