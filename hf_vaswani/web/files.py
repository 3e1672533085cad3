"""The files of the page, for each side that can translate: the browser or a server."""

from pathlib import Path
from typing import Literal

import jinja2

FOLDER = Path(__file__).parent
INDEX = "index.html"
SHARED = ("icon.svg", "marks.js", "page.js", "style.css", "translation.js")
OWN = {
    "browser": ("browser.js", "search.js", "split.js", "words.js", "worker.js"),
    "server": ("server.css", "server.js"),
}


def page_files(side: Literal["browser", "server"], **values: str) -> dict[str, bytes]:
    """The content of each file by its name.

    Args:
        values: what `index.html.jinja` needs: `title`, and in the browser `source_language`, `target_language`, and
            `pairs` of them in JSON, if there are several target languages.
    """
    files = {name: (FOLDER / name).read_bytes() for name in (*SHARED, *OWN[side])}
    return {INDEX: render(f"{INDEX}.jinja", side=side, **values).encode(), **files}


def render(name: str, **values: str) -> str:
    """The content of a file, with its placeholders filled in."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined, autoescape=jinja2.select_autoescape(["html.jinja"]),
    )  # fmt: skip
    return environment.get_template(name).render(values)
