"""Folders of imported and exported models: each appears whole or not at all."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from transformers import PreTrainedTokenizerBase

from ..data.tokenizer import save_tokenizer
from ..errors import InputError, reason
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..paths import path_error
from ..translation_inputs import own_languages
from . import marian
from .sources import read_source


def import_checkpoint(source: str | Path, output: str | Path, *, vocabularies: str | Path | None = None) -> str | None:
    """Write a folder with another system's model and its tokenizer, ready for `from_pretrained` and `pipeline`.

    Args:
        source: folder, `.pt` file or Hub id, as for `import_model`.
        output: folder to make; it may exist only if empty.
        vocabularies: folder with fairseq's `dict.LANGUAGE.txt`, where it is not the checkpoint's.

    Returns:
        How the tokenizer that came along splits text; None where none did.

    Raises:
        InputError: as `import_model`, and where `output` cannot be written.
    """
    check_new(output)
    conversion = read_source(source, vocabularies)
    tokenizer = conversion.make_tokenizer()
    model = conversion.build()
    # Marian's are said by its tokenizer alone.
    model.config.source_language, model.config.target_language = own_languages(model.config, tokenizer)
    with new_folder(output) as folder:
        model.save_pretrained(folder)
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder)
    return conversion.splitting if tokenizer is not None else None


def export_checkpoint(
    model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase | None, output: str | Path
) -> None:
    """Write a folder of transformers' MarianMT with the same weights and tokenizer.

    A tokenizer of two vocabularies becomes two plain ones, in the sub-folders `source_tokenizer` and
    `target_tokenizer`. With this package, or with `trust_remote_code=True`, `AutoTokenizer` joins them again; without,
    it finds none, where it would take that of the source for both sides.

    Raises:
        InputError: all that the model has and Marian lacks; where `output` cannot be written.
    """
    check_new(output)
    exported = marian.write(model)
    with new_folder(output) as folder:
        exported.save_pretrained(folder)
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder, beside_other_model=True)


def check_new(output: str | Path) -> None:
    """Refuse a folder that holds anything, or that cannot be made."""
    if error := path_error(output, is_output=True):
        raise InputError(error)
    try:
        output = Path(output).resolve()
        is_free = not output.exists() or (output.is_dir() and not any(output.iterdir()))
        parent = next(path for path in (output, *output.parents) if path.exists())
    except (OSError, ValueError) as error:
        raise InputError(f"{output} cannot be written: {reason(error)}") from None
    if not is_free:
        raise InputError(f"{output} exists and is no empty folder. Name another one; nothing is overwritten.")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        why = "nothing may be written there" if parent.is_dir() else "it is no folder"
        raise InputError(f"{output} cannot be made in {parent}: {why}. Name another one.")


@contextmanager
def new_folder(output: str | Path) -> Iterator[Path]:
    """A folder to write into, which gets its name only when all of it was written."""
    check_new(output)
    output = Path(output).resolve()
    partial = output.with_name(f".{output.name}-{uuid.uuid4().hex}")
    try:
        partial.mkdir(parents=True)
        yield partial
        if output.exists():
            output.rmdir()
        partial.rename(output)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{output} cannot be written: {reason(error)}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
