"""`hf-vaswani train`: a training from a recipe."""

import argparse
import sys

from ..paths import InputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    train = commands.add_parser(
        "train",
        help="train a model from a recipe",
        description="Train a model, or go on with the same training.",
    )
    train.add_argument("--trainer", action="store_true", help="make the updates with transformers' Trainer")
    train.add_argument("recipe", type=InputPath, help="YAML file")
    train.add_argument("options", nargs=argparse.REMAINDER, metavar="--key value", help="override keys of the recipe")
    train.set_defaults(run=run)
    usage = train.format_help
    # Made when it is asked for: the recipe's imports take seconds.
    train.format_help = lambda: f"{usage()}\n{_recipe_keys()}\n"


def _recipe_keys() -> str:
    from ..training.recipe import describe_keys

    return describe_keys()


def run(options: argparse.Namespace) -> None:
    if {"-h", "--help"} & set(options.options):
        print(_recipe_keys())
        return
    from datasets.utils import disable_progress_bars

    from ..training.recipe import load_recipe

    if options.trainer:
        from ..training.trainer import train_with_trainer as train
    else:
        from ..training.run import train

    if not sys.stderr.isatty():
        disable_progress_bars()
    results = train(load_recipe(options.recipe, options.options))
    if results:
        print(results.report())
