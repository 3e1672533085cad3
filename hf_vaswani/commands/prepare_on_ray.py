"""`scripts/prepare_on_ray.py`: prepares the training text of a recipe on Ray."""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import counted
from ..files import InputPath
from .options import KeysParser, up_to

if TYPE_CHECKING:
    from ..data.encoding import BatchEncoder

DESCRIPTION = """\
Read, filter and tokenize the training text of a recipe into the cache, so that a training run with the same recipe,
files and cache finds it there. Ray actors tokenize; this process reads and writes."""


def make_parser() -> KeysParser:
    """The parser of the script."""
    parser = KeysParser(
        prog="prepare_on_ray.py",
        usage="python scripts/prepare_on_ray.py [--num_actors N] [--address HOST:PORT] RECIPE [--key value ...]",
        description=DESCRIPTION,
    )
    add_ray_options(parser)
    parser.add_argument("recipe", type=InputPath, metavar="RECIPE", help="a YAML file, or the name of a recipe")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="--key value", help="any key of the recipe")
    parser.set_defaults(run=run, needs_torch=True)
    return parser


def add_ray_options(parser: argparse._ActionsContainer) -> None:
    """Add `--num_actors` and `--address` to a parser or a group of options."""
    parser.add_argument(
        "--num_actors",
        type=up_to(100_000),
        metavar="N",
        help="number of actors (default: one per GPU, or else per core)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="address of the Ray cluster; local: a new one on this machine (default: RAY_ADDRESS, or else the cluster "
        "of this machine, or a new one)",
    )


def run(options: argparse.Namespace) -> None:
    from datasets.utils import disable_progress_bars

    from ..runtime.imports import import_extra
    from ..runtime.ray_actors import ray_session
    from ..training.build import prepare
    from ..training.recipe.recipe import load_recipe

    if not sys.stderr.isatty():
        disable_progress_bars()
    recipe = load_recipe(options.recipe, options.options)
    import_extra("ray")
    with ray_session(options.address):
        pairs = prepare(recipe, partial(_over_actors, options.num_actors))
    print(f"{counted(pairs, 'training pair')} prepared.")


def _over_actors(number: int | None, encoder: "BatchEncoder", batches: Iterator[Any]) -> Iterator[Any]:
    """Encode batches with Ray actors, and yield the results in order."""
    from ..runtime.ray_actors import RayActors

    actors = RayActors(encoder, number)
    try:
        yield from actors.map(batches)
    finally:
        actors.close()
