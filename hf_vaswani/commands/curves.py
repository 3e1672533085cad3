"""`hf-vaswani curves`: pictures of what trainings logged."""

import argparse
from pathlib import Path


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
    curves.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..evaluation.curves import draw_comparison
    from ..training.log import LOG_FILE

    paths = [Path(path) for path in options.trainings]
    logs = [path / LOG_FILE if path.is_dir() else path for path in paths]
    output = Path(options.output or (logs[0].with_name("curves.png") if len(logs) == 1 else "curves.png"))
    draw_comparison(logs, output)
    print(output)
