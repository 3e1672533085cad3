"""The recipes and scripts that come with the package; recipes are used by name: `hf-vaswani train quickstart`."""

from pathlib import Path

from ...errors import InputError, nearest
from ...files import path_error

# The line at the top of each recipe, for editors that complete keys.
SCHEMA_LINE, SCHEMA_FILE = "# yaml-language-server: $schema=", "recipe.schema.json"
FOLDER = Path(__file__).parents[2] / "recipes"


def bundled_recipes() -> dict[str, Path]:
    """Name → file of each recipe of the package, in alphabetical order."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def bundled_scripts() -> dict[str, Path]:
    """Name → file of each script of commands, in alphabetical order."""
    return {path.name: path for path in sorted(FOLDER.glob("*.sh"))}


def describe(path: Path) -> str:
    """What a recipe or script does, taken from its first comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if not line.startswith((SCHEMA_LINE, "#!"))).lstrip("#").strip()


def printed(name: str) -> str:
    """The text of a recipe or script, ready to be saved elsewhere: a recipe refers to the schema by its full path.

    Args:
        name: with or without `.yaml` or `.sh`.

    Raises:
        InputError: if there is none of that name.
    """
    recipes, scripts = bundled_recipes(), bundled_scripts()
    path = recipes.get(name.removesuffix(".yaml")) or scripts.get(f"{name.removesuffix('.sh')}.sh")
    if path is None:
        names = ", ".join((*recipes, *scripts))
        raise InputError(f"There is no recipe {name!r}.{_nearest(name)} Choose from: {names}.")
    text = path.read_text(encoding="utf-8")
    return text.replace(f"{SCHEMA_LINE}{SCHEMA_FILE}", f"{SCHEMA_LINE}{FOLDER / SCHEMA_FILE}", 1)


def recipe_file(recipe: str | Path) -> Path:
    """The file of a recipe: the one at a path, or the bundled recipe of that name.

    Raises:
        InputError: if there is neither.
    """
    if error := path_error(recipe):
        raise InputError(error)
    path, recipes = Path(recipe), bundled_recipes()
    if path.exists() and not path.is_dir():
        return path
    if str(recipe) in recipes:
        return recipes[str(recipe)]
    script = f"{path.name.removesuffix('.sh')}.sh"
    if script in bundled_scripts():
        raise InputError(
            f"{recipe} is a script of several commands. Save and run it: hf-vaswani recipes {script} > {script}; "
            f"bash {script}"
        )
    problem = "is a folder" if path.is_dir() else "does not exist"
    raise InputError(
        f"{path} {problem}.{_nearest(path.stem)} Specify the path of a recipe, a YAML file, or the name of one of "
        "the package's recipes; hf-vaswani recipes lists them."
    )


def _nearest(name: str) -> str:
    close = nearest(name, bundled_recipes())
    return f" Did you mean {close!r}?" if close else ""
