"""Rewrites the model card of a finished run from the files in its folder."""

import os
from pathlib import Path

from jinja2 import TemplateError
from transformers.utils import ADAPTER_CONFIG_NAME

from ...configuration.keys import Sections
from ...errors import InputError, reason
from ...files import atomic_write, is_same_file, leads_out, read_json, replace_files
from ...hub.metadata import eval_results
from ...hub.model_card import card_text, shown_figures
from ...hub.push import BASE_MODEL
from ...hub.repository import hub_id
from ...records import EVAL_RESULTS, RESULTS_FILE
from ...records.run_report import RunReport, damaged, read_report
from ..checkpoints.artifacts import CARD_FILE, RECIPE_FILE, card_digest, is_figure, keep_edited_card, locked_output
from ..publishing.portable_run import shared_recipe
from ..recipe.recipe import Recipe, value_errors
from ..schedule import SCHEDULES

# In bytes. Larger figures are not copied: a copy is meant for a repository of source code.
LARGEST_FIGURE = 150_000


def rewrite_card(folder: Path, output: Path | None = None, name: str | None = None, overwrite: bool = False) -> Path:
    """Write the card of a finished run.

    Args:
        folder: the folder of the run.
        output: file for a copy of the card; its figures go into a folder of the same name without the suffix. `None`
            writes `README.md` in `folder`.
        name: name of the model, such as its id on the Hub; by default the last one given for this folder, or else the
            folder's name; for a copy, the output's name without its suffix.
        overwrite: whether the output, a Markdown file, and its figures may replace existing files.

    Returns:
        The path of the card.

    Raises:
        InputError: if the folder holds no finished run, or one that is running or damaged; if the output is not a
            Markdown file, or exists.
    """
    errors = [
        f"{folder / name} is missing: {folder} contains no finished run."
        for name in (RECIPE_FILE, RESULTS_FILE)
        if not (folder / name).is_file()
    ]
    if output:
        errors += _output_errors(folder, output, overwrite)
    if errors:
        raise InputError.of(errors)
    try:
        with locked_output(folder):
            return _copy(folder, output, name, overwrite) if output else _replace(folder, name)
    except OSError as error:
        raise InputError(f"{folder} cannot be read or written: {reason(error)}.") from None


def _output_errors(folder: Path, output: Path, overwrite: bool) -> list[str]:
    """Why a copy of the card cannot be written to the output."""
    if output.suffix != ".md":
        return [f"{output} is not the name of a Markdown file. Choose one that ends in .md."]
    if is_same_file(output, folder / CARD_FILE):
        return [f"{output} is the card of the run itself. To rewrite it, leave out --output."]
    if output.is_dir():
        return [f"{output} is a folder. Specify a file."]
    if output.exists() and not overwrite:
        return [f"{output} already exists. Choose another, or replace it and its figures with --overwrite."]
    return []


def _replace(folder: Path, name: str | None) -> Path:
    recipe, report = _content(folder)
    if name:
        report = report.model_copy(update={"name": name})
    text = _text(report.name or folder.resolve().name, recipe, report, _figures(report))
    report = report.model_copy(update={"card": card_digest(text)})
    if content := eval_results(recipe, report):
        (folder / EVAL_RESULTS).parent.mkdir(exist_ok=True)
        with atomic_write(folder / EVAL_RESULTS) as part:
            part.write_bytes(content.encode())
    # The card is put in place last: without its digest in the results it would be taken for an edited one.
    with atomic_write(folder / CARD_FILE) as card, atomic_write(folder / RESULTS_FILE) as results_file:
        card.write_bytes(text.encode())
        results_file.write_bytes(report.to_json().encode())
        keep_edited_card(folder)
    return folder / CARD_FILE


def _copy(folder: Path, output: Path, name: str | None, overwrite: bool) -> Path:
    recipe, report = _content(folder)
    copied = [figure for figure in shown_figures(_figures(report))
              if (folder / figure).stat().st_size <= LARGEST_FIGURE]  # fmt: skip
    text = _text(name or output.stem, recipe, report, copied, figures_in=output.stem)
    figures = {output.with_suffix("") / figure: folder / figure for figure in copied}
    # If the copy is next to the run's folder, the run's own figures may already be in the right place.
    figures = {path: figure for path, figure in figures.items() if not is_same_file(path, figure)}
    errors = [
        f"{path} points outside {output.parent} through a symbolic link. Remove the link, or choose another --output."
        for path in figures
        if leads_out(path, output.parent)
    ]
    errors += [
        f"{path} already exists. Choose another --output, or replace it with --overwrite."
        for path in figures
        if os.path.lexists(path) and not overwrite
    ]
    if errors:
        raise InputError.of(errors)
    contents = {path: figure.read_bytes() for path, figure in figures.items()}
    replace_files({output.resolve(): text.encode(), **contents})
    return output


def _content(folder: Path) -> tuple[Sections, RunReport]:
    """The recipe and the report of a run, both from the last time that it finished.

    Raises:
        InputError: if one of them is damaged.
    """
    report = read_report(folder)
    if report.recipe is None:
        raise damaged(folder, "recipe is missing")
    if errors := value_errors(report.recipe):
        raise InputError.of([f"{folder / RESULTS_FILE}: {error}" for error in errors])
    whole = {name: {**keys, **report.recipe.get(name, {})} for name, keys in Recipe().to_dict().items()}
    file = folder / ADAPTER_CONFIG_NAME
    if report.adapter and not report.adapter.merged and file.exists():
        # The base that the adapter names now may have been pushed to the Hub since.
        base = read_json(file).get(BASE_MODEL)
        if isinstance(base, str) and hub_id(base):
            adapter = report.adapter.model_copy(update={"base": base})
            report = report.model_copy(update={"base_model": base, "adapter": adapter})
    return whole, report


def _text(name: str, recipe: Sections, report: RunReport, figures: list[str], figures_in: str = "") -> str:
    """The card, with some of the report's figures."""
    report = report.model_copy(update={"figures": figures})
    try:
        falls_to_end = SCHEDULES[recipe["training"]["lr_scheduler_type"]].falls_to_end
        return card_text(name, recipe, report, shared_recipe(recipe), figures_in, falls_to_end=falls_to_end)
    # Raised for values of the right types that do not fit together.
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, TemplateError) as error:
        raise damaged(report.folder, reason(error)) from None


def _figures(report: RunReport) -> list[str]:
    """The report's figures whose files exist."""
    paths = {name: report.folder / name for name in report.figures if is_figure(name)}
    return [name for name, path in paths.items() if path.is_file() and not leads_out(path, report.folder)]
