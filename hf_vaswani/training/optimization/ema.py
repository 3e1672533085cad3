"""The exponential moving average of the weights, which lags behind the model in training but translates better."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from .progress import StepListener, StepResult
from .sharding import shard_like
from .weights import Tensors, set_weights, weights


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
