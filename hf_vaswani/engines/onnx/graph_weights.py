"""Linear layers and embeddings as ONNX operations, with weights in float32 or int8.

In int8, each output feature of a product has its own scale, and so does each position's state, so that no sentence
affects another in its batch. Weights use only 7 of the 8 bits: with all 8, processors without VNNI instructions would
overflow the 16 bits in which they add pairs of products. This way, the integers are the same on every machine.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from ...fast.packed_linear import joint_weights
from .graph import CONTRIB, Graph

LARGEST_WEIGHT, LARGEST_STATE, ZERO = 64, 127, 128


class FloatWeights:
    """Weights in float32."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def linear(self, name: str, states: str, layers: Sequence[nn.Linear]) -> str:
        """Apply linear layers to the same input: `(rows, length, in_features)` → their outputs, concatenated."""
        weight, bias = joint_weights(layers)
        return self._with_bias(name, self._product(name, states, weight), bias)

    def embedding(self, name: str, ids: str, weight: torch.Tensor) -> str:
        """Look up ids `(…)` in a matrix `(rows, width)`: `(…, width)`."""
        return self.graph("Gather", self.graph.weight(name, weight.float()), ids)

    def projection(self, name: str, states: str, layer: nn.Linear) -> str:
        """Apply a linear layer whose matrix may also be that of an embedding, in which case it is stored only once."""
        return self._with_bias(name, self._product(name, states, layer.weight, is_shared=True), layer.bias)

    def _product(self, name: str, states: str, weight: torch.Tensor, is_shared: bool = False) -> str:
        return self.graph("MatMul", states, self._transposed(name, weight.float().detach().cpu().numpy(), is_shared))

    def _transposed(self, name: str, matrix: np.ndarray, is_shared: bool) -> str:
        if not is_shared:
            return self.graph.weight(name, matrix.T)
        return self.graph("Transpose", self.graph.weight(name, matrix), perm=[1, 0])

    def _with_bias(self, name: str, product: str, bias: torch.Tensor | None) -> str:
        return product if bias is None else self.graph("Add", product, self.graph.weight(f"{name}.bias", bias.float()))


class Int8Weights(FloatWeights):
    """Weights in int8; biases stay in float32."""

    def embedding(self, name: str, ids: str, weight: torch.Tensor) -> str:
        graph = self.graph
        codes, scales = rounded(weight)
        rows = graph("Cast", graph("Gather", graph.weight(name, codes), ids), to=1)
        scale = graph("Gather", graph.weight(f"{name}.scale", scales), ids)
        return graph("Mul", rows, graph("Unsqueeze", scale, graph.ints(-1)))

    def _product(self, name: str, states: str, weight: torch.Tensor, is_shared: bool = False) -> str:
        graph, (matrix, scales) = self.graph, rounded(weight)
        # ONNX Runtime before 1.32 does not reduce the shape if the length is 0.
        largest = graph("ReduceMax", graph("Abs", states), axes=[-1], keepdims=1)
        largest = graph("Reshape", largest, graph.ints(0, 0, 1))
        step = graph("Max", graph("Mul", largest, graph.constant(1 / LARGEST_STATE)), graph.constant(1e-12))
        codes = graph("Add", graph("Round", graph("Div", states, step)), graph.constant(ZERO))
        product = graph(
            "MatMulIntegerToFloat",
            graph("Cast", codes, to=2),
            self._transposed(name, matrix, is_shared),
            graph.constant(1),
            graph.weight(f"{name}.scale", scales),
            graph.constant(ZERO, np.uint8),
            domain=CONTRIB,
        )
        return graph("Mul", product, step)


def rounded(weight: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Quantize a matrix `(rows, width)` to int8 codes of that shape, times float32 scales `(rows,)`."""
    values = weight.detach().float().cpu()
    scales = values.abs().amax(1).clamp(min=1e-12) / LARGEST_WEIGHT
    return (values / scales.unsqueeze(1)).round().to(torch.int8).numpy(), scales.numpy()


WEIGHTS = {"float32": FloatWeights, "int8": Int8Weights}
