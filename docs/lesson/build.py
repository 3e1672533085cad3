"""Makes the lesson's notebooks from its scripts: `python docs/lesson/build.py` runs them all and keeps their outputs.

A script is the source of a notebook: `# %%` starts a code cell, and `# %% [markdown]` a text cell, whose lines are
comments. The notebooks are run one after another in one folder, since the third uses the model that the second one
trains. This takes a few minutes and needs the `lesson` extra. Numbers select notebooks: `build.py 3`. With `--text`,
nothing is run: only the text is updated, and cells keep their outputs.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
MARK = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SECONDS_PER_CELL = 3600  # on a slow machine


def scripts() -> list[Path]:
    """The sources of the notebooks, in order."""
    return sorted(FOLDER.glob("[0-9]_*.py"))


def cells(script: Path) -> list[tuple[str, str]]:
    """The cells of a script: the kind, `"markdown"` or `"code"`, and the source of each."""
    _, *parts = MARK.split(script.read_text(encoding="utf-8"))
    found = []
    for is_text, source in zip(parts[::2], parts[1::2]):
        source = source.strip("\n")
        if is_text:
            source = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
        found.append(("markdown" if is_text else "code", source))
    return found


def notebook(script: Path) -> dict:
    """A script as a notebook without outputs."""
    made = []
    for number, (kind, source) in enumerate(cells(script)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        made.append(cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []})
    return {"cells": made, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def execute(made: dict, folder: Path) -> tuple[dict, list[str]]:
    """Run a notebook in a folder, and return it with its outputs, and what its cells wrote to standard error.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.reads(json.dumps(made), as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        made, timeout=SECONDS_PER_CELL, record_timing=False, coalesce_streams=True, resources=resources
    )
    client.execute()
    warnings = []
    for cell in made.cells:
        outputs = cell.get("outputs", [])
        warnings += [output.text for output in outputs if output.get("name") == "stderr"]
        if cell.cell_type == "code":
            cell.outputs = [output for output in outputs if output.get("name") != "stderr"]
    made.metadata = METADATA
    return json.loads(nbformat.writes(made)), warnings


def with_new_text(path: Path, made: dict) -> dict:
    """A notebook with new text and its previous outputs.

    Raises:
        SystemExit: its code has changed, so it must be run.
    """
    old = json.loads(path.read_text(encoding="utf-8"))
    ran, new = ([c for c in book["cells"] if c["cell_type"] == "code"] for book in (old, made))
    if ["".join(cell["source"]) for cell in ran] != ["".join(cell["source"]) for cell in new]:
        raise SystemExit(f"The code of {path.name} has changed: run it with build.py {path.name[0]}")
    for cell, before in zip(new, ran):
        cell |= {"outputs": before["outputs"], "execution_count": before["execution_count"]}
    return made


def main(arguments: list[str]) -> int:
    """Build the notebooks of these numbers, or all; with `--text`, only their text. Return the exit status."""
    only_text = "--text" in arguments
    numbers = [argument for argument in arguments if argument.isdigit()]
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # caused by a progress bar that no cell shows
    work = Path(tempfile.gettempdir()) / "hf_vaswani_lesson"
    work.mkdir(exist_ok=True)
    status = 0
    for script in scripts():
        if numbers and script.name[0] not in numbers:
            continue
        path, made, warnings = script.with_suffix(".ipynb"), notebook(script), []
        if only_text:
            made = with_new_text(path, made)
        else:
            made, warnings = execute(made, work)
        text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(text) / 1000:,.0f} kB")
        for warning in warnings:
            status = 1
            print(f"A cell of it wrote to standard error:\n{warning}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
