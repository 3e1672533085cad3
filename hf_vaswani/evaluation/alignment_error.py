"""Alignment error rate: how far word alignments are from human ones.

Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models" (section 5): people mark links as
sure, or as possible where they are ambiguous.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..data.sources.text_files import read_lines
from ..errors import InputError, counted

LINK = re.compile(r"(\d+)(?:(-)|[p?])(\d+)")

Links = set[tuple[int, int]]


@dataclass(frozen=True)
class GoldAlignment:
    """The links (source word, target word) of a pair, counted from 0; `possible` has the sure ones too."""

    sure: Links = field(default_factory=set)
    possible: Links = field(default_factory=set)


@dataclass(frozen=True)
class AlignmentScore:
    """How alignments compare with gold alignments, in percent.

    Attributes:
        aer: alignment error rate, 0 at best.
        precision: links that are at least possible, among the model's links; `None` without any.
        recall: sure links that the model has; `None` without any.
        links, sure, possible: numbers of links: the model's; the sure ones; those that are only possible.
    """

    aer: float
    precision: float | None
    recall: float | None
    links: int
    sure: int
    possible: int

    def __str__(self) -> str:
        parts = {"precision": self.precision, "recall": self.recall}
        values = ", ".join(f"{name} {value:.1f}" for name, value in parts.items() if value is not None)
        return f"AER {self.aer:.1f} ({values})"


def read_gold_alignments(path: str, sources: Sequence[str], targets: Sequence[str]) -> list[GoldAlignment]:
    """Read alignments in Pharaoh format, one line for each pair: `0-0 1-2 2p1`; `p` or `?` marks possible links.

    Words are separated by whitespace and counted from 0; or from 1 in a file that has no 0, and that counted from 0
    would go beyond the last word of a text.

    Raises:
        InputError: the file cannot be read, does not have as many lines as the texts, or a link is not one; the
            message lists all errors by line.
    """
    lines = read_lines(path)
    if len(lines) != len(sources):
        raise InputError(
            f"{path} has {counted(len(lines), 'line')} for {counted(len(sources), 'pair')}. It needs one for each."
        )
    errors, found = [], []
    for number, line in enumerate(lines, 1):
        matches = [LINK.fullmatch(link) for link in line.split()]
        if None in matches:
            wrong = line.split()[matches.index(None)]
            errors.append(f"{path}, line {number}: {wrong!r} is not a link. Write 0-1, or 0p1 if only possible.")
        found.append([(int(m[1]), int(m[3]), bool(m[2])) for m in matches if m])
    sizes = [(len(source.split()), len(target.split())) for source, target in zip(sources, targets)]
    first = 0
    if all(min(link[:2]) > 0 for links in found for link in links):
        first = int(any(_beyond(link, size, 0) for links, size in zip(found, sizes) for link in links))
    for number, (links, size) in enumerate(zip(found, sizes), 1):
        if beyond := [link for link in links if _beyond(link, size, first)]:
            source, target, _ = beyond[0]
            errors.append(
                f"{path}, line {number}: there are {counted(size[0], 'source word')} and "
                f"{counted(size[1], 'reference word')}, counted from {first}, so that {source}-{target} is not a link."
            )
    if errors:
        raise InputError.of(errors)
    return [
        GoldAlignment(
            {(source - first, target - first) for source, target, is_sure in links if is_sure},
            {(source - first, target - first) for source, target, _ in links},
        )
        for links in found
    ]


def _beyond(link: tuple[int, int, bool], size: tuple[int, int], first: int) -> bool:
    return link[0] >= size[0] + first or link[1] >= size[1] + first


def score_alignments(alignments: Sequence[Links], gold: Sequence[GoldAlignment]) -> AlignmentScore:
    """Compare alignments with gold alignments, pair by pair, and count over all pairs."""
    links, sure = sum(map(len, alignments)), sum(len(own.sure) for own in gold)
    in_sure = sum(len(found & own.sure) for found, own in zip(alignments, gold))
    in_possible = sum(len(found & own.possible) for found, own in zip(alignments, gold))
    return AlignmentScore(
        aer=100 - 100 * (in_sure + in_possible) / (links + sure) if links + sure else 0.0,
        precision=100 * in_possible / links if links else None,
        recall=100 * in_sure / sure if sure else None,
        links=links,
        sure=sure,
        possible=sum(len(own.possible) for own in gold) - sure,
    )
