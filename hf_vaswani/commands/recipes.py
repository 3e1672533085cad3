"""`hf-vaswani recipes`: lists or prints the recipes that come with the package."""

import argparse

from .reports import write_result


def add_parser(commands: argparse._SubParsersAction) -> None:
    recipes = commands.add_parser(
        "recipes",
        help="list the recipes of this package, or print one",
        usage="hf-vaswani recipes [NAME | --schema]",
        description="List the recipes and scripts that come with this package. With a name, print that one, to read "
        "it or edit a copy: hf-vaswani recipes multi30k_de_en > my.yaml; hf-vaswani train my.yaml",
    )
    recipes.add_argument("name", nargs="?", metavar="NAME", help="recipe or script to print")
    recipes.add_argument("--schema", action="store_true", help="print the JSON schema of recipes, for editors")
    recipes.set_defaults(run=run, needs_torch=False)


def run(options: argparse.Namespace) -> None:
    from ..training.recipe.bundled_recipes import bundled_recipes, bundled_scripts, describe, printed

    if options.schema:
        from ..training.recipe.reference import schema_text

        write_result(schema_text())
        return
    if options.name:
        write_result(printed(options.name))
        return
    recipes, scripts = bundled_recipes(), bundled_scripts()
    width = max(map(len, (*recipes, *scripts)))
    print("\n".join(f"{name:{width}}  {describe(path)}" for name, path in recipes.items()))
    print("\nTrain with one: hf-vaswani train NAME. Print one to edit: hf-vaswani recipes NAME > my.yaml\n")
    print("\n".join(f"{name:{width}}  {describe(path)}" for name, path in scripts.items()))
    print("\nRun one: hf-vaswani recipes NAME.sh > NAME.sh; bash NAME.sh")
