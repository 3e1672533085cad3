"""Prepares the training text of a recipe on Ray: python scripts/prepare_on_ray.py RECIPE [--key value …].

Tasks on the machines of the cluster tokenize; this process reads, filters, and writes.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import partial

from datasets.utils import disable_progress_bars

from hf_vaswani.cli import main
from hf_vaswani.commands.options import KeysParser, add_ray_options
from hf_vaswani.data.encoding import Batch, BatchEncoder, PackedIds, one_thread_each
from hf_vaswani.errors import counted
from hf_vaswani.files import InputPath
from hf_vaswani.runtime.imports import import_extra
from hf_vaswani.runtime.ray_session import map_on_ray, ray_session
from hf_vaswani.training.build import prepare
from hf_vaswani.training.recipe.recipe import load_recipe


def encode_on_ray(number: int | None, encoder: BatchEncoder, batches: Iterator[Batch]) -> Iterator[PackedIds]:
    """Encode batches in Ray's tasks, by default two for each core, and yield the results in order."""

    def encode(batch: Batch) -> PackedIds:
        with one_thread_each():
            return encoder(batch)

    return map_on_ray(number, "tokenize the text", encode, batches)


def run(options: argparse.Namespace) -> None:
    """Prepare the text of a recipe."""
    if not sys.stderr.isatty():
        disable_progress_bars()
    recipe = load_recipe(options.recipe, options.options)
    import_extra("ray")
    with ray_session(options.address):
        pairs = prepare(recipe, partial(encode_on_ray, options.num_actors))
    print(f"{counted(pairs, 'training pair')} prepared.")


def make_parser() -> KeysParser:
    """The parser of the script."""
    parser = KeysParser(
        prog="prepare_on_ray.py",
        usage="python scripts/prepare_on_ray.py [--num_actors N] [--address HOST:PORT] RECIPE [--key value ...]",
        description="Read, filter and tokenize the training text of a recipe into the cache, so that a training run "
        "with the same recipe, files and cache finds it there. Ray tokenizes; this process reads and writes.",
    )
    add_ray_options(parser)
    parser.add_argument("recipe", type=InputPath, metavar="RECIPE", help="a YAML file, or the name of a recipe")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="--key value", help="any key of the recipe")
    parser.set_defaults(run=run, needs_torch=True)
    return parser


if __name__ == "__main__":
    sys.exit(main(parser=make_parser()))
