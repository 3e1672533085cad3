"""Translates texts of any length for the routes: cuts them into lines and chunks, and counts what is done."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from fastapi import Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ..core.sentence_splitting import Piece, join_texts
from ..documents.parts import Parts
from ..documents.tag_placement import Alignment
from ..text.glossary import Glossary, shortened
from ..text.languages import is_same_language, language_code
from ..text.pivots import compose_links, joined_warnings
from .accounts import Account, Accounts, APIError, Limits, quoted
from .catalog import Catalog, Pair, Route, language_name
from .detection import Detected, Detector
from .documents import DocumentReader, Documents, Texts
from .glossaries import Glossaries
from .messages import Chunk, Pairs, Translated, Translation
from .requests import Fields, read_fields, sent_key

# Of a chunk; and how many of them a request may have under way, so that a large one leaves room for others.
CHUNK_TEXTS, CHUNK_CHARACTERS, CHUNKS = 32, 4_000, 8
THREADS = 2
# A text is in its target language if that is as many times as likely as any source language; and in a language that
# is not served from this probability on.
CLEARLY, SURELY = 8, 0.8
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


@dataclass(frozen=True)
class Direction:
    """How a text is translated.

    Attributes:
        route: what translates it, or `None` if it stays as it is.
        detected: the language of the text and its probability, if they were guessed.
        warnings: what the sender should know of the text.
    """

    pair: Pair
    route: Route | None = None
    detected: Detected | None = None
    warnings: tuple[str, ...] = ()

    @property
    def via(self) -> str | None:
        """The code of the third language over which it is translated, if so."""
        return self.route.via if self.route else None


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
        self.detector = Detector(catalog.codes)
        # DeepL's documents have keys of their own. LibreTranslate's are for whoever knows their addresses.
        self.documents, self.files, self.reader = Documents(), Documents(), DocumentReader()
        self.glossaries, self.metrics = glossaries, Metrics()
        self.under_way, self.body_bytes, self.is_draining = 0, 0, False
        # More threads would keep the event loop waiting for its turn, and gain nothing.
        self._threads = ThreadPoolExecutor(THREADS, "request")

    def use(self, catalog: Catalog, accounts: Mapping[str, Account] | None) -> None:
        """Serve what a catalog says to these accounts from now on; the models are the same."""
        self.catalog, self.detector = catalog, Detector(catalog.codes)
        self.accounts.accounts = accounts

    async def in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        """The result of some work of this process, which others need not wait for."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def read_fields(self, request: Request) -> Fields:
        """The fields of a request; errors as in [`requests.read_fields`]."""
        return await read_fields(request, self.limits, self.in_thread)

    def authenticate(self, request: Request, fields: Fields) -> str:
        """The account of a request; errors as in [`Accounts.authenticate`]."""
        return self.accounts.authenticate(sent_key(request, fields))

    def drain(self, seconds: float) -> int:
        """Take no more work, wait until what is under way is done, and return how many requests are left."""
        self.is_draining, end = True, time.monotonic() + seconds
        while self.under_way and time.monotonic() < end:
            time.sleep(0.1)
        return self.under_way

    def route(self, source: str, target: str, names: Sequence[str] = ("source", "target")) -> Direction:
        """What translates a pair; nothing does if both are the same language.

        Args:
            names: what the request calls the two languages.

        Raises:
            APIError: the pair is not served; the message says what is.
        """
        if (found := self.catalog.find(source, target)) is not None:
            return Direction(*found)
        own = self.catalog.alike(target)
        if any(code in own for code in self.catalog.alike(source)):
            return Direction(Pair(own[0], own[0]))
        sources, targets = self.catalog.sources(), self.catalog.targets()
        for name, code, served in zip(names, (source, target), (sources, targets)):
            if not set(self.catalog.alike(code)) & set(served):
                raise APIError(400, f"{name} {quoted(code)} is not supported; there are {', '.join(served)}")
        raise APIError(400, f"{source} is not translated to {target} here")

    async def directions(
        self, texts: Sequence[str], source: str | None, target: str, names: Sequence[str] = ("source", "target")
    ) -> "list[Direction]":
        """What translates each text; without a source language, it is guessed for each.

        Raises:
            APIError: as in [`route`].
        """
        if source is not None:
            return [self.route(source, target, names)] * len(texts)
        sources = [code for code in self.catalog.sources() if self.catalog.find(code, target)]
        if not sources:
            raise APIError(
                400, f"{names[1]} {quoted(target)} is not supported; there are {', '.join(self.catalog.targets())}"
            )
        own = self.catalog.alike(target)
        return await self.in_thread(lambda: [self._guess(text, sources, own, target) for text in texts])

    def _guess(self, text: str, sources: Sequence[str], own: Sequence[str], target: str) -> Direction:
        """The direction of a text in an unknown language.

        A text that is in the target language, or has no letters, stays as it is. One in a language that is not served
        is translated like the language among the served ones that it is most likely in.

        Args:
            sources: the languages that are translated into the target.
            own: the codes of the target language itself.
        """
        probabilities = dict(self.detector.rank(text))
        source, target_code = max(sources, key=probabilities.__getitem__), max(own, key=probabilities.__getitem__)
        best, likely = self.detector.best(text), probabilities[target_code]
        detected = Detected(source, probabilities[source])
        if best.probability == 0:
            return Direction(Pair(source, source), detected=detected)
        if likely >= CLEARLY * detected.probability and likely * CLEARLY > best.probability:
            return Direction(Pair(target_code, target_code), detected=Detected(target_code, likely))
        pair, route = self.catalog.find(source, target) or (Pair(source, source), None)
        if best.probability < SURELY or is_same_language(best.language, source):
            return Direction(pair, route, detected)
        warning = f"The text seems to be in {language_name(best.language)}, not in {language_name(source)}"
        return Direction(pair, route, detected, (warning,))

    def check_size(self, texts: Sequence[str]) -> int:
        """The characters of texts.

        Raises:
            APIError: there are too many of them, or of texts, each line of which counts.
        """
        if len(texts) > self.limits.texts:
            raise APIError(400, f"Invalid request: {len(texts):,} texts exceed the limit of {self.limits.texts:,}")
        total = sum(map(len, texts))
        if total > self.limits.characters:
            raise APIError(
                400, f"Invalid request: {total:,} characters exceed the text limit of {self.limits.characters:,}"
            )
        # After the limit of characters: cutting many megabytes into lines would keep all others waiting.
        lines = sum(max(len(_lines(text)), 1) for text in texts)
        if lines > self.limits.texts:
            raise APIError(400, f"Invalid request: {lines:,} lines exceed the limit of {self.limits.texts:,}")
        return total

    async def translate(
        self,
        texts: Sequence[str],
        directions: Sequence[Direction],
        n_best: int = 1,
        glossary: Glossary | None = None,
        split_sentences: bool | None = None,
    ) -> list[Translation]:
        """The translations of each text in its direction.

        Lines are translated each for itself; line breaks and the whitespace around lines stay as they are.

        Args:
            split_sentences: as in the pipeline.

        Raises:
            APIError: the request takes too long, or a text cannot be translated.
        """
        found: list[Translation | None] = [None] * len(texts)

        async def translate_alike(numbers: list[int]) -> None:
            direction = directions[numbers[0]]
            own = [texts[number] for number in numbers]
            options = n_best, glossary, split_sentences
            for number, translation in zip(numbers, await self._translate(own, direction, *options)):
                warnings = (*directions[number].warnings, *translation.warnings)
                found[number] = Translation(translation.hypotheses, warnings)

        alike: dict[tuple[Pair, Route | None], list[int]] = {}
        for number, direction in enumerate(directions):
            alike.setdefault((direction.pair, direction.route), []).append(number)
        await self._in_time(asyncio.gather(*map(translate_alike, alike.values())))
        return [translation for translation in found if translation is not None]

    async def _translate(
        self,
        texts: Sequence[str],
        direction: Direction,
        n_best: int,
        glossary: Glossary | None,
        split_sentences: bool | None,
    ) -> list[Translation]:
        if direction.route is None:
            return [Translation((text,)) for text in texts]
        lines = [line for text in texts for line in _lines(text)]
        found = iter(await self._translate_lines(lines, direction.route, n_best, glossary, split_sentences))
        self.metrics.characters.labels(*direction.pair).inc(sum(map(len, texts)))
        return await self.in_thread(_joined, texts, found)

    async def translate_markup(
        self, markup: Sequence[Parts], directions: Sequence[Direction], glossary: Glossary | None = None
    ) -> list[Translation]:
        """Markup with translations in place of its sentences; errors as in [`translate`]."""
        texts = [text for parts in markup for text in parts.texts]
        self.check_size(texts)
        has_tags = [has for parts in markup for has in parts.has_tags]
        own = [direction for parts, direction in zip(markup, directions) for _ in parts.texts]
        translations = await self.translate(texts, own, glossary=glossary)
        best = [translation.hypotheses[0] for translation in translations]
        alignments = await self._in_time(self._align(texts, best, has_tags, own))
        if glossary:
            alignments = glossary.link_terms(texts, best, alignments)

        def fill() -> list[Translation]:
            results, done = [], 0
            for parts in markup:
                part = slice(done, done + len(parts.texts))
                done = part.stop
                warnings = dict.fromkeys(warning for one in translations[part] for warning in one.warnings)
                filled = parts.fill(zip(best[part], alignments[part]))
                results.append(Translation((filled,), tuple(warnings)))
            return results

        return await self.in_thread(fill)

    async def translate_document(
        self, document: Texts, direction: Direction, glossary: Glossary | None = None
    ) -> tuple[bytes, list[str]]:
        """A document with its translations in place of its texts, and warnings; errors as in [`translate`]."""
        directions = [direction] * len(document.texts)
        translations = await self.translate(document.texts, directions, glossary=glossary)
        warnings = list(dict.fromkeys(
            f"{shortened(text)}: {warning}"
            for text, one in zip(document.texts, translations) for warning in one.warnings
        ))  # fmt: skip
        if direction.route is None:
            return document.content, warnings
        best = [translation.hypotheses[0] for translation in translations]
        alignments = await self._in_time(self._align(document.texts, best, document.has_tags, directions))
        if glossary:
            alignments = glossary.link_terms(document.texts, best, alignments)
        target = language_code(direction.pair.target)
        return await self.reader.fill(document, best, alignments, target), warnings

    async def align(
        self, texts: Sequence[str], translations: Sequence[str], direction: Direction
    ) -> list[Alignment | None]:
        """The words of texts and translations that correspond, if that can be known; errors as in [`translate`]."""
        count = len(texts)
        return await self._in_time(self._align(texts, translations, [True] * count, [direction] * count))

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        """The result of some work.

        Raises:
            APIError: it takes longer than a request may.
        """

        async def run() -> Result:  # which waits for the end of what it cancels
            return await work

        try:
            return await asyncio.wait_for(run(), self.limits.seconds)
        except asyncio.TimeoutError:
            raise APIError(503, f"The translation took more than {self.limits.seconds:g} seconds") from None

    async def _align(
        self,
        texts: Sequence[str],
        translations: Sequence[str],
        has_tags: Sequence[bool],
        directions: Sequence[Direction],
    ) -> list[Alignment | None]:
        """An alignment for each text that has tags and can be aligned."""
        found: list[Alignment | None] = [None] * len(texts)
        wanted: dict[Route, list[int]] = {}
        for number, (has, direction) in enumerate(zip(has_tags, directions)):
            if has and direction.route is not None:
                wanted.setdefault(direction.route, []).append(number)
        for route, numbers in wanted.items():
            own = [texts[number] for number in numbers], [translations[number] for number in numbers]
            for number, links in zip(numbers, await self._align_by(route, *own)):
                found[number] = links
        return found

    async def _align_by(self, route: Route, texts: list[str], translations: list[str]) -> "Sequence[Alignment | None]":
        """The alignments of texts; over a third language, by what the texts are in it."""
        if route.then is None:
            found, left = [], iter(translations)
            for chunk in _chunks(texts):
                pairs = Pairs(tuple(chunk), tuple(islice(left, len(chunk))), route.languages)
                found += await self.handles[route.model].align.remote(pairs)
            return found
        first = replace(route, then=None)
        lines = [line for text in texts for line in _lines(text)]
        translated = iter(await self._run(first, lines, is_first_step=True))
        pivots = [one.hypotheses[0] for one in await self.in_thread(_joined, texts, translated)]
        links = await self._align_by(first, texts, pivots), await self._align_by(route.then, pivots, translations)
        return list(map(compose_links, texts, pivots, translations, *links))

    async def _translate_lines(
        self,
        lines: list[str],
        route: Route,
        n_best: int,
        glossary: Glossary | None,
        split_sentences: bool | None,
    ) -> list[Translation]:
        # A glossary may be large: each text travels with those of its terms that it has.
        terms = await self.in_thread(lambda: [glossary.of_text(line) for line in lines]) if glossary else []
        if route.then is None:
            return await self._run(route, lines, terms, n_best=n_best, split_sentences=split_sentences)
        firsts = await self._run(route, lines, terms, split_sentences=split_sentences, is_first_step=True)
        sentences = [sentence for first in firsts for sentence in first.sentences]
        has_terms = any(sentence.terms.entries for sentence in sentences)
        seconds = iter(await self._run(
            route.then,
            [sentence.text for sentence in sentences],
            [sentence.terms for sentence in sentences] if has_terms else [],
            [sentence.kept for sentence in sentences],
            n_best=n_best,
            split_sentences=split_sentences,
        ))  # fmt: skip
        return await self.in_thread(lambda: [_joined_sentences(first, seconds) for first in firsts])

    async def _run(
        self,
        route: Route,
        lines: list[str],
        terms: Sequence[Glossary] = (),
        kept: Sequence[tuple[str, ...]] = (),
        **options: Any,
    ) -> list[Translation]:
        """The translations of lines by the model of a route, without what follows it.

        Args:
            terms, kept: of each line; or none at all.
            options: further fields of [`Chunk`].
        """
        room = asyncio.Semaphore(CHUNKS)
        handle, gauge = self.handles[route.model], self.metrics.under_way.labels(route.model)

        async def translate(
            texts: list[str], terms: list[Glossary], kept: list[tuple[str, ...]]
        ) -> Sequence[Translation]:
            chunk = Chunk(tuple(texts), route.languages, glossaries=tuple(terms), kept=tuple(kept), **options)
            async with room:
                gauge.inc()
                try:
                    done = await handle.translate.remote(chunk)
                finally:
                    gauge.dec()
            self.metrics.note(route.model, done)
            return done.translations

        chunks, rests = _chunks(lines), (iter(terms), iter(kept))
        tasks = [
            asyncio.ensure_future(translate(chunk, *(list(islice(rest, len(chunk))) for rest in rests)))
            for chunk in chunks
        ]
        try:
            return [translation for part in await asyncio.gather(*tasks) for translation in part]
        finally:
            for task in tasks:
                task.cancel()


def _joined(texts: Sequence[str], lines: Iterator[Translation]) -> list[Translation]:
    """The translations of texts from those of their lines."""
    results = []
    for text in texts:
        translated = [next(lines) for _ in _lines(text)]
        most = max((len(line.hypotheses) for line in translated), default=1)
        # A line with fewer translations than others keeps its best one.
        hypotheses = tuple(
            _filled(text, [line.hypotheses[k if k < len(line.hypotheses) else 0] for line in translated])
            for k in range(most)
        )
        warnings = dict.fromkeys(warning for line in translated for warning in line.warnings)
        results.append(Translation(hypotheses, tuple(warnings)))
    return results


def _joined_sentences(first: Translation, seconds: Iterator[Translation]) -> Translation:
    """The translations of a line from those of its sentences in a third language."""
    translated = [next(seconds) for _ in first.sentences]
    pieces = [Piece(sentence.text, sentence.space) for sentence in first.sentences]
    most = max((len(one.hypotheses) for one in translated), default=1)
    hypotheses = tuple(
        join_texts([one.hypotheses[k if k < len(one.hypotheses) else 0] for one in translated], pieces)
        for k in range(most)
    )
    later = (joined_warnings(None, warning) for one in translated for warning in one.warnings)
    return Translation(hypotheses, tuple(dict.fromkeys(filter(None, (*first.warnings, *later)))))


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
