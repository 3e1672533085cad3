"""The exponential moving average of the weights: it lags behind the model in training, and translates better."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ..checkpoints.checkpoint import Tensors, set_weights, weights
from .sharding import part


class MovingAverage:
    """A shadow of a model's weights: after each update, shadow = decay · shadow + (1 - decay) · weights, in float32.

    The decay of update t is min(decay, (1 + t) / (10 + t)), so that the first updates do not drag along the random
    initialisation.

    Args:
        model: whose weights are followed.
        decay: below 1; 0.999 looks back about 1 000 updates.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.shadow = {name: value.float().clone() for name, value in weights(model).items()}

    @torch.no_grad()
    def follow(self, model: nn.Module, update: int) -> None:
        """Take in the weights that an update, counted from 1, has left."""
        decay = min(self.decay, (1 + update) / (10 + update))
        for name, value in weights(model).items():
            self.shadow[name].lerp_(value.float(), 1 - decay)

    @contextmanager
    def in_place_of_weights(self, model: nn.Module) -> Iterator[None]:
        """Put the average into the model while the block runs."""
        own = {name: value.clone() for name, value in weights(model).items()}
        set_weights(model, self.shadow)
        try:
            yield
        finally:
            set_weights(model, own)

    def load(self, values: Tensors) -> None:
        """Go on from stored values."""
        for name, value in values.items():
            self.shadow[name].copy_(part(value, self.shadow[name]))
