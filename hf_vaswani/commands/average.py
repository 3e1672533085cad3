"""`hf-vaswani average`: one model of several."""

import argparse
from pathlib import Path

from .options import up_to

MOST_CHECKPOINTS = 1_000_000


def add_parser(commands: argparse._SubParsersAction) -> None:
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
    chosen.add_argument(
        "--last", type=up_to(MOST_CHECKPOINTS), help="so many last checkpoints of each training; default: all"
    )
    chosen.add_argument("--best", type=up_to(MOST_CHECKPOINTS), help="so many best weights of each training instead")
    average.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..training.average import average

    members = average([Path(source) for source in options.sources], Path(options.output), options.last, options.best)
    print("\n".join([f"{options.output} holds the mean of {len(members)}:", *map(str, members)]))
