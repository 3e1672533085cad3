"""`hf-vaswani evaluate`: what a model's translations of a test set are worth."""

import argparse

from .options import add_search_options, search


def add_parser(commands: argparse._SubParsersAction) -> None:
    evaluate = commands.add_parser("evaluate", help="translate a test set and print its BLEU with the signature")
    evaluate.add_argument("model", help="folder or Hub id")
    evaluate.add_argument("--source", required=True, help="file of source sentences")
    evaluate.add_argument("--reference", required=True, help="file of reference translations")
    add_search_options(evaluate)
    evaluate.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..data.parallel_text import read_parallel
    from ..evaluation.score import bleu
    from ..translation.load import load
    from ..translation.translate import translate

    sources, references = map(list, zip(*read_parallel(options.source, options.reference)))
    model, tokenizer = load(options.model)
    hypotheses = translate(model, tokenizer, sources, options.batch_size, show_progress=True, **search(options))
    print(bleu(hypotheses, references))
