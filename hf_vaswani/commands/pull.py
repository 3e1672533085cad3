"""`hf-vaswani pull`: downloads a model from the Hub, or a run that can be resumed."""

import argparse
import sys

from ..files import OutputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "pull",
        help="download a model or a run from the Hub",
        usage="hf-vaswani pull REPOSITORY FOLDER [options]",
        description="Download a model from the Hub, or its whole training run if the last checkpoint was uploaded, "
        "too: then the command that trained it, with --output_dir FOLDER, resumes it.",
    )
    parser.add_argument("repository", metavar="REPOSITORY", help="its name on the Hub: you/de-en")
    parser.add_argument("folder", type=OutputPath, metavar="FOLDER", help="new or empty folder")
    parser.add_argument("--revision", metavar="REVISION", help="branch, tag or commit (default: main)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from huggingface_hub.utils import disable_progress_bars

    from ..hub.pull import pull

    if not sys.stderr.isatty():
        disable_progress_bars()
    pulled = pull(options.repository, options.folder, options.revision)
    if pulled.step is None:
        print(f"The model is in {options.folder}")
    else:
        also = " with its finished model" if pulled.has_model else ""
        print(
            f"The run{also} is in {options.folder}, as it was after step {pulled.step:,}. The command that trained "
            f"it, with --output_dir {options.folder}, resumes it."
        )
