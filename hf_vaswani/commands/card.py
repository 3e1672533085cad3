"""`hf-vaswani card`: the model card of a finished training, written anew."""

import argparse
from pathlib import Path

from ..paths import InputPath, OutputPath

NAME = "of the model, in title and code: you/de-en; later cards keep it. Default: that of its folder, or of --output"


def add_parser(commands: argparse._SubParsersAction) -> None:
    card = commands.add_parser(
        "card",
        help="write the model card of a finished run again",
        usage="hf-vaswani card RUN [--output FILE] [--name NAME] [--overwrite]",
        description="Write the model card of a finished run again, from its results and its recipe.",
    )
    card.add_argument("training", type=InputPath, metavar="RUN", help="output folder of the run")
    card.add_argument(
        "--output",
        type=OutputPath,
        metavar="FILE",
        help="file to write, say model_cards/NAME.md; its figures are copied to model_cards/NAME (default: README.md "
        "in the run's folder; one that was edited is kept as README.md.old)",
    )
    card.add_argument("--overwrite", action="store_true", help="let --output replace a card and figures that exist")
    card.add_argument("--name", help=NAME)
    card.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..training.card import rewrite_card

    output = Path(options.output) if options.output else None
    print(rewrite_card(Path(options.training), output, options.name, options.overwrite))
