"""Cleans parallel text on Ray: python scripts/clean_on_ray.py OUTPUT [options of hf-vaswani clean …].

Tasks on the machines of the cluster repair and score; this process reads, learns, decides, and writes.
"""

import argparse
import sys
from functools import partial

from hf_vaswani.cli import main
from hf_vaswani.commands import clean
from hf_vaswani.commands.options import CommandParser, add_ray_options
from hf_vaswani.runtime.imports import import_extra
from hf_vaswani.runtime.ray_session import map_on_ray, ray_session


def run(options: argparse.Namespace) -> None:
    """Clean text as `hf-vaswani clean` does."""
    import_extra("ray")
    with ray_session(options.address):
        clean.run(options, partial(map_on_ray, options.num_actors, "clean the text"))


def make_parser() -> CommandParser:
    """The parser of the script."""
    parser = CommandParser(
        prog="clean_on_ray.py",
        usage="python scripts/clean_on_ray.py OUTPUT [--num_actors N] [--address HOST:PORT] [options]",
        description="Clean parallel text as hf-vaswani clean does, to the byte. Ray repairs and scores; this process "
        "reads, learns, decides, and writes.",
    )
    add_ray_options(parser)
    clean.add_clean_options(parser)
    parser.set_defaults(run=run, num_workers=1, needs_torch=False)
    return parser


if __name__ == "__main__":
    sys.exit(main(parser=make_parser()))
