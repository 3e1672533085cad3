"""The model card of a finished training, written anew from the files in its folder."""

import os
from pathlib import Path
from typing import Any

from ...errors import InputError, reason
from ...files import is_same_file, replace_files, type_errors, whole_file
from ...hub.card import card_text, shown_pictures
from ..checkpoints.output_folder import RECIPE_FILE, held, read_stored
from ..recipe.recipe import Recipe, value_errors
from .artifacts import (
    CARD_DIGEST,
    CARD_FILE,
    CARD_NAME,
    MEASURED_BY,
    RECIPE_AS_SHOWN,
    RESULTS_FILE,
    digest_of,
    keep_edited_card,
    picture_error,
    read_results,
    results_text,
)
from .report import RESULT_TYPES

# Larger pictures stay where they are: a copy is for a repository of source code.
MOST_BYTES = 150_000


def rewrite_card(folder: Path, output: Path | None = None, name: str | None = None, overwrite: bool = False) -> Path:
    """Write the card of a finished training.

    Args:
        folder: of the training.
        output: file of a copy, whose pictures are put into the folder of its name; `None` for `README.md` in `folder`.
        name: of the model: its id on the Hub, say; by default the last that was given for this folder, else that of
            the folder; for a copy, that of the output without its suffix.
        overwrite: whether the output, a Markdown file, and its pictures may replace what is there.

    Returns:
        The path of the card.

    Raises:
        InputError: where the folder holds no finished training, or one of an earlier version, or one that is running;
            where the output is no Markdown file, or exists.
    """
    faults = [
        f"{folder / name} is missing: {folder} holds no finished training."
        for name in (RECIPE_FILE, RESULTS_FILE)
        if not (folder / name).is_file()
    ]
    if output:
        faults += _output_faults(folder, output, overwrite)
    if faults:
        raise InputError.of(faults)
    try:
        with held(folder):
            return _copy(folder, output, name, overwrite) if output else _replace(folder, name)
    except OSError as error:
        raise InputError(f"{folder} cannot be read or written: {reason(error)}.") from None


def _output_faults(folder: Path, output: Path, overwrite: bool) -> list[str]:
    """Why a copy of the card cannot be written there."""
    if output.suffix != ".md":
        return [f"{output} is no name of a Markdown file. Name one that ends in .md."]
    if is_same_file(output, folder / CARD_FILE):
        return [f"{output} is the card of the training itself, which is written without --output."]
    if output.is_dir():
        return [f"{output} is a folder. Name a file."]
    if output.exists() and not overwrite:
        return [f"{output} exists already. Name another, or replace it and its pictures with --overwrite."]
    return []


def _replace(folder: Path, name: str | None) -> Path:
    recipe, results = _content(folder)
    if name:
        results[CARD_NAME] = name
    shown = {**results, "pictures": _pictures(folder, results)}
    text = _text(folder, results.get(CARD_NAME) or folder.resolve().name, recipe, shown)
    results[CARD_DIGEST] = digest_of(text)
    # The card takes its place last: without its digest it would be taken for an edited one.
    with whole_file(folder / CARD_FILE) as card, whole_file(folder / RESULTS_FILE) as results_file:
        card.write_bytes(text.encode())
        results_file.write_bytes(results_text(results).encode())
        keep_edited_card(folder)
    return folder / CARD_FILE


def _copy(folder: Path, output: Path, model_name: str | None, overwrite: bool) -> Path:
    recipe, results = _content(folder)
    wanted = shown_pictures(_pictures(folder, results))
    copied = [name for name in wanted if (folder / name).stat().st_size <= MOST_BYTES]
    shown = {**results, "pictures": copied}
    text = _text(folder, model_name or output.stem, recipe, shown, pictures_in=output.stem)
    pictures = {name: output.with_suffix("") / name for name in copied}
    # The pictures of the training itself, where the copy stands beside its folder, are those that are wanted.
    pictures = {name: path for name, path in pictures.items() if not is_same_file(path, folder / name)}
    if errors := _picture_errors(output, list(pictures.values()), overwrite):
        raise InputError.of(errors)
    replace_files({output: text.encode(), **{path: (folder / name).read_bytes() for name, path in pictures.items()}})
    return output


def _picture_errors(output: Path, pictures: list[Path], overwrite: bool) -> list[str]:
    """Why copies of pictures cannot be written beside a card."""
    beside = os.path.realpath(output.parent)
    errors = [
        f"{path} leads out of {output.parent} by a symbolic link. Remove the link, or name another --output."
        for path in pictures
        if not Path(os.path.realpath(path)).is_relative_to(beside)
    ]
    existing = [path for path in pictures if os.path.lexists(path) and not overwrite]
    return errors + [
        f"{path} exists already. Name another --output, or replace it with --overwrite." for path in existing
    ]


def _content(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Recipe and results of a training, both of its last run that came to its end.

    Raises:
        InputError: where one of them is damaged, or of an earlier version.
    """
    stored, results = read_stored(folder / RECIPE_FILE), read_results(folder)
    if "architecture" not in results:
        raise _damaged(folder)
    errors = type_errors(results, RESULT_TYPES, optional=True)
    if not errors:
        errors = [error for name in results.get("pictures", []) if (error := picture_error(folder, name))]
    if errors:
        raise _damaged(folder, "; ".join(errors))
    # Results of an earlier version do not have these.
    measured_by = {section: results[section] for section in MEASURED_BY if section in results}
    shown = results.get(RECIPE_AS_SHOWN)
    recipe = shown or {**stored, **measured_by}
    if errors := value_errors(recipe):
        file = folder / (RESULTS_FILE if shown else RECIPE_FILE)
        raise InputError.of([f"{file}: {error}" for error in errors])
    return {name: {**keys, **recipe.get(name, {})} for name, keys in Recipe().to_dict().items()}, results


def _text(folder: Path, name: str, recipe: dict, results: dict, **where: str) -> str:
    try:
        return card_text(name, recipe, results, Recipe().to_dict(), **where)
    # Of what results once did not hold, or hold no more, or hold in another type.
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise _damaged(folder, reason(error)) from None


def _damaged(folder: Path, why: str = "") -> InputError:
    return InputError(
        f"{folder / RESULTS_FILE} is damaged, or of an earlier version{f' ({why})' if why else ''}. The command of "
        "the training, which trains no more, writes it again, and the card with it."
    )


def _pictures(folder: Path, results: dict[str, Any]) -> list[str]:
    """Those of a model's pictures that are there."""
    return [name for name in results.get("pictures", []) if (folder / name).is_file()]
