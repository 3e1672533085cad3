"""Segments → hypotheses, batch by batch: similar lengths together, the longest first.

Batches are searched in parallel in worker processes where that is worth it, and the last sentences of many batches
together. A batch that fails is searched again in halves if errors are returned.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import chain, groupby
from typing import TYPE_CHECKING, TypeVar

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..generation.fast_beam_search import UnfinishedSentences
from ..generation.mixin import has_hooks
from ..generation.settings import ONE_BY_ONE, suggest_argument
from .options import MEANINGS, TranslationOptions
from .segments import Candidate, Hypothesis, SearchBackend, SearchBatch, SearchRequest, Segment, attempt
from .workers import can_fork, in_parallel

if TYPE_CHECKING:
    from ..generation.term_automaton import TermAutomata

# Tokens times parameters above which worker processes save more time than they take to start, some 20 ms.
WORTH_WORKERS = 1e10
# The search of a batch ends when at most this many hypotheses are left, and at most this fraction, 1 in 8, of all.
UNFINISHED_ROWS, UNFINISHED_SHARE = 16, 8
Item = TypeVar("Item")

FIRST_WINDOW, GROWTH, LAST_WINDOW = 128, 4, 4096
# What the decoder's caches may hold: source tokens * hypotheses * layers * d_model. More tokens gain no speed.
CPU_CACHE, CPU_TOKENS, CPU_ROWS = 12 * 2**20, 1536, 384
# Few texts are divided so that each core has batches of its own, but not into batches too small to be efficient.
CPU_BATCHES, LEAST_CPU_ROWS = 4, 128
DEVICE_CACHE, DEVICE_TOKENS = 2**30, 32768
# Logits of one step: 1 GiB in fp32, and there are several copies of them.
DEVICE_LOGITS = 2**28
FEW_ROWS = 4


@dataclass(frozen=True)
class Search:
    """Searches for translations with one backend and the same arguments for all segments.

    Attributes:
        backend: computes the search.
        request: what to find.
        options: of the translation: sizes of batches, workers, errors, and the form of hypotheses.
        used: names of the backends that have computed something; this one is added.
        finished: called with segments that have got their results.
        on_result: called with each segment that has got its result.
        constraints: makes tables of the terms that the translations of a batch must have.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    backend: SearchBackend
    request: SearchRequest
    options: TranslationOptions
    used: set[str]
    finished: Callable[[Sequence[Segment]], None] = lambda segments: None
    on_result: Callable[[Segment], None] = lambda segment: None
    constraints: "Callable[[Sequence[Segment]], TermAutomata] | None" = None

    def changed(self, settings: dict, **own) -> "Search":
        """The same search with other settings of `generate()` and other fields of the request; it reports nothing."""
        arguments = self.request.arguments.updated(settings)
        return replace(self, request=replace(self.request, arguments=arguments, **own), finished=lambda segments: None)

    def __call__(self, waiting: list[Segment]) -> None:
        """Set the result of each segment."""
        if waiting:
            self.used.add(self.backend.name)
        while waiting:
            batches = self._batches(waiting)
            # A single batch is searched to its end, and so are batches of unfinished sentences.
            may_leave = len(batches) > 1 and self._can_leave_unfinished() and not waiting[0].is_unfinished
            for number, results in self._results(batches, may_leave):
                for segment, (result, lengths) in zip(batches[number], results):
                    segment.result, segment.target_lengths = result, lengths
                    segment.is_unfinished = result is None
                self.finished([segment for segment in batches[number] if not segment.is_unfinished])
            waiting = [segment for segment in waiting if segment.is_unfinished and segment.is_open]

    def constraint_error(self, what: str) -> str | None:
        """Why no search for constraints is possible, which `what` may need; or None."""
        others = [name for name in ("do_sample", "custom_generate", *ONE_BY_ONE) if self.request.arguments.get(name)]
        if others:
            return f"{what} need a beam search, which cannot be combined with {', '.join(others)}."
        if self.backend.takes_constraints:
            return None
        return (
            f"{what} need a search with PyTorch, and the model was exported for {self.backend.title}. Use the "
            "original model."
        )

    def _can_leave_unfinished(self) -> bool:
        """Whether a search may leave sentences without a result."""
        has_criteria = self.request.arguments.get("stopping_criteria") is not None
        needs_all = has_criteria or self.request.return_alignments
        return self.backend.leaves_unfinished and not needs_all

    def _batches(self, waiting: list[Segment]) -> list[list[Segment]]:
        """Group segments of similar length, with prompts of equal length, into batches.

        The longest sources come first, so that a batch that does not fit in memory fails at once.
        """
        rows = self.request.arguments.rows()
        batch_tokens, batch_size = self.options.batch_tokens, self.options.batch_size
        if batch_tokens is None and self.backend.makes_batches:
            batch_tokens = sum(segment.length for segment in waiting) * len(waiting)
        elif batch_tokens is None:
            batch_tokens = default_batch_tokens(self.model, rows)
            batch_size = batch_size or default_batch_size(self.model, rows, len(waiting))
        waiting.sort(key=lambda segment: (len(segment.prompt), -segment.length))
        groups = (list(alike) for _, alike in groupby(waiting, key=lambda segment: len(segment.prompt)))
        batches = (token_batches(group, lambda segment: segment.length, batch_tokens, batch_size) for group in groups)
        return list(chain.from_iterable(batches))

    def _results(self, batches: list[list[Segment]], may_leave: bool) -> Iterator[tuple[int, list]]:
        """Yield the index of each batch, with the results and target lengths of its segments, as batches are finished.

        Args:
            may_leave: whether to leave the last sentences of each batch without a result, to be searched together.
        """

        def work(item: tuple[list[Segment], int | None]) -> list:
            batch, seed = item
            with torch.random.fork_rng(devices=[], enabled=seed is not None):
                if seed is not None:
                    torch.default_generator.manual_seed(seed)
                attempt(lambda segments: self._search(segments, may_leave), batch, self.options.on_error)
            return [(segment.result, segment.target_lengths) for segment in batch]

        items = list(zip(batches, self._seeds(len(batches))))
        workers = self._workers(batches)
        if workers > 1:
            return in_parallel(work, items, workers)
        return ((number, work(item)) for number, item in enumerate(items))

    def _seeds(self, batches: int) -> list[int | None]:
        """A random seed for each batch to be sampled, so that samples do not depend on the process that draws them.

        A single batch continues torch's random numbers, as `generate()` does, and so do all batches on a GPU.
        """
        if batches < 2 or self.model.device.type != "cpu" or not self.request.arguments.get("do_sample"):
            return [None] * batches
        return torch.randint(2**63 - 1, (batches,)).tolist()

    def _workers(self, batches: list[list[Segment]]) -> int:
        """The number of processes for these batches: one if they cannot share the work or are not worth starting."""
        model, number = self.model, self.options.num_workers
        if number in (0, 1) or len(batches) < 2 or model.device.type != "cpu" or not can_fork():
            return 1
        # Methods that have been replaced, or hooks, may be meant to see all batches.
        if self.backend.makes_batches or self.backend.must_see_all or self.request.arguments.depends_on_order():
            return 1
        if "generate" in vars(model) or any(map(has_hooks, model.modules())):
            return 1
        if number is None:
            tokens = self.request.arguments.rows() * sum(segment.length for batch in batches for segment in batch)
            number = torch.get_num_threads() if tokens * model.num_parameters() >= WORTH_WORKERS else 1
        return min(number, len(batches))

    def _search(self, segments: list[Segment], may_leave: bool) -> None:
        rows = self.request.arguments.rows()
        unfinished = (
            UnfinishedSentences(min(UNFINISHED_ROWS, len(segments) * rows // UNFINISHED_SHARE)) if may_leave else None
        )
        try:
            batch = SearchBatch(
                [segment.row or {} for segment in segments],
                [segment.prompt for segment in segments] if segments[0].prompt else None,
                self.constraints(segments) if self.constraints else None,
                unfinished,
                lambda number: self.finished([segments[number]]),
            )
            found = self.backend.search(batch, self.request)
        except ValueError as error:
            methods = self.model.generate, self.model.forward
            known = [*(name for method in methods for name in signature(method).parameters), *MEANINGS]
            if suggestion := suggest_argument(error, [*known, "quantize", *vars(self.model.generation_config)]):
                raise ValueError(suggestion) from None
            raise
        left = unfinished.numbers if unfinished else ()
        done = [number for number in range(len(segments)) if number not in left]
        for number, hypotheses in zip(done, self._decode([found[number] for number in done])):
            segment = segments[number]
            segment.result = hypotheses
            self.on_result(segment)
            segment.target_lengths = [len(candidate.ids) - 1 for candidate in found[number]]

    def _decode(self, found: list[list[Candidate]]) -> list[list[Hypothesis]]:
        """Candidates → hypotheses in the form that the options ask for."""
        candidates = list(chain.from_iterable(found))
        hypotheses = iter(map(self._hypothesis, candidates, self._contents(candidates)))
        return [[next(hypotheses) for _ in own] for own in found]

    def _contents(self, candidates: list[Candidate]) -> list[Hypothesis]:
        if candidates and candidates[0].hypothesis is not None:
            return [candidate.hypothesis or {} for candidate in candidates]
        if self.options.return_tensors:
            return [{"translation_token_ids": torch.tensor(candidate.ids)} for candidate in candidates]
        texts = self.tokenizer.batch_decode(
            [candidate.ids for candidate in candidates],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=self.options.clean_up_tokenization_spaces,
        )
        return [{"translation_text": text} for text in texts]

    @staticmethod
    def _hypothesis(candidate: Candidate, content: Hypothesis) -> Hypothesis:
        hypothesis = dict(content)
        if candidate.score is not None:
            hypothesis["score"] = candidate.score
        return {**hypothesis, **(candidate.alignment or {})}


def window_size(number: int) -> int:
    """The number of texts in a window, by its index: few at first, for early results, then more, for full batches."""
    return min(FIRST_WINDOW * GROWTH ** min(number, 10), LAST_WINDOW)


def token_batches(
    items: Iterable[Item], length: Callable[[Item], int], batch_tokens: int, batch_size: int | None = None
) -> Iterator[list[Item]]:
    """Items, sorted by length, in batches of at most `batch_tokens` tokens, padding included.

    Args:
        length: returns the number of tokens in an item; an item of more than `batch_tokens` is a batch of its own.
        batch_size: maximum number of items in a batch, `None` for any number.
    """
    batch: list[Item] = []
    longest = 0
    for item in items:
        longest = max(longest, length(item))
        if batch and ((len(batch) + 1) * longest > batch_tokens or len(batch) == batch_size):
            yield batch
            batch, longest = [], length(item)
        batch.append(item)
    if batch:
        yield batch


def default_batch_tokens(model: PreTrainedModel, rows: int) -> int:
    """The number of source tokens in a batch with which the decoder's caches take about as much memory in all models.

    Args:
        rows: number of hypotheses that are followed at once for each text.
    """
    decoder = model.config.get_text_config(decoder=True)
    values = decoder.num_hidden_layers * decoder.hidden_size * max(rows, FEW_ROWS)
    is_cpu = model.device.type == "cpu"
    return max(1, min((CPU_CACHE if is_cpu else DEVICE_CACHE) // values, CPU_TOKENS if is_cpu else DEVICE_TOKENS))


def default_batch_size(model: PreTrainedModel, rows: int, texts: int) -> int:
    """The maximum number of texts in a batch.

    On a CPU, more rows would only take more memory; elsewhere, their logits would take too much.

    Args:
        rows: number of hypotheses that are followed at once for each text.
        texts: number of texts to be translated. The size does not depend on the number of cores, for example, which
            may differ from machine to machine.
    """
    if model.device.type == "cpu":
        return max(1, min(max(texts * rows // CPU_BATCHES, LEAST_CPU_ROWS), CPU_ROWS) // rows)
    decoder = model.config.get_text_config(decoder=True)
    vocab_size = getattr(decoder, "decoder_vocab_size", None) or decoder.vocab_size
    return max(1, DEVICE_LOGITS // (vocab_size * rows))


__all__ = ["LAST_WINDOW", "Search", "default_batch_size", "default_batch_tokens", "token_batches", "window_size"]
