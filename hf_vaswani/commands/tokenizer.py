"""`hf-vaswani tokenizer`: trains a tokenizer from parallel text, without a run."""

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING

from pydantic.fields import FieldInfo

from ..data.tokenizers.arguments import OF_ANY_TOKENIZER, TokenizerArguments, as_option
from ..errors import InputError
from ..files import InputPath, OutputPath
from .options import INPUT_FILE, INPUT_FILES

if TYPE_CHECKING:
    from ..data.sources.text_source import SourcePairs


def add_parser(commands: argparse._SubParsersAction) -> None:
    tokenizer = commands.add_parser(
        "tokenizer",
        help="train a tokenizer on parallel text",
        usage="hf-vaswani tokenizer OUTPUT (--source FILE --target FILE | --file FILE | --dataset ID) [options]",
        description="Train a tokenizer as a run does before its first step, and save it in a folder. Use it in a run "
        "with --tokenizer.path OUTPUT.",
    )
    tokenizer.add_argument("output", type=OutputPath, metavar="OUTPUT", help="folder to create")
    text = tokenizer.add_argument_group("text", "Specify --source and --target, or --file, or --dataset.")
    text.add_argument("--source", **INPUT_FILES, help="source sentences, one per line; also .gz .zst")
    text.add_argument("--target", **INPUT_FILES, help="their translations, line by line; also .gz .zst")
    text.add_argument(
        "--file", **INPUT_FILE, help="file with both sides: .tsv .csv .jsonl .parquet .tmx; also .gz .zst"
    )
    text.add_argument(
        "--dataset", type=InputPath, metavar="ID", help="Hub id or folder of a dataset; built-in: the synthetic corpus"
    )
    text.add_argument("--config", metavar="NAME", help="configuration of the dataset: de-en")
    text.add_argument("--split", metavar="NAME", help="split of the dataset: train (default: the only one)")
    text.add_argument("--source_column", metavar="NAME", help="column of source text (default: the language's code)")
    text.add_argument("--target_column", metavar="NAME", help="column of target text (default: the language's code)")
    text.add_argument(
        "--header",
        choices=["true", "false"],
        help="whether --file begins with a row of column names (default: inferred from its first row)",
    )
    text.add_argument("--source_language", metavar="CODE", help="code of the source language: de")
    text.add_argument("--target_language", metavar="CODE", help="code of the target language: en")
    kind = tokenizer.add_argument_group("tokenizer", "As in section tokenizer of a recipe.")
    for name, key in _tokenizer_keys().items():
        default = "" if key.default in (None, {}) else f" (default: {as_option(key.default)})"
        kind.add_argument(f"--{name}", metavar="VALUE", help=f"{key.description}{default}".replace("%", "%%"))
    tokenizer.set_defaults(run=run, saves_memory="Learn it from fewer lines.")


def _tokenizer_keys() -> dict[str, FieldInfo]:
    """The keys of the recipe's section `tokenizer` that affect learning."""
    return {name: key for name, key in TokenizerArguments.model_fields.items() if name not in OF_ANY_TOKENIZER}


def run(options: argparse.Namespace) -> None:
    from ..data.tokenizers.tokenizer import save_tokenizer, side_backends, train_tokenizer
    from ..ledger import check_new, new_folder
    from ..text.normalization import is_blank
    from ..training.recipe.recipe import section_from_options

    check_new(options.output)
    given = {name: getattr(options, name) for name in _tokenizer_keys()}
    arguments = section_from_options("tokenizer", {name: text for name, text in given.items() if text is not None})
    pairs = _pairs_of(options)
    tokenizer = train_tokenizer(pairs, arguments)
    with new_folder(options.output) as folder:
        save_tokenizer(tokenizer, folder)
    backends = side_backends(tokenizer)
    sizes = [backend.get_vocab_size() for backend in backends.values()]
    vocabularies = f"{sizes[0]:,} tokens" if arguments.joint else f"{sizes[0]:,} source and {sizes[1]:,} target tokens"
    print(f"{options.output} contains a tokenizer of {vocabularies} ({arguments.type}).")
    example = next((pair for pair in pairs if not any(map(is_blank, pair))), ("", ""))
    if options.source and options.source == options.target:
        print("warning: source and target are the same text", file=sys.stderr)
    for (side, backend), text in zip(backends.items(), example):
        print(f"{side}: {text}\n  {' '.join(backend.encode(text).tokens)}")


def _pairs_of(options: argparse.Namespace) -> "SourcePairs":
    from ..data.sources.text_source import SourcePairs, TextSource, check_source

    names = [field.name for field in dataclasses.fields(TextSource) if hasattr(options, field.name)]
    source = TextSource.parse({name: getattr(options, name) for name in names}, "the text")
    languages = options.source_language, options.target_language
    if errors := check_source(source, languages):
        # A missing side is a missing option; other errors name several.
        raise InputError.of([f"--{error}" if " is missing: " in error else error for error in errors])
    return SourcePairs(source, languages)
