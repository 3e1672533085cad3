"""Translates the text of the page sentence by sentence, and yields translations as soon as they are done."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ..core.sentence_splitting import Piece, join_texts, split_text
from ..errors import InputError
from ..text.glossary import shortened
from ..text.keep_patterns import KINDS
from ..text.markers import has_keep_tokens
from ..text.normalization import clean, is_blank
from ..translator.segments import Hypothesis
from ..translator.translator import Translator
from .limits import LONGEST_LINKED_TEXT, LONGEST_TEXT, MOST_BEAMS, check_text, untranslated, user_errors
from .models import NO_LANGUAGES, Languages, LoadedModel

# Sentences translated together: few at first, so that the first one shows at once.
FIRST_SENTENCES, MOST_SENTENCES, GROWTH = 1, 128, 2
SHOWN_WARNINGS = 5


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text with its translations.

    Attributes:
        piece: the sentence, and the whitespace after it.
        hypotheses: its translations, best first; empty for an empty line or an error.
        error: what to show in place of a translation that failed.
    """

    piece: Piece
    hypotheses: tuple[Hypothesis, ...] = ()
    error: str = ""

    @property
    def has_warning(self) -> bool:
        return bool(self.hypotheses and "warning" in self.hypotheses[0])

    @property
    def translation(self) -> str:
        return self.hypotheses[0]["translation_text"] if self.hypotheses else self.error


@dataclass(frozen=True)
class Translation:
    """The part of a text that has been translated so far."""

    sentences: tuple[Sentence, ...]
    total: int  # sentences of the whole text
    has_links: bool

    @property
    def text(self) -> str:
        """The translation as plain text, with the line breaks of the source."""
        return join_texts([s.translation for s in self.sentences], [s.piece for s in self.sentences])

    @property
    def warnings(self) -> list[str]:
        """The sentences whose translation may be wrong, and why."""
        found = [(s.piece.text, s.hypotheses[0]["warning"]) for s in self.sentences if s.has_warning]
        shown, rest = found[:SHOWN_WARNINGS], len(found) - SHOWN_WARNINGS
        lines = [f"{shortened(text)}: {warning}." for text, warning in shown]
        return [*lines, f"{rest:,} more translations may be wrong."] if rest > 0 else lines

    @property
    def is_done(self) -> bool:
        return len(self.sentences) == self.total


def translate_text(
    loaded: LoadedModel, text: str, languages: Languages = NO_LANGUAGES, n_best: int = 1
) -> Iterator[Translation]:
    """Translate a text, and yield its translation so far after the first sentence, then after ever larger groups.

    Args:
        n_best: number of translations of each sentence; the search has at least as many beams.
    """
    remedy = "Shorten it, or translate it as a file."
    text = clean(check_text(text, LONGEST_TEXT, remedy=remedy))
    if not 1 <= n_best <= MOST_BEAMS:
        raise InputError(f"1 to {MOST_BEAMS} translations of a sentence can be shown, not {n_best}.")
    has_links = loaded.has_attention and len(text) <= LONGEST_LINKED_TEXT
    with user_errors():
        translator = make_translator(loaded, languages, n_best, has_links)
    # One sentence per piece; the engine divides those that are too long.
    pieces = split_text(text, lambda _: True, packs=False)
    done: list[Sentence] = []
    for group in _groups(pieces):
        with loaded.lock, user_errors():
            done += _translated(translator, group)
        yield Translation(tuple(done), len(pieces), has_links)


def make_translator(loaded: LoadedModel, languages: Languages, n_best: int = 1, has_links: bool = False) -> Translator:
    """Make a translator with a model of the page.

    A text that fails does not affect the others, and the server forks no processes. A model with placeholders keeps
    what they can stand for.
    """
    beams = max(n_best, loaded.model.generation_config.num_beams or 1)
    keep = list(KINDS) if has_keep_tokens(loaded.tokenizer) else None
    return loaded.pipeline(languages).translator(
        split_sentences=True,
        on_error="return",
        return_warnings=True,
        num_workers=1,
        n_best=n_best,
        num_beams=beams,
        keep=keep,
        return_confidence=getattr(loaded.model.config, "confidence", None) is not None,
        **{"return_alignments": True} if has_links else {},
    )


def _groups(pieces: list[Piece]) -> Iterator[list[Piece]]:
    rest, size = iter(pieces), FIRST_SENTENCES
    while group := list(islice(rest, size)):
        yield group
        size = min(size * GROWTH, MOST_SENTENCES)


def _translated(translator: Translator, pieces: list[Piece]) -> list[Sentence]:
    """Translate pieces of a text; empty lines stay empty."""
    filled = [piece for piece in pieces if not is_blank(piece.text)]
    results = iter(translator.translate([piece.text for piece in filled]) if filled else [])
    sentences = []
    for piece in pieces:
        if is_blank(piece.text):
            sentences.append(Sentence(piece))
            continue
        result = next(results)
        is_error = isinstance(result, Exception)
        sentences.append(Sentence(piece, error=untranslated(result)) if is_error else Sentence(piece, tuple(result)))
    return sentences
