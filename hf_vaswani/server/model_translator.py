"""What runs in a process that translates with one model: texts of all clients that wait are translated together."""

import asyncio
import copy
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING
from uuid import uuid4

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..app.models import language_choices
from ..documents.tag_placement import Alignment
from ..engines.ctranslate2_model import CTranslate2Model
from ..errors import reason
from ..text.languages import NO_LANGUAGES, Languages, language_pairs
from ..text.pivots import joined_pivot, joined_warnings
from ..translator.backends.selection import CONVERT_NOW, BackendSelection
from ..translator.pipeline import TranslationPipeline
from ..translator.segments import Hypothesis, SourceTooLong
from ..translator.translator import Translator
from ..translator.translator_settings import content_digest
from .messages import Chunk, Pairs, TextError, Translated, Translation

if TYPE_CHECKING:
    from ..translator.chain import PivotText

# Source tokens that are translated together, at most: more are no faster, and take longer.
BATCH_TOKENS = 1024


# The translations of a chunk, or why there are none.
Result = list[Translation] | Exception


@dataclass(eq=False)
class _Waiting:
    chunk: Chunk
    tokens: int
    since: float = field(default_factory=time.monotonic)
    done: "asyncio.Future[Translated]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def length(self) -> float:
        """The source tokens of a text, on average."""
        return self.tokens / max(len(self.chunk.texts), 1)


class Batcher:
    """Translates whatever waits as soon as the engine is free, in the order of arrival.

    `serve.batch` ends a batch after a fixed time, also while the engine is busy; under load, what could be translated
    together then waits in many small batches.

    Args:
        work: translates chunks together, in the lane of that number; runs in a thread of its own.
        count: the number of source tokens of a chunk.
        lanes: number of batches that are translated at the same time.
        batch_tokens: source tokens of a batch, at most.
    """

    def __init__(
        self,
        work: Callable[[int, list[Chunk]], list[Result]],
        count: Callable[[Chunk], int],
        lanes: int = 1,
        batch_tokens: int = BATCH_TOKENS,
    ):
        self.work, self.count, self.batch_tokens = work, count, batch_tokens
        self.free = set(range(lanes))
        self.waiting: list[_Waiting] = []  # the oldest first
        self.tasks: set[asyncio.Task] = set()

    async def __call__(self, chunk: Chunk) -> Translated:
        entry = _Waiting(chunk, self.count(chunk))
        self.waiting.append(entry)
        if self.free:
            # Not at once: what arrives together is translated together.
            asyncio.get_running_loop().call_soon(self._start)
        return await entry.done  # a caller that gives up cancels it

    def _start(self) -> None:
        """Start a batch in each lane that is free, as long as something waits."""
        while self.free and (batch := self._next_batch()):
            task = asyncio.get_running_loop().create_task(self._translate(self.free.pop(), batch))
            self.tasks.add(task)  # or else it might be collected as garbage
            task.add_done_callback(self.tasks.discard)

    async def _translate(self, lane: int, batch: "list[_Waiting]") -> None:
        started, total = time.monotonic(), sum(entry.tokens for entry in batch)
        results: list[Result]
        try:
            results = await asyncio.to_thread(self.work, lane, [entry.chunk for entry in batch])
        except Exception as error:
            results = [error] * len(batch)
        for entry, result in zip(batch, results):
            if entry.done.done():  # cancelled
                continue
            if isinstance(result, Exception):
                entry.done.set_exception(result)
            else:
                entry.done.set_result(Translated(tuple(result), entry.tokens, total, started - entry.since))
        self.free.add(lane)
        self._start()

    def _next_batch(self) -> "list[_Waiting]":
        """What has waited longest with texts of about its length, as much as leaves as much to the other free lanes.

        A search with texts of many lengths goes on for the longest ones, with a batch that is nearly empty.
        """
        self.waiting = [entry for entry in self.waiting if not entry.done.done()]  # without cancelled ones
        if not self.waiting:
            return []
        most = min(sum(entry.tokens for entry in self.waiting) / len(self.free), self.batch_tokens)
        oldest, total = self.waiting[0], 0
        batch: list[_Waiting] = []
        for entry in sorted(self.waiting, key=lambda entry: abs(entry.length - oldest.length)):
            if batch and total + entry.tokens / 2 > most:
                break
            batch.append(entry)
            total += entry.tokens
        chosen = set(batch)
        self.waiting = [entry for entry in self.waiting if entry not in chosen]
        return batch


class ModelTranslator:
    """Opens a model and translates chunks with it; what a deployment of Ray Serve runs.

    Args:
        model: folder or Hub id.
        engine, quantize, keep: as in the pipeline.
    """

    def __init__(self, model: str, engine: str = "auto", quantize: str | None = None, keep: Sequence[str] = ()):
        self.model, self.options = model, {"engine": engine, "quantize": quantize, "keep": keep}
        # Of the files before they are read: if they change meanwhile, they are read again.
        self.version = content_digest(model)
        self.loaded = _Loaded(model, **self.options)
        self.id, self._reloading = uuid4().hex, asyncio.Lock()
        self.batcher = Batcher(self._work, lambda chunk: self.loaded.count(chunk), len(self.loaded.lanes))

    async def reload(self, version: str) -> tuple[str, bool]:
        """Open the model again if its files have changed; until then, the old one translates.

        Args:
            version: digest of the files as they are now.

        Returns:
            An id of this process, and whether the model was opened again.
        """
        async with self._reloading:
            has_changed = version != self.version
            if has_changed:
                self.loaded = await asyncio.to_thread(_Loaded, self.model, **self.options)
                self.version = version
            return self.id, has_changed

    async def translate(self, chunk: Chunk) -> Translated:
        return await self.batcher(chunk)

    async def align(self, pairs: Pairs) -> list[Alignment | None]:
        """Align texts with their translations, as [`align_texts`] does."""
        return await asyncio.to_thread(self.loaded.align, pairs)

    async def check(self) -> bool:
        """Answer, which a process that is still opening its model does not."""
        return True

    def _work(self, lane: int, chunks: list[Chunk]) -> list[Result]:
        loaded = self.loaded
        return loaded.lanes[lane % len(loaded.lanes)].translate(chunks)


class _Loaded:
    """A model in memory.

    Attributes:
        lanes: what translates at the same time: as many as CTranslate2 has workers, or one.
    """

    def __init__(self, model: str, engine: str, quantize: str | None, keep: Sequence[str]):
        from ..models.load import load

        self.model, self.tokenizer = load(model)
        # Weights are read from their file when they are used: one that is overwritten meanwhile would end the process.
        self.model._apply(torch.clone)
        selection, count = BackendSelection(engine, quantize), 1
        selection.work = CONVERT_NOW  # instead of waiting for enough text to pay for it
        first = _Worker(self.model, self.tokenizer, selection, keep)
        # Converts the model, or opens its conversion.
        first.translate([Chunk(("a",), languages=self._some_languages())])
        if isinstance(selection.opened, CTranslate2Model):
            count = selection.opened.callers = selection.opened.workers
        # The languages of a tokenizer are set while it encodes, so that each thread needs its own.
        others = [_Worker(self.model, copy.deepcopy(self.tokenizer), selection, keep) for _ in range(count - 1)]
        self.lanes = [first, *others]
        self.counter, self.aligner = copy.deepcopy(self.tokenizer), copy.deepcopy(self.tokenizer)
        self.aligning = threading.Lock()

    def _some_languages(self) -> Languages:
        choices = language_choices(self.model, self.tokenizer)
        if not choices.sources:
            return NO_LANGUAGES
        if pairs := language_pairs(self.model, self.tokenizer):
            return Languages(*pairs[0])
        return Languages(choices.source or choices.sources[0], choices.targets[0])

    def align(self, pairs: Pairs) -> list[Alignment | None]:
        from ..translator.documents import align_texts

        given = pairs.texts, pairs.translations, [True] * len(pairs.texts)
        with self.aligning:
            return align_texts(self.model, self.aligner, *given, **pairs.languages.arguments())

    def count(self, chunk: Chunk) -> int:
        return sum(map(len, self.counter(list(chunk.texts))["input_ids"]))


class _Worker:
    """The pipelines of one thread, by their languages."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        selection: BackendSelection,
        keep: Sequence[str],
    ):
        self.model, self.tokenizer, self.selection, self.keep = model, tokenizer, selection, keep
        self.pipelines: dict[Languages, TranslationPipeline] = {}

    def translate(self, chunks: Sequence[Chunk]) -> list[Result]:
        results: list[Result] = [[]] * len(chunks)

        def kind(number: int) -> tuple[Languages, int, str, bool, bool, int]:
            chunk = chunks[number]
            # Terms that cannot be searched for are an error for their sender alone.
            alone = number if chunk.has_terms else -1
            split = str(chunk.split_sentences)
            return chunk.languages, chunk.n_best, split, chunk.is_first_step, bool(chunk.kept), alone

        for (*_, alone), numbers in groupby(sorted(range(len(chunks)), key=kind), kind):
            alike = list(numbers)
            together = replace(
                chunks[alike[0]],
                texts=tuple(text for number in alike for text in chunks[number].texts),
                kept=tuple(spans for number in alike for spans in chunks[number].kept),
                glossaries=chunks[alone].glossaries if alone >= 0 else (),
            )
            found = iter(self._translate_together(together))
            for number in alike:
                own = [next(found) for _ in chunks[number].texts]
                errors = [result for result in own if isinstance(result, Exception)]
                results[number] = errors[0] if errors else [one for one in own if isinstance(one, Translation)]
        return results

    def _translate_together(self, chunk: Chunk) -> list[Translation | TextError]:
        try:
            results = self._translate_texts(chunk, chunk.split_sentences)
        except ValueError as error:
            if chunk.glossaries:  # a term cannot be spelled, or the model has no search with terms
                return [TextError(reason(error))] * len(chunk.texts)
            raise
        if too_long := [number for number, result in enumerate(results) if isinstance(result, SourceTooLong)]:
            # Cut into pieces, which a text within the limit is not.
            again = replace(
                chunk,
                **{
                    name: tuple(values[number] for number in too_long) if (values := getattr(chunk, name)) else ()
                    for name in ("texts", "glossaries", "kept")
                },
            )
            for number, result in zip(too_long, self._translate_texts(again, True)):
                results[number] = result
        return [TextError(reason(result)) if isinstance(result, Exception) else result for result in results]

    def _translate_texts(self, chunk: Chunk, split_sentences: bool | None) -> list[Translation | Exception]:
        translator = self._engine(chunk.languages, chunk.n_best, split_sentences)
        if chunk.is_first_step:
            from ..translator.chain import PivotTranslator

            pivots = PivotTranslator(translator)(chunk.texts, chunk.glossaries)
            return [own if isinstance(own, Exception) else _as_first_step(own) for own in pivots]
        results = translator.translate(chunk.texts, glossaries=chunk.glossaries, kept=chunk.kept)
        return [
            result if isinstance(result, Exception)
            else Translation(
                tuple(hypothesis["translation_text"] for hypothesis in result), _warnings(result[:1])
            )
            for result in results
        ]  # fmt: skip

    def _engine(self, languages: Languages, n_best: int, split: bool | None = None) -> Translator:
        if languages not in self.pipelines:
            arguments = {"engine": self.selection, **languages.arguments()}
            self.pipelines[languages] = TranslationPipeline(self.model, tokenizer=self.tokenizer, **arguments)
        beams = max(n_best, self.model.generation_config.num_beams or 1)
        return self.pipelines[languages].translator(
            split_sentences=split, on_error="return", return_warnings=True, num_workers=1, n_best=n_best,
            num_beams=beams, keep=self.keep or None,
        )  # fmt: skip


def _as_first_step(own: "PivotText") -> Translation:
    sentences = tuple(sentence for sentence, _ in own)
    warnings = (joined_warnings(warning, None) for warning in _warnings([hypothesis for _, hypothesis in own]))
    return Translation((joined_pivot(sentences),), tuple(filter(None, warnings)), sentences)


def _warnings(hypotheses: Sequence[Hypothesis]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hypothesis["warning"] for hypothesis in hypotheses if "warning" in hypothesis))
