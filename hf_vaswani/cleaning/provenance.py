"""Which raw text clean text was made of: written by `clean` next to it, and read for the card of a model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data.sources.text_source import TextSource
from ..files import file_digest

REPORT = "report.json"


def public_names(sources: Sequence[TextSource]) -> list[str]:
    """The names of sources, of files without their folders."""
    return [
        source.name if source.dataset
        else " and ".join(Path(file).name for file in (source.file, *source.source, *source.target) if file)
        for source in sources
    ]  # fmt: skip


def digests(files: Sequence[Path]) -> dict[str, str]:
    """The digests of clean text, by the names of its files."""
    return {file.name: file_digest(file) for file in files}


def cleaned_from(file: Path) -> dict[str, Any] | None:
    """What became of the raw text that a file of clean text was made of; `None` if no report next to it says so.

    Returns:
        Its sources, the number of pairs read and kept, and of those left out and repaired, by name.
    """
    try:
        values = json.loads((file.parent / REPORT).read_text(encoding="utf-8"))
        if values["files"][file.name] != file_digest(file):
            return None
        counts = {
            name: {key: int(count) for key, count in values[name].items() if count} for name in ("reasons", "repairs")
        }
        return {"sources": list(map(str, values["sources"])), "read": int(values["read"]), "kept": int(values["kept"]),
                **counts}  # fmt: skip
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # of another program, or damaged
        return None
