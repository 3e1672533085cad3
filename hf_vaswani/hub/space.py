"""A Space with the page of `hf-vaswani app` for a model on the Hub: three files, written from the model's name."""

import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from huggingface_hub import SpaceCardData
from transformers.utils import ADAPTER_CONFIG_NAME

from ..engines import ctranslate2_config
from ..engines.onnx import onnx_config
from .markdown import one_line, quoted
from .repository import GRADIO, SPACE, commit_folder, open_repository

APP_FILE, REQUIREMENTS_FILE, CARD_FILE = "app.py", "requirements.txt", "README.md"
APP = '''\
"""Serves a page to try the model on."""

from hf_vaswani.app import launch

launch({model})
'''
REQUIREMENTS = "hf-vaswani[{extras}]\n"
# The latest version that the page was tested with, used if none is installed.
TRIED_GRADIO = "6.31.0"


def needed_extras(folder: Path) -> list[str]:
    """The extras of this package that the page for a folder's model needs."""
    needs = {
        "app": True,
        "ctranslate2": ctranslate2_config.is_engine_folder(folder),
        "onnx": onnx_config.stored_quantization(folder) is not None,
        "peft": (folder / ADAPTER_CONFIG_NAME).exists(),
    }
    return [extra for extra, is_needed in needs.items() if is_needed]


def space_files(model: str, title: str, extras: Sequence[str] = ("app",)) -> dict[str, str]:
    """The files of a Space.

    Args:
        model: the model's id on the Hub.
        extras: extras of this package that the Space installs.
        title: title of the Space.
    """
    card = SpaceCardData(
        title=one_line(title),
        sdk=GRADIO,
        sdk_version=gradio_version(),
        app_file=APP_FILE,
        models=[model],
        tags=["vaswani", "translation"],
    )
    text = f"Translates with [{model}](https://huggingface.co/{model}), on the page of `hf-vaswani app`."
    return {
        APP_FILE: APP.format(model=quoted(model)),
        REQUIREMENTS_FILE: REQUIREMENTS.format(extras=",".join(extras)),
        CARD_FILE: f"---\n{card}\n---\n\n{text}\n",
    }


def gradio_version() -> str:
    """The version of gradio that is installed, which the Space should run, too."""
    try:
        return version("gradio")
    except PackageNotFoundError:
        return TRIED_GRADIO


def open_space(name: str, private: bool | None = None) -> str:
    """Create a Space for the page if it is missing; arguments and errors are those of [`open_repository`]."""
    return open_repository(name, private, kind=SPACE, sdk=GRADIO)


def push_space(name: str, model: str, extras: Sequence[str] = ("app",)) -> str:
    """Upload the page for a model to a Space that [`open_space`] has opened.

    Args:
        name: name of the Space, with its namespace.
        model, extras: as in [`space_files`].

    Returns:
        The address of the commit.

    Raises:
        InputError: the Hub refuses or cannot be reached; the Space stays as it was.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = space_files(model, name.rpartition("/")[2], extras)
        for file, content in files.items():
            (Path(folder) / file).write_text(content, encoding="utf-8")
        return commit_folder(name, Path(folder), files, "Upload page", kind=SPACE)


__all__ = ["needed_extras", "open_space", "push_space", "space_files"]
