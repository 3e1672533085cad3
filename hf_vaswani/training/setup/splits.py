"""The texts of a recipe: from its keys to sources, which `data.text` may mix, and from sources to pairs."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from ...data.cache import cache_folder
from ...data.filters import FilterSettings, HeldOut
from ...data.prepared import PreparedText, prepare_text
from ...data.sources.hub_datasets import is_whole_split
from ...data.sources.sides import SAMPLE
from ...data.sources.tables import Languages
from ...data.sources.text_files import Pair
from ...data.sources.text_source import BUILT_IN, TextSource, check_source, iterate_pairs
from ...errors import InputError
from ..recipe.arguments import MAIN_TEST, OWN, REVERSED, SPLITS, DataArguments
from .directions import (
    Direction,
    common_languages,
    direction_errors,
    direction_of,
    directions_of,
    in_both_directions,
    mark_sources,
    mark_tokens,
    name_of,
    weights_of,
)

TESTS = "tests."  # prefix of the names of additional test sets


@dataclass(frozen=True)
class Splits:
    """The texts that a model is trained and evaluated on.

    Attributes:
        sources: the sources of the training text.
        weights: the weights of these sources, if they are mixed by weight.
        train: the training pairs, filtered; `None` if they are streamed.
        validation, test: pairs held out of the training text, or from sources of their own; the test set is optional.
        tests: pairs of the additional test sets, by name; of a model for several directions, of all test sets by
            direction.
        validations: the pairs of `validation` by direction, if there are several.
        digests: digests of training and validation text, which identify a run.
    """

    sources: list[TextSource]
    weights: list[float] | None
    train: PreparedText | None
    validation: list[Pair]
    test: list[Pair] | None
    tests: dict[str, list[Pair]]
    digests: dict[str, str]
    validations: dict[str, list[Pair]] = field(default_factory=dict)

    def held_out(self, split: str) -> dict[str, list[Pair]]:
        """The pairs of `"validation"` or of the recipe's own `"test"` set, by direction if there are several."""
        if split == "validation":
            return self.validations or {"": self.validation}
        return {"": self.test} if self.test else self.tests

    @property
    def test_sets(self) -> dict[str, list[Pair]]:
        """All test sets by name; the one named `test`, if there is one, comes first."""
        return {**({MAIN_TEST: self.test} if self.test else {}), **self.tests}


def parse_sources(data: DataArguments) -> dict[str, list[TextSource]]:
    """The sources of `"train"`, `"validation"`, `"test"` if there is one, and `"tests.NAME"` for additional ones.

    They are as they are trained: with `data.text`, in the directions of the recipe, and with marks.

    Raises:
        InputError: for all errors in their descriptions at once.
    """
    sources = described_sources(data)
    if data.text and "train" in sources:
        sources["train"] = mixed_sources(data.text, sources["train"])
    sources = {split: _directed(data, entries) for split, entries in sources.items()}
    if errors := direction_errors(data, sources):
        raise InputError.of(errors)
    tokens = mark_tokens(data, sources.get("train", []))
    return {split: mark_sources(data, entries, tokens) for split, entries in sources.items()}


def held_out_sources(data: DataArguments) -> list[TextSource]:
    """The sources that pairs are held out of, without weights, as they are trained."""
    tokens = mark_tokens(data, parse_sources(data)["train"])
    return mark_sources(data, _directed(data, own_sources(data)), tokens)


def own_sources(data: DataArguments) -> list[TextSource]:
    """The sources of the training text that a recipe itself names, without weights, as their files have them.

    Raises:
        InputError: as in [`described_sources`].
    """
    return [replace(source, weight=None) for source in described_sources(data)["train"]]


def _directed(data: DataArguments, sources: list[TextSource]) -> list[TextSource]:
    """Sources in the direction that is trained, or in both."""
    return in_both_directions(map(swapped, sources) if data.reversed else sources)


def described_sources(data: DataArguments) -> dict[str, list[TextSource]]:
    """The sources of all splits, as in [`parse_sources`], as their files have them, and without `data.text`.

    Raises:
        InputError: for all errors in their descriptions at once.
    """
    sources: dict[str, list[TextSource]] = {}
    errors: list[str] = []
    further = {f"{TESTS}{name}": _listed(value, "test", data) for name, value in data.tests.items()}
    for split, entries in {**{split: _entries(data, split) for split in SPLITS}, **further}.items():
        parsed = []
        for number, entry in enumerate(entries, start=1):
            name = f"data.{split}" + (f", source {number}" if len(entries) > 1 else "")
            try:
                parsed.append(TextSource.parse(entry, name))
            except InputError as error:
                errors.append(str(error))
        if entries:
            sources[split] = parsed
        weighted = [source for source in parsed if source.weight is not None]
        if weighted and split != "train":
            errors.append(f"data.{split}: weights are only for training sources; every {split} pair counts once")
        elif weighted and len(weighted) < len(entries):
            errors.append(
                f"data.{split}: give all sources a weight, or none; without weights, each pair is seen once per epoch"
            )
    if errors:
        raise InputError.of(errors)
    return sources


def source_errors(data: DataArguments, sources: dict[str, list[TextSource]]) -> list[str]:
    """What is wrong with a recipe's sources, as far as this shows without reading them completely."""
    errors, unusable = [], set()
    for split, entries in sources.items():
        for source in entries:
            # A dataset that cannot be reached is reported only once, without waiting for it again.
            dataset = (source.dataset, source.config, source.revision)
            if dataset in unusable:
                continue
            is_streamed = data.streaming and split == "train"
            found = check_source(source, column_languages(data), is_streamed)
            errors += [f"data.{split}: {error}{_split_hint(data, split, error)}" for error in found]
            if source.dataset and found and not any("split" in error for error in found):
                unusable.add(dataset)
            if (split == MAIN_TEST or split.startswith(TESTS)) and source.is_among(sources.get("train", [])):
                errors.append(
                    f"data.{split}: the training text, {source.name}, is also a test set, whose scores would say "
                    "nothing about new text. Choose another text, or hold out a part of this one with data.test_share"
                )
    return errors


def load_splits(data: DataArguments, sources: dict[str, list[TextSource]]) -> Splits:
    """Read a recipe's sources. The training text is filtered; if it was read before, it is taken from the cache.

    Raises:
        InputError: for the errors of all texts at once.
    """
    pairs = _read_all(data, sources, dict.fromkeys([*SPLITS, *sources]))
    weights = [source.weight for source in sources["train"] if source.weight is not None] or None
    tests = _test_sets(data, sources, pairs)
    validations = _by_direction(data, sources, "validation", pairs["validation"])
    validation = [pair for part in validations.values() for pair in part]
    train, held_out = pairs["train"], held_out_settings(data)
    if data.temperature and train:
        sizes = np.bincount(train.dataset.data.column("origin").to_numpy(), minlength=len(sources["train"]))
        weights = weights_of(data, sources["train"], sizes.tolist())
    # A stream is identified only by its description.
    is_reversed = [f"{number} reversed" for number, source in enumerate(sources["train"]) if source.reversed]
    is_reversed += [f"{number} {source.prefix}" for number, source in enumerate(sources["train"]) if source.prefix]
    description = [*map(repr, sources["train"]), *is_reversed, *([repr(held_out)] if held_out else [])]
    digests = {
        "train": _digest([train.digest, str(weights)] if train else description),
        "validation": _digest(f"{source}\t{target}" for source, target in validation),
    }
    if not data.has_directions:
        validations = {}
    return Splits(
        sources["train"], weights, train, validation, tests.pop(MAIN_TEST, None), tests, digests, validations
    )


def load_test_sets(data: DataArguments) -> dict[str, list[Pair]]:
    """The pairs of all test sets by name, as in [`Splits.test_sets`], without reading other texts.

    Raises:
        InputError: for the errors of all texts at once.
    """
    sources = parse_sources(data)
    tests = [MAIN_TEST, *(split for split in sources if split.startswith(TESTS))]
    return _test_sets(data, sources, _read_all(data, sources, tests))


def _test_sets(
    data: DataArguments, sources: dict[str, list[TextSource]], pairs: dict[str, Any]
) -> dict[str, list[Pair]]:
    """The pairs of all test sets by name; with several directions, by name and direction."""
    found = {}
    for split in (MAIN_TEST, *(split for split in sources if split.startswith(TESTS))):
        for direction, part in _by_direction(data, sources, split, pairs.get(split) or []).items():
            if part:
                found[_test_name(split, direction)] = part
    return found


def named_sources(data: DataArguments, sources: dict[str, list[TextSource]]) -> dict[str, list[TextSource]]:
    """The sources of each split, and of each test set by its name, as in [`Splits.test_sets`]."""
    found: dict[str, list[TextSource]] = {}
    for split, entries in sources.items():
        for source in entries:
            is_named = data.has_directions and split not in ("train", "validation")
            direction = name_of(direction_of(data, source)) if is_named else ""
            found.setdefault(_test_name(split, direction), []).append(source)
    return found


def _test_name(split: str, direction: str) -> str:
    """The name of a test set: of its split, of its direction if there are several, or of both."""
    if split == MAIN_TEST and direction:
        return direction
    return "-".join(filter(None, [split.removeprefix(TESTS), direction]))


def _by_direction(
    data: DataArguments, sources: dict[str, list[TextSource]], split: str, texts: list[list[Pair]]
) -> dict[str, list[Pair]]:
    """The pairs of a split's sources by the name of their direction, which is "" for all if there are not several."""
    if not data.has_directions:
        return {"": [pair for text in texts for pair in text]}
    parts: dict[str, list[Pair]] = {}
    for source, text in zip(sources[split] if split in sources else held_out_sources(data), texts):
        parts.setdefault(name_of(direction_of(data, source)), []).extend(text)
    return parts


def _read_all(data: DataArguments, sources: dict[str, list[TextSource]], splits: Iterable[str]) -> dict[str, Any]:
    """The pairs of some splits, as in [`_read`]; an [`InputError`] for the errors of all of them at once."""
    errors: list[str] = []
    pairs: dict[str, Any] = {}
    for split in splits:
        try:
            pairs[split] = _read(data, sources, split)
        except InputError as error:
            errors.append(f"data.{split}: {error}")
    if errors:
        raise InputError.of(errors)
    return pairs


def _read(
    data: DataArguments, sources: dict[str, list[TextSource]], split: str
) -> PreparedText | list[list[Pair]] | None:
    """The pairs of a split, for evaluation of each of its sources; `None` if there is none, or if it is streamed."""
    languages, held_out = column_languages(data), held_out_settings(data)
    is_held_out = getattr(held_out, split, 0) > 0
    if split == "train" and data.streaming:
        return None
    if split == "train" or is_held_out:
        settings, cache = filter_settings(data), cache_folder(data.cache_dir)
        # Pairs are held out of the recipe's own text, whatever else the model is trained on.
        entries = sources["train"] if split == "train" else held_out_sources(data)
        text = prepare_text(entries, languages, settings, cache, held_out, split, data.streaming)
        if not is_held_out:
            return text
        origins = text.dataset.data.column("origin").to_numpy()
        return [[pair for pair, origin in zip(text, origins) if origin == number] for number in range(len(entries))]
    if split not in sources:
        return None
    return [
        # If the dataset is not streamed, all of its splits are downloaded for this one.
        list(iterate_pairs(source, languages, data.streaming and is_whole_split(source.split)))
        for source in sources[split]
    ]


def held_out_settings(data: DataArguments) -> HeldOut:
    """Which pairs of the training text are held out for validation or test."""
    shares = data.validation_share or 0.0, data.test_share or 0.0
    shared = shared_language(data) if any(shares) and data.has_directions else None
    return HeldOut(*shares, data.split_seed, shared)


def shared_language(data: DataArguments) -> str | None:
    """The language that is on a side of all training text, if the languages on the other side differ."""
    pairs = [set(direction_of(data, source)) for source in own_sources(data)]
    shared = set.intersection(*pairs)
    return shared.pop() if len(shared) == 1 else None


def stream_of(data: DataArguments, source: TextSource) -> Iterator[Pair]:
    """The training pairs of a source, read lazily."""
    return held_out_settings(data).pairs_of(source, column_languages(data), "train", data.streaming)


def sample_pairs(splits: Splits, data: DataArguments, size: int = SAMPLE) -> list[Pair]:
    """The first training pair and some from all parts of the text; for a stream, the first pairs of one source."""
    if splits.train is None:
        return list(islice(stream_of(data, splits.sources[0]), SAMPLE))
    return splits.train[:: max(1, len(splits.train) // size)]


def column_languages(data: DataArguments) -> Languages:
    """The source and target language, which may be names of columns."""
    return data.source_language, data.target_language


def model_languages(data: DataArguments) -> Languages:
    """Source and target language of the model; `None` where there are several."""
    if learns_both_directions(data):
        return None, None
    if pairs := model_directions(data):
        return common_languages(pairs)
    return data.text_languages


def model_directions(data: DataArguments) -> list[Direction]:
    """The directions of a model whose sources name their languages; none for a model of one pair."""
    return directions_of(data, parse_sources(data)["train"]) if data.has_directions else []


def first_direction(data: DataArguments) -> Direction:
    """The direction of the first test set, or else of the validation set."""
    sources = parse_sources(data)
    splits = [MAIN_TEST, *(split for split in sources if split.startswith(TESTS)), "validation", "train"]
    return direction_of(data, next(sources[split][0] for split in splits if split in sources))


def model_marks(data: DataArguments) -> list[str]:
    """The tokens that name target languages and tags in the training text."""
    return mark_tokens(data, parse_sources(data)["train"]) if data.has_marks else []


def learns_both_directions(data: DataArguments) -> bool:
    """Whether a model is also trained on the reverse of its text."""
    return REVERSED in (data.text or ())


def filter_settings(data: DataArguments) -> FilterSettings:
    """Which pairs of the training text are left out."""
    return FilterSettings(
        drop_control_characters=data.drop_control_characters,
        drop_copies=data.drop_copies,
        drop_duplicates=data.drop_duplicates,
        count_duplicates=not data.streaming,
        max_length=data.max_length,
        max_length_ratio=data.max_length_ratio,
    )


def _entries(data: DataArguments, split: str) -> list[Any]:
    """The list of a split's sources as the recipe gives them, each a path or a mapping of keys to values."""
    if data.dataset:
        part = getattr(data, f"{split}_split")
        of_hub = {"config": data.dataset_config, "revision": data.dataset_revision, **_columns(data)}
        return [{"dataset": data.dataset, "split": part, **of_hub}] if part else []
    if source := getattr(data, f"{split}_source"):
        return [{"source": source, "target": getattr(data, f"{split}_target")}]
    value = getattr(data, split)
    return _listed(value, split, data) if value else []


def _listed(value: object, split: str, data: DataArguments) -> list[Any]:
    """One source, or a list of sources, as a list. Invalid values stay in it, to be refused later."""
    entries = value if isinstance(value, list) and value else [value]
    return [_with_columns(entry, split, data) for entry in entries]


def _columns(data: DataArguments) -> dict[str, str | None]:
    return {"source_column": data.source_column, "target_column": data.target_column}


def _with_columns(entry: object, split: str, data: DataArguments) -> Any:
    """An entry with the recipe's columns, unless it is the built-in corpus, parallel files, or has its own columns."""
    if isinstance(entry, str):
        entry = {"dataset": BUILT_IN, "split": split} if entry == BUILT_IN else {"file": entry}
    if not isinstance(entry, dict) or "source" in entry or "target" in entry or entry.get("dataset") == BUILT_IN:
        return entry
    return {**_columns(data), **({"header": data.header} if "file" in entry else {}), **entry}


def _split_hint(data: DataArguments, split: str, error: str) -> str:
    if data.dataset in (None, BUILT_IN) or split not in SPLITS or "split" not in error or "stream" in error:
        return ""
    ways = {"validation": "for example train[:1%]", "test": "or null for none", "train": "for example train[1%:]"}
    return f" Choose it with data.{split}_split, {ways[split]}."


def _digest(lines) -> str:
    content = hashlib.sha256()
    for line in lines:
        content.update(f"{line}\n".encode())
    return content.hexdigest()


def mixed_sources(text: dict[str, Any] | list[str], own: list[TextSource]) -> list[TextSource]:
    """The sources of a mixture, with weights that give its parts the requested shares.

    Args:
        text: `data.text`, with the names of its parts: `"own"`, `"reversed"`, or a file of pairs.
        own: sources of the recipe's own text.

    Raises:
        InputError: some of the sources have a weight, and others have none.
    """
    sources = []
    for name, value in (text if isinstance(text, dict) else dict.fromkeys(text)).items():
        keys = value if isinstance(value, dict) else {"weight": value}
        part, weight = mixture_part(name, own, keys), keys.get("weight")
        sources += part if weight is None else _weighted(part, float(weight))
    if len({source.weight is None for source in sources}) > 1:
        raise InputError(
            "data.text: give all parts a weight, or none. Without one, own has those of the sources of data.train"
        )
    return sources


def swapped(source: TextSource) -> TextSource:
    """A source with its sides swapped."""
    return replace(source, reversed=not source.reversed)


def mixture_part(name: str, own: list[TextSource], keys: Mapping[str, Any] = MappingProxyType({})) -> list[TextSource]:
    """The sources of a part of a mixture: `"own"`, `"reversed"`, or a file of pairs, with what is said of it."""
    if name == OWN:
        return own
    if name == REVERSED:
        return [swapped(source) for source in own]
    own_keys = {key: str(value) for key, value in keys.items() if key != "weight" and value is not None}
    return [TextSource(file=name, source_column="source", target_column="target", made=True, **own_keys)]


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
