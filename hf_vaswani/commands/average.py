"""`hf-vaswani average`: one model of several."""

import argparse
from pathlib import Path

from ..files import InputPath, OutputPath
from .common.options import up_to

MOST_CHECKPOINTS = 1_000_000


def add_parser(commands: argparse._SubParsersAction) -> None:
    average = commands.add_parser(
        "average",
        help="make one model of several: the mean of their weights",
        usage="hf-vaswani average SOURCE [SOURCE ...] --output FOLDER [--last N | --best N]",
        description="Average the checkpoints of a run, or finished models of one architecture.",
    )
    average.add_argument(
        "sources",
        type=InputPath,
        nargs="+",
        metavar="SOURCE",
        help="output folder of a run, for its checkpoints; or the folder of one checkpoint or of one model",
    )
    average.add_argument("--output", type=OutputPath, required=True, metavar="FOLDER", help="folder to make")
    chosen = average.add_mutually_exclusive_group()
    chosen.add_argument(
        "--last",
        type=up_to(MOST_CHECKPOINTS),
        metavar="N",
        help="only the last N checkpoints of each run (default: all)",
    )
    chosen.add_argument(
        "--best",
        type=up_to(MOST_CHECKPOINTS),
        metavar="N",
        help="instead the N weights of each run that were best in validation",
    )
    average.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..training.checkpoints.average import average

    members = average([Path(source) for source in options.sources], Path(options.output), options.last, options.best)
    print("\n".join([f"{options.output} holds the mean of {len(members)}:", *map(str, members)]))
