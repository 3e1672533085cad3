"""Whether an adapter belongs to a base model: its weights name the digest of the base that it was trained on."""

import hashlib
from collections.abc import Iterable

import torch
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import ADAPTER_SAFE_WEIGHTS_NAME, cached_file

# Where the weights of an adapter store the digest of the base weights.
BASE_DIGEST = "base_digest"


def values_digest(tensors: Iterable[torch.Tensor]) -> str:
    """Digest of the values of tensors, in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()


def matrices_digest(parameters: Iterable[nn.Parameter]) -> str | None:
    """Digest of the matrices among a model's weights; `None` unless all of them are in fp32."""
    matrices = [parameter for parameter in parameters if parameter.dim() > 1]
    if any(type(matrix) is not nn.Parameter or matrix.dtype != torch.float32 for matrix in matrices):
        return None
    return values_digest(matrices)


def base_error(model: PreTrainedModel, adapter: str) -> str | None:
    """Why an adapter, a folder or a Hub id, does not belong to this base model: it was trained on other weights.

    `None` if it was not; or if that is unknown, as for adapters that do not name the digest of their base, and for
    models in another dtype than fp32.
    """
    quiet = ("gated_repo", "missing_entries", "connection_errors")
    options = {f"_raise_exceptions_for_{problem}": False for problem in quiet}
    if (file := cached_file(adapter, ADAPTER_SAFE_WEIGHTS_NAME, **options)) is None:
        return None
    with safe_open(file, "pt") as weights:
        expected = (weights.metadata() or {}).get(BASE_DIGEST)
    if expected is None or (found := matrices_digest(model.parameters())) is None or found == expected:
        return None
    return (
        f"{adapter} was trained on another base model: {model.name_or_path} has other weights. Restore them, or "
        "name the right model in adapter_config.json, base_model_name_or_path."
    )
