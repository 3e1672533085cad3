"""The model card of a finished run, written again from the files in its folder."""

import os
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers.utils import ADAPTER_CONFIG_NAME

from ...configuration.renamed_keys import with_new_names
from ...errors import InputError, reason
from ...files import atomic_write, is_same_file, read_json, replace_files
from ...hub.card import card_text, shown_figures
from ...hub.file_names import hub_id
from ...hub.run_report import RESULTS_FILE, RunReport, damaged, read_report
from ..checkpoints.output_folder import RECIPE_FILE, held, read_stored
from ..recipe.recipe import Recipe, value_errors
from ..recipe.shared_recipe import shared_recipe
from ..stages.options import PREFIX as STAGES
from .artifacts import CARD_FILE, digest_of, figure_error, keep_edited_card

# In bytes. Larger figures stay where they are: a copy is for a repository of source code.
LARGEST_FIGURE = 150_000


def rewrite_card(folder: Path, output: Path | None = None, name: str | None = None, overwrite: bool = False) -> Path:
    """Write the card of a finished run.

    Args:
        folder: of the run.
        output: file of a copy, whose figures are put into the folder of its name; `None` for `README.md` in `folder`.
        name: of the model: its id on the Hub, say; by default the last that was given for this folder, else that of
            the folder; for a copy, that of the output without its suffix.
        overwrite: whether the output, a Markdown file, and its figures may replace what is there.

    Returns:
        The path of the card.

    Raises:
        InputError: if the folder holds no finished run, or one of an earlier version, or one that is running;
            where the output is no Markdown file, or exists.
    """
    errors = [
        f"{folder / name} is missing: {folder} holds no finished run."
        for name in (RECIPE_FILE, RESULTS_FILE)
        if not (folder / name).is_file()
    ]
    if output:
        errors += _output_errors(folder, output, overwrite)
    if errors:
        raise InputError.of(errors)
    try:
        with held(folder):
            return _copy(folder, output, name, overwrite) if output else _replace(folder, name)
    except OSError as error:
        raise InputError(f"{folder} cannot be read or written: {reason(error)}.") from None


def _output_errors(folder: Path, output: Path, overwrite: bool) -> list[str]:
    """Why a copy of the card cannot be written there."""
    if output.suffix != ".md":
        return [f"{output} is not the name of a Markdown file. Name one that ends in .md."]
    if is_same_file(output, folder / CARD_FILE):
        return [f"{output} is the card of the run itself, which is written without --output."]
    if output.is_dir():
        return [f"{output} is a folder. Name a file."]
    if output.exists() and not overwrite:
        return [f"{output} exists already. Name another, or replace it and its figures with --overwrite."]
    return []


def _replace(folder: Path, name: str | None) -> Path:
    recipe, report = _content(folder)
    if name:
        report = report.model_copy(update={"name": name})
    text = _text(report.name or folder.resolve().name, recipe, _with_figures(report, _figures(report)))
    report = report.model_copy(update={"card": digest_of(text)})
    # The card takes its place last: without its digest it would be taken for an edited one.
    with atomic_write(folder / CARD_FILE) as card, atomic_write(folder / RESULTS_FILE) as results_file:
        card.write_bytes(text.encode())
        results_file.write_bytes(report.to_json().encode())
        keep_edited_card(folder)
    return folder / CARD_FILE


def _copy(folder: Path, output: Path, model_name: str | None, overwrite: bool) -> Path:
    recipe, report = _content(folder)
    copied = [name for name in shown_figures(_figures(report)) if (folder / name).stat().st_size <= LARGEST_FIGURE]
    text = _text(model_name or output.stem, recipe, _with_figures(report, copied), figures_in=output.stem)
    figures = {name: output.with_suffix("") / name for name in copied}
    # The figures of the run itself, where the copy stands beside its folder, are those that are wanted.
    figures = {name: path for name, path in figures.items() if not is_same_file(path, folder / name)}
    if errors := _figure_errors(output, list(figures.values()), overwrite):
        raise InputError.of(errors)
    replace_files({output: text.encode(), **{path: (folder / name).read_bytes() for name, path in figures.items()}})
    return output


def _figure_errors(output: Path, figures: list[Path], overwrite: bool) -> list[str]:
    """Why copies of figures cannot be written beside a card."""
    beside = os.path.realpath(output.parent)
    errors = [
        f"{path} leads out of {output.parent} by a symbolic link. Remove the link, or name another --output."
        for path in figures
        if not Path(os.path.realpath(path)).is_relative_to(beside)
    ]
    existing = [path for path in figures if os.path.lexists(path) and not overwrite]
    return errors + [
        f"{path} exists already. Name another --output, or replace it with --overwrite." for path in existing
    ]


def _content(folder: Path) -> tuple[dict[str, dict[str, Any]], RunReport]:
    """Recipe and report of a run, both of the last time that it came to its end.

    Raises:
        InputError: if one of them is damaged, or of an earlier version.
    """
    stored, report = read_stored(folder / RECIPE_FILE), read_report(folder)
    if errors := [error for name in report.figures if (error := figure_error(folder, name))]:
        raise damaged(folder, "; ".join(errors))
    # Reports of an earlier version do not have these.
    sections = {"generation": report.generation, "evaluation": report.evaluation}
    recipe = with_new_names(report.recipe or {}) or {
        **stored,
        **{name: keys for name, keys in sections.items() if keys},
    }
    if errors := value_errors(recipe):
        file = folder / (RESULTS_FILE if report.recipe else RECIPE_FILE)
        raise InputError.of([f"{file}: {error}" for error in errors])
    whole = {name: {**keys, **recipe.get(name, {})} for name, keys in Recipe().to_dict().items()}
    stages = {STAGES: recipe[STAGES]} if STAGES in recipe else {}
    return {**whole, **stages}, _with_base(report)


def _with_base(report: RunReport) -> RunReport:
    """The report with the base that an adapter names now: the model may have come to the Hub since."""
    file = report.folder / ADAPTER_CONFIG_NAME
    if report.adapter is None or report.adapter.merged or not file.exists():
        return report
    base = read_json(file).get("base_model_name_or_path")
    if not (isinstance(base, str) and hub_id(base)):
        return report
    adapter = report.adapter.model_copy(update={"base": base})
    return report.model_copy(update={"base_model": base, "adapter": adapter})


def _text(name: str, recipe: dict[str, dict[str, Any]], report: RunReport, **where: str) -> str:
    try:
        return card_text(name, recipe, report, shared_recipe(recipe), **where)
    # Of values that are of the right types and do not belong together, or of what an earlier version did not store.
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, TemplateError) as error:
        raise damaged(report.folder, reason(error)) from None


def _with_figures(report: RunReport, figures: list[str]) -> RunReport:
    return report.model_copy(update={"figures": figures})


def _figures(report: RunReport) -> list[str]:
    """Those of a model's figures that are there."""
    return [name for name in report.figures if (report.folder / name).is_file()]
