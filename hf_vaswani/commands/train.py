"""`hf-vaswani train`: trains a model from a recipe."""

import argparse
import sys

from ..files import InputPath
from .options import KeysParser, help_width

EXAMPLE = "multi30k_de_en"
SAVES_MEMORY = (
    "Halve --max_tokens and double --gradient_accumulation_steps, set --gradient_checkpointing true, or choose a "
    "smaller model."
)


class RecipeParser(KeysParser):
    """Shows the keys of a recipe with the help."""

    def format_help(self) -> str:
        # Imported only for help, because it takes seconds.
        from ..training.recipe.reference import describe_keys

        return f"{super().format_help()}\n{describe_keys(help_width())}\n"


def add_parser(commands: argparse._SubParsersAction) -> None:
    train = commands.add_parser(
        "train",
        parser=RecipeParser,
        missing=_missing_recipe,
        help="train a model from a recipe",
        usage="hf-vaswani train RECIPE [--trainer] [--key value ...]",
        description="Train a model from a recipe, for example: hf-vaswani train quickstart. The same command resumes "
        "a run that was stopped.",
    )
    train.add_argument(
        "recipe", type=InputPath, metavar="RECIPE", help="a YAML file, or the name of a recipe from hf-vaswani recipes"
    )
    train.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="--key value",
        help="any key of the recipe, overriding the file: --max_steps 1000",
    )
    train.add_argument("--trainer", action="store_true", help="train with transformers' Trainer")
    train.set_defaults(run=run, saves_memory=SAVES_MEMORY)


def _missing_recipe(options: list[str]) -> str:
    from ..training.recipe.bundled_recipes import bundled_recipes

    recipes = bundled_recipes()
    named = next((text for text in options if text in recipes or text.endswith((".yaml", ".yml"))), None)
    rest = [text for text in options if text != named]
    example = ["hf-vaswani train", named or EXAMPLE, *rest[:4], *(["..."] if rest[4:] else [])]
    return (
        f"the recipe is missing: it comes first, as in: {' '.join(example)}\n"
        f"give a YAML file, or one of these names: {', '.join(recipes)}"
    )


def run(options: argparse.Namespace) -> None:
    from datasets.utils import disable_progress_bars

    from ..runtime.processes import reported_once
    from ..training.recipe.recipe import load_recipe

    if options.trainer:
        from ..training.trainer import train_with_trainer as train
    else:
        from ..training.train import train

    if not sys.stderr.isatty():
        disable_progress_bars()
    with reported_once():
        recipe = load_recipe(options.recipe, options.options)
    if report := train(recipe):
        from ..training.reporting.report import summary  # only now: training does not need what it imports

        print(summary(report))
