"""The translator that all translation goes through: texts in, the hypotheses of each out, in the order of the texts.

The pipeline, the commands, the server, minimum Bayes risk decoding, validation and evaluation make one with
`TranslationPipeline.translator` and pass it their texts. Steps go around a search: they split texts into sentences,
hide what is to be kept, look for terms, estimate confidence, and warn. The error of a text is returned in its place,
or raised for all.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..core.sentence_splitting import Piece, split_text
from ..generation.model_checks import unwritten_ids
from ..generation.settings import GenerateArguments, position_limit
from ..text.inputs import listed, shown
from ..text.language_marks import check_own_marks, check_target
from ..text.languages import check_languages, has_own_target, own_languages
from ..text.normalization import clean, is_blank
from .backends.selection import BackendSelection, backend_of
from .encoder import FIRST_TOKEN, Encoder, source_limits, too_long_error
from .options import TranslationOptions
from .search import LAST_WINDOW, Search, window_size
from .segments import (
    MASK,
    Hypothesis,
    MissingTerm,
    Result,
    Row,
    SearchBackend,
    SearchRequest,
    Segment,
    SourceTooLong,
    attempt,
)
from .steps import Step
from .steps.sentences import Sentences, knows_training_text
from .workers import memory_error

if TYPE_CHECKING:  # only translations with terms, spans to be kept, or confidence need them
    from ..generation.confidence import Estimator
    from ..generation.term_spelling import TermSpeller
    from ..text.glossary import Glossary
    from .pairs import PairModel
    from .steps.kept_spans import KeptSpans
    from .steps.terms import Terms

logger = logging.get_logger(__name__)

EXPECTED = "The translation pipeline takes a str or a list of str"
LONG = 128  # tokens of several sentences, of which most models leave out parts
WHOLE = ("decoder_input_ids", "streamer")  # arguments for one output per text
SYSTEMATIC = 64  # if this many texts or more all fail, the cause is not the texts


@dataclass
class SharedState:
    """State that the translators of one model share.

    Attributes:
        spellers: by target language, and whether the tokenizer reads placeholders.
        has_warned_of_sentences: whether a warning of many sentences was given.
    """

    spellers: "dict[tuple[str | None, bool], TermSpeller]" = field(default_factory=dict)
    has_warned_of_sentences: bool = False


class Translator:
    """Translates texts with options that are the same for all of them.

    Args:
        generate_kwargs: arguments of `generate()`.
        task: what the model's config holds for the task (T5), as further arguments.
        prefix: what the model reads before each text.
        selection: chooses what computes.
        shared: state that all translators of this model share.
        encode, backend: what encodes and searches in place of [`Encoder.rows`] and the backend that is selected, for a
            pipeline whose stages are overridden.

    Raises:
        ValueError: an argument is not possible, with this model or with the others; or there is not enough memory for
            the workers.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        options: TranslationOptions,
        generate_kwargs: dict[str, Any],
        task: dict[str, Any],
        prefix: str,
        selection: BackendSelection,
        shared: SharedState,
        encode: Callable[..., list[Row]] | None = None,
        backend: SearchBackend | None = None,
    ):
        self.model, self.tokenizer, self.selection, self.shared = model, tokenizer, selection, shared
        self.backend = backend
        self.estimator: Estimator | None = None
        if options.return_confidence:
            from ..generation.confidence import Calibration

            self.estimator, options = Calibration.of(model.config), replace(options, return_scores=True)
        arguments = GenerateArguments(model, generate_kwargs, task)
        if arguments.get("do_sample") and (unwritten := unwritten_ids(model, tokenizer)):
            arguments = arguments.updated({"suppress_tokens": [*arguments.get("suppress_tokens", []), *unwritten]})
        if arguments.takes_one_text_at_a_time() or tokenizer.pad_token_id is None:
            options = replace(options, batch_size=1)
        if options.split_sentences is None and any(arguments.get(name) is not None for name in WHOLE):
            options = replace(options, split_sentences=False)
        self.options = options
        self.request = SearchRequest(arguments, options.n_best, options.return_scores, options.return_alignments)
        self.hypotheses = self.request.hypotheses
        has_target = has_own_target(tokenizer, arguments.get(FIRST_TOKEN), arguments.get("decoder_start_token_id"))
        check_languages(tokenizer, options.src_lang, options.tgt_lang, has_target)
        if options.num_workers and (error := memory_error(options.num_workers)):
            raise ValueError(error)
        self.limits = source_limits(model, tokenizer, options.max_source_length)
        self.kept_spans = self._kept_spans() if options.keep is not None else None
        self.encoder = Encoder(self.tokenizer, prefix, options.src_lang, options.tgt_lang, encode)
        if self.kept_spans:
            self.kept_spans.check(self.own_search)
        self.glossary = None
        if options.terms is not None:
            from ..text.glossary import Glossary

            self.glossary = Glossary.of(options.terms)
            self._check_terms([self.glossary])

    @property
    def first(self) -> "Translator":
        """What reads the texts: this translator, or the first one of a chain."""
        return self

    @property
    def last(self) -> "Translator":
        """What makes the final translation: this translator, or the second one of a chain."""
        return self

    @cached_property
    def pair_model(self) -> "PairModel":
        """What the model says of given translations."""
        from .pairs import PairModel

        return PairModel(self.model, self.tokenizer, self.options.src_lang, self.options.tgt_lang, self.selection)

    @cached_property
    def own_search(self) -> Search:
        """The search with the model itself."""
        return self._search_with(self.backend or backend_of(self.model, self.tokenizer))

    def _search_with(self, backend: SearchBackend) -> Search:
        search = Search(self.model, self.tokenizer, backend, self.request, self.options, self.selection.used)
        return replace(search, on_result=self.kept_spans.drop_surplus) if self.kept_spans else search

    def stream(self, texts: Iterable[str]) -> Iterator[Result]:
        """Texts → the hypotheses of each, window by window; memory does not grow with the number of texts."""
        texts, done, number = iter(texts), 0, 0
        while window := list(islice(texts, window_size(number))):
            wrong = not_texts(window, done)
            yield from self.translate(window[: wrong[0] - done] if wrong else window, first=done)
            if wrong:
                raise not_texts_error(window, wrong, done)
            done, number = done + len(window), number + 1

    def translate(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str] = (),
        first: int = 0,
        glossaries: "Sequence[Glossary]" = (),
        progress: Callable[[int], None] | None = None,
        kept: Sequence[Sequence[str]] = (),
    ) -> list[Result]:
        """Translate texts together, and return the hypotheses of each, or its error.

        Args:
            prefixes: what each translation must begin with, one per text; or none at all.
            first: number of the first text, from which errors count.
            glossaries: the terms of each text, in place of the options'; or none at all.
            progress: in place of the options'.
            kept: the spans to keep in each text, in place of what the options' patterns find; or none at all.

        Raises:
            ValueError: texts exceed the limit, with neither truncation nor returned errors; up to five are named.
            Exception: the last error, if errors are returned but all texts failed, 64 or more of them.
        """
        if self.options.split_sentences and any(prefixes):
            raise ValueError("prefixes and split_sentences cannot be combined: a prefix could belong to any piece.")
        self._check_terms(glossaries)
        if self.glossary and not glossaries:
            glossaries = [self.glossary] * len(texts)
        steps = self._steps(len(texts), first, glossaries, kept)
        segments = [
            Segment(owner, Piece("" if is_blank(text) else clean(text)), prefix)
            for owner, (text, prefix) in enumerate(zip(texts, prefixes or [""] * len(texts)))
        ]
        for step in steps:
            segments = step.before(segments)
        self._encode(segments, first)
        self._search(segments, progress or self.options.progress)
        for step in reversed(steps):
            segments = step.after(segments)
        errors = [segment.result for segment in segments if isinstance(segment.result, Exception)]
        errors = [error for error in errors if not isinstance(error, SourceTooLong | MissingTerm)]
        if len(errors) == len(texts) >= SYSTEMATIC:
            raise errors[-1]
        return [segment.result or [] for segment in segments]

    def empty(self) -> list[Hypothesis]:
        """The hypotheses of a text with nothing to translate."""
        hypotheses = []
        for _ in range(self.hypotheses):
            hypothesis: Hypothesis = {"translation_text": ""}
            if self.options.return_tensors:
                hypothesis = {"translation_token_ids": torch.zeros(0, dtype=torch.long)}
            if self.request.n_best or self.request.return_scores:
                hypothesis["score"] = 0.0
            if self.estimator:
                hypothesis["confidence"] = 1.0
            if self.request.return_alignments:
                hypothesis.update(alignment=[], source_tokens=[], target_tokens=[])
            hypotheses.append(hypothesis)
        return hypotheses

    def _kept_spans(self) -> "KeptSpans":
        """The step that keeps spans; with learned placeholders, the tokenizer becomes one that reads them."""
        from ..text.keep_patterns import keep_patterns
        from ..text.markers import has_keep_tokens, with_markers
        from .steps.kept_spans import KeptSpans

        patterns = keep_patterns(self.options.keep)
        is_learned = self.backend is None and has_keep_tokens(self.tokenizer)
        if is_learned:
            self.tokenizer = with_markers(self.tokenizer)
        return KeptSpans(patterns, is_learned, self.empty)

    def _steps(
        self, texts: int, first: int, glossaries: "Sequence[Glossary]", spans: Sequence[Sequence[str]]
    ) -> list[Step]:
        """The steps of a call, the outermost first."""
        kept, config = self.kept_spans if self.kept_spans and self.kept_spans.patterns else None, self.model.config
        steps: list[Step] = []
        if self.options.return_warnings:
            from .steps.warnings import SourceWarnings

            language = self.options.src_lang or own_languages(config, self.tokenizer)[0]
            shown = (lambda text: kept.mask(text)[0].replace(MASK, " ")) if kept else str
            steps.append(SourceWarnings(self.tokenizer, language, shown))
        penalty = self.request.arguments.scoring().penalty
        steps.append(
            Sentences(
                config, self.tokenizer, self.options.split_sentences, self.limits, self._length, penalty, self.empty,
                (lambda each: kept.mask(each.piece.text, spans[each.owner] if spans else None)) if kept else None,
            )
        )  # fmt: skip
        terms = self._terms(glossaries, first, kept is not None) if glossaries or kept else None
        # Several samples of a text are for others to choose from.
        is_sampled = self.request.arguments.get("do_sample") and self.hypotheses > 1
        if self.options.return_warnings or (self.options.return_warnings is None and not is_sampled):
            from .steps.warnings import TranslationWarnings

            steps.append(TranslationWarnings(config, bool(self.options.return_warnings), terms, texts, first))
        steps += [kept] if kept else []
        if self.estimator:
            from .steps.confidence import Confidence

            steps.append(Confidence(self.estimator, self.own_search))
        return [*steps, terms] if terms else steps

    def _terms(self, glossaries: "Sequence[Glossary]", first: int, keeps_spans: bool) -> "Terms":
        from .steps.terms import Terms

        def translate(segments: list[Segment]) -> None:
            filled = [segment for segment in segments if not is_blank(segment.piece.text)]
            if filled:
                attempt(self.encoder.set_rows, filled, self.options.on_error)
            self.own_search([segment for segment in filled if segment.is_open])
            for segment in segments:
                segment.result = self.empty() if segment.result is None else segment.result

        tokens = self.encoder.source_tokens
        return Terms(
            glossaries, self.own_search, self.pair_model, translate, self._speller, tokens, self.empty, keeps_spans,
            first,
        )  # fmt: skip

    def _check_terms(self, glossaries: "Sequence[Glossary]") -> None:
        if any(glossary.entries for glossary in glossaries):
            from .steps.terms import check_terms

            check_terms(self.own_search)

    def _speller(self) -> "TermSpeller":
        from ..generation.term_spelling import TermSpeller

        key = self.options.tgt_lang, self.kept_spans is not None and bool(self.kept_spans.placeholders)
        if key not in self.shared.spellers:
            self.shared.spellers[key] = TermSpeller(self.tokenizer, self.options.tgt_lang)
        return self.shared.spellers[key]

    def _length(self, text: str) -> int:
        """The number of tokens in a text; 0 if it cannot be encoded."""
        segment = Segment(0, Piece(text))
        attempt(self.encoder.set_rows, [segment], self.options.on_error)
        return segment.length

    def _encode(self, segments: list[Segment], first: int) -> None:
        """Set the rows and prompts of segments; warn of what may go wrong."""
        # Not all texts at once: a tokenizer's output holds much more than the ids.
        filled = [segment for segment in segments if not is_blank(segment.piece.text)]
        for start in range(0, len(filled), LAST_WINDOW):
            attempt(self.encoder.set_rows, filled[start : start + LAST_WINDOW], self.options.on_error)
        self._limit_lengths(segments, first)
        self._warn_of_many_sentences(segments, first)
        sources = (segment.piece.text for segment in filled)
        target = self.options.tgt_lang or getattr(self.tokenizer, "tgt_lang", None)
        if warning := check_target(self.model, self.tokenizer, sources, target):
            logger.warning_once(warning)
        attempt(self._check_marks, filled, self.options.on_error)
        if with_prefix := [segment for segment in segments if segment.prefix and segment.is_open]:
            attempt(partial(self.encoder.add_prompts, model=self.model), with_prefix, self.options.on_error)

    def _check_marks(self, segments: list[Segment]) -> None:
        texts, zero_shot = (segment.piece.text for segment in segments), bool(self.options.zero_shot)
        check_own_marks(self.model, self.tokenizer, texts, self.options.src_lang, zero_shot)

    def _limit_lengths(self, segments: list[Segment], first: int) -> None:
        """Cut or refuse texts beyond the limit."""
        truncation = self.options.truncation
        cuts = truncation not in (None, False, "do_not_truncate")
        limit = self.limits.cut if cuts else self.limits.whole
        if shortened := [segment for segment in segments if segment.text_with_terms and segment.length > limit]:
            for segment in shortened:
                segment.text_with_terms = ""
            attempt(self.encoder.set_rows, shortened, self.options.on_error)
        too_long = [segment for segment in segments if segment.is_open and segment.length > limit]
        if too_long and cuts:
            logger.warning(f"Cut {len(too_long)} text{'s' * (len(too_long) > 1)} to {limit} tokens.")
            encode = partial(self.encoder.set_rows, truncation=truncation, max_length=limit)
            attempt(encode, too_long, self.options.on_error)
        elif too_long and self.options.on_error == "raise":
            raise too_long_error({first + segment.owner: segment.length for segment in too_long}, limit)
        else:
            for segment in too_long:
                segment.result = SourceTooLong(segment.length, limit)

    def _search(self, segments: list[Segment], progress: Callable[[int], None] | None) -> None:
        """Set the result of each segment that has none yet, and report the texts that are finished."""
        waiting = [segment for segment in segments if segment.is_open]
        backend = None
        if self.backend is None:  # a pipeline's own stages are meant to see the model
            lengths = [segment.length for segment in waiting]
            backend = self.selection.select(self.model, self.tokenizer, self.request, lengths)
        search = self._search_with(backend) if backend else self.own_search
        if progress:
            search = replace(search, finished=self._reporter(segments, waiting, progress))
        if waiting:
            self._warn_of_short_output(max(segment.length for segment in waiting))
        search(waiting)

    @staticmethod
    def _reporter(
        segments: list[Segment], waiting: list[Segment], progress: Callable[[int], None]
    ) -> Callable[[Sequence[Segment]], None]:
        """A function that reports the number of texts whose segments are all finished."""
        unfinished = Counter(segment.owner for segment in waiting)
        reported: set[Segment] = set()

        def finished(done: Sequence[Segment]) -> None:
            new = set(done) - reported
            reported.update(new)
            unfinished.subtract(segment.owner for segment in new)
            if count := sum(not unfinished[owner] for owner in {segment.owner for segment in new}):
                progress(count)

        if count := len({segment.owner for segment in segments}) - len(unfinished):
            progress(count)
        return finished

    def _warn_of_many_sentences(self, segments: list[Segment], first: int) -> None:
        """Warn once about models of other families, whose texts are not split by default."""
        knows = knows_training_text(self.model.config)
        if self.options.split_sentences is not None or knows or self.shared.has_warned_of_sentences:
            return
        for segment in (segment for segment in segments if segment.length > LONG):
            sentences = len(split_text(segment.piece.text, lambda part: True, packs=False))
            if sentences > 1:
                self.shared.has_warned_of_sentences = True
                return logger.warning(
                    f"inputs[{first + segment.owner}] has {sentences} sentences and {segment.length} tokens. Models "
                    "that were trained on sentences leave out parts of such texts. Divide it into sentences, as the "
                    f"pipeline does with split_sentences=True and max_source_length={LONG}; split_sentences=False "
                    "silences this warning."
                )

    def _warn_of_short_output(self, source_length: int) -> None:
        arguments = self.request.arguments
        limit = arguments.length()
        if limit is None or source_length <= 0.9 * limit or arguments.length_is_of_call():
            return
        positions = position_limit(self.model.get_decoder())
        if positions is None or limit < positions - 1:
            logger.warning(
                f"The input has {source_length} tokens, but the translation ends after {limit}. To allow a longer "
                f"one, call translator('...', max_new_tokens={2 * max(limit, source_length)})."
            )


def not_texts(inputs: list, first: int = 0) -> list[int]:
    """Positions of inputs that are not texts, counted from `first`."""
    return [i for i, text in enumerate(inputs, first) if not isinstance(text, str)]


def not_texts_error(inputs: list, positions: list[int], first: int = 0) -> ValueError:
    errors = [f"inputs[{i}] is {type(inputs[i - first]).__name__}: {shown(inputs[i - first])}" for i in positions]
    return ValueError(f"{EXPECTED}, but {listed(errors)}")


__all__ = ["SharedState", "Translator"]
