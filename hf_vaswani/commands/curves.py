"""`hf-vaswani curves`: draws the learning curves of runs."""

import argparse
from pathlib import Path

from ..errors import InputError
from ..files import InputPath, is_same_file
from .options import OUTPUT_FILE


def add_parser(commands: argparse._SubParsersAction) -> None:
    curves = commands.add_parser(
        "curves",
        help="draw the learning curves of runs",
        usage="hf-vaswani curves RUN [RUN ...] [--output FILE] [--overwrite]",
        description="Draw loss, scores and learning rate against optimizer steps; several runs share one figure.",
    )
    curves.add_argument(
        "runs", type=InputPath, nargs="+", metavar="RUN", help="output folder of a run, or its log.jsonl"
    )
    curves.add_argument(
        "--output",
        **OUTPUT_FILE,
        help="PNG, SVG or PDF file to write (default: curves.png, in the run's folder if there is one run)",
    )
    curves.add_argument("--overwrite", action="store_true", help="let --output replace an existing file")
    curves.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..evaluation.curves import draw_curves
    from ..training.checkpoints.artifacts import LOG_FILE, RECIPE_FILE

    paths = [Path(path) for path in options.runs]
    logs = [path / LOG_FILE if path.is_dir() else path for path in paths]
    own = logs[0].with_name("curves.png") if [log.name for log in logs] == [LOG_FILE] else None
    output = Path(options.output or own or "curves.png")
    errors = [
        f"{path} contains no {LOG_FILE}: nothing was logged yet, as in the first training.logging_steps steps."
        for path in paths
        if (path / RECIPE_FILE).is_file() and not (path / LOG_FILE).exists()
    ]
    if errors:
        raise InputError.of(errors)
    if any(is_same_file(output, log) for log in logs):
        raise InputError(f"{output} is one of the logs. Choose another file with --output.")
    # A run redraws its own figure after each validation, so it may be replaced.
    if output.is_file() and output != own and not options.overwrite:
        raise InputError(f"{output} already exists. Choose another with --output, or replace it with --overwrite.")
    draw_curves(logs, output if output == own else output.resolve())
    print(output)
