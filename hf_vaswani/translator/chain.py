"""Translates over a third language, the pivot, where no model has a pair: with two translators, one after the other.

Texts are divided into sentences once, in the source. The best translation of each into the pivot is what the second
translator reads, so that sentence n stays sentence n. What is to be kept is found in the source, and stays as it is in
both steps. A term of the source is given to the second translator by the words that translate it in the pivot.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from transformers.utils import logging

from ..core.sentence_splitting import Piece, split_like_training_text
from ..core.tokenization_vaswani import leading_marks
from ..text.glossary import Entry, Glossary, Term
from ..text.inputs import listed
from ..text.keep_patterns import find_kept, literal_patterns
from ..text.languages import LanguagePair, fits_pair, is_same_language, pairs_in_words
from ..text.normalization import clean, is_blank
from ..text.pivots import PivotSentence, PivotTerms, compose_links, joined_pivot, joined_warnings
from ..text.words import Links, Span
from .options import MEANINGS, TranslationOptions
from .pairs import encode_with_languages
from .segments import MASK, Hypothesis, Occurrence, Result, Segment, TermText
from .steps.sentences import join_hypotheses
from .term_placement import place_terms, term_places
from .translator import Translator

logger = logging.get_logger(__name__)

# Options and arguments of `generate()` that both translators get; the others are the second one's.
BOTH = (
    "batch_tokens", "batch_size", "num_workers", "keep", "on_missing_term", "split_sentences", "return_confidence",
    "return_scores", "truncation", "max_source_length", "clean_up_tokenization_spaces",
)  # fmt: skip
SEARCH = ("num_beams", "length_penalty", "early_stopping", "max_new_tokens", "max_length")
# What the second translator does not get, since it is the chain's.
OF_CHAIN = ("terms", "progress", "via")


class Step(NamedTuple):
    """How a model translates.

    Attributes:
        make: makes its translator, from options and arguments of `generate()`.
        pairs: the pairs that it translates; empty if they are not known, or any.
        is_multilingual: whether it must be told its languages.
    """

    make: Callable[[dict[str, Any]], Translator]
    pairs: Sequence[LanguagePair]
    is_multilingual: bool

    def translator(self, options: dict[str, Any], side: str) -> Translator:
        """The translator of this step.

        Args:
            side: the option that names the third language, which the other model may spell differently.

        Raises:
            ValueError: an option is not possible; the message calls the third language `via`.
        """
        via = options[side]
        requested = (via, None) if side == "src_lang" else (None, via)
        if not self.is_multilingual and self.pairs and not any(fits_pair(requested, pair) for pair in self.pairs):
            options = {**options, side: None}
        try:
            return self.make(options)
        except ValueError as error:
            raise ValueError(str(error).replace(f"{side}={via!r}", f"via={via!r}")) from None


PivotText = list[tuple[PivotSentence, Hypothesis]]


class PivotTranslator:
    """The first half of a chain: texts → their sentences in the pivot.

    Args:
        translator: translates into the pivot, and returns errors.
    """

    def __init__(self, translator: Translator):
        self.translator = translator
        kept = translator.kept_spans
        self.kept = kept if kept and kept.patterns else None

    def __call__(
        self,
        texts: Sequence[str],
        glossaries: Sequence[Glossary] = (),
        prefixes: Sequence[str] = (),
        progress: Callable[[int], Callable[[int], None] | None] = lambda count: None,
    ) -> list[PivotText | Exception]:
        """The sentences of each text in the pivot, each with its translation's further values; or why there are none.

        Args:
            glossaries: the terms that the translations of each text out of the pivot must have; or none at all.
            prefixes: what these begin with; a text with a prefix is one sentence.
            progress: makes what is called with numbers of sentences that are finished, from their number.
        """
        divided = [self._divide(text, prefix) for text, prefix in zip(texts, prefixes or [""] * len(texts))]
        owners = [owner for owner, own in enumerate(divided) for _ in own]
        segments = [segment for own in divided for segment in own]
        sources, kept = [segment.source for segment in segments], [segment.contents for segment in segments]
        results = self.translator.translate(sources, progress=progress(len(sources)), kept=kept if self.kept else ())
        pivots = ["" if isinstance(result, Exception) else result[0]["translation_text"] for result in results]
        terms: list[Glossary] = [Glossary(())] * len(sources)
        if glossaries:
            pivots, terms = self._find_terms(sources, pivots, [glossaries[owner] for owner in owners], kept)
        found: list[PivotText | Exception] = [[] for _ in texts]
        for owner, segment, result, pivot, own in zip(owners, segments, results, pivots, terms):
            of_text = found[owner]
            if isinstance(of_text, Exception):
                continue
            if isinstance(result, Exception):
                found[owner] = result
                continue
            sentence = PivotSentence(pivot, segment.piece.space, tuple(segment.contents), own)
            of_text.append((sentence, {**result[0], "translation_text": pivot}))
        return found

    def _divide(self, text: str, prefix: str) -> list[Segment]:
        text = "" if is_blank(text) else clean(text)
        masked, spans = self.kept.mask(text) if self.kept else (text, [])
        is_whole = prefix or self.translator.options.split_sentences is False
        contents = iter(spans)
        marks = leading_marks(self.translator.tokenizer, masked)  # each sentence needs them
        body = masked[len(marks) :]
        pieces = [Piece(body)] if is_whole else split_like_training_text(body, None, None, len, is_blank)
        return [
            Segment(
                0, Piece(marks + piece.text, piece.space), text_with_masks=marks + piece.text if spans else "",
                contents=[next(contents) for _ in range(piece.text.count(MASK))] if spans else (),
            )
            for piece in pieces
        ]  # fmt: skip

    def _find_terms(
        self,
        sources: Sequence[str],
        pivots: Sequence[str],
        glossaries: Sequence[Glossary],
        kept: Sequence[Sequence[str]],
    ) -> tuple[list[str], list[Glossary]]:
        """Sentences in the pivot, and their terms by their words there.

        A term that the pivot has no words for is put there as it is in the source, where the model finds it most
        probable; and a sentence that is nothing but a term stays as it is.
        """
        pivots, terms, model = list(pivots), [Glossary(())] * len(sources), self.translator.pair_model
        texts: dict[int, TermText] = {}
        entries: dict[int, list[Entry]] = {}
        for number, (source, pivot, glossary) in enumerate(zip(sources, pivots, glossaries)):
            fixed, still = (find_kept(text, literal_patterns(kept[number])) for text in (source, pivot))
            own = [(*place, entry) for *place, entry in glossary.find(source) if not _overlaps(place, fixed)]
            if own and own[0][:2] == (0, len(source.strip())):
                pivots[number], terms[number] = source, Glossary([own[0][2]])
            elif own:
                occurrences = [Occurrence(*place, each.source, (_as_term(source, place),)) for *place, each in own]
                texts[number], entries[number] = (
                    TermText(source, pivot, occurrences, still),
                    [each for *_, each in own],
                )
        places = dict(zip(texts, term_places(list(texts.values()), model)))
        if lacking := [number for number in texts if None in places[number]]:
            missing = [
                texts[number]._replace(
                    occurrences=[each for each, place in zip(texts[number].occurrences, places[number]) if not place]
                )
                for number in lacking
            ]
            for number, placed in zip(lacking, place_terms(missing, model)):
                texts[number] = texts[number]._replace(translation=placed.text)
            places |= zip(lacking, term_places([texts[number] for number in lacking], model))
        for number, text in texts.items():
            pivots[number] = text.translation
            taken = list(filter(None, places[number]))
            for each, (place, occurrence) in enumerate(zip(places[number], text.occurrences)):
                free = (own for own in occurrence.terms[0].places(text.translation) if not _overlaps(own, taken))
                if place is None and (found := next(free, None)):
                    places[number][each] = found
                    taken.append(found)
            found_terms = [(place, entry) for place, entry in zip(places[number], entries[number]) if place]
            terms[number] = PivotTerms.of_places(text.translation, found_terms)
        return pivots, terms


class ChainTranslator(Translator):
    """Translates with two translators, over a third language, with the methods of one.

    Its hypotheses have `pivot_text`, the text in the third language. Their `score` is the sum of both translators',
    their `confidence` the product.

    Args:
        first, second: translators that return errors and warnings, and have no terms.
        options: what is requested of both together.

    Raises:
        ValueError: an option is not possible over a third language.
    """

    def __init__(self, first: Translator, second: Translator, options: TranslationOptions):
        if options.return_alignments:
            raise ValueError(
                "return_alignments: over a third language, source and translation have no alignments. Leave it out."
            )
        self._first, self.second, self.pivots = first, second, PivotTranslator(first)
        # What reads the sources.
        self.model, self.tokenizer, self.selection = first.model, first.tokenizer, first.selection
        self.options, self.request, self.hypotheses = options, second.request, second.hypotheses
        self.glossary = None if options.terms is None else Glossary.of(options.terms)
        if self.glossary:
            second._check_terms([self.glossary])

    @property
    def first(self) -> Translator:
        return self._first

    @property
    def last(self) -> Translator:
        return self.second

    def empty(self) -> list[Hypothesis]:
        return [{**hypothesis, "pivot_text": ""} for hypothesis in self.second.empty()]

    def translate(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str] = (),
        first: int = 0,
        glossaries: Sequence[Glossary] = (),
        progress: Callable[[int], None] | None = None,
        kept: Sequence[Sequence[str]] = (),
    ) -> list[Result]:
        """Translate texts together, as [`Translator.translate`] does; `kept` is not used."""
        if self.glossary and not glossaries:
            glossaries = [self.glossary] * len(texts)
        report = _Progress(progress or self.options.progress, len(texts))
        pivots = self.pivots(texts, glossaries, prefixes, report.half)
        self._check(pivots, first)
        sentences = [
            (owner, sentence)
            for owner, own in enumerate(pivots)
            if not isinstance(own, Exception)
            for sentence, _ in own
        ]
        found = iter(self.second.translate(
            [sentence.text for _, sentence in sentences],
            [prefixes[owner] for owner, _ in sentences] if prefixes else (),
            glossaries=[sentence.terms for _, sentence in sentences] if glossaries else (),
            progress=report.half(len(sentences)),
            kept=[sentence.kept for _, sentence in sentences] if self.pivots.kept else (),
        ))  # fmt: skip
        results: list[Result] = []
        for own in pivots:
            if isinstance(own, Exception):
                results.append(own)
                continue
            parts = [next(found) for _ in own]
            error = next((part for part in parts if isinstance(part, Exception)), None)
            results.append(error or self._joined(own, [part for part in parts if isinstance(part, list)]))
        self._check(results, first)
        self._warn(results, first)
        return results

    def pivot_texts(self, texts: Sequence[str]) -> list[str]:
        """Texts in the third language, as they are translated on; "" for one that cannot be translated."""
        pivots = self.pivots(texts, [self.glossary] * len(texts) if self.glossary else ())
        return [
            "" if isinstance(own, Exception) else joined_pivot([sentence for sentence, _ in own]) for own in pivots
        ]

    def _check(self, results: Sequence[Any], first: int) -> None:
        """Raise the errors among results, unless they are to be returned."""
        errors = {number: result for number, result in enumerate(results, first) if isinstance(result, Exception)}
        if errors and self.options.on_error == "raise":
            if strange := [error for error in errors.values() if not isinstance(error, ValueError)]:
                raise strange[0]
            raise ValueError(f"{listed([f'inputs[{number}]: {error}' for number, error in errors.items()])}.")

    def _joined(self, own: PivotText, parts: list[list[Hypothesis]]) -> list[Hypothesis]:
        pieces = [Piece(sentence.text, sentence.space) for sentence, _ in own]
        [pivot] = _join(pieces, [[hypothesis] for _, hypothesis in own], self.first)
        joined = _join(pieces, parts, self.second)
        for hypothesis in joined:
            hypothesis["pivot_text"] = pivot["translation_text"]
            if "score" in hypothesis and "score" in pivot:
                hypothesis["score"] += pivot["score"]
            if "confidence" in hypothesis and "confidence" in pivot:
                hypothesis["confidence"] *= pivot["confidence"]
            if warning := joined_warnings(pivot.get("warning"), hypothesis.get("warning")):
                hypothesis["warning"] = warning
        return joined

    def _warn(self, results: Sequence[Result], first: int) -> None:
        """Count the translations that may be wrong, unless they have their warnings."""
        if self.options.return_warnings is not None:
            return
        warnings = [
            (number, [each.pop("warning", None) for each in result][0])
            for number, result in enumerate(results, first)
            if isinstance(result, list)
        ]
        if found := [(number, warning) for number, warning in warnings if warning]:
            logger.warning(
                f"{len(found)} of {len(results)} translations may be wrong; the first, of inputs[{found[0][0]}]: "
                f"{found[0][1]}."
            )


class _Progress:
    """Reports finished texts, for each of which two halves are to be done."""

    def __init__(self, report: Callable[[int], None] | None, texts: int):
        self.report, self.texts, self.done, self.reported = report, texts, 0.0, 0

    def half(self, count: int) -> Callable[[int], None] | None:
        """What is called with numbers of sentences that are done of half of the work, from their number."""
        if self.report is None:
            return None

        def finished(number: int) -> None:
            self.done += number * self.texts / (2 * count)
            if (new := int(self.done + 1e-6) - self.reported) > 0:
                self.reported += new
                self.report(new)

        return finished


Aligner = Callable[[Sequence[str], Sequence[str], Sequence[bool]], Sequence[Links | None]]


def align_over(
    texts: Sequence[str],
    pivots: Sequence[str],
    translations: Sequence[str],
    has_tags: Sequence[bool],
    first: Aligner,
    second: Aligner,
) -> list[Links | None]:
    """Alignments of texts with translations over a third language, for the texts that have tags.

    Args:
        first, second: align texts with their translations into the pivot, and out of it.
    """
    links = zip(first(texts, pivots, has_tags), second(pivots, translations, has_tags))
    every = zip(texts, pivots, translations, has_tags, links)
    return [compose_links(*own, *steps) if has else None for *own, has, steps in every]


def _join(pieces: list[Piece], results: list[list[Hypothesis]], translator: Translator) -> list[Hypothesis]:
    if len(pieces) == 1 and not pieces[0].space:
        return [hypothesis.copy() for hypothesis in results[0]]
    lengths = [[_length(hypothesis, translator) for hypothesis in result] for result in results]
    return join_hypotheses(pieces, results, lengths, translator.request.arguments.scoring().penalty)


def _length(hypothesis: Hypothesis, translator: Translator) -> int:
    """The number of tokens in a translation, as far as its score needs it."""
    if "score" not in hypothesis:
        return 0
    if "translation_text" not in hypothesis:
        return max(len(hypothesis["translation_token_ids"]) - 1, 0)
    if not hypothesis["translation_text"]:
        return 0
    languages = translator.options.src_lang, translator.options.tgt_lang
    pair = "", hypothesis["translation_text"]
    _, [(_, labels)] = encode_with_languages(translator.model, translator.tokenizer, [pair], *languages)
    return len(labels)


def _overlaps(place: Sequence[int], spans: Sequence[Span]) -> bool:
    return any(place[0] < end and start < place[1] for start, end in spans)


def _as_term(source: str, place: Sequence[int]) -> Term:
    return Term(source[place[0] : place[1]], True)


def make_chain(first: Step, second: Step, given: dict[str, Any]) -> ChainTranslator:
    """The translator over a third language with two models, which may be the same.

    Args:
        given: options, with the languages of the whole translation, and arguments of `generate()`.

    Raises:
        ValueError: an option is not possible, or the models do not translate over this language.
    """
    requested = given.get("src_lang"), given.get("via"), given.get("tgt_lang")
    via = pivot_language(requested, first.pairs, second.pairs, first.make == second.make)
    if via is None and (first.is_multilingual or second.is_multilingual):
        raise ValueError("via is missing: a multilingual model must be told the third language, too.")
    options = TranslationOptions(**{name: value for name, value in given.items() if name in MEANINGS})
    # Samples are the second translator's, from the best translation of the first one.
    search = () if given.get("do_sample") else SEARCH
    every: dict[str, Any] = {"on_error": "return", "return_warnings": options.return_warnings is not False}
    into = {name: given[name] for name in (*BOTH, *search) if name in given}
    out_of = {name: value for name, value in given.items() if name not in OF_CHAIN}
    last = second.translator({**out_of, **every, "src_lang": via, "tgt_lang": options.tgt_lang}, "src_lang")
    if given.get("do_sample") and last.hypotheses > 1 and options.return_warnings is None:
        options = replace(options, return_warnings=False)
    pivot = first.translator({**into, **every, "src_lang": options.src_lang, "tgt_lang": via}, "tgt_lang")
    return ChainTranslator(pivot, last, options)


def pivot_language(
    requested: tuple[str | None, str | None, str | None],
    first: Sequence[LanguagePair],
    second: Sequence[LanguagePair],
    is_same_model: bool,
) -> str | None:
    """The code of the third language, as far as it is known.

    Args:
        requested: source, third and target language, `None` if not given.
        first, second: the pairs that the models translate; empty if not known, or any.
        is_same_model: whether there is no second model.

    Raises:
        ValueError: the models do not translate over this language.
    """
    source, via, target = requested
    for code, name in ((source, "source"), (target, "target")):
        if via and code and is_same_language(via, code):
            raise ValueError(f"via={via!r} is the {name} language, too. Choose a third language, or leave via out.")
    if is_same_model and len(first) == 1:
        raise ValueError(
            f"via={via!r}: this model translates only {pairs_in_words(list(first))}. Pass the model that translates "
            "what it writes with second_model."
        )
    into = via or _common_language(source, target, first, second)
    if first and not any(_fits((source, into), pair) for pair in first):
        wanted = pairs_in_words([(source, into)])
        raise ValueError(f"Nothing translates {wanted}: the first model translates {pairs_in_words(list(first))}.")
    if second and not any(_fits((into, target), pair) for pair in second):
        wanted = pairs_in_words([(into, target)])
        raise ValueError(f"Nothing translates {wanted}: the second model translates {pairs_in_words(list(second))}.")
    return into


def _fits(requested: LanguagePair, pair: LanguagePair) -> bool:
    """Whether a pair matches the requested one, unless that has codes of another kind: `eng_Latn` may be `en`."""
    kinds = [[code and len(re.split("[-_]", code)[0]) for code in codes] for codes in (requested, pair)]
    source, target = (code if own == other else None for code, own, other in zip(requested, *kinds))
    return fits_pair((source, target), pair)


def _common_language(
    source: str | None, target: str | None, first: Sequence[LanguagePair], second: Sequence[LanguagePair]
) -> str | None:
    """The language that the first model translates into and the second from, if that is known."""
    targets = dict.fromkeys(code for own, code in first if code and fits_pair((source, None), (own, code)))
    fitting = [code for code in targets if not second or any(fits_pair((code, target), pair) for pair in second)]
    if len(fitting) > 1:
        raise ValueError(f"The models translate over {' or '.join(fitting)}: choose one of them with via.")
    return next(iter(fitting or targets or [code for _, code in first]), None)


__all__ = ["ChainTranslator", "PivotTranslator", "Step", "align_over", "make_chain", "pivot_language"]
