"""A model's weights as tensors by name, tied ones once: reading, setting, averaging, and identifying them."""

import hashlib
from collections.abc import Iterable

import torch
from torch import nn

from ...errors import InputError
from .sharding import full_tensor, shard_like

Tensors = dict[str, torch.Tensor]


def weights(model: nn.Module) -> Tensors:
    """A model's parameters by name, tied ones once; if they are sharded, this process's shards.

    For a model with an adapter, these are only the trained parameters: the others belong to its base and stay as they
    are.
    """
    is_adapted = hasattr(model, "peft_config")
    return {
        name: parameter.detach()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad or not is_adapted
    }


def gather_weights(model: nn.Module) -> Tensors:
    """The full weights by name, tied ones once, in every process."""
    return {name: full_tensor(value) for name, value in weights(model).items()}


def set_weights(model: nn.Module, values: Tensors) -> None:
    """Copy values into the parameters of the same names.

    Raises:
        ValueError: if the names differ.
        InputError: if shapes differ.
    """
    parameters = weights(model)
    if parameters.keys() != values.keys():
        raise ValueError(f"Names that differ from the model's parameters: {sorted(parameters.keys() ^ values.keys())}")
    check_shapes(model, {name: tuple(value.shape) for name, value in values.items()})
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(shard_like(values[name], parameter))


def check_shapes(model: nn.Module, shapes: dict[str, tuple[int, ...]]) -> None:
    """Check that stored shapes are those of a model's weights.

    Raises:
        InputError: if one differs.
    """
    own = {name: tuple(parameter.shape) for name, parameter in weights(model).items() if name in shapes}
    wrong = [name for name, shape in own.items() if shape != shapes[name]]
    if wrong:
        raise InputError(
            f"The stored weights do not have the model's shapes: {wrong[0]}, for example, is {shapes[wrong[0]]} "
            f"instead of {own[wrong[0]]}. The tokenizer or the architecture has changed: restore it, "
            "or start over with --overwrite true."
        )


def average_weights(models: Iterable[Tensors]) -> Tensors:
    """The mean of weights with the same names and shapes (section 6.1), summed in float64."""
    total: Tensors = {}
    kinds, number = {}, 0
    for values in models:
        number += 1
        for name, value in values.items():
            total[name] = total[name] + value.double() if name in total else value.double()
            kinds[name] = value.dtype
    return {name: (value / number).to(kinds[name]) for name, value in total.items()}


def tensors_digest(tensors: Tensors) -> str:
    """SHA-256 of named tensors: of their names, dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
