"""A model's weights as tensors by name, tied ones once: reading, setting, averaging, and identifying them."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ...errors import InputError
from .progress import StepListener, StepResult
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


class MovingAverage(StepListener):
    """A moving average of a model's weights: after each step, shadow = decay · shadow + (1 - decay) · weights, in
    float32.

    The decay at step t is min(decay, (1 + t) / (10 + t)), so that the random initialization is soon forgotten.

    Args:
        model: the model whose weights are averaged.
        decay: below 1; 0.999 averages over about the last 1,000 steps.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.model, self.decay = model, decay
        self.shadow = {name: value.float().clone() for name, value in weights(model).items()}

    def on_step_end(self, result: StepResult) -> None:
        self.follow(result.progress.step)

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Update the average with the weights after a step, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, value in weights(self.model).items():
            self.shadow[name].lerp_(value.float(), 1 - decay)

    @contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Swap the average into the model while the block runs."""
        own = {name: value.clone() for name, value in weights(self.model).items()}
        set_weights(self.model, self.shadow)
        try:
            yield
        finally:
            set_weights(self.model, own)

    def load(self, values: Tensors) -> None:
        """Load stored averages."""
        for name, value in values.items():
            self.shadow[name].copy_(shard_like(value, self.shadow[name]))
