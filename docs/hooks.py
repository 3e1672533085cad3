"""Fills the documentation with content from the code; mkdocs runs this file when it builds the site.

A line of a page is replaced if it is one of these:

    {{ code VaswaniLayer.residual }}   the source of a class, method or function, found by its name
    {{ api Ensemble TranslationPipeline }}   the docstrings of classes and functions, found by their names
    {{ recipe_keys }}                  all recipe keys, in one table per section
    {{ commands }}                     the help of hf-vaswani and of each of its commands
    {{ recipes }}                      the recipes and sweeps that come with the package
"""

import ast
import base64
import json
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKER = re.compile(r"^\{\{ (?P<name>\w+)(?P<arguments>(?: [\w.]+)*) \}\}$", re.MULTILINE)
# Model cards and their figures are pages of the site, too; the list of them is for readers of the repository.
CARDS = "model_cards"
LESSON = "docs/lesson"
# Links to notebooks lead to their pages on the site, except links followed by `{download}`.
NOTEBOOK_LINK = re.compile(r"(\]\([\w./]+)\.ipynb\)(?!\{)")
IMAGES = {"image/png": "png", "image/svg+xml": "svg"}


def on_files(files, config):
    """Called by mkdocs: adds the model cards and the lesson to the pages."""
    from mkdocs.structure.files import File

    for notebook in sorted((ROOT / LESSON).glob("*.ipynb")):
        page, images = notebook_page(notebook)
        name = notebook.relative_to(ROOT / "docs").with_suffix("")
        files.append(File.generated(config, f"{name.as_posix()}.md", content=page))
        for image, content in images.items():
            files.append(File.generated(config, (name.parent / image).as_posix(), content=content))
    for path in sorted((ROOT / CARDS).rglob("*")):
        if path.is_file() and path.name != "README.md":
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **context) -> str:
    """Called by mkdocs for each page."""
    markdown = NOTEBOOK_LINK.sub(r"\1.md)", markdown)
    return MARKER.sub(lambda marker: GENERATORS[marker["name"]](*marker["arguments"].split()), markdown)


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook with its outputs as Markdown, and its figures by file name. Nothing is run."""
    parts, images = [], {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace("<details>", '<details markdown="1">'))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            kind = next((kind for kind in IMAGES if kind in data), None)
            if kind is None:
                parts.append(f'```text title="output"\n{"".join(data["text/plain"]).rstrip()}\n```')
                continue
            name, content = f"{path.stem}_{len(images)}.{IMAGES[kind]}", "".join(data[kind])
            images[name] = base64.b64decode(content) if kind == "image/png" else content.encode()
            parts.append(f"[![Figure {len(images)}]({name})]({name})")
    link = f"[Download this page as a notebook]({path.name}){{download}}"
    return "\n\n".join([parts[0], link, *parts[1:]]) + "\n", images


def code(name: str) -> str:
    """The source of a class, method (`Class.method`) or function, as a code block with its file as the title."""
    path, node = find(name)
    lines = path.read_text(encoding="utf-8").splitlines()
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    source = textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))
    return f'```python title="{path.relative_to(ROOT).as_posix()}"\n{source}\n```'


def api(*names: str) -> str:
    """The mkdocstrings directive for each name."""
    modules = {name: ".".join(find(name)[0].relative_to(ROOT).with_suffix("").parts) for name in names}
    return "\n\n".join(
        f"::: {module}.{name}\n    options:\n      heading: {name}\n      toc_label: {name}"
        for name, module in modules.items()
    )


def find(name: str) -> tuple[Path, ast.ClassDef | ast.FunctionDef]:
    """Where the package defines a class, method or function.

    Raises:
        LookupError: if it is not defined exactly once.
    """
    outer, *inner = name.split(".")
    found = [
        (path, node)
        for path in sorted((ROOT / "hf_vaswani").rglob("*.py"))
        for node in _defined(_parsed(path, outer), outer)
    ]
    for part in inner:
        found = [(path, node) for path, parent in found for node in _defined(parent, part)]
    if len(found) != 1:
        raise LookupError(f"{name} is defined {len(found)} times in the package")
    return found[0]


def _parsed(path: Path, name: str) -> ast.AST:
    text = path.read_text(encoding="utf-8")
    return ast.parse(text if re.search(rf"^(class|def) {name}\b", text, re.MULTILINE) else "")


def _defined(parent: ast.AST, name: str) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    for node in parent.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            yield node


def recipe_keys() -> str:
    from hf_vaswani.training.recipe.reference import key_tables

    return key_tables()


def commands() -> str:
    os.environ["COLUMNS"] = "100"  # width of the help
    from hf_vaswani.cli import _parser

    parser = _parser()
    parts = [f"```text\n{parser.format_help()}```"]
    for name, command in parser.commands.items():
        help_text, _, _ = command.format_help().partition("\nrecipe keys, ")  # recipe keys have their own page
        parts += [f"## {name}", f"```text\n{help_text.rstrip()}\n```"]
    return "\n\n".join(parts)


def recipes() -> str:
    parts, folder = [], ROOT / "hf_vaswani" / "recipes"
    for path in [*sorted(folder.glob("*.yaml")), *sorted((folder / "sweeps").glob("*.yaml"))]:
        text = path.read_text(encoding="utf-8").rstrip()
        parts += [f"## {path.stem}", f"```yaml\n{text}\n```"]
    return "\n\n".join(parts)


GENERATORS = {"code": code, "api": api, "recipe_keys": recipe_keys, "commands": commands, "recipes": recipes}
