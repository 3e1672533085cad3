"""`hf-vaswani push`: uploads a model to the Hub."""

import argparse
from pathlib import Path
from shlex import quote

from ..files import InputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "push",
        help="upload a model to the Hub",
        usage="hf-vaswani push FOLDER REPOSITORY [options]",
        description="Upload a model to the Hub in one commit: weights, tokenizer, code, card, figures, and results, "
        "but not the files needed only to resume training.",
    )
    parser.add_argument("folder", type=InputPath, metavar="FOLDER", help="folder of a model")
    parser.add_argument("repository", metavar="REPOSITORY", help="its name on the Hub: you/de-en; created if missing")
    parser.add_argument("--private", action="store_true", default=None, help="make a new repository private")
    parser.add_argument("--revision", metavar="BRANCH", help="branch to upload to, created if missing (default: main)")
    parser.add_argument("--message", default="", metavar="TEXT", help="commit message (default: Upload model)")
    parser.add_argument(
        "--space", metavar="NAME", help="also push a Space to try the model in, with the page of hf-vaswani app"
    )
    parser.add_argument(
        "--handler", action="store_true", help="add handler.py, with which an Inference Endpoint serves the model"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..hub.push import push

    address = push(
        options.folder, options.repository, options.private, options.revision, options.message, options.space,
        options.handler,
    )  # fmt: skip
    print(f"{options.folder} is on the Hub: {address}")
    card = Path(options.folder) / "README.md"
    if card.exists() and options.repository not in card.read_text(encoding="utf-8", errors="replace"):
        print(
            f"Its card does not mention {options.repository}. To change its title and code: hf-vaswani card "
            f"{quote(str(options.folder))} --name {options.repository}, and push again."
        )
    if options.space:
        print(f"It can be tried in the Space {options.space}.")
