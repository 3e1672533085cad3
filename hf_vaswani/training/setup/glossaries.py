"""The glossaries that a recipe names: to train with, and to score the test sets with."""

from ...data.glossary_files import read_glossary
from ...errors import InputError
from ...text.glossary import Glossary
from ..recipe.recipe import Recipe

# Sections with a key `glossary`.
SECTIONS = ("augmentation", "evaluation")


def open_glossary(recipe: Recipe, section: str) -> Glossary | None:
    """The glossary of one of these sections, if it names one.

    Raises:
        InputError: if it cannot be read.
    """
    if not (path := getattr(recipe, section).glossary):
        return None
    try:
        return read_glossary(path, recipe.data.text_languages)
    except InputError as error:
        raise InputError(f"{section}.glossary: {error}") from None
