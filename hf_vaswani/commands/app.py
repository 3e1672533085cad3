"""`hf-vaswani app`: serves a page to try models on."""

import argparse

from ..files import InputPath
from .options import MODEL, add_engine_option, option_names, up_to

DESCRIPTION = """\
Serve a page in the browser to try models on: text and files, word links, attention, searches, scores, and two models
side by side. It is served to this machine only, unless --host is set."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "app",
        help="serve a page to try models on",
        usage="hf-vaswani app [MODEL ...] [options]",
        description=DESCRIPTION,
    )
    parser.add_argument(
        "models", type=InputPath, nargs="*", metavar="MODEL", help=f"{MODEL} (default: outputs/quickstart)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address to listen on; 0.0.0.0: all (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=up_to(65535), metavar="N", help="port to listen on (default: the first free one from 7860 on)"
    )
    parser.add_argument(
        "--trust_remote_code",
        action="store_true",
        help="run code shipped with models of types unknown to transformers",
    )
    add_engine_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..app.server import launch

    with option_names():
        launch(options.models, options.host, options.port, options.trust_remote_code, options.engine or "auto")
