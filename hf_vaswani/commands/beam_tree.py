"""`hf-vaswani beam-tree`: draws the search for the translation of a text."""

import argparse
from pathlib import Path

from ..errors import InputError
from .options import OUTPUT_FILE, add_sentence_options, check_language_options, note_file_name, option_names, search

SUFFIXES = (".svg", ".html")


def add_parser(commands: argparse._SubParsersAction) -> None:
    tree = commands.add_parser(
        "beam-tree",
        help="draw the search for the translation of a text",
        usage="hf-vaswani beam-tree MODEL --text TEXT --output FILE [options]",
        description="Draw the hypotheses of beam search, step by step: which were kept, pruned or finished, and their "
        "scores. Print the finished ones, best first.",
    )
    add_sentence_options(tree)
    tree.add_argument(
        "--output", **OUTPUT_FILE, required=True, help="SVG figure, or HTML page with figure and tables, to write"
    )
    tree.set_defaults(run=run, saves_memory="Shorten the text, or lower --num_beams.")


def run(options: argparse.Namespace) -> None:
    from ..evaluation.attention import text_errors
    from ..evaluation.beam_tree import beam_tree, search_errors
    from ..evaluation.beam_tree_figure import beam_tree_page, beam_tree_svg, number_text
    from ..evaluation.token_text import figure_path_errors
    from ..files import replace_files
    from ..models.load import load
    from ..text.language_marks import marked_sources

    output = Path(options.output)
    errors = text_errors(options.text, None) + figure_path_errors(output, SUFFIXES)
    if output.is_file() and not options.overwrite:
        errors.append(f"{output} already exists. Choose another, or replace it with --overwrite.")
    if errors:
        raise InputError.of(errors)
    note_file_name(options.text)
    model, tokenizer = load(options.model)
    if errors := search_errors(model, search(options)):
        raise InputError.of(errors)
    chosen = check_language_options(options, model, tokenizer)
    with option_names():
        [text] = marked_sources(model, tokenizer, [options.text], chosen)
    tree = beam_tree(model, tokenizer, text, **search(options))
    draw = beam_tree_svg if output.suffix.lower() == ".svg" else beam_tree_page
    replace_files({output.resolve(): draw(tree).encode()})
    print(f"source       {options.text}")
    print(f"translation  {tree.translation}")
    for candidate in tree.ranking:
        score = candidate.score if candidate.penalized_score is None else candidate.penalized_score
        print(f"{candidate.rank}  {number_text(score, 4)}  {' '.join(part.token for part in tree.path(candidate))}")
    print(output)
