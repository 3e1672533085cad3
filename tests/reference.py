"""The Transformer in NumPy and float64, one sentence at a time, from the formulas: a reference for the model's tests.

It shares no code with the package. Weights are a mapping from names as in fairseq, Bart and Marian to arrays;
padding does not exist here, since a sentence is given without it.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np


def positions(numbers, dim: int, layout: str = "interleaved", exponent: str = "paper") -> np.ndarray:
    """Section 3.5 for the given position numbers: `(len(numbers), dim)`, entry by entry."""
    table = np.zeros((len(numbers), dim))
    for row, number in enumerate(numbers):
        for i in range(dim // 2):
            power = 2 * i / dim if exponent == "paper" else i / (dim / 2 - 1)
            angle = number / 10000**power
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, dim // 2 + i)
            table[row, sine], table[row, cosine] = math.sin(angle), math.cos(angle)
    return table


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def swish(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


ACTIVATIONS = {"relu": relu, "gelu": gelu, "swish": swish, "silu": swish}


def to_numpy(weights: Mapping) -> dict[str, np.ndarray]:
    """A state dict in float64."""
    return {name: tensor.detach().double().numpy() for name, tensor in weights.items()}


class Transformer:
    """Figure 1 of the paper: `decode(encode(x), y)` with embedded source and target, `(length, d_model)` each."""

    def __init__(
        self,
        weights: Mapping[str, np.ndarray],
        encoder_heads: int,
        decoder_heads: int,
        pre_norm: bool = False,
        final_norm: bool | None = None,
        eps: float = 1e-5,
        activation: Callable = relu,
    ):
        self.weights, self.pre_norm, self.eps, self.activation = weights, pre_norm, eps, activation
        self.final_norm = pre_norm if final_norm is None else final_norm
        self.heads = {"encoder": encoder_heads, "decoder": decoder_heads}

    def encode(self, x: np.ndarray) -> np.ndarray:
        for layer in self._layers("encoder"):
            x = self._residual(x, f"{layer}.self_attn_layer_norm", self._attention(f"{layer}.self_attn"))
            x = self._residual(x, f"{layer}.final_layer_norm", self._feed_forward(layer))
        return self._layer_norm(x, "encoder.layer_norm") if self.final_norm else x

    def decode(self, memory: np.ndarray, x: np.ndarray) -> np.ndarray:
        causal = np.tril(np.ones((len(x), len(x)), dtype=bool))
        for layer in self._layers("decoder"):
            x = self._residual(x, f"{layer}.self_attn_layer_norm", self._attention(f"{layer}.self_attn", causal))
            attention = self._attention(f"{layer}.encoder_attn", memory=memory)
            x = self._residual(x, f"{layer}.encoder_attn_layer_norm", attention)
            x = self._residual(x, f"{layer}.final_layer_norm", self._feed_forward(layer))
        return self._layer_norm(x, "decoder.layer_norm") if self.final_norm else x

    def _layers(self, stack: str) -> list[str]:
        numbers = {int(name.split(".")[2]) for name in self.weights if name.startswith(f"{stack}.layers.")}
        return [f"{stack}.layers.{number}" for number in sorted(numbers)]

    def _linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0)

    def _layer_norm(self, x, name):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        normalized = (x - mean) / np.sqrt(variance + self.eps)
        return normalized * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def _residual(self, x, norm, sublayer):
        if self.pre_norm:
            return x + sublayer(self._layer_norm(x, norm))
        return self._layer_norm(x + sublayer(x), norm)

    def _feed_forward(self, layer):
        return lambda x: self._linear(self.activation(self._linear(x, f"{layer}.fc1")), f"{layer}.fc2")

    def _attention(self, name, allowed=True, memory=None):
        count = self.heads[name.split(".")[0]]

        def attend(x):
            source = x if memory is None else memory
            projections = [self._linear(x, f"{name}.q_proj")]
            projections += [self._linear(source, f"{name}.{part}_proj") for part in "kv"]
            heads = []
            for q, k, v in zip(*(np.split(projection, count, axis=-1) for projection in projections)):
                scores = np.where(allowed, q @ k.T / math.sqrt(q.shape[-1]), -np.inf)
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                heads.append(weights / weights.sum(-1, keepdims=True) @ v)
            return self._linear(np.concatenate(heads, -1), f"{name}.out_proj")

        return attend
