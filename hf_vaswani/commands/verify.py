"""`hf-vaswani verify`: replays parts of a run and says whether the results are the same."""

import argparse
import sys

from ..errors import InputError, TrainingError
from ..files import InputPath
from .options import KeysParser, up_to

DIFFERENT = 1


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "verify",
        parser=KeysParser,
        help="replay parts of a run, and report whether the results match",
        usage="hf-vaswani verify RUN [--steps N] [--from CHECKPOINT] [--key value ...]",
        description="Replay the first steps of a run, and those from one of its checkpoints to the next, on the same "
        "text, and compare losses and weights with those that the run recorded. The run's folder stays as it is. The "
        "exit status is 0 if they are equal, 1 if they differ, 2 if the run cannot be replayed.",
    )
    parser.add_argument(
        "training", type=InputPath, metavar="RUN", help="folder of a run, its card, or its model's id on the Hub"
    )
    parser.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="--key value",
        help="local paths of text, tokenizer, or model, as keys of the recipe: --train_source FILE",
    )
    parser.add_argument("--steps", type=up_to(10**12), metavar="N", help="first steps to replay (default: 10)")
    parser.add_argument(
        "--from",
        dest="checkpoint",
        metavar="CHECKPOINT",
        help="checkpoint to replay from, by its name or step; none: no checkpoint (default: the one closest to "
        "its next checkpoint)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from datasets.utils import disable_progress_bars

    from ..training.replay.verification import verify

    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        found = verify(options.training, options.options, options.steps, options.checkpoint)
    except TrainingError as error:
        # A `TrainingError` would exit with 1, the status that reports a difference here.
        raise InputError(str(error)) from None
    for finding in found.findings:
        print(finding)
    print(found.verdict)
    return 0 if found.is_equal else DIFFERENT
