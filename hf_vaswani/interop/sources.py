"""The registry of systems whose models can be imported: recognizes a source and reads it."""

from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.tokenizers.tokenizer import save_tokenizer
from ..errors import InputError
from ..files import path_error
from ..ledger import check_new, new_folder
from ..models.families import FAMILIES
from ..models.model_files import find_model_kind
from ..text.languages import own_languages
from . import fairseq, fsmt, marian, opennmt, torch_transformer
from .conversion import Conversion, read_checkpoint

KNOWN = (
    "MarianMT and FSMT folders or Hub ids, .pt checkpoints of fairseq and OpenNMT-py, and torch.nn.Transformer modules"
)
NATIVE_MARIAN = (
    "is in Marian's native format, which is not supported. Convert it to a MarianMT folder first, with "
    "convert_marian_to_pytorch.py of the transformers repository."
)
# Modules that read models of transformers, by the `model_type` of their configs. Each has a `MODEL_CLASS` and
# `read(model, or its folder or Hub id)`.
PRETRAINED = {"marian": marian, "fsmt": fsmt}
# Modules that read files written by `torch.save`, in the order in which they are tried. Each has
# `is_checkpoint(contents)` and `read(path, contents, folder of vocabularies or None)`.
CHECKPOINTS = (opennmt, fairseq)

Source = str | Path | PreTrainedModel | nn.Transformer


def import_model(
    source: Source, *, dtype: torch.dtype = torch.float32, vocabularies: str | Path | None = None, **options
) -> VaswaniForConditionalGeneration:
    """Convert another system's trained model, with the same logits.

    Args:
        source: a `MarianMTModel` or `FSMTForConditionalGeneration`, its folder or Hub id; a `.pt` file of fairseq or
            OpenNMT-py, or a folder with one; or a `torch.nn.Transformer`.
        dtype: of the imported weights.
        vocabularies: folder with fairseq's `dict.LANGUAGE.txt`; default: the checkpoint's folder.
        options: for a `torch.nn.Transformer`, the parts around it: see `hf_vaswani.interop.torch_transformer.read`.

    Returns:
        The model in evaluation mode. Its `generation_config` has the search settings of the source, if known.

    Raises:
        InputError: lists everything that this model does not support; or a file is damaged or unsafe.
    """
    return read_source(source, vocabularies, **options).build(dtype)


def import_tokenizer(source: str | Path, *, vocabularies: str | Path | None = None) -> PreTrainedTokenizerBase | None:
    """Convert the tokenizer of a source; None if it has none.

    Raises:
        InputError: as in [`import_model`], or the tokenizer does not fit the weights.
    """
    return read_source(source, vocabularies).make_tokenizer()


def import_checkpoint(source: str | Path, output: str | Path, *, vocabularies: str | Path | None = None) -> str | None:
    """Import another system's model and tokenizer into a folder, ready for `from_pretrained` and `pipeline`.

    Args:
        source: folder, `.pt` file or Hub id, as for `import_model`.
        output: folder to create; if it exists, it must be empty.
        vocabularies: folder with fairseq's `dict.LANGUAGE.txt`; default: the checkpoint's folder.

    Returns:
        A description of how the tokenizer splits text; None if the source has no tokenizer.

    Raises:
        InputError: as in `import_model`, or `output` cannot be written.
    """
    check_new(output)
    conversion = read_source(source, vocabularies)
    tokenizer = conversion.make_tokenizer()
    model = conversion.build()
    # Marian's languages are only in its tokenizer.
    model.config.source_language, model.config.target_language = own_languages(model.config, tokenizer)
    with new_folder(output) as folder:
        model.save_pretrained(folder)
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder)
    return conversion.splitting if tokenizer is not None else None


def read_source(source: Source, vocabularies: str | Path | None = None, **options) -> Conversion:
    """Read another system's model without building it; arguments as in [`import_model`]."""
    if isinstance(source, nn.Transformer):
        return torch_transformer.read(source, **options)
    if options:
        raise TypeError(f"{', '.join(options)}: these options are only for a torch.nn.Transformer.")
    for module in PRETRAINED.values():
        if isinstance(source, module.MODEL_CLASS):
            return module.read(source)
    if not isinstance(source, str | Path):
        raise InputError(f"A {type(source).__name__} cannot be imported. Supported: {KNOWN}.")
    if vocabularies is not None and not isinstance(vocabularies, str | Path):
        raise ValueError(f"vocabularies must be the path of a folder, got {vocabularies!r}.")
    if vocabularies is not None and not Path(vocabularies).is_dir():
        raise InputError(f"{vocabularies} is not a folder. Specify the folder with the dictionaries.")
    path = Path(source)
    if error := path_error(path / "config.json"):
        raise InputError(error)
    if path.is_dir() and not (path / "config.json").exists():
        path = _checkpoint_in(path)
    if path.is_file():
        return _read_file(path, Path(vocabularies) if vocabularies is not None else None)
    if vocabularies is not None:
        raise InputError(f"{source} is not a fairseq checkpoint, so no dictionaries can be given.")
    return _read_pretrained(str(source))


def _checkpoint_in(folder: Path) -> Path:
    """The checkpoint in a folder: `model.pt`, or else fairseq's best or last one, or else the only one."""
    checkpoints = sorted(path for path in folder.glob("*.pt") if path.is_file())
    for name in ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt"):
        if folder / name in checkpoints:
            return folder / name
    if len(checkpoints) == 1:
        return checkpoints[0]
    if checkpoints:
        raise InputError(f"{folder} has {len(checkpoints)} checkpoints (*.pt). Choose one of them.")
    if any(folder.glob("*.npz")):
        raise InputError(f"{folder} {NATIVE_MARIAN}")
    raise InputError(f"{folder} has neither a config.json nor a checkpoint (*.pt). Supported: {KNOWN}.")


def _read_file(path: Path, vocabularies: Path | None) -> Conversion:
    if path.suffix == ".safetensors" or path.name == "config.json":
        raise InputError(f"{path} is one file of a model. Specify the folder that it is in.")
    if path.suffix == ".npz":
        raise InputError(f"{path} {NATIVE_MARIAN}")
    contents = read_checkpoint(str(path))
    if not isinstance(contents, dict):
        raise InputError(f"{path} contains a {type(contents).__name__}, not a checkpoint. Supported: {KNOWN}.")
    for module in CHECKPOINTS:
        if module.is_checkpoint(contents):
            return module.read(path, contents, vocabularies)
    raise InputError(
        f"{path} contains {', '.join(map(str, list(contents)[:5])) or 'nothing'}, which is neither fairseq's nor "
        f"OpenNMT-py's. Supported: {KNOWN}."
    )


def _read_pretrained(source: str) -> Conversion:
    return PRETRAINED[check_model_type(source)].read(source)


def check_model_type(source: str) -> str:
    """The `model_type` of a model of transformers, in a folder or on the Hub, that can be imported.

    Raises:
        InputError: it cannot; the message says what can be done with it.
    """
    model_type = find_model_kind(source)
    if model_type in PRETRAINED:
        return model_type
    hint = ""
    if model_type == "vaswani":
        hint = " It is already a model of this package; load it directly."
    elif model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        tuner = "training.start_from" if model_type in FAMILIES else "transformers' Seq2SeqTrainer"
        hint = (
            f" It has another architecture: the translation pipeline uses it as it is, and {tuner} fine-tunes "
            "it as it is."
        )
    raise InputError(f"{source} contains a model of type {model_type!r}.{hint} Supported: {KNOWN}.")
