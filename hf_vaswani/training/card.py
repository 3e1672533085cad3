"""The model card of a finished training, written anew from the files in its folder."""

import shutil
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..hub.card import card_text, shown_pictures
from ..whole_file import whole_file
from .claims import (
    CARD_DIGEST,
    CARD_FILE,
    MEASURED_BY,
    RECIPE_AS_SHOWN,
    RESULTS_FILE,
    digest_of,
    keep_edited_card,
    read_results,
    results_text,
)
from .output import RECIPE_FILE, held, read_stored
from .recipe import Recipe

# Larger pictures stay where they are: a copy is for a repository of source code.
MOST_BYTES = 150_000


def rewrite_card(folder: Path, output: Path | None = None, name: str | None = None, overwrite: bool = False) -> Path:
    """Write the card of a finished training.

    Args:
        folder: of the training.
        output: file of a copy, whose pictures are put into the folder of its name; `None` for `README.md` in `folder`.
        name: of the model: its id on the Hub, say; by default that of the folder, or of the output without its suffix.
        overwrite: whether the output, a Markdown file, may replace one that is there.

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
            return _copy(folder, output, name) if output else _replace(folder, name)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read or written: {error.strerror}") from None


def _output_faults(folder: Path, output: Path, overwrite: bool) -> list[str]:
    """Why a copy of the card cannot be written there."""
    if output.suffix != ".md":
        return [f"{output} is no name of a Markdown file. Name one that ends in .md."]
    if output.resolve() == (folder / CARD_FILE).resolve():
        return [f"{output} is the card of the training itself, which is written without --output."]
    if output.is_dir():
        return [f"{output} is a folder. Name a file."]
    if output.exists() and not overwrite:
        return [f"{output} exists already. Name another, or replace it and its pictures with --overwrite."]
    return []


def _replace(folder: Path, name: str | None) -> Path:
    recipe, results = _content(folder)
    shown = {**results, "pictures": _pictures(folder, results)}
    text = _text(folder, name or folder.resolve().name, recipe, shown)
    keep_edited_card(folder)
    _write(folder / RESULTS_FILE, results_text({**results, CARD_DIGEST: digest_of(text)}))
    _write(folder / CARD_FILE, text)
    return folder / CARD_FILE


def _copy(folder: Path, output: Path, model_name: str | None) -> Path:
    recipe, results = _content(folder)
    wanted = shown_pictures(_pictures(folder, results))
    copied = [name for name in wanted if (folder / name).stat().st_size <= MOST_BYTES]
    shown = {**results, "pictures": copied}
    text = _text(folder, model_name or output.stem, recipe, shown, pictures_in=output.stem)
    for name in copied:
        target = output.with_suffix("") / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.exists() and target.samefile(folder / name)):
            shutil.copyfile(folder / name, target)
    output.parent.mkdir(parents=True, exist_ok=True)
    _write(output, text)
    return output


def _content(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Recipe and results of a training, both of its last run that came to its end.

    Raises:
        InputError: where one of them is damaged, or of an earlier version.
    """
    stored, results = read_stored(folder / RECIPE_FILE), read_results(folder)
    if "architecture" not in results:
        raise _damaged(folder)
    # Results of an earlier version do not have these.
    measured_by = {section: results[section] for section in MEASURED_BY if section in results}
    stored = results.get(RECIPE_AS_SHOWN) or {**stored, **measured_by}
    return {name: {**keys, **stored.get(name, {})} for name, keys in Recipe().to_dict().items()}, results


def _text(folder: Path, name: str, recipe: dict, results: dict, **where: str) -> str:
    try:
        return card_text(name, recipe, results, Recipe().to_dict(), **where)
    except (KeyError, TypeError):  # of what results once did not hold, or hold no more
        raise _damaged(folder) from None


def _damaged(folder: Path) -> InputError:
    return InputError(
        f"{folder / RESULTS_FILE} is damaged, or of an earlier version. The command of the training, which trains "
        "no more, writes it anew, and the card with it."
    )


def _pictures(folder: Path, results: dict[str, Any]) -> list[str]:
    """Those of a model's pictures that are there."""
    return [name for name in results.get("pictures", []) if (folder / name).is_file()]


def _write(path: Path, text: str) -> None:
    with whole_file(path) as part:
        part.write_bytes(text.encode())
