"""`hf-vaswani curves`: pictures of what trainings logged."""

import argparse
from pathlib import Path

from ..errors import InputError


def add_parser(commands: argparse._SubParsersAction) -> None:
    curves = commands.add_parser(
        "curves",
        help="draw the learning curves of trainings",
        description="Draw loss, scores and learning rate against updates; of several trainings over each other.",
    )
    curves.add_argument("trainings", nargs="+", metavar="training", help="output folder, or its log.jsonl")
    curves.add_argument(
        "--output", help="PNG, SVG or PDF file to write; default: curves.png, of one training in its folder"
    )
    curves.add_argument("--overwrite", action="store_true", help="let --output replace a file that is there")
    curves.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..evaluation.curves import draw_comparison
    from ..training.log import LOG_FILE

    paths = [Path(path) for path in options.trainings]
    logs = [path / LOG_FILE if path.is_dir() else path for path in paths]
    own = logs[0].with_name("curves.png") if len(logs) == 1 else None
    output = Path(options.output or own or "curves.png")
    # A training's own picture is drawn anew by each validation.
    if output.is_file() and output != own and not options.overwrite:
        raise InputError(f"{output} exists already. Name another with --output, or replace it with --overwrite.")
    draw_comparison(logs, output)
    print(output)
