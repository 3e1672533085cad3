"""One process that translates with one model: texts of all clients that wait are translated together."""

import asyncio
import copy
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ..errors import reason

# Source tokens that are translated together, at most; a request is cut into chunks far below that.
BATCH_TOKENS = 8192
# The engine starts at once instead of waiting for enough text to pay for converting the model.
ANY_AMOUNT = 10**12


@dataclass(frozen=True)
class Chunk:
    """Texts of one request.

    Attributes:
        texts: a line each.
        languages: arguments of the pipeline, `src_lang` and `tgt_lang`; empty for a model of one pair.
        n_best: number of translations of each text.
    """

    texts: tuple[str, ...]
    languages: tuple[tuple[str, str], ...] = ()
    n_best: int = 1


@dataclass(frozen=True)
class Translated:
    """The translations of a chunk.

    Attributes:
        translations: those of each text, best first.
        tokens: source tokens of the chunk.
        batch_tokens: source tokens that were translated together with it.
        waited, took: seconds until it was begun, and until its batch was done.
    """

    translations: tuple[tuple[str, ...], ...]
    tokens: int
    batch_tokens: int
    waited: float
    took: float


class TextError(ValueError):
    """A text cannot be translated."""


@dataclass(eq=False)
class _Waiting:
    chunk: Chunk
    tokens: int
    since: float = field(default_factory=time.monotonic)
    done: "asyncio.Future[Translated]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batcher:
    """Translates whatever waits as soon as the engine is free, in the order of arrival.

    `serve.batch` ends a batch after a fixed time, also while the engine is busy; under load, what could be translated
    together then waits in many small batches.

    Args:
        work: translates chunks together; runs in a thread of its own.
        count: the number of source tokens of a chunk.
    """

    def __init__(
        self,
        work: Callable[[list[Chunk]], list[list[tuple[str, ...]] | Exception]],
        count: Callable[[Chunk], int],
        batch_tokens: int = BATCH_TOKENS,
    ):
        self.work, self.count, self.batch_tokens = work, count, batch_tokens
        self.waiting: deque[_Waiting] = deque()
        self.task: asyncio.Task | None = None

    async def __call__(self, chunk: Chunk) -> Translated:
        entry = _Waiting(chunk, self.count(chunk))
        self.waiting.append(entry)
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._translate_all())
        return await entry.done  # a caller that gives up cancels it

    async def _translate_all(self) -> None:
        while batch := self._next_batch():
            started, total = time.monotonic(), sum(entry.tokens for entry in batch)
            try:
                results = await asyncio.to_thread(self.work, [entry.chunk for entry in batch])
            except Exception as error:
                results = [error] * len(batch)
            took = time.monotonic() - started
            for entry, result in zip(batch, results):
                if entry.done.done():  # cancelled
                    continue
                if isinstance(result, Exception):
                    entry.done.set_exception(result)
                else:
                    waited = started - entry.since
                    entry.done.set_result(Translated(tuple(result), entry.tokens, total, waited, took))

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        total = 0
        while self.waiting:
            entry = self.waiting[0]
            if batch and total + entry.tokens > self.batch_tokens:
                break
            self.waiting.popleft()
            if not entry.done.done():
                batch.append(entry)
                total += entry.tokens
        return batch


class Translator:
    """Opens a model and translates chunks with it; what a deployment of Ray Serve runs.

    Args:
        model: folder or Hub id.
        engine, quantize: as in the pipeline.
    """

    def __init__(self, model: str, engine: str = "auto", quantize: str | None = None):
        self.options = {"engine": engine, "quantize": quantize}
        self.loaded = _Loaded(model, **self.options)
        self.version: str | None = None
        self.batcher = Batcher(self._work, lambda chunk: self.loaded.count(chunk))

    async def reconfigure(self, config: dict[str, Any]) -> None:
        """Open the model again if its files have changed; until then, the old one translates."""
        before, self.version = self.version, config.get("version")
        if before not in (None, self.version):
            self.loaded = await asyncio.to_thread(_Loaded, config["model"], **self.options)

    async def translate(self, chunk: Chunk) -> Translated:
        return await self.batcher(chunk)

    async def check(self) -> bool:
        """Answer, which a process that is still opening its model does not."""
        return True

    def _work(self, chunks: list[Chunk]) -> list[list[tuple[str, ...]] | Exception]:
        return self.loaded.translate(chunks)


class _Loaded:
    """A model in memory."""

    def __init__(self, model: str, engine: str, quantize: str | None):
        from ..translation.load import load

        self.model, self.tokenizer = load(model)
        # The engine's thread uses the other one.
        self.counter = copy.deepcopy(self.tokenizer)
        self.options = {"engine": engine, "quantize": quantize}
        self.pipelines: dict[tuple, Any] = {}
        self.translate([Chunk(("a",), languages=self._some_languages())])

    def _some_languages(self) -> tuple[tuple[str, str], ...]:
        from ..app.models import language_choices

        choices = language_choices(self.model, self.tokenizer)
        if not choices.sources:
            return ()
        source = choices.source or choices.sources[0]
        return (("src_lang", source), ("tgt_lang", choices.targets[0]))

    def count(self, chunk: Chunk) -> int:
        return sum(map(len, self.counter(list(chunk.texts))["input_ids"]))

    def translate(self, chunks: Sequence[Chunk]) -> list[list[tuple[str, ...]] | Exception]:
        results: list[list[tuple[str, ...]] | Exception] = [[]] * len(chunks)

        def kind(number: int) -> tuple:
            return chunks[number].languages, chunks[number].n_best

        for (languages, n_best), numbers in groupby(sorted(range(len(chunks)), key=kind), kind):
            alike = list(numbers)
            texts = [text for number in alike for text in chunks[number].texts]
            found = iter(self._translate_texts(texts, languages, n_best))
            for number in alike:
                own = [next(found) for _ in chunks[number].texts]
                errors = [result for result in own if isinstance(result, Exception)]
                results[number] = errors[0] if errors else own
        return results

    def _translate_texts(
        self, texts: list[str], languages: tuple[tuple[str, str], ...], n_best: int
    ) -> list[tuple[str, ...] | Exception]:
        results = self._engine(languages, n_best).translate(texts)
        if too_long := [number for number, result in enumerate(results) if isinstance(result, ValueError)]:
            # Cut into pieces, which a text within the limit is not.
            again = self._engine(languages, n_best, True).translate([texts[number] for number in too_long])
            for number, result in zip(too_long, again):
                results[number] = result
        return [
            TextError(reason(result)) if isinstance(result, Exception)
            else tuple(hypothesis["translation_text"] for hypothesis in result)
            for result in results
        ]  # fmt: skip

    def _engine(self, languages: tuple[tuple[str, str], ...], n_best: int, split: bool | None = None) -> Any:
        from ..pipeline.translation import TranslationPipeline

        if languages not in self.pipelines:
            pipeline = TranslationPipeline(self.model, tokenizer=self.tokenizer, **self.options, **dict(languages))
            pipeline.serving.work = ANY_AMOUNT
            self.pipelines[languages] = pipeline
        beams = max(n_best, self.model.generation_config.num_beams or 1)
        return self.pipelines[languages].engine(
            split_sentences=split, on_error="return", return_warnings=False, num_workers=1, n_best=n_best,
            num_beams=beams,
        )  # fmt: skip
