"""Mixes the recipe's own text with its reverse (source and target swapped) and with files of translated pairs,
optionally by weight."""

from dataclasses import replace

from ...data.sources.text_source import TextSource
from ...errors import InputError
from ..recipe.arguments import OWN, REVERSED


def mixed_sources(text: dict[str, float] | list[str], own: list[TextSource]) -> list[TextSource]:
    """The sources of a mixture, with weights that give its parts the requested shares.

    Args:
        text: `data.text`, with the names of its parts: `"own"`, `"reversed"`, or a file of pairs.
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


def sources_of(name: str, own: list[TextSource]) -> list[TextSource]:
    """The sources of a part of a mixture: `"own"`, `"reversed"`, or a file of pairs."""
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
