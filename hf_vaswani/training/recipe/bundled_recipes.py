"""The recipes that come with the package, which a bare name stands for: `hf-vaswani train quickstart`."""

import difflib
from pathlib import Path

from ...errors import InputError
from ...files import path_error

# At the top of each recipe, for editors that complete keys by a schema.
SCHEMA_LINE, SCHEMA_FILE = "# yaml-language-server: $schema=", "recipe.schema.json"
FOLDER = Path(__file__).parents[2] / "recipes"


def bundled_recipes() -> dict[str, Path]:
    """Name → file of each recipe of the package, in alphabetical order."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def describe(path: Path) -> str:
    """What a recipe trains: its first line after the one for editors, a comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if not line.startswith(SCHEMA_LINE)).lstrip("#").strip()


def printed(name: str) -> str:
    """The text of a recipe of the package, as a file elsewhere: its schema is that of the package.

    Raises:
        InputError: as [`bundled_recipe`].
    """
    text = bundled_recipe(name).read_text(encoding="utf-8")
    return text.replace(f"{SCHEMA_LINE}{SCHEMA_FILE}", f"{SCHEMA_LINE}{FOLDER / SCHEMA_FILE}", 1)


def bundled_recipe(name: str) -> Path:
    """The file of a recipe of the package, with or without `.yaml` after its name.

    Raises:
        InputError: where there is no recipe of that name, with those that there are.
    """
    recipes = bundled_recipes()
    if path := recipes.get(name.removesuffix(".yaml")):
        return path
    raise InputError(f"There is no recipe {name!r}.{_nearest(name)} There are: {', '.join(recipes)}.")


def recipe_file(recipe: str | Path) -> Path:
    """The file of a recipe: the one at that path, else the package's of that name.

    Raises:
        InputError: where there is neither.
    """
    if error := path_error(recipe):
        raise InputError(error)
    path, recipes = Path(recipe), bundled_recipes()
    if path.exists() and not path.is_dir():
        return path
    if str(recipe) in recipes:
        return recipes[str(recipe)]
    fault = "is a folder" if path.is_dir() else "does not exist"
    raise InputError(
        f"{path} {fault}.{_nearest(path.stem)} Give the path of a recipe, a YAML file, or the name of one that "
        "comes with the package; hf-vaswani recipes lists them."
    )


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, bundled_recipes(), n=1, cutoff=0.7)
    return f" Did you mean {close[0]!r}?" if close else ""
