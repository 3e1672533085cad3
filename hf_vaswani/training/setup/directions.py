"""The directions that a model is trained on, by the languages of its sources, and the marks that name them in text."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

from ...data.sources.text_source import TextSource
from ...text.languages import is_same_language, language_code
from ..recipe.arguments import REVERSED, DataArguments

# Source and target language; `None` where it is not known.
Direction = tuple[str | None, str | None]
Sources = Mapping[str, Sequence[TextSource]]


def direction_of(data: DataArguments, source: TextSource) -> Direction:
    """The languages of a source in the direction in which it is read."""
    own = source.source_language or data.source_language, source.target_language or data.target_language
    return own[::-1] if source.reversed else own


def directions_of(data: DataArguments, sources: Iterable[TextSource]) -> list[Direction]:
    """The directions of some sources, each once, in their order."""
    return list(dict.fromkeys(direction_of(data, source) for source in sources))


def common_languages(directions: Iterable[Direction]) -> Direction:
    """The source and the target language that all of some directions share; `None` where they differ."""
    source, target = (side.pop() if len(side) == 1 else None for side in map(set, zip(*directions)))
    return source, target


def in_both_directions(sources: Iterable[TextSource]) -> list[TextSource]:
    """The sources, and after each that is read in both directions the same in the opposite one."""
    return [
        each
        for source in sources
        for each in ([source, replace(source, reversed=not source.reversed)] if source.both_directions else [source])
    ]


def name_of(direction: Direction) -> str:
    """The name of a direction in results and in the log: `es-gn`."""
    return "-".join(code or "any" for code in direction)


def direction_errors(data: DataArguments, sources: Sources) -> list[str]:
    """What is wrong with the languages of a recipe's sources."""
    if not data.has_directions:
        return []
    errors, trained = [], set(directions_of(data, sources["train"]))
    if REVERSED in (data.text or ()):
        errors.append("data.text: reversed does not go with languages of sources: set both_directions: true for them")
    for split, entries in sources.items():
        for number, source in enumerate(entries, start=1):
            where = f"data.{split}" + (f", source {number}" if len(entries) > 1 else "")
            pair = direction_of(data, source)
            if missing := [
                f"{side}_language"
                for side, code in zip(("source", "target"), pair[::-1] if source.reversed else pair)
                if code is None
            ]:
                errors.append(f"{where}: {' and '.join(missing)} is missing: the code of a language, such as de")
            elif wrong := [code for code in pair if language_code(code) is None]:
                errors.append(f"{where}: {wrong[0]!r} is not the code of a language, such as de or pt-BR")
            elif pair[0] == pair[1]:
                errors.append(f"{where}: source_language and target_language are both {pair[0]}")
            elif split != "train" and pair not in trained:
                errors.append(f"{where}: {pair[0]} to {pair[1]} is not among the directions of data.train")
    if errors:
        return list(dict.fromkeys(errors))
    errors += [
        f"data.train: {one} and {other} name one language. Use one of them in all sources."
        for one, other in same_languages(trained)
    ]
    if "test" in sources:
        tested = set(directions_of(data, sources["test"]))
        without = [pair for pair in directions_of(data, sources["train"]) if pair not in tested]
        errors += [f"data.test has no source for {source} to {target}: add one" for source, target in without]
    return errors


def same_languages(directions: Iterable[Direction]) -> list[tuple[str, str]]:
    """Different codes that name one language, as in [`are_same`]."""
    codes = sorted({code for pair in directions for code in pair if code})
    return [pair for pair in combinations(codes, 2) if are_same(*pair)]


def are_same(one: str, other: str) -> bool:
    """Whether two codes name one language, such as `es` and `spa`, as far as the library langcodes is installed."""
    with suppress(ImportError, ValueError):
        from langcodes import standardize_tag

        one, other = (standardize_tag(code, macro=True) for code in (one, other))
    return is_same_language(one, other)


def target_mark(language: str) -> str:
    """The token that names a target language: `>>gn<<`."""
    return f">>{language}<<"


def tag_token(tag: str) -> str:
    """The token of a tag: `<bt>`."""
    return f"<{tag}>"


def mark_tokens(data: DataArguments, sources: Sequence[TextSource]) -> list[str]:
    """The tokens that training text needs for its target languages, if these are marked, and for its tags."""
    targets = dict.fromkeys(target for _, target in directions_of(data, sources) if target)
    marks = [target_mark(code) for code in targets] if len(targets) > 1 or data.mark_targets else []
    return marks + list(dict.fromkeys(tag_token(source.tag) for source in sources if source.tag))


def mark_sources(data: DataArguments, sources: Sequence[TextSource], tokens: Sequence[str]) -> list[TextSource]:
    """Sources with the marks that their texts begin with.

    Args:
        tokens: all marks of the run; as they are, if there are none.
    """
    if not tokens:
        return list(sources)

    def marked(source: TextSource) -> TextSource:
        mark = target_mark(direction_of(data, source)[1] or "")
        prefix = [token for token in (mark, tag_token(source.tag or "")) if token in tokens]
        return replace(source, prefix=" ".join(prefix), reserved=tuple(tokens))

    return list(map(marked, sources))


def weights_of(data: DataArguments, sources: Sequence[TextSource], sizes: Sequence[int]) -> list[float]:
    """How often each source is drawn with `data.temperature`.

    A direction's share is proportional to its number of pairs to the power of 1 / temperature. It is divided among
    the sources of the direction by their weights, or else by their numbers of pairs.

    Args:
        sizes: their numbers of pairs.
    """
    of_source = [direction_of(data, source) for source in sources]
    own = [size if source.weight is None else source.weight for source, size in zip(sources, sizes)]
    totals = {
        pair: (sum(size for one, size in zip(of_source, sizes) if one == pair),
               sum(weight for one, weight in zip(of_source, own) if one == pair))
        for pair in dict.fromkeys(of_source)
    }  # fmt: skip
    shares = {pair: size ** (1 / (data.temperature or 1.0)) / weight for pair, (size, weight) in totals.items()}
    return [shares[pair] * weight for pair, weight in zip(of_source, own)]
