"""A digest of a model's weights, by which its exports are told from those of another."""

import hashlib

import torch
from torch import nn


def digest(model: nn.Module) -> str:
    """SHA-256 of all weights, by which translations of one model are told from those of another."""
    result = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        result.update(name.encode())
        result.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return result.hexdigest()


__all__ = ["digest"]
