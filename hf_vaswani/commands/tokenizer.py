"""`hf-vaswani tokenizer`: a tokenizer from parallel text, without a training."""

import argparse
import dataclasses
from typing import TYPE_CHECKING

from ..errors import InputError
from ..paths import InputPath, OutputPath

if TYPE_CHECKING:
    from ..data.sources import SourcePairs


def add_parser(commands: argparse._SubParsersAction) -> None:
    tokenizer = commands.add_parser(
        "tokenizer",
        help="learn a tokenizer from parallel text",
        description="Learn a tokenizer, as a training does before its first update, and save it in a folder.",
    )
    tokenizer.add_argument("output", type=OutputPath, help="folder to make")
    text = tokenizer.add_argument_group("text", "one of --source and --target, --file, or --dataset")
    text.add_argument("--source", type=InputPath, nargs="+", help="files of source sentences; also .gz .zst")
    text.add_argument("--target", type=InputPath, nargs="+", help="files of their translations, line by line")
    text.add_argument("--file", type=InputPath, help="file with both sides: .tsv .csv .jsonl .parquet; also .gz .zst")
    text.add_argument("--dataset", type=InputPath, help="Hub id or folder of a data set, or 'embedded'")
    text.add_argument("--config", help="configuration of the data set")
    text.add_argument("--split", help="split of the data set")
    text.add_argument("--source_column", help="column of source text")
    text.add_argument("--target_column", help="column of target text")
    text.add_argument("--header", choices=["true", "false"], help="whether --file begins with a row of names")
    text.add_argument("--source_language", help="code of the source language, which may name its column")
    text.add_argument("--target_language", help="code of the target language")
    for item in _tokenizer_keys():
        default = "" if item.default in (None, dataclasses.MISSING) else f"; default: {item.default}"
        help = f"{item.metadata['help']}{default}".replace("%", "%%")
        tokenizer.add_argument(f"--{item.name}", metavar="VALUE", help=help)
    tokenizer.set_defaults(run=run)


def _tokenizer_keys() -> list[dataclasses.Field]:
    """The recipe's keys of section `tokenizer` that say what is learnt."""
    # Light to import: the parser of every command needs it.
    from ..data.arguments import OF_ANY_TOKENIZER, TokenizerArguments

    return [item for item in dataclasses.fields(TokenizerArguments) if item.name not in OF_ANY_TOKENIZER]


def run(options: argparse.Namespace) -> None:
    from ..data.tokenizer import save_tokenizer, side_backends, train_tokenizer
    from ..interop.folders import check_new, new_folder
    from ..training.recipe import section_from_options

    check_new(options.output)
    given = {item.name: getattr(options, item.name) for item in _tokenizer_keys()}
    arguments = section_from_options("tokenizer", {name: text for name, text in given.items() if text is not None})
    pairs = _pairs_of(options)
    tokenizer = train_tokenizer(pairs, arguments)
    with new_folder(options.output) as folder:
        save_tokenizer(tokenizer, folder)
    backends = side_backends(tokenizer)
    sizes = [backend.get_vocab_size() for backend in backends.values()]
    vocabularies = f"{sizes[0]:,} tokens" if arguments.joint else f"{sizes[0]:,} source and {sizes[1]:,} target tokens"
    print(f"{options.output} holds a tokenizer of {vocabularies} ({arguments.type}).")
    example = next((pair for pair in pairs if all(text.strip() for text in pair)), ("", ""))
    for (side, backend), text in zip(backends.items(), example):
        print(f"{side}: {text}\n  {' '.join(backend.encode(text).tokens)}")


def _pairs_of(options: argparse.Namespace) -> "SourcePairs":
    from ..data.sources import SourcePairs, TextSource, check_source

    names = [field.name for field in dataclasses.fields(TextSource) if hasattr(options, field.name)]
    source = TextSource.parse({name: getattr(options, name) for name in names}, "the text")
    languages = options.source_language, options.target_language
    if faults := check_source(source, languages):
        raise InputError.of(faults)
    return SourcePairs(source, languages)
