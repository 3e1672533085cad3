"""The command `hf-vaswani`: each sub-command is a thin layer over one function of the package."""

import argparse
import dataclasses
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transformers.utils.logging import disable_progress_bar

from . import __version__
from .errors import InputError, TrainingError, TrainingInterrupted

if TYPE_CHECKING:
    from .data.sources import SourcePairs

USER_ERROR, TRAINING_ERROR, CTRL_C = 2, 1, 130


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit status: 2, after a clear line a fault, where the input cannot be used."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    if not sys.stderr.isatty():
        disable_progress_bar()
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (InputError, TrainingError) as error:
        if not error.is_repeated:
            print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return USER_ERROR if isinstance(error, InputError) else TRAINING_ERROR
    except TrainingInterrupted as stop:
        if not stop.is_repeated:
            print(stop, file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return CTRL_C
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hf-vaswani", description="Train and use translation models.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train a model from a recipe",
        description="Train a model, or go on with the same training.",
    )
    train.add_argument("--trainer", action="store_true", help="make the updates with transformers' Trainer")
    train.add_argument("recipe", help="YAML file")
    train.add_argument("options", nargs=argparse.REMAINDER, metavar="--key value", help="override keys of the recipe")
    train.set_defaults(run=_train)
    usage = train.format_help
    # Made when it is asked for: the recipe's imports take seconds.
    train.format_help = lambda: f"{usage()}\n{_recipe_keys()}\n"

    tokenizer = commands.add_parser(
        "tokenizer",
        help="learn a tokenizer from parallel text",
        description="Learn a tokenizer, as a training does before its first update, and save it in a folder.",
    )
    tokenizer.add_argument("output", help="folder to make")
    text = tokenizer.add_argument_group("text", "one of --source and --target, --file, or --dataset")
    text.add_argument("--source", nargs="+", help="files of source sentences; also .gz .zst")
    text.add_argument("--target", nargs="+", help="files of their translations, line by line")
    text.add_argument("--file", help="file with both sides: .tsv .csv .jsonl .parquet; also .gz .zst")
    text.add_argument("--dataset", help="Hub id or folder of a data set, or 'embedded'")
    text.add_argument("--config", help="configuration of the data set")
    text.add_argument("--split", help="split of the data set")
    text.add_argument("--source_column", help="column of source text")
    text.add_argument("--target_column", help="column of target text")
    text.add_argument("--source_language", help="code of the source language, which may name its column")
    text.add_argument("--target_language", help="code of the target language")
    for item in _tokenizer_keys():
        default = "" if item.default is None else f"; default: {item.default}"
        help = f"{item.metadata['help']}{default}".replace("%", "%%")
        tokenizer.add_argument(f"--{item.name}", metavar="VALUE", help=help)
    tokenizer.set_defaults(run=_tokenizer)

    translate = commands.add_parser("translate", help="translate text, line by line")
    translate.add_argument("model", help="folder or Hub id")
    translate.add_argument("--input", help="file to translate; default: standard input")
    translate.add_argument("--output", help="file to write; default: standard output")
    _add_search_options(translate)
    translate.set_defaults(run=_translate)

    evaluate = commands.add_parser("evaluate", help="translate a test set and print its BLEU with the signature")
    evaluate.add_argument("model", help="folder or Hub id")
    evaluate.add_argument("--source", required=True, help="file of source sentences")
    evaluate.add_argument("--reference", required=True, help="file of reference translations")
    _add_search_options(evaluate)
    evaluate.set_defaults(run=_evaluate)

    importing = commands.add_parser(
        "import",
        help="turn another system's model into a folder of this one",
        description="Import a MarianMT or FSMT model (folder or Hub id), or a checkpoint of fairseq or OpenNMT-py.",
    )
    importing.add_argument("source", help="folder, .pt file or Hub id")
    importing.add_argument("output", help="folder to make")
    importing.add_argument(
        "--vocabularies",
        help="folder with fairseq's dict.LANGUAGE.txt and sub-word model; default: the folder of SOURCE",
    )
    importing.set_defaults(run=_import)

    export = commands.add_parser("export", help="turn a model into a folder of transformers' MarianMT")
    export.add_argument("model", help="folder or Hub id")
    export.add_argument("output", help="folder to make")
    export.set_defaults(run=_export)

    curves = commands.add_parser(
        "curves",
        help="draw the learning curves of trainings",
        description="Draw loss, scores and learning rate against updates; of several trainings over each other.",
    )
    curves.add_argument("trainings", nargs="+", metavar="training", help="output folder, or its log.jsonl")
    curves.add_argument(
        "--output", help="PNG, SVG or PDF file to write; default: curves.png, of one training in its folder"
    )
    curves.set_defaults(run=_curves)

    average = commands.add_parser(
        "average",
        help="make one model of several: the mean of their weights",
        description="Average checkpoints of a training, or finished models of one architecture.",
    )
    average.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="folder of a training, for its checkpoints, of a checkpoint or of a model",
    )
    average.add_argument("--output", required=True, help="folder to make")
    chosen = average.add_mutually_exclusive_group()
    chosen.add_argument("--last", type=_at_least_one, help="so many last checkpoints of each training; default: all")
    chosen.add_argument("--best", type=_at_least_one, help="so many best weights of each training instead")
    average.set_defaults(run=_average)

    corpus = commands.add_parser("corpus", help="write the embedded German–English corpus to files")
    corpus.add_argument("folder", help="gets train.de, train.en, validation.de, …")
    corpus.set_defaults(run=_corpus)
    return parser


def _add_search_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num_beams", type=_at_least_one, help="default: the model's own generation_config")
    parser.add_argument("--batch_size", type=_at_least_one, default=32, help="sentences translated together")


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _recipe_keys() -> str:
    from .training.recipe import describe_keys

    return describe_keys()


def _train(options: argparse.Namespace) -> None:
    if {"-h", "--help"} & set(options.options):
        print(_recipe_keys())
        return
    from datasets.utils import disable_progress_bars

    from .training.recipe import load_recipe

    if options.trainer:
        from .training.trainer import train_with_trainer as train
    else:
        from .training.run import train

    if not sys.stderr.isatty():
        disable_progress_bars()
    results = train(load_recipe(options.recipe, options.options))
    if results:
        print(results.report())


def _tokenizer_keys() -> list[dataclasses.Field]:
    """The recipe's keys of section `tokenizer` that say what is learnt."""
    # Light to import: the parser of every command needs it.
    from .data.arguments import TokenizerArguments

    elsewhere = ("bpe_dropout", "path")  # of training with a tokenizer, not of learning one
    return [item for item in dataclasses.fields(TokenizerArguments) if item.name not in elsewhere]


def _tokenizer(options: argparse.Namespace) -> None:
    from .data.tokenizer import side_backends, train_tokenizer
    from .interop.folders import check_new, new_folder
    from .training.recipe import section_from_options

    check_new(options.output)
    given = {item.name: getattr(options, item.name) for item in _tokenizer_keys()}
    arguments = section_from_options("tokenizer", {name: text for name, text in given.items() if text is not None})
    pairs = _pairs_of(options)
    tokenizer = train_tokenizer(pairs, arguments)
    with new_folder(options.output) as folder:
        tokenizer.save_pretrained(folder)
    backends = side_backends(tokenizer)
    sizes = [backend.get_vocab_size() for backend in backends.values()]
    vocabularies = f"{sizes[0]:,} tokens" if arguments.joint else f"{sizes[0]:,} source and {sizes[1]:,} target tokens"
    print(f"{options.output} holds a tokenizer of {vocabularies} ({arguments.type}).")
    example = next((pair for pair in pairs if all(text.strip() for text in pair)), ("", ""))
    for (side, backend), text in zip(backends.items(), example):
        print(f"{side}: {text}\n  {' '.join(backend.encode(text).tokens)}")


def _pairs_of(options: argparse.Namespace) -> "SourcePairs":
    from .data.sources import SourcePairs, TextSource, check_source

    names = [field.name for field in dataclasses.fields(TextSource) if hasattr(options, field.name)]
    source = TextSource.parse({name: getattr(options, name) for name in names}, "the text")
    languages = options.source_language, options.target_language
    if faults := check_source(source, languages):
        raise InputError.of(faults)
    return SourcePairs(source, languages)


def _translate(options: argparse.Namespace) -> None:
    from .data.parallel_text import read_lines, split_lines
    from .evaluation.load import load
    from .evaluation.translate import translate

    _check_writable(options.output)
    texts = read_lines(options.input) if options.input else split_lines(sys.stdin.buffer.read(), "standard input")
    model, tokenizer = load(options.model)
    translations = translate(model, tokenizer, texts, options.batch_size, show_progress=True, **_search(options))
    content = "".join(f"{text}\n" for text in translations)
    Path(options.output).write_text(content, encoding="utf-8") if options.output else sys.stdout.write(content)


def _evaluate(options: argparse.Namespace) -> None:
    from .data.parallel_text import read_parallel
    from .evaluation.load import load
    from .evaluation.score import bleu
    from .evaluation.translate import translate

    sources, references = map(list, zip(*read_parallel(options.source, options.reference)))
    model, tokenizer = load(options.model)
    hypotheses = translate(model, tokenizer, sources, options.batch_size, show_progress=True, **_search(options))
    print(bleu(hypotheses, references))


def _import(options: argparse.Namespace) -> None:
    from .interop import import_checkpoint

    splitting = import_checkpoint(options.source, options.output, vocabularies=options.vocabularies)
    if splitting:
        print(f"{options.output} holds the model and its tokenizer: {splitting}.")
    else:
        print(
            f"{options.output} holds the model alone: there is no tokenizer in {options.source}, or it does not say "
            "which languages its dictionaries are of.",
            file=sys.stderr,
        )


def _export(options: argparse.Namespace) -> None:
    from .evaluation.load import load
    from .interop import export_checkpoint
    from .modeling_vaswani import VaswaniForConditionalGeneration

    model, tokenizer = load(options.model)
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise InputError(f"{options.model} is a {type(model).__name__}; only this package's own models are exported.")
    export_checkpoint(model, tokenizer, options.output)
    tokenizers = sorted(path.name for path in Path(options.output).glob("*_tokenizer"))
    print(f"{options.output} holds the model as a MarianMT and {' and '.join(tokenizers) or 'its tokenizer'}.")


def _curves(options: argparse.Namespace) -> None:
    from .evaluation.curves import draw_comparison
    from .training.log import LOG_FILE

    paths = [Path(path) for path in options.trainings]
    logs = [path / LOG_FILE if path.is_dir() else path for path in paths]
    output = Path(options.output or (logs[0].with_name("curves.png") if len(logs) == 1 else "curves.png"))
    draw_comparison(logs, output)
    print(output)


def _average(options: argparse.Namespace) -> None:
    from .training.average import average

    members = average([Path(source) for source in options.sources], Path(options.output), options.last, options.best)
    print("\n".join([f"{options.output} holds the mean of {len(members)}:", *map(str, members)]))


def _corpus(options: argparse.Namespace) -> None:
    folder = Path(options.folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Choose another folder.")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty. Choose another folder.")
    from .data.corpus import generate_corpus

    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in generate_corpus().items():
        for language, side in zip(("de", "en"), zip(*pairs)):
            (folder / f"{split}.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")


def _search(options: argparse.Namespace) -> dict[str, int]:
    return {"num_beams": options.num_beams} if options.num_beams else {}


def _check_writable(path: str | None) -> None:
    if path is None:
        return
    file = Path(path)
    if not file.resolve().parent.is_dir():
        raise InputError(f"{path} cannot be written: its folder does not exist. Make it first.")
    if file.is_dir() or not os.access(file if file.exists() else file.resolve().parent, os.W_OK):
        raise InputError(f"{path} cannot be written. Name another file.")


if __name__ == "__main__":
    sys.exit(main())
