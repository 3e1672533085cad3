"""`hf-vaswani card`: rewrites the model card of a finished run, or the code that a saved model carries."""

import argparse
from pathlib import Path

from ..errors import InputError
from ..files import InputPath
from .options import OUTPUT_FILE

NAME = "model name in title and code: you/de-en; later cards keep it (default: name of the folder or of --output)"


def add_parser(commands: argparse._SubParsersAction) -> None:
    card = commands.add_parser(
        "card",
        help="rewrite the model card of a finished run",
        usage="hf-vaswani card RUN [--output FILE] [--name NAME] [--overwrite]\n       hf-vaswani card MODEL --code",
        description="Rewrite the model card of a finished run from its results and its recipe. With --code, replace "
        "the code that a saved model carries for trust_remote_code instead.",
    )
    card.add_argument(
        "training",
        type=InputPath,
        metavar="RUN",
        help="output folder of the run, or with --code the folder of any saved model",
    )
    card.add_argument(
        "--output",
        **OUTPUT_FILE,
        help="file to write, such as model_cards/NAME.md; its figures are copied to model_cards/NAME (default: "
        "README.md in the run's folder; an edited one is kept as README.md.old)",
    )
    card.add_argument("--overwrite", action="store_true", help="let --output replace an existing card and figures")
    card.add_argument("--name", help=NAME)
    card.add_argument(
        "--code",
        action="store_true",
        help="replace the model's code with this version's, and name its tokenizer class",
    )
    card.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..hub.repository import check_name
    from ..models.model_files import renew_code
    from ..training.reporting.rewrite_card import rewrite_card

    if options.code:
        if options.output or options.name or options.overwrite:
            raise InputError("--code writes no card. Leave out --output, --name, and --overwrite.")
        renew_code(Path(options.training))
        print(f"The code in {options.training} is now this version's.")
        return
    if options.name:
        check_name(options.name)
    output = Path(options.output) if options.output else None
    print(rewrite_card(Path(options.training), output, options.name, options.overwrite))
