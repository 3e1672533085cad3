"""`hf-vaswani average`: averages the weights of several models or checkpoints."""

import argparse
from pathlib import Path

from ..errors import counted
from ..files import InputPath, OutputPath
from .options import up_to


def add_parser(commands: argparse._SubParsersAction) -> None:
    average = commands.add_parser(
        "average",
        help="average the weights of several models",
        usage="hf-vaswani average SOURCE [SOURCE ...] --output FOLDER [--last N | --best N]",
        description="Average the checkpoints of a run, or fine-tuned versions of one model. Models that were trained "
        "from different seeds cannot be averaged; hf-vaswani translate --ensemble combines them.",
    )
    average.add_argument(
        "sources",
        type=InputPath,
        nargs="+",
        metavar="SOURCE",
        help="output folder of a run, for its checkpoints; or the folder of a checkpoint or model",
    )
    average.add_argument("--output", type=OutputPath, required=True, metavar="FOLDER", help="folder to create")
    chosen = average.add_mutually_exclusive_group()
    count = up_to(1_000_000)
    chosen.add_argument("--last", type=count, metavar="N", help="the last N checkpoints of each run (default: all)")
    chosen.add_argument("--best", type=count, metavar="N", help="each run's N best weights by validation instead")
    average.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..training.checkpoints.average import average

    members = average([Path(source) for source in options.sources], Path(options.output), options.last, options.best)
    folders = counted(len(members), "folder")
    print("\n".join([f"{options.output} contains the mean of the weights in {folders}:", *map(str, members)]))
