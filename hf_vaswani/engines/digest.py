"""A digest of a model's weights, which tells its exports from those of other models."""

import hashlib

import torch
from torch import nn


def digest(model: nn.Module) -> str:
    """The SHA-256 of all weights, which tells translations of one model from those of another."""
    result = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        result.update(name.encode())
        result.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return result.hexdigest()


__all__ = ["digest"]
