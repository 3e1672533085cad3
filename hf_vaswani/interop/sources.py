"""The systems whose models can be imported, each in a registry here: recognizes a source and has it read whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import (
    AutoConfig,
    FSMTForConditionalGeneration,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError, reason
from ..files import path_error, where_not_found
from . import fairseq, fsmt, marian, opennmt, torch_transformer
from .checkpoint_file import read_checkpoint
from .conversion import Conversion
from .model_files import model_kind

KNOWN = (
    "MarianMT and FSMT folders or Hub ids, .pt checkpoints of fairseq and OpenNMT-py, and torch.nn.Transformer modules"
)
FILE_ENDINGS = (".pt", ".pth", ".bin", ".safetensors", ".json")
OF_MARIAN = (
    "is in Marian's own format, which is not read. Make a MarianMT folder of it first, with "
    "convert_marian_to_pytorch.py of the transformers repository."
)


class PretrainedReader(NamedTuple):
    """Reads models of a class of transformers: one at hand, or by the name of its folder or Hub id."""

    model_class: type[PreTrainedModel]
    read: Callable[[str | PreTrainedModel], Conversion]


class CheckpointReader(NamedTuple):
    """Reads what `torch.save` wrote: `(path, contents, folder of vocabularies or None)` → conversion."""

    is_checkpoint: Callable[[dict[str, Any]], bool]
    read: Callable[[Path, dict[str, Any], Path | None], Conversion]


# The systems whose models can be imported. By `model_type` of their configs:
PRETRAINED = {
    "marian": PretrainedReader(MarianMTModel, marian.read),
    "fsmt": PretrainedReader(FSMTForConditionalGeneration, fsmt.read),
}
# By what their checkpoint files hold, asked in this order:
CHECKPOINTS = (
    CheckpointReader(opennmt.is_checkpoint, opennmt.read),
    CheckpointReader(fairseq.is_checkpoint, fairseq.read),
)

Source = str | Path | PreTrainedModel | nn.Transformer


def import_model(
    source: Source, *, dtype: torch.dtype = torch.float32, vocabularies: str | Path | None = None, **options
) -> VaswaniForConditionalGeneration:
    """Another system's trained model as this one's, with the same logits.

    Args:
        source: a `MarianMTModel` or `FSMTForConditionalGeneration`, its folder or Hub id; a `.pt` file of fairseq or
            OpenNMT-py, or a folder with one; or a `torch.nn.Transformer`.
        dtype: type of the imported weights.
        vocabularies: folder with fairseq's `dict.LANGUAGE.txt`, where it is not the checkpoint's.
        options: for a `torch.nn.Transformer`, what stood around it: see `hf_vaswani.interop.torch_transformer.read`.

    Returns:
        The model in evaluation mode. How the source searches, where it says so, is its `generation_config`.

    Raises:
        InputError: all that the source needs and this model lacks; a file that is damaged or dangerous.
    """
    return read_source(source, vocabularies, **options).build(dtype)


def import_tokenizer(source: str | Path, *, vocabularies: str | Path | None = None) -> PreTrainedTokenizerBase | None:
    """The tokenizer that belongs to a source; None where the source has none.

    Raises:
        InputError: where it does not fit the source's weights.
    """
    return read_source(source, vocabularies).make_tokenizer()


def read_source(source: Source, vocabularies: str | Path | None = None, **options) -> Conversion:
    """Another system's model in this one's terms, not yet built. Arguments are those of [`import_model`]."""
    if isinstance(source, nn.Transformer):
        return torch_transformer.read(source, **options)
    if options:
        raise TypeError(f"{', '.join(options)}: these options are for a torch.nn.Transformer alone.")
    for reader in PRETRAINED.values():
        if isinstance(source, reader.model_class):
            return reader.read(source)
    if not isinstance(source, str | Path):
        raise InputError(f"A {type(source).__name__} cannot be imported. Known are {KNOWN}.")
    if vocabularies is not None and not isinstance(vocabularies, str | Path):
        raise ValueError(f"vocabularies must be the path of a folder, got {vocabularies!r}.")
    if vocabularies is not None and not Path(vocabularies).is_dir():
        raise InputError(f"{vocabularies} is no folder. Name the folder with the dictionaries.")
    path = Path(source)
    if error := path_error(path / "config.json"):
        raise InputError(error)
    if path.is_dir() and not (path / "config.json").exists():
        path = _checkpoint_in(path)
    if path.is_file():
        return _read_file(path, Path(vocabularies) if vocabularies is not None else None)
    if vocabularies is not None:
        raise InputError(f"{source} is no checkpoint of fairseq: there are no dictionaries to give.")
    return _read_pretrained(str(source), path)


def _checkpoint_in(folder: Path) -> Path:
    """The one checkpoint of a folder; of several, the best or the last by fairseq's names for them."""
    checkpoints = sorted(path for path in folder.glob("*.pt") if path.is_file())
    for name in ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt"):
        if folder / name in checkpoints:
            return folder / name
    if len(checkpoints) == 1:
        return checkpoints[0]
    if checkpoints:
        raise InputError(f"{folder} has {len(checkpoints)} checkpoints (*.pt). Name one of them.")
    if any(folder.glob("*.npz")):
        raise InputError(f"{folder} {OF_MARIAN}")
    raise InputError(f"{folder} has neither a config.json nor a checkpoint (*.pt). Known are {KNOWN}.")


def _read_file(path: Path, vocabularies: Path | None) -> Conversion:
    if path.suffix == ".safetensors" or path.name == "config.json":
        raise InputError(f"{path} is one file of a model. Name the folder that it is in.")
    if path.suffix == ".npz":
        raise InputError(f"{path} {OF_MARIAN}")
    contents = read_checkpoint(str(path))
    if not isinstance(contents, dict):
        raise InputError(f"{path} holds no checkpoint but a {type(contents).__name__}. Known are {KNOWN}.")
    for reader in CHECKPOINTS:
        if reader.is_checkpoint(contents):
            return reader.read(path, contents, vocabularies)
    raise InputError(
        f"{path} holds {', '.join(map(str, list(contents)[:5])) or 'nothing'}, which is neither fairseq's nor "
        f"OpenNMT-py's. Known are {KNOWN}."
    )


def _read_pretrained(source: str, path: Path) -> Conversion:
    is_path = source.count("/") > 1 or path.suffix in FILE_ENDINGS or source.startswith((".", "/", "~"))
    if is_path and not path.exists():
        raise InputError(f"{source} does not exist.")
    try:
        if path.is_dir():
            model_type = model_kind(path)
        else:
            model_type = AutoConfig.from_pretrained(source, trust_remote_code=False).model_type
    except InputError:
        raise
    except Exception as error:  # transformers raises many kinds for a config that is none
        raise InputError(f"{source}{where_not_found(source)} cannot be read: {reason(error)}") from None
    if model_type not in PRETRAINED:
        hint = " It is this package's own already: load it." if model_type == "vaswani" else ""
        raise InputError(f"{source} holds a model of the kind {model_type!r}.{hint} Known are {KNOWN}.")
    return PRETRAINED[model_type].read(source)
