"""Fills the documentation with content from the code; mkdocs runs this file when it builds the site.

A line that is nothing but a link into the package is replaced by what it leads to. Pages read in the repository keep
the links.

    [`preset`](../../hf_vaswani/presets.py)     the source of a class, method or function of this file
    - [`preset`](../../hf_vaswani/presets.py)   its docstrings, from an item of a list
    [All recipes](../../hf_vaswani/recipes)     what is generated for this path; see `GENERATED`
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
CODE_LINK = re.compile(
    r"^(?P<item>- )?\[`?(?P<name>[^]`\n]+)`?\]\((?:\.\./)+(?P<path>hf_vaswani/[\w/.]+)\)$", re.MULTILINE
)
# Model cards and their figures are pages of the site, too; the list of them is for readers of the repository.
CARDS = "model_cards"
CARD_LINK = re.compile(rf"\.\./(?={CARDS}/)")  # a page of the site is one folder closer to them
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
    markdown = CARD_LINK.sub("", NOTEBOOK_LINK.sub(r"\1.md)", markdown))
    return CODE_LINK.sub(content_of, markdown)


def content_of(link: re.Match) -> str:
    """What a line that is nothing but a link into the package is replaced by."""
    if link["path"] in GENERATED:
        return GENERATED[link["path"]]()
    return (docstrings if link["item"] else source)(link["path"], link["name"])


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


def source(path: str, name: str) -> str:
    """The source of a class, method (`Class.method`) or function, as a code block with its file as the title."""
    lines, node = (ROOT / path).read_text(encoding="utf-8").splitlines(), find(path, name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    text = textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))
    return f'```python title="{path}"\n{text}\n```'


def docstrings(path: str, name: str) -> str:
    """The mkdocstrings directive for a class, method or function."""
    find(path, name)
    module = path.removesuffix(".py").replace("/", ".")
    return f"::: {module}.{name}\n    options:\n      heading: {name}\n      toc_label: {name}\n"


def find(path: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The class, method (`Class.method`) or function of a file.

    Raises:
        LookupError: if the file does not define it exactly once.
    """
    found: list[ast.AST] = [ast.parse((ROOT / path).read_text(encoding="utf-8"))]
    for part in name.split("."):
        found = [node for parent in found for node in _defined(parent, part)]
    if len(found) != 1:
        raise LookupError(f"{path} defines {name} {len(found)} times")
    return found[0]


def _defined(parent: ast.AST, name: str) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    for node in parent.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            yield node


def recipe_keys() -> str:
    """All recipe keys, in one table per section."""
    from hf_vaswani.training.recipe.reference import key_tables

    return key_tables()


def commands() -> str:
    """The help of hf-vaswani and of each of its commands."""
    os.environ["COLUMNS"] = "100"  # width of the help
    from hf_vaswani.cli import _parser

    parser = _parser()
    parts = [f"```text\n{parser.format_help()}```"]
    for name, command in parser.commands.items():
        help_text, _, _ = command.format_help().partition("\nrecipe keys, ")  # recipe keys have their own page
        parts += [f"## {name}", f"```text\n{help_text.rstrip()}\n```"]
    return "\n\n".join(parts)


def recipes() -> str:
    """The recipes and sweeps that come with the package."""
    parts, folder = [], ROOT / "hf_vaswani" / "recipes"
    for path in [*sorted(folder.glob("*.yaml")), *sorted((folder / "sweeps").glob("*.yaml"))]:
        text = path.read_text(encoding="utf-8").rstrip()
        parts += [f"## {path.stem}", f"```yaml\n{text}\n```"]
    return "\n\n".join(parts)


def translation_options() -> str:
    """What each option of a translation means."""
    from hf_vaswani.translator.options import described

    lines = (line.partition(": ") for line in described())
    return "\n".join(f"- `{name.partition(' ')[0]}`: {meaning}" for name, _, meaning in lines)


GENERATED = {
    "hf_vaswani/translator/options.py": translation_options,
    "hf_vaswani/commands": commands,
    "hf_vaswani/recipes": recipes,
    "hf_vaswani/recipes/recipe.schema.json": recipe_keys,
}
