"""`hf-vaswani beam-tree`: draws the search for the translation of a text."""

import argparse
from pathlib import Path

from ..errors import InputError
from ..files import InputPath
from .options import (
    MODEL,
    OUTPUT_FILE,
    add_beam_option,
    add_language_options,
    check_language_options,
    note_file_name,
    search,
)

SUFFIXES = (".svg", ".html")


def add_parser(commands: argparse._SubParsersAction) -> None:
    tree = commands.add_parser(
        "beam-tree",
        help="draw the search for the translation of a text",
        usage="hf-vaswani beam-tree MODEL --text TEXT --output FILE [options]",
        description="Draw the hypotheses of beam search, step by step: which were kept, pruned or finished, and their "
        "scores. Print the finished ones, best first.",
    )
    tree.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    tree.add_argument("--text", required=True, help="sentence to translate")
    tree.add_argument(
        "--output", **OUTPUT_FILE, required=True, help="SVG figure, or HTML page with figure and tables, to write"
    )
    tree.add_argument("--overwrite", action="store_true", help="replace an existing file")
    add_beam_option(tree)
    add_language_options(tree)
    tree.set_defaults(run=run, saves_memory="Shorten the text, or lower --num_beams.")


def run(options: argparse.Namespace) -> None:
    output = Path(options.output)
    from ..evaluation.attention import text_errors

    if errors := text_errors(options.text, None) + _output_errors(output, options.overwrite):
        raise InputError.of(errors)
    from ..evaluation.beam_tree import beam_tree, search_errors
    from ..evaluation.beam_tree_figure import beam_tree_page, beam_tree_svg, number_text
    from ..files import replace_files
    from ..translation.load import load

    note_file_name(options.text)
    model, tokenizer = load(options.model)
    if errors := search_errors(model, search(options)):
        raise InputError.of(errors)
    check_language_options(options, model, tokenizer)
    tree = beam_tree(model, tokenizer, options.text, **search(options))
    draw = beam_tree_svg if output.suffix.lower() == ".svg" else beam_tree_page
    replace_files({output.resolve(): draw(tree).encode()})
    print(f"source       {options.text}")
    print(f"translation  {tree.translation}")
    for candidate in tree.ranking:
        score = candidate.score if candidate.penalized_score is None else candidate.penalized_score
        print(f"{candidate.rank}  {number_text(score, 4)}  {' '.join(part.token for part in tree.path(candidate))}")
    print(output)


def _output_errors(output: Path, overwrite: bool) -> list[str]:
    """Why the file cannot be written."""
    from ..evaluation.token_text import figure_path_errors

    errors = figure_path_errors(output, SUFFIXES)
    if output.is_file() and not overwrite:
        errors.append(f"{output} already exists. Choose another, or replace it with --overwrite.")
    return errors
