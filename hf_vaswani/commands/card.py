"""`hf-vaswani card`: the model card of a finished training, written anew."""

import argparse
from pathlib import Path

from ..paths import InputPath, OutputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    card = commands.add_parser(
        "card",
        help="write the model card of a training anew",
        description="Write the model card of a finished training anew, from its results and its recipe.",
    )
    card.add_argument("training", type=InputPath, help="output folder of the training")
    card.add_argument(
        "--output",
        type=OutputPath,
        help="file to write, say model_cards/NAME.md; its pictures are copied to model_cards/NAME. Default: README.md "
        "in the training's folder; one that was edited is kept as README.md.old",
    )
    card.add_argument("--overwrite", action="store_true", help="let --output replace a card that is there")
    card.add_argument("--name", help="of the model, in title and code: you/de-en. Default: its folder's, or NAME")
    card.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..training.card import rewrite_card

    output = Path(options.output) if options.output else None
    print(rewrite_card(Path(options.training), output, options.name, options.overwrite))
