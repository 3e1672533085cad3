"""Placeholders in training pairs: the same ones in source and target, at places that belong together."""

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ...text.keep_patterns import PICTURE, find_kept, kind_patterns
from ...text.markers import KEEPS, Edit
from ...text.words import Span
from .word_alignment import Link

# What is in anything that the ready patterns match, but in few texts.
HINT = re.compile(r"[\d`@{%€$£¥]|://|www\.|" + PICTURE)
# Of pairs with addresses, numbers and the like on both sides, the share that gets further placeholders.
FURTHER = 0.3
# Of what is drawn at random: the shares that take the place of words, and that are inserted at an end of the text. The
# others are inserted next to words.
REPLACED, AT_END = 0.5, 0.2


def place_keeps(
    source: str, target: str, links: list[Link], generator: np.random.Generator
) -> tuple[list[Edit], list[Edit]]:
    """Draw placeholders for a pair: the edits of source and target, with at least one each.

    Args:
        links: words that are translations of each other.
    """
    places = list(_alike(source, target))
    if not places or generator.random() < FURTHER:
        for place in _drawn(source, target, links, generator):
            if not any(_overlap(place[side], other[side]) for other in places for side in (0, 1)):
                places.append(place)
    places = sorted(places[: len(KEEPS)])
    numbers = np.sort(generator.choice(len(KEEPS), len(places), replace=False))
    edits: tuple[list[Edit], list[Edit]] = [], []
    for number, place in zip(numbers.tolist(), places):
        for own, text, span in zip(edits, (source, target), place):
            own.append(_edit(text, span, KEEPS[number]))
    return edits


def _alike(source: str, target: str) -> Iterator[tuple[Span, Span]]:
    """Addresses, numbers and the like that source and target have equally often."""
    if not (HINT.search(source) and HINT.search(target)):
        return
    found = [defaultdict(list), defaultdict(list)]
    for own, text in zip(found, (source, target)):
        for start, end in find_kept(text, kind_patterns()):
            own[text[start:end]].append((start, end))
    for content, spans in found[0].items():
        if len(spans) == len(found[1][content]):
            yield from zip(spans, found[1][content])


def _drawn(source: str, target: str, links: list[Link], generator: np.random.Generator) -> Iterator[tuple[Span, Span]]:
    """Places drawn at random: one, with equal probability another, and so on. A place without characters is between
    words."""
    count = min(int(generator.geometric(0.5)), len(KEEPS))
    order = generator.permutation(len(links)).tolist()
    for draw in generator.random(count).tolist():
        if not order or draw < AT_END:
            at_start = generator.random() < 0.5
            yield ((0, 0), (0, 0)) if at_start else ((len(source),) * 2, (len(target),) * 2)
            continue
        first, second = links[order.pop()].spans
        if draw < AT_END + REPLACED:
            yield first, second
        else:
            after = int(generator.integers(2))
            yield (first[after],) * 2, (second[after],) * 2


def _overlap(one: Span, other: Span) -> bool:
    return one == other or (one[0] < other[1] and other[0] < one[1])


def _edit(text: str, span: Span, marker: str) -> Edit:
    """Put a marker at a place, with a space toward the word that it is inserted next to."""
    start, end = span
    if start < end:
        return Edit(start, end, lambda _: marker)
    is_before = start == 0 or text[start : start + 1].isalnum()
    return Edit(start, end, lambda _: f"{marker} " if is_before else f" {marker}")
