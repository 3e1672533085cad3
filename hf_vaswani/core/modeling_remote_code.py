"""The code that a checkpoint carries, so that it loads with `trust_remote_code=True` where this package is missing.

A config names the classes (`REMOTE_CLASSES` in `configuration_vaswani.py`); this module copies the files that define
them. The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and
its siblings.
"""

import shutil
from pathlib import Path


def remote_code_files() -> list[Path]:
    """The source files that a checkpoint carries: all those in this folder.

    transformers fetches a remote file together with its relative imports. The pipeline and the tokenizer are imported
    here so that a model loaded from remote code has them too, and can be saved with all its code again.
    """
    from .pipeline_translation import TranslationPipeline  # noqa: F401
    from .tokenization_vaswani import VaswaniTokenizer  # noqa: F401

    return sorted(path for path in Path(__file__).parent.glob("*.py") if path.name != "__init__.py")


def copy_remote_code(folder: Path) -> None:
    """Copy the source files into the folder of a checkpoint."""
    for source in remote_code_files():
        shutil.copyfile(source, folder / source.name)
