"""The code that a checkpoint carries, so that it loads with `trust_remote_code=True` where this package is missing.

A config names the classes (`REMOTE_CLASSES` in `configuration_vaswani.py`); here are the files that they stand in.
The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its
siblings.
"""

import shutil
from pathlib import Path


def remote_code_files() -> list[Path]:
    """The source files that a checkpoint carries: all of this folder.

    transformers fetches a remote file together with those that it imports relatively. Pipeline and tokenizer are
    imported here, so that a model loaded from remote code has them beside it, and can be saved whole again.
    """
    from .pipeline_translation import TranslationPipeline  # noqa: F401
    from .tokenization_vaswani import VaswaniTokenizer  # noqa: F401

    return sorted(path for path in Path(__file__).parent.glob("*.py") if path.name != "__init__.py")


def copy_remote_code(folder: Path) -> None:
    """Put the files beside a checkpoint."""
    for source in remote_code_files():
        shutil.copyfile(source, folder / source.name)
