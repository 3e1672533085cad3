"""`hf-vaswani attention`: draws a model's attention while it translates a sentence, and prints the alignment."""

import argparse
import os
from pathlib import Path

from ..errors import InputError
from .options import (
    OUTPUT_FILE,
    add_sentence_options,
    check_language_options,
    note_file_name,
    option_names,
    search,
)

ALL, MEAN = "all", "mean"


def add_parser(commands: argparse._SubParsersAction) -> None:
    attention = commands.add_parser(
        "attention",
        help="draw the attention between a sentence and its translation",
        usage="hf-vaswani attention MODEL --text TEXT --output FILE [options]",
        description="Draw attention weights as heat maps, rows attending to columns, and print translation and "
        "alignment. Layers and heads are counted from 0; negative numbers count from the last.",
    )
    add_sentence_options(attention)
    attention.add_argument("--target", metavar="TEXT", help="its translation (default: the model's own)")
    attention.add_argument(
        "--kind",
        choices=["encoder", "decoder", "cross", ALL],
        default="cross",
        help="self-attention of encoder or decoder, cross-attention, or a figure of each (default: cross)",
    )
    for name in ("layer", "head"):
        help = f"number of a {name}; mean: of all {name}s; all: one panel per {name} (default: mean)"
        attention.add_argument(f"--{name}", type=_which, default=MEAN, metavar="N", help=help)
    attention.add_argument(
        "--output", **OUTPUT_FILE, required=True, help="PNG, SVG or PDF file to write, or a folder for KIND.png"
    )
    attention.set_defaults(run=run, saves_memory="Shorten the text.")


def run(options: argparse.Namespace) -> None:
    from ..evaluation.attention import (
        KINDS,
        attention_figure,
        selection_errors,
        sentence_attention,
        set_languages,
        text_errors,
    )
    from ..evaluation.token_text import save_figure
    from ..models.load import check_not_exported, load
    from ..text.language_marks import marked_sources

    kinds = list(KINDS) if options.kind == ALL else [options.kind]
    output = Path(options.output)
    figures = _figure_paths(output, kinds)
    if errors := text_errors(options.text, options.target) + _output_errors(output, figures, options.overwrite):
        raise InputError.of(errors)
    note_file_name(options.text)
    model, tokenizer = load(options.model)
    check_not_exported(options.model, model)
    chosen = check_language_options(options, model, tokenizer, takes_own_target=options.target is None)
    settings = {**search(options), **set_languages(model, tokenizer, chosen.arguments())}
    with option_names():
        [text] = marked_sources(model, tokenizer, [options.text], chosen)
    attention = sentence_attention(model, tokenizer, text, options.target, **settings)
    layer, head = (None if which == MEAN else which for which in (options.layer, options.head))
    if errors := [error for kind in kinds for error in selection_errors(attention, kind, layer, head)]:
        raise InputError.of(errors)
    print(f"source         {options.text}")
    print(f"{'target       ' if options.target else 'translation  '}  {options.target or attention.translation}")
    print(f"source tokens  {' '.join(attention.source_words)}")
    print(f"target tokens  {' '.join(attention.target_words)}")
    print(f"alignment      {' '.join(f'{source}-{target}' for source, target in attention.alignment)}")
    for kind, path in figures.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_figure(attention_figure(attention, kind, layer, head), path.resolve())
        print(path)


def _which(text: str) -> int | str:
    """An argparse type for a layer or head: a number, `mean` or `all`."""
    if text in (ALL, MEAN):
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, {MEAN} or {ALL}, got {text!r}") from None


def _figure_paths(output: Path, kinds: list[str]) -> dict[str, Path]:
    """Kind → path: the given file, or a file named after the kind in the given folder."""
    is_file = output.suffix and not output.is_dir()
    return {kind: output if is_file else output / f"{kind}.png" for kind in kinds}


def _output_errors(output: Path, figures: dict[str, Path], overwrite: bool) -> list[str]:
    """Why the figures cannot be written."""
    from ..evaluation.token_text import figure_path_errors

    is_file = output in figures.values()
    if is_file and len(figures) > 1:
        return [f"{output} is a single file, and --kind {ALL} draws {len(figures)} figures. Specify a folder."]
    if is_file or output.is_dir():
        errors = figure_path_errors(next(iter(figures.values())))
    else:
        existing = next(path for path in (output, *output.resolve().parents) if path.exists())
        can_be_made = existing.is_dir() and os.access(existing, os.W_OK)
        errors = [] if can_be_made else [f"{output} is not a folder and cannot be created. Choose another."]
    if not overwrite:
        existing = [path for path in figures.values() if path.is_file()]
        errors += [f"{path} already exists. Choose another, or replace it with --overwrite." for path in existing]
    return errors
