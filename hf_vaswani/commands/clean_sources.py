"""Which text `hf-vaswani clean` reads: files, datasets, or the sources of a recipe, and the test sets to leave out."""

import argparse
from dataclasses import dataclass

from ..data.sources.text_source import TextSource
from ..errors import InputError, counted
from ..files import InputPath
from .options import INPUT_FILE, INPUT_FILES

WAYS = ("source", "file", "dataset", "recipe")
DEFAULT_LANGUAGES = ("source", "target")


@dataclass(frozen=True)
class CleanSources:
    """What is read.

    Attributes:
        train: the text to clean.
        tests: texts whose lines are left out.
        trusted: translations by which it is measured how much to keep.
        languages: codes of both sides, which may be columns.
    """

    train: list[TextSource]
    tests: list[TextSource]
    trusted: list[TextSource]
    languages: tuple[str, str]


def add_source_options(parser: argparse._ArgumentGroup) -> None:
    """The options that [`clean_sources`] reads."""
    parser.add_argument("--source", **INPUT_FILES, help="source sentences, one per line; also .gz .zst")
    parser.add_argument("--target", **INPUT_FILES, help="their translations, line by line; also .gz .zst")
    parser.add_argument(
        "--file", **INPUT_FILES, help="files with both sides: .tsv .csv .jsonl .parquet .tmx; also .gz .zst"
    )
    parser.add_argument("--dataset", type=InputPath, metavar="ID", help="Hub id or folder of a dataset")
    parser.add_argument("--dataset_config", metavar="NAME", help="configuration of the dataset: de-en")
    parser.add_argument("--split", metavar="NAME", help="split of the dataset: train (default: the only one)")
    parser.add_argument(
        "--recipe", **INPUT_FILE,
        help="recipe whose training text is cleaned, source by source; lines of its validation and test sets are left "
        "out",
    )  # fmt: skip
    parser.add_argument("--source_language", metavar="CODE", help="code of the source language: de")
    parser.add_argument("--target_language", metavar="CODE", help="code of the target language: en")
    parser.add_argument("--source_column", metavar="NAME", help="column of source text (default: the language's code)")
    parser.add_argument("--target_column", metavar="NAME", help="column of target text (default: the language's code)")
    parser.add_argument(
        "--header", choices=["true", "false"],
        help="whether files begin with a row of column names (default: inferred from that row)",
    )  # fmt: skip
    parser.add_argument("--test_source", **INPUT_FILES, help="test sets, whose lines are left out")
    parser.add_argument("--test_target", **INPUT_FILES, help="their translations")
    parser.add_argument("--trusted_source", **INPUT_FILES, help="good text, to compare shares on with --minutes")
    parser.add_argument("--trusted_target", **INPUT_FILES, help="its translations")


def clean_sources(options: argparse.Namespace) -> CleanSources:
    """The sources that the options name.

    Raises:
        InputError: none or several ways to name text are used, or a recipe is wrong.
    """
    given = {**vars(options), "source": options.source or options.target}
    ways = [way for way in WAYS if given[way]]
    if len(ways) > 1:
        raise InputError(f"{' and '.join(f'--{way}' for way in ways)} are given together: choose one.")
    if not ways:
        raise InputError("no text is given: specify --source and --target, --file, --dataset, or --recipe.")
    languages = options.source_language, options.target_language
    tests = _parallel(options.test_source, options.test_target, "test_")
    trusted = _parallel(options.trusted_source, options.trusted_target, "trusted_")
    columns = {name: getattr(options, name) for name in ("source_column", "target_column")}
    if options.recipe:
        return _of_recipe(options.recipe, languages, tests, trusted)
    if ways == ["source"]:
        train = _parallel(options.source, options.target, "")
    elif options.file:
        header = None if options.header is None else options.header == "true"
        train = [TextSource(file=path, header=header, **columns) for path in options.file]
    else:
        train = [TextSource(dataset=options.dataset, config=options.dataset_config, split=options.split, **columns)]
    return CleanSources(train, tests, trusted, _languages(languages, (None, None)))


def _of_recipe(
    path: str, given: tuple[str | None, str | None], tests: list[TextSource], trusted: list[TextSource]
) -> CleanSources:
    from ..training.recipe.recipe import load_data
    from ..training.setup.directions import directions_of, name_of
    from ..training.setup.splits import described_sources

    data = load_data(path).model_copy(update={"reversed": False})
    sources = described_sources(data)
    train = sources.pop("train", [])
    if not train:
        raise InputError(f"{path} has no training text: give it data.train, or data.train_source and _target.")
    directions = directions_of(data, train)
    if len(directions) > 1:
        raise InputError(
            f"{path} has text in {', '.join(map(name_of, directions))}. Clean each by itself: --source and --target."
        )
    own = [source for entries in sources.values() for source in entries]
    return CleanSources(train, own + tests, trusted, _languages(given, directions[0]))


def _languages(given: tuple[str | None, str | None], own: tuple[str | None, str | None]) -> tuple[str, str]:
    return tuple(one or other or default for one, other, default in zip(given, own, DEFAULT_LANGUAGES))


def _parallel(sources: list[str] | None, targets: list[str] | None, prefix: str) -> list[TextSource]:
    """Parallel files, each pair of which is a source of its own."""
    sources, targets = sources or [], targets or []
    if len(sources) != len(targets):
        raise InputError(
            f"--{prefix}source has {counted(len(sources), 'file')} and --{prefix}target {len(targets)}: file n of one "
            "must translate file n of the other."
        )
    return [TextSource(source=(one,), target=(other,)) for one, other in zip(sources, targets)]
