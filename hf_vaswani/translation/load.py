"""Loads a trained model with its tokenizer, and says plainly what is missing where that fails."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from ..configuration_vaswani import VaswaniConfig
from ..data.tokenizer import has_tokenizer, target_vocab_size, vocabularies
from ..errors import InputError, reason
from ..interop.conversion import weight_faults
from .adapters import adapter_base, add_adapter, has_own_tokenizer
from .ensemble import Ensemble


def load_ensemble(paths: list[str], dtype: str | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load several models as one that translates with all of them, and the tokenizer that they share; arguments as of
    [`load`]. One path gives that model.

    Raises:
        InputError: also where the models have not the same tokens.
    """
    (model, tokenizer), *others = [load(path, dtype) for path in paths]
    if not others:
        return model, tokenizer
    faults = [
        f"{path} has another tokenizer than {paths[0]}: their translations are of other tokens, and no ensemble."
        for path, (_, other) in zip(paths[1:], others)
        if vocabularies(other) != vocabularies(tokenizer)
    ]
    if faults:
        raise InputError.of(faults)
    try:
        return Ensemble([model, *(other for other, _ in others)]), tokenizer
    except ValueError as error:
        raise InputError(str(error)) from None


def load(path: str, dtype: str | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load model and tokenizer from a folder or the Hub, onto an accelerator where there is one.

    Args:
        path: a model, or a PEFT adapter; where that has no tokenizer, its base model's is taken.
        dtype: `"float32"`, `"bfloat16"` or `"float16"`; default: that of the weights.

    Raises:
        InputError: where there is no config, no weights or no tokenizer.
    """
    if Path(path).is_file():
        raise InputError(f"{path} is a file. Name the folder of a model.")
    base = _adapter_base(path)
    if base is None:
        model, tokenizer = _load_whole(path, dtype)
    else:
        try:
            model, tokenizer = _load_whole(base, dtype, path if has_own_tokenizer(path) else None)
        except InputError as error:
            raise InputError(f"{path} is an adapter, whose base model could not be loaded. {error}") from None
        model = add_adapter(model, path)
    _check_vocabularies(path, model, tokenizer)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    return model.to(device).eval(), tokenizer


def _adapter_base(path: str) -> str | None:
    """As of [`adapter_base`]; None too for what can be no model at all, of which loading it tells."""
    try:
        return adapter_base(path)
    except InputError:
        raise
    except Exception:  # no Hub id, no such model, no connection
        return None


def _load_whole(
    path: str, dtype: str | None, tokenizer_path: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Model and tokenizer, from a folder of its own or, by default, the model's."""
    if Path(path).is_dir():
        _check_folder(Path(path), tokenizer_path is None)
    try:
        given = {"dtype": dtype} if dtype else {}
        model, report = AutoModelForSeq2SeqLM.from_pretrained(path, output_loading_info=True, **given)
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_path or path)
    except Exception as error:  # transformers raises many kinds for files that are damaged or missing
        where = "" if Path(path).exists() else " is no folder here, and"
        hint = f" (pip install {error.name})" if isinstance(error, ModuleNotFoundError) else ""
        raise InputError(f"{path}{where} cannot be loaded: {reason(error)}{hint}") from None
    if model.config.model_type == VaswaniConfig.model_type and report["missing_keys"]:
        # transformers says so too, draws them at random, and goes on.
        raise InputError.of(weight_faults(str(path), [], report["missing_keys"], []))
    return model, tokenizer


def fingerprint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> str:
    """Digest of a model, its generation config and its tokenizer, the same wherever the model stands.

    Of each tensor the first 64 values are looked at, which a training changes.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        for part in _plain_tensors(tensor):
            values = part.flatten()[:64].float().cpu().tolist()
            digest.update(json.dumps([name, list(part.shape), values]).encode())
    generation = model.generation_config.to_diff_dict()
    generation.pop("transformers_version", None)
    digest.update(json.dumps([generation, sorted(tokenizer.get_vocab().items())], default=str).encode())
    return digest.hexdigest()


def _plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that a tensor is made of: itself, or for a quantized one its codes, its scales and so on."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from _plain_tensors(getattr(tensor, name))


def _check_vocabularies(path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    source, target = len(tokenizer), target_vocab_size(tokenizer)
    rows = len(model.get_input_embeddings().weight)
    if source > rows or target > getattr(model.config, "decoder_vocab_size", target):
        raise InputError(
            f"{path}: the tokenizer has {max(source, target)} tokens, more than the model has embeddings. Put "
            "tokenizer and model of one training into the folder."
        )


def _check_folder(folder: Path, needs_tokenizer: bool = True) -> None:
    if not (folder / "config.json").exists():
        raise InputError(f"{folder} has no config.json: it is no folder of a model. Name another one.")
    if not any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "pytorch_model*.bin")):
        raise InputError(f"{folder} has no weights (*.safetensors). Let its training finish, or name another folder.")
    if needs_tokenizer and not has_tokenizer(folder):
        raise InputError(f"{folder} has no tokenizer (tokenizer.json). Put that of its training into the folder.")
