"""Translates texts of any length for the routes: cuts them into lines and chunks, and counts what is done."""

import asyncio
import re
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ..documents.parts import Parts
from ..documents.reading import Document
from ..documents.sentences import Alignment
from ..text.glossary import Glossary
from ..text.languages import language_code
from .accounts import Account, Accounts, Limits, Refused
from .catalog import Catalog, Pair, Route
from .detection import Detected, Detector
from .documents import Documents
from .glossaries import Glossaries
from .replica import Chunk, Pairs, Translated

# Of a chunk; and how many of them a request may have under way, so that a large one leaves room for others.
CHUNK_TEXTS, CHUNK_CHARACTERS, CHUNKS = 32, 4_000, 8
Result = TypeVar("Result")
LINE = re.compile(r"[^\r\n]+")
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
TOKENS = (8, 32, 128, 512, 1024, 2048, 4096, 8192, 16384)


class Metrics:
    """What `/metrics` reports."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        given: dict[str, Any] = {"registry": self.registry, "namespace": "hf_vaswani"}
        self.requests = Counter("requests", "requests answered", ["route", "status"], **given)
        self.seconds = Histogram("request_seconds", "time of a request", ["route"], buckets=SECONDS, **given)
        self.characters = Counter("characters", "source characters translated", ["source", "target"], **given)
        self.tokens = Counter("source_tokens", "source tokens translated", ["model"], **given)
        self.batch = Histogram("batch_tokens", "source tokens translated together", ["model"], buckets=TOKENS, **given)
        self.waited = Histogram("queue_seconds", "time until a batch began", ["model"], buckets=SECONDS, **given)
        self.under_way = Gauge("chunks_under_way", "parts of requests queued or in translation", ["model"], **given)
        self.errors = Counter("errors", "requests that failed, by kind", ["kind"], **given)

    def note(self, model: str, done: Translated) -> None:
        self.tokens.labels(model).inc(done.tokens)
        self.batch.labels(model).observe(done.batch_tokens)
        self.waited.labels(model).observe(done.waited)


class Service:
    """What all routes share.

    Args:
        handles: what translates, by the name of the model: a deployment's handle, or anything with such a method.
    """

    def __init__(
        self,
        catalog: Catalog,
        handles: Mapping[str, Any],
        accounts: Accounts,
        limits: Limits,
        glossaries: Glossaries,
    ):
        self.catalog, self.handles, self.accounts, self.limits = catalog, handles, accounts, limits
        self.detector = Detector(catalog.sources())
        self.documents, self.glossaries, self.metrics = Documents(), glossaries, Metrics()
        self.under_way, self.is_draining = 0, False

    def use(self, catalog: Catalog, accounts: Mapping[str, Account]) -> None:
        """Serve what a catalog says to these accounts from now on; the models are the same."""
        self.catalog, self.detector = catalog, Detector(catalog.sources())
        self.accounts.accounts = dict(accounts)

    def drain(self, seconds: float) -> int:
        """Take no more work, wait until what is under way is done, and return how many requests are left."""
        self.is_draining, end = True, time.monotonic() + seconds
        while self.under_way and time.monotonic() < end:
            time.sleep(0.1)
        return self.under_way

    def route(self, source: str, target: str, names: Sequence[str] = ("source", "target")) -> tuple[Pair, Route]:
        """What translates a pair.

        Args:
            names: what the request calls the two languages.

        Raises:
            Refused: nothing does; the message says what is served.
        """
        found = self.catalog.find(source, target)
        if found is None:
            sources, targets = self.catalog.sources(), self.catalog.targets()
            if not any(self.catalog.find(source, code) for code in targets):
                raise Refused(400, f"{names[0]} {source} is not supported; there are {', '.join(sources)}")
            if not any(self.catalog.find(code, target) for code in sources):
                raise Refused(400, f"{names[1]} {target} is not supported; there are {', '.join(targets)}")
            raise Refused(400, f"{source} is not translated to {target} here")
        return found

    def detect(self, texts: Sequence[str], target: str | None = None) -> Detected:
        """The most probable language of texts among those that are translated into the target."""
        ranked = self.detector.detect(texts)
        if target is None:
            return ranked[0]
        fitting = [one for one in ranked if self.catalog.find(one.language, target)]
        return fitting[0] if fitting else ranked[0]

    def check_size(self, texts: Sequence[str]) -> int:
        """The characters of texts.

        Raises:
            Refused: there are too many of them, or of texts, each line of which counts.
            UnicodeEncodeError: they hold half of a surrogate pair.
        """
        "".join(texts).encode()  # JSON may hold halves of surrogate pairs
        total = sum(map(len, texts))
        if total > self.limits.characters:
            raise Refused(
                400, f"Invalid request: {total:,} characters exceed the text limit of {self.limits.characters:,}"
            )
        # After the limit of characters: cutting many megabytes into lines would keep all others waiting.
        lines = sum(max(len(_lines(text)), 1) for text in texts)
        if lines > self.limits.texts:
            raise Refused(400, f"Invalid request: {lines:,} lines exceed the limit of {self.limits.texts:,}")
        return total

    async def translate(
        self, texts: Sequence[str], pair: Pair, route: Route, n_best: int = 1, glossary: Glossary | None = None
    ) -> list[list[str]]:
        """The translations of each text, best first.

        Lines are translated each for itself; line breaks and the whitespace around lines stay as they are.

        Raises:
            Refused: the request takes too long, or a text cannot be translated.
        """
        lines = [text for whole in texts for text in _lines(whole)]
        found = iter(await self._in_time(self._translate_lines(lines, route, n_best, glossary)))
        self.metrics.characters.labels(*pair).inc(sum(map(len, texts)))
        results = []
        for whole in texts:
            translated = [next(found) for _ in _lines(whole)]
            most = max(map(len, translated), default=1)
            # A line with fewer translations than others keeps its best one.
            results.append([_filled(whole, [line[k] if k < len(line) else line[0] for line in translated])
                            for k in range(most)])  # fmt: skip
        return results

    async def translate_markup(
        self, markup: Iterable[Parts], pair: Pair, route: Route, glossary: Glossary | None = None
    ) -> list[str]:
        """Markup with translations in place of its sentences; errors as in [`translate`]."""
        markup = list(markup)
        texts = [text for parts in markup for text in parts.texts]
        has_tags = [has for parts in markup for has in parts.has_tags]
        translations = [best for best, *_ in await self.translate(texts, pair, route, glossary=glossary)]
        results = zip(translations, await self._in_time(self._align(texts, translations, has_tags, route)))
        return [parts.fill(islice(results, len(parts.texts))) for parts in markup]

    async def translate_document(
        self, document: Document, pair: Pair, route: Route, glossary: Glossary | None = None
    ) -> bytes:
        """A document with its translations in place of its texts; errors as in [`translate`]."""
        translations = [best for best, *_ in await self.translate(document.texts, pair, route, glossary=glossary)]
        alignments = await self._in_time(self._align(document.texts, translations, document.has_tags, route))
        return await asyncio.to_thread(document.fill, translations, alignments, language_code(pair[1]))

    async def _in_time(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of some work.

        Raises:
            Refused: it takes longer than a request may.
        """
        try:
            return await asyncio.wait_for(work, self.limits.seconds)
        except asyncio.TimeoutError:
            raise Refused(504, f"The translation took more than {self.limits.seconds:g} seconds") from None

    async def _align(
        self, texts: Sequence[str], translations: Sequence[str], has_tags: Sequence[bool], route: Route
    ) -> list[Alignment | None]:
        """An alignment for each text that has tags and can be aligned."""
        found: list[Alignment | None] = [None] * len(texts)
        wanted = [number for number, has in enumerate(has_tags) if has]
        for chunk in _chunks([texts[number] for number in wanted]):
            numbers, wanted = wanted[: len(chunk)], wanted[len(chunk) :]
            pairs = Pairs(tuple(chunk), tuple(translations[number] for number in numbers), route.languages)
            for number, links in zip(numbers, await self.handles[route.model].align.remote(pairs)):
                found[number] = links
        return found

    async def _translate_lines(
        self, lines: list[str], route: Route, n_best: int, glossary: Glossary | None
    ) -> list[tuple[str, ...]]:
        room = asyncio.Semaphore(CHUNKS)
        handle, gauge = self.handles[route.model], self.metrics.under_way.labels(route.model)

        async def translate(texts: list[str]) -> tuple[tuple[str, ...], ...]:
            # A glossary may be large: each text travels with those of its terms that it has.
            terms = tuple(glossary.of_text(text) for text in texts) if glossary else ()
            async with room:
                gauge.inc()
                try:
                    done = await handle.translate.remote(Chunk(tuple(texts), route.languages, n_best, terms))
                finally:
                    gauge.dec()
            self.metrics.note(route.model, done)
            return done.translations

        tasks = [asyncio.ensure_future(translate(chunk)) for chunk in _chunks(lines)]
        try:
            return [translations for part in await asyncio.gather(*tasks) for translations in part]
        finally:
            for task in tasks:
                task.cancel()


def _lines(text: str) -> list[str]:
    return [line.strip() for line in LINE.findall(text) if line.strip()]


def _filled(text: str, translations: Sequence[str]) -> str:
    rest = iter(translations)

    def fill(match: re.Match) -> str:
        line = match.group()
        body = line.strip()
        return line.replace(body, next(rest), 1) if body else line

    return LINE.sub(fill, text)


def _chunks(lines: Sequence[str]) -> list[list[str]]:
    chunks: list[list[str]] = []
    size = 0
    for line in lines:
        if not chunks or len(chunks[-1]) >= CHUNK_TEXTS or size + len(line) > CHUNK_CHARACTERS:
            chunks.append([])
            size = 0
        chunks[-1].append(line)
        size += len(line)
    return chunks
