"""The engine that all translation goes through: texts in, the hypotheses of each out, in the order of the texts.

The pipeline, `hf-vaswani translate`, minimum Bayes risk decoding, validation and evaluation make an engine with
`TranslationPipeline.engine` and pass it their texts. It splits texts into sentences, encodes them, batches those of
similar length, searches, and joins what it split. The error of a text is returned in its place, or raised for all.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice, takewhile
from re import Pattern
from typing import TYPE_CHECKING, Any

import torch
from transformers.utils import logging

from ..core.pipeline_sentences import Piece, split_like_training_text, split_text
from ..core.tokenization_vaswani import private_copy
from ..generation.alignment import text_mask, to_tokens
from ..generation.fast_beam_search import Stragglers
from ..generation.mixin import is_watched
from ..generation.model_checks import position_limit, source_limits, too_long_error
from ..generation.output_scores import Hypothesis, decoder_start, join_hypotheses, translation_warning
from ..generation.settings import check_number, check_switch
from ..text.inputs import not_texts, not_texts_error
from ..text.languages import GROUP_MARK, group_languages, unmarked_warning
from ..text.normalization import clean, is_blank, normalized
from ..text.vocabularies import target_encoding_error
from .arguments import GenerateArguments
from .batches import LAST_WINDOW, default_batch_size, default_batch_tokens, token_batches, window_size
from .segments import Result, Segment, SourceTooLong, TermsUnmet
from .workers import can_fork, memory_error, side_by_side

if TYPE_CHECKING:  # importing it imports the pipeline, which imports this module
    from transformers import Pipeline

    from ..generation.confidence import Estimator
    from ..text.glossary import Demand, Glossary

logger = logging.get_logger(__name__)

# The methods of a pipeline that a batch passes through.
STAGES = ("collate", "forward", "_forward", "postprocess")
# Tokens times parameters above which worker processes save more time than they take to start, some 20 ms.
WORTH_WORKERS = 1e10
# The search of a batch ends when at most this many hypotheses are left, and at most this fraction, 1 in 8, of all.
STRAGGLING_ROWS, STRAGGLING_SHARE = 16, 8
LONG = 128  # tokens of several sentences, of which most models leave out parts
WHOLE = ("decoder_input_ids", "streamer")  # arguments for one output per text
TRUNCATIONS = ("longest_first", "only_first", "do_not_truncate")  # "only_second" would cut nothing
SYSTEMATIC = 64  # if this many texts or more all fail, the cause is not the texts


@dataclass
class TranslationEngine:
    """Translates texts with arguments that are the same for all of them.

    Attributes:
        pipeline: a `TranslationPipeline`.
        preprocess, forward, postprocess: arguments for the pipeline's methods of these names.
        arguments: the arguments of `generate()`, resolved for all batches.
        batch_tokens: maximum number of source tokens in a batch, padding included; `None` for what the model's size
            allows.
        batch_size: maximum number of texts in a batch; `None` for any number, or for what the device allows if
            `batch_tokens` is `None` too.
        num_workers: number of processes that translate batches side by side; `None` for as many as torch has threads,
            if there is enough to translate. Used only on a CPU, on Linux.
        split_sentences: `None` translates each sentence of a text by itself if a Vaswani model was not trained on
            such texts; `False` keeps texts whole; `True` translates texts beyond the length limit in pieces, and each
            line separately.
        return_warnings: give translations that may be wrong a `warning`, also for what is doubtful about their
            sources; `None` logs those of translations instead, `False` does not.
        confidence: computes the `confidence` of each translation, which then has its `score`, too; or None.
        progress: called with the number of texts that were finished since the last call.
        glossary: terms that translations must have; or None.
        keep: patterns of what is to stay as it is.
        on_unmet: what to do about a translation that lacks any of these even so: `"warn"`, as of one that may be
            wrong, or `"error"`, as of a text that cannot be translated; `"accept"` leaves it to a model that has
            learned to use terms how it does.
        on_error: `"raise"`, or `"return"` to return the error of a text in place of its hypotheses; texts that fail
            together are then tried again in halves.

    Raises:
        ValueError: a size is below 1, `on_error` is something else, the search cannot return as many hypotheses as
            requested, or there is not enough memory for the workers.
    """

    pipeline: "Pipeline"
    preprocess: dict[str, Any]
    forward: dict[str, Any]
    postprocess: dict[str, Any]
    arguments: GenerateArguments
    batch_tokens: int | None = None
    batch_size: int | None = None
    num_workers: int | None = None
    split_sentences: bool | None = None
    return_warnings: bool | None = None
    confidence: "Estimator | None" = None
    progress: Callable[[int], None] | None = None
    glossary: "Glossary | None" = None
    keep: Sequence[Pattern] = ()
    on_unmet: str = "warn"
    on_error: str = "raise"
    finish: Callable[[Sequence[Segment]], None] = field(init=False, repr=False)  # set by each search

    def __post_init__(self):
        own_limit = self.preprocess.get("max_source_length")
        for name, value in (
            ("batch_tokens", self.batch_tokens),
            ("batch_size", self.batch_size),
            ("max_source_length", own_limit),
        ):
            check_number(name, value)
        for name, value in (
            ("split_sentences", self.split_sentences),
            ("return_warnings", self.return_warnings),
            ("return_scores", self.forward.get("return_scores")),
            ("return_alignments", self.forward.get("return_alignments")),
        ):
            check_switch(name, value)
        truncation = self.preprocess.get("truncation")
        if truncation not in (*TRUNCATIONS, True, False, None):
            raise ValueError(f"truncation must be True, False or one of {', '.join(TRUNCATIONS)}, got {truncation!r}.")
        if self.on_error not in ("raise", "return"):
            raise ValueError(f'on_error must be "raise" or "return", got {self.on_error!r}.')
        if self.on_unmet not in ("warn", "error", "accept"):
            raise ValueError(f'on_unmet must be "warn", "error" or "accept", got {self.on_unmet!r}.')
        check_number("num_workers", self.num_workers, least=0)
        if self.num_workers and (error := memory_error(self.num_workers)):
            raise ValueError(error)
        model = self.pipeline.model
        self.limits = source_limits(model, self.pipeline.tokenizer, own_limit)
        self.hypotheses = self.arguments.hypotheses(self.forward.get("n_best"))
        if self.split_sentences is None and any(self.arguments.get(name) is not None for name in WHOLE):
            self.split_sentences = False
        self._check_terms([self.glossary] if self.glossary else [])
        if self.keep:
            from .keep import check_keep  # only texts with such patterns need it

            check_keep(self)

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
    ) -> list[Result]:
        """Translate texts together, and return the hypotheses of each, or its error.

        Args:
            prefixes: what each translation must begin with, one per text; or none at all.
            first: number of the first text, from which errors count.
            glossaries: the terms of each text, instead of the engine's; or none at all.

        Raises:
            ValueError: texts exceed the limit, with neither truncation nor returned errors; up to five are named.
            Exception: the last error, if errors are returned but all texts failed, 64 or more of them.
        """
        if self.split_sentences and any(prefixes):
            raise ValueError("prefixes and split_sentences cannot be combined: a prefix could belong to any piece.")
        self._check_terms(glossaries)
        if self.glossary and not glossaries:
            glossaries = [self.glossary] * len(texts)
        cleaned, kept = ["" if is_blank(text) else clean(text) for text in texts], []
        hidden = cleaned
        if self.keep:
            from .keep import HIDDEN, hide, place, put_back

            hidden, kept = hide(cleaned, self.keep)
            cleaned = [text.replace(HIDDEN, " ") for text in hidden]
        segments = [
            Segment(owner, piece, prefix, demands=glossaries[owner].demands(piece.text) if glossaries else ())
            for owner, (text, prefix) in enumerate(zip(hidden, prefixes or [""] * len(texts)))
            for piece in self._pieces(text, prefix)
        ]
        if kept:
            place(self, segments, kept)
        if glossaries and any(segment.demands for segment in segments):
            from .terms import translate_terms, write_terms  # only texts with terms need them

            translate_terms(self, segments, glossaries)
            write_terms(self, segments, glossaries)
        # Not all texts at once: a tokenizer's output holds much more than the ids.
        filled = [segment for segment in segments if not is_blank(segment.piece.text)]
        for start in range(0, len(filled), LAST_WINDOW):
            self._attempt(self._encode, filled[start : start + LAST_WINDOW])
        self._limit_lengths(segments, first)
        self._warn_of_many_sentences(segments, first)
        sources = (segment.piece.text for segment in filled)
        if warning := unmarked_warning(self.pipeline.tokenizer, sources, self.preprocess.get("tgt_lang")):
            logger.warning_once(warning)
        if with_prefix := [segment for segment in segments if segment.prefix and segment.is_open]:
            self._attempt(self._add_prompts, with_prefix)
        self._search(segments)
        if any(segment.demands or segment.marked for segment in segments):
            from .terms import hide_terms, search_again

            search_again(self, segments, first)
            hide_terms(self, segments)
        errors = {segment.owner: segment.result for segment in segments if isinstance(segment.result, Exception)}
        errors = {owner: error for owner, error in errors.items() if not isinstance(error, SourceTooLong | TermsUnmet)}
        if len(errors) == len(texts) >= SYSTEMATIC:
            raise errors[len(texts) - 1]
        if self.confidence:
            from .confidence import add_confidence  # only where it is requested

            add_confidence(self, segments)
        if kept:
            put_back(segments)
        self._check(segments, len(texts), first)
        results = [self._result(list(those)) for _, those in groupby(segments, key=lambda segment: segment.owner)]
        if self.return_warnings:
            from .source_checks import add_source_warnings  # only where they are requested

            add_source_warnings(self, cleaned, segments, results)
        return results

    def _pieces(self, text: str, prefix: str) -> list[Piece]:
        mark = GROUP_MARK.match(text) if group_languages(self.pipeline.tokenizer) else None
        if mark:  # each piece needs it
            return [Piece(mark.group() + piece.text, piece.space) for piece in self._split(text[mark.end() :], prefix)]
        return self._split(text, prefix)

    def _split(self, text: str, prefix: str) -> list[Piece]:
        if self.split_sentences:
            return split_text(text, lambda part: self._length(part) <= self.limits.piece, packs=self.limits.is_known)
        if self.split_sentences is None and self._knows_training_text() and not prefix:
            config = self.pipeline.model.config
            known = (config.longest_training_source, config.multi_sentence_share)
            return split_like_training_text(text, *known, self._length, is_blank)
        return [Piece(text)]

    def _knows_training_text(self) -> bool:
        """Whether the model is of this package, so that its config may say what it was trained on."""
        return hasattr(self.pipeline.model.config, "multi_sentence_share")

    def _length(self, text: str) -> int:
        """The number of tokens in a text; 0 if it cannot be encoded."""
        segment = Segment(0, Piece(text))
        self._attempt(self._encode, [segment])
        return segment.length

    def source_tokens(self, piece: Piece) -> list[str]:
        """The tokens of a text, as alignments have them."""
        segment = Segment(0, piece)
        self._encode([segment])
        ids = torch.tensor(segment.inputs["input_ids"])
        return to_tokens(self.pipeline.tokenizer, ids[text_mask(self.pipeline.tokenizer, ids)].tolist())

    def _encode(self, segments: list[Segment], **limits) -> None:
        options = {k: v for k, v in self.preprocess.items() if k not in ("truncation", "max_source_length")}
        for is_marked in (False, True):
            own = [segment for segment in segments if bool(segment.marked) == is_marked]
            pipeline = self._reading_markers() if own and is_marked else self.pipeline
            texts = [normalized(segment.marked or segment.piece.text, self.pipeline.tokenizer) for segment in own]
            for segment, inputs in zip(own, pipeline.encode(texts, **options, **limits) if own else ()):
                segment.inputs = inputs if inputs["input_ids"] else None

    def _reading_markers(self) -> "Pipeline":
        """The pipeline with a tokenizer that reads markers as tokens."""
        from ..text.markers import with_markers

        pipeline = copy.copy(self.pipeline)
        pipeline.tokenizer = with_markers(self.pipeline.tokenizer)
        return pipeline

    def _add_prompts(self, segments: list[Segment]) -> None:
        tokenizer, model = private_copy(self.pipeline.tokenizer), self.pipeline.model
        if error := target_encoding_error(tokenizer):
            raise ValueError(error)
        if target_language := self.preprocess.get("tgt_lang"):
            tokenizer.tgt_lang = target_language
        start = decoder_start(model)
        if start is None:
            raise ValueError("This model's config has no decoder_start_token_id, which a prefix must follow.")
        prefixes = [normalized(clean(segment.prefix), self.pipeline.tokenizer, is_target=True) for segment in segments]
        labels = tokenizer(text_target=prefixes)["input_ids"]
        ends = {tokenizer.eos_token_id, *GenerateArguments(model, {}, {}).eos_token_ids()}
        for segment, ids in zip(segments, labels):
            segment.prompt = [start, *takewhile(lambda token_id: token_id not in ends, ids)]

    def _limit_lengths(self, segments: list[Segment], first: int) -> None:
        """Cut or refuse texts beyond the limit."""
        truncation = self.preprocess.get("truncation", False)
        cuts = truncation not in (False, "do_not_truncate")
        limit = self.limits.cut if cuts else self.limits.whole
        if shortened := [segment for segment in segments if segment.marked and segment.length > limit]:
            for segment in shortened:
                segment.marked = ""
            self._attempt(self._encode, shortened)
        too_long = [segment for segment in segments if segment.is_open and segment.length > limit]
        if too_long and cuts:
            logger.warning(f"Cut {len(too_long)} text{'s' * (len(too_long) > 1)} to {limit} tokens.")
            self._attempt(partial(self._encode, truncation=truncation, max_source_length=limit), too_long)
        elif too_long and self.on_error == "raise":
            raise too_long_error({first + segment.owner: segment.length for segment in too_long}, limit)
        else:
            for segment in too_long:
                segment.result = SourceTooLong(segment.length, limit)

    def _search(self, segments: list[Segment]) -> None:
        """Set the result of each segment, batch by batch: prompts of equal length together, long sources first."""
        waiting = [segment for segment in segments if segment.is_open]
        searching = self._searching(waiting)
        unfinished = Counter(segment.owner for segment in waiting)
        self._report(len({segment.owner for segment in segments}) - len(unfinished))
        reported: set[Segment] = set()

        def finish(done: Sequence[Segment]) -> None:
            new = set(done) - reported
            reported.update(new)
            unfinished.subtract(segment.owner for segment in new)
            self._report(sum(not unfinished[owner] for owner in {segment.owner for segment in new}))

        searching.finish = finish
        if waiting:
            self._warn_of_short_output(max(segment.length for segment in waiting))
        searching.search_batches(waiting)

    def search_batches(self, waiting: list[Segment]) -> None:
        """Set the result of each segment with this engine's model."""
        while waiting:
            batches = self._batches(waiting)
            # A single batch leaves no stragglers, nor do batches of stragglers.
            may_leave = len(batches) > 1 and self._knows_stragglers() and not waiting[0].is_straggler
            for number, results in self._results(batches, may_leave):
                for segment, (result, lengths) in zip(batches[number], results):
                    segment.result, segment.target_lengths = result, lengths
                    segment.is_straggler = result is None
                self.finish([segment for segment in batches[number] if not segment.is_straggler])
            waiting = [segment for segment in waiting if segment.is_straggler and segment.is_open]

    def _check_terms(self, glossaries: "Sequence[Glossary]") -> None:
        if any(glossary.entries for glossary in glossaries):
            from .terms import check_terms

            check_terms(self, glossaries)

    def unmet(self, segment: Segment, hypothesis: Hypothesis) -> "list[Demand]":
        """The demands of a segment that a hypothesis does not meet."""
        if not segment.demands:
            return []
        text = hypothesis.get("translation_text")
        if text is None:
            text = self.pipeline.tokenizer.decode(hypothesis["translation_token_ids"], skip_special_tokens=True)
        return [demand for demand in segment.demands if demand.count_in(text) < demand.count]

    def _searching(self, segments: list[Segment]) -> "TranslationEngine":
        """This engine, or a copy of it in which that of another engine takes the place of the model."""
        serving, model, lengths = self.pipeline.serving, None, [segment.length for segment in segments]
        # Methods that have been replaced may be meant to see the model, and its batches.
        if not (any(name in vars(self.pipeline) for name in STAGES) or self.pipeline.changes_stages):
            model = serving.engine_for(self.pipeline.model, self.arguments, self.forward, lengths)
        if segments:
            serving.used.add(getattr(model or self.pipeline.model, "engine_key", "torch"))
        if model is None:
            return self
        pipeline = copy.copy(self.pipeline)
        pipeline.model, pipeline.device = model, model.device
        return replace(self, pipeline=pipeline, glossary=None, keep=())

    def for_another_search(self, settings: dict[str, Any], **options) -> "TranslationEngine":
        """A copy that only searches for segments again, with settings of `generate()` and options of the step."""
        arguments, forward = self.arguments.of_batch(settings), {**self.forward, **settings, **options}
        own = {"progress": None, "confidence": None, "glossary": None, "keep": ()}
        searching = replace(self, arguments=arguments, forward=forward, **own)
        searching.finish = lambda done: None  # reported already
        return searching

    def _makes_batches(self) -> bool:
        """Whether the model runs in an engine that makes its own batches and has its own workers."""
        return getattr(self.pipeline.model, "makes_batches", False)

    def _knows_stragglers(self) -> bool:
        """Whether a search may leave sentences without a result."""
        has_criteria = self.arguments.get("stopping_criteria") is not None
        needs_all = has_criteria or self.forward.get("return_alignments")
        return getattr(self.pipeline.model, "leaves_stragglers", False) and not needs_all

    def _batches(self, waiting: list[Segment]) -> list[list[Segment]]:
        """Group segments of similar length, with prompts of equal length, into batches.

        The longest sources come first, so that a batch that does not fit in memory fails at once.
        """
        model, rows = self.pipeline.model, self.arguments.rows()
        batch_tokens, batch_size = self.batch_tokens, self.batch_size
        if batch_tokens is None and self._makes_batches():
            batch_tokens = sum(segment.length for segment in waiting) * len(waiting)
        elif batch_tokens is None:
            batch_tokens = default_batch_tokens(model, rows)
            batch_size = batch_size or default_batch_size(model, rows, len(waiting))
        waiting.sort(key=lambda segment: (len(segment.prompt), -segment.length))
        groups = (list(alike) for _, alike in groupby(waiting, key=lambda segment: len(segment.prompt)))
        batches = (token_batches(group, lambda segment: segment.length, batch_tokens, batch_size) for group in groups)
        return list(chain.from_iterable(batches))

    def _results(
        self, batches: list[list[Segment]], may_leave: bool
    ) -> Iterator[tuple[int, list[tuple[Result | None, Sequence[int]]]]]:
        """Yield the index of each batch, with the results and target lengths of its segments, as batches are finished.

        Args:
            may_leave: whether to leave the last sentences of each batch without a result, to be searched together.
        """

        def work(item: tuple[list[Segment], int | None]) -> list[tuple[Result | None, Sequence[int]]]:
            return self._translate_batch(*item, may_leave)

        items = list(zip(batches, self._seeds(len(batches))))
        workers = self._workers(batches)
        if workers > 1:
            return side_by_side(work, items, workers)
        return ((number, work(item)) for number, item in enumerate(items))

    def _seeds(self, batches: int) -> list[int | None]:
        """A random seed for each batch to be sampled, so that samples do not depend on the process that draws them.

        A single batch continues torch's random numbers, as `generate()` does, and so do all batches on a GPU.
        """
        if batches < 2 or self.pipeline.model.device.type != "cpu" or not self.arguments.get("do_sample"):
            return [None] * batches
        return torch.randint(2**63 - 1, (batches,)).tolist()

    def _workers(self, batches: list[list[Segment]]) -> int:
        """The number of processes for these batches: one if they cannot share the work or are not worth starting."""
        model, number = self.pipeline.model, self.num_workers
        if number in (0, 1) or len(batches) < 2 or model.device.type != "cpu" or not can_fork():
            return 1
        if self._makes_batches():
            return 1
        # Methods that have been replaced, or hooks, may be meant to see all batches.
        is_changed = "generate" in vars(model) or any(name in vars(self.pipeline) for name in STAGES)
        if self.arguments.depends_on_order() or is_changed or any(map(is_watched, model.modules())):
            return 1
        if number is None:
            tokens = self.arguments.rows() * sum(segment.length for batch in batches for segment in batch)
            number = torch.get_num_threads() if tokens * model.num_parameters() >= WORTH_WORKERS else 1
        return min(number, len(batches))

    def _translate_batch(
        self, batch: list[Segment], seed: int | None, may_leave: bool
    ) -> list[tuple[Result | None, Sequence[int]]]:
        """Search a batch, with random numbers from a seed if given; return the result and lengths of each segment."""
        with torch.random.fork_rng(devices=[], enabled=seed is not None):
            if seed is not None:
                torch.default_generator.manual_seed(seed)
            self._attempt(partial(self._search_batch, may_leave=may_leave), batch)
        return [(segment.result, segment.target_lengths) for segment in batch]

    def _search_batch(self, segments: list[Segment], may_leave: bool) -> None:
        batch = self.pipeline.collate([segment.inputs for segment in segments])
        forward = self.forward
        if segments[0].prompt:
            prompts = torch.tensor([segment.prompt for segment in segments], device=self.pipeline.model.device)
            forward = {**forward, "decoder_input_ids": prompts}
        stragglers = Stragglers(min(STRAGGLING_ROWS, len(segments) * self.arguments.rows() // STRAGGLING_SHARE))
        if may_leave:
            forward = {**forward, "stopping_criteria": [stragglers]}
        if self.progress and self._makes_batches():
            forward = {**forward, "finished": lambda row: self.finish([segments[row]])}
        if segments[0].automata:
            from .terms import term_search

            forward = {**forward, **term_search(self, segments)}
        outputs = self.pipeline.forward(batch, **forward)
        for row, segment in enumerate(segments):
            if row in stragglers.unfinished:
                continue
            # One text's share of the outputs, with batch size 1.
            share = {name: values[row : row + 1] for name, values in outputs.items()}
            segment.result = self.pipeline.postprocess(share, **self.postprocess)
            if segment.kept:
                from .keep import drop_surplus

                drop_surplus(segment)
            segment.target_lengths = (outputs["lengths"][row] - 1).tolist()

    def _attempt(self, work: Callable[[list[Segment]], None], segments: list[Segment]) -> None:
        """Do some work on segments; if it fails and errors are returned, do it again on each half."""
        try:
            return work(segments)
        except Exception as exception:
            if self.on_error == "raise":
                raise
            # Kept without its frames, which hold the tensors of a batch that may have been too large.
            error = exception.with_traceback(None)
        if len(segments) == 1:
            segments[0].result = error
        else:
            middle = len(segments) // 2
            self._attempt(work, segments[:middle])
            self._attempt(work, segments[middle:])

    def _result(self, segments: list[Segment]) -> Result:
        """The result of a text from those of its pieces."""
        for segment in segments:
            if isinstance(segment.result, Exception):
                return segment.result
            if segment.result is None:
                segment.result, segment.target_lengths = self.nothing(), [0] * self.hypotheses
        if len(segments) == 1 and not segments[0].piece.space:
            return segments[0].result
        parts = ((segment.piece, segment.result, segment.target_lengths) for segment in segments)
        return join_hypotheses(*map(list, zip(*parts)), self.arguments.scoring().penalty)

    def nothing(self) -> list[Hypothesis]:
        """The hypotheses of a text with nothing to translate."""
        hypotheses = []
        for _ in range(self.hypotheses):
            hypothesis: Hypothesis = {"translation_text": ""}
            if self.postprocess.get("as_tensors"):
                hypothesis = {"translation_token_ids": torch.zeros(0, dtype=torch.long)}
            if self.forward.get("n_best") or self.forward.get("return_scores"):
                hypothesis["score"] = 0.0
            if self.confidence:
                hypothesis["confidence"] = 1.0
            if self.forward.get("return_alignments"):
                hypothesis.update(alignment=[], source_tokens=[], target_tokens=[])
            hypotheses.append(hypothesis)
        return hypotheses

    def _check(self, segments: list[Segment], texts: int, first: int) -> None:
        """Look for translations that may be wrong; several samples of a text are for others to choose from."""
        is_sampled = self.arguments.get("do_sample") and self.hypotheses > 1
        if self.return_warnings is False or (self.return_warnings is None and is_sampled):
            return
        ratio, found = getattr(self.pipeline.model.config, "length_ratio", None), {}
        missing = self.unmet
        if self.keep:
            from .keep import missing
        for segment in segments:
            source, hypotheses = segment.shown or segment.piece.text, segment.result
            hypotheses = hypotheses if isinstance(hypotheses, list) else []
            for hypothesis in hypotheses if self.return_warnings else hypotheses[:1]:
                text = hypothesis.get("translation_text")
                if unmet := missing(segment, hypothesis):
                    from ..text.glossary import shown_demands

                    warning = f"lacks {shown_demands(unmet)}"
                elif text is None or not (warning := translation_warning(source, text, ratio)):
                    continue
                if self.return_warnings:
                    hypothesis["warning"] = warning
                else:
                    found.setdefault(segment.owner, f"{source[:60]!r}: {warning}")
        if found:
            owner, warning = next(iter(found.items()))
            logger.warning(
                f"{len(found)} of {texts} translations may be wrong; the first, of inputs[{first + owner}], {warning}."
            )

    def _report(self, done: int) -> None:
        if self.progress and done:
            self.progress(done)

    def _warn_of_many_sentences(self, segments: list[Segment], first: int) -> None:
        """Warn once about models of other families, for which texts are not split by default."""
        if self.split_sentences is not None or self._knows_training_text() or self.pipeline.warned_of_many_sentences:
            return
        for segment in (segment for segment in segments if segment.length > LONG):
            sentences = len(split_text(segment.piece.text, lambda part: True, packs=False))
            if sentences > 1:
                self.pipeline.warned_of_many_sentences = True
                return logger.warning(
                    f"inputs[{first + segment.owner}] has {sentences} sentences and {segment.length} tokens. Models "
                    "that were trained on sentences leave out parts of such texts. Divide it into sentences, as the "
                    f"pipeline does with split_sentences=True and max_source_length={LONG}; split_sentences=False "
                    "silences this warning."
                )

    def _warn_of_short_output(self, source_length: int) -> None:
        limit = self.arguments.length()
        if limit is None or source_length <= 0.9 * limit or self.arguments.length_is_of_call():
            return
        positions = position_limit(self.pipeline.model.get_decoder())
        if positions is None or limit < positions - 1:
            logger.warning(
                f"The input has {source_length} tokens, but the translation ends after {limit}. To allow a longer "
                f"one, call translator('...', max_new_tokens={2 * max(limit, source_length)})."
            )


__all__ = ["Result", "SourceTooLong", "TranslationEngine"]
