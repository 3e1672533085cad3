"""Mixes the recipe's own text with its reverse (source and target swapped) and with pairs made by stages, optionally
by weight."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...configuration.name_hints import hint
from ...data.sources.text_source import LARGEST_WEIGHT, TextSource
from ...errors import InputError

OWN, REVERSED = "own", "reversed"


def mixed_sources(text: dict[str, float] | list[str], own: list[TextSource]) -> list[TextSource]:
    """The sources of a mixture, with weights that give its parts the requested shares.

    Args:
        text: `data.text`, with the names of its parts: `"own"`, `"reversed"`, or a file of pairs, such as a stage's.
        own: sources of the recipe's own text.

    Raises:
        InputError: if either the mixture or the own text's sources have weights and the other has none, so that these
            cannot be combined; a single source needs no weight.
    """
    weights = text if isinstance(text, dict) else dict.fromkeys(text)
    parts = {name: sources_of(name, own) for name in weights}
    if isinstance(text, list):
        if any(source.weight is not None for source in own):
            raise InputError(
                "data.text: the sources of data.train have weights, so its parts need weights, too: {own: 2, …}"
            )
        return [source for sources in parts.values() for source in sources]
    return [source for name, sources in parts.items() for source in _weighted(sources, float(weights[name]))]


def turned(source: TextSource) -> TextSource:
    """A source with its sides swapped."""
    return replace(source, reversed=not source.reversed)


def text_errors(text: Any, makers: Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """What is wrong with the value of `data.text` in a recipe.

    Args:
        makers: names of the stages that make pairs.
        others: names of the stages that make models.
    """
    if text is None:
        return []
    known = [OWN, REVERSED, *makers]
    if not text or not all(isinstance(name, str) for name in text):
        return [f"data.text must name at least one text, of {', '.join(known)}; got {text!r}"]
    errors = []
    for name in text:
        if name in others:
            errors.append(f"data.text: stage '{name}' makes a model, not text; texts are {', '.join(known)}")
        elif name not in known and not Path(name).is_file():  # a stage's file of pairs, by its path
            meant = hint(name, dict(zip(known, known)), {}) or f"choose from {', '.join(known)}"
            errors.append(f"data.text: unknown text '{name}'; {meant}")
    if isinstance(text, dict):
        errors += [
            f"data.text: the weight of {name} must be a number above 0, got {weight!r}"
            for name, weight in text.items()
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= LARGEST_WEIGHT
        ]
    elif len(set(text)) < len(text):
        errors.append("data.text lists a text twice; to count one more often, give weights: {own: 2, …}")
    if set(text) == {REVERSED}:
        errors.append("data.text: reversed alone is the opposite direction; to train it, set data.reversed: true")
    return errors


def sources_of(name: str, own: list[TextSource]) -> list[TextSource]:
    """The sources of a part of a mixture: `"own"`, `"reversed"`, or a stage's file of pairs."""
    if name == OWN:
        return own
    if name == REVERSED:
        return [turned(source) for source in own]
    return [TextSource(file=name, source_column="source", target_column="target", made=True)]


def _weighted(sources: list[TextSource], weight: float) -> list[TextSource]:
    """The sources, with weights scaled to a given sum."""
    given = [source.weight for source in sources]
    if len(sources) == 1:
        return [replace(sources[0], weight=weight)]
    if None in given:
        raise InputError(
            "data.text has weights, but the sources of data.train have none, so the weight of their text cannot be "
            "divided among them: give each source of data.train a weight"
        )
    return [replace(source, weight=weight * own / sum(given)) for source, own in zip(sources, given)]
