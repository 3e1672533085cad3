"""`hf-vaswani score`: how probable a model finds given translations."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from .options import at_least_one

if TYPE_CHECKING:
    from ..translation.pair_scores import PairScore

DESCRIPTION = """\
Write, for each pair of lines, what a model makes of the target as a translation of the source. Text has three columns
separated by tabs: natural log-probability, number of target tokens with the end token, and the score that beam search
would give, which is the log-probability divided by the model's length penalty. A pair that cannot be scored has "nan"
there, or null in JSON, and a warning says why."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    score = commands.add_parser("score", help="score given translations, line by line", description=DESCRIPTION)
    score.add_argument("model", help="folder or Hub id")
    score.add_argument("--source", required=True, help="file of source sentences; also .gz .zst")
    score.add_argument("--target", required=True, help="file of their translations, line by line; also .gz .zst")
    score.add_argument("--format", choices=["text", "json"], default="text", help="json: a record a line")
    score.add_argument("--tokens", action="store_true", help="with --format json: the log-probability of each token")
    score.add_argument("--batch_tokens", type=at_least_one, help="longest side times pairs computed together")
    score.add_argument("--max_length", type=at_least_one, default=1024, help="tokens on a side; default: 1024")
    score.add_argument("--source_language", help="code of the language, for multilingual models")
    score.add_argument("--target_language", help="code of the language, for multilingual models")
    score.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..data.parallel_text import iterate_parallel
    from ..data.text_files import check_file
    from ..errors import InputError
    from ..translation.load import load
    from ..translation.pair_scores import score_pairs
    from ..translation.progress import progress_bar, warn_of_lines

    paths, faults = (options.source, options.target), []
    for path in paths:
        try:
            check_file(path, any_kind=True)
        except InputError as error:
            faults.append(str(error))
    if options.tokens and options.format == "text":
        faults.append("--tokens needs --format json.")
    if faults:
        raise InputError.of(faults)
    model, tokenizer = load(options.model)
