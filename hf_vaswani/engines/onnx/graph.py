"""Builds an ONNX graph: nodes, initializers stored once, and weights in float32 or int8.

Nodes are added one by one rather than by `torch.onnx.export`, which would need a decoder rewritten for caches that may
be empty, takes seconds where this takes a fraction of one, and leaves weights shared by two graphs, and products in 8
bits, to passes over its result.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ...fast.decoder_step import joint_weights

OPSET = 17
# The domain of ONNX Runtime's own operators: int8 products that also scale their results.
CONTRIB = "com.microsoft"
IR_VERSION = 8
LARGEST_WEIGHT, LARGEST_STATE, ZERO = 64, 127, 128


class Graph:
    """Collects the nodes, initializers, inputs and outputs of an ONNX model.

    Values in the graph are referred to by their names, as `str`.
    """

    def __init__(self):
        self.nodes: list[Any] = []
        self.initializers: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._known: dict[bytes, str] = {}

    def __call__(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> Any:
        """Add a node, and return the name of its output, or a list of names if it has several."""
        from onnx import helper

        number = len(self.nodes)
        names = [f"{operator}_{number}.{i}" for i in range(outputs)]
        node = helper.make_node(operator, inputs, names, name=f"{operator}_{number}", domain=domain, **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def weight(self, name: str, values: torch.Tensor | np.ndarray) -> str:
        """Add an initializer, and return its name; if an equal one exists, as with tied matrices, return that name."""
        array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
        array = np.ascontiguousarray(array)
        key = hashlib.sha256(f"{array.dtype} {array.shape} ".encode() + array.tobytes()).digest()
        if key not in self._known:
            self._known[key] = name
            self.initializers[name] = array
        return self._known[key]

    def constant(self, value: float | int | Sequence[float | int], dtype: object = np.float32) -> str:
        """Add a small constant."""
        return self.weight(f"constant_{len(self.initializers)}", np.array(value, dtype=dtype))

    def ints(self, *values: int) -> str:
        """Add a constant int64 vector, for axes, shapes and slices."""
        return self.constant(values, np.int64)

    def size(self, value: str, axis: int) -> str:
        """The size of a value along an axis, `(1,)` int64."""
        return self("Shape", value, start=axis, end=axis + 1)

    def scalar(self, vector: str) -> str:
        """`(1,)` → `()`."""
        return self("Squeeze", vector, self.ints(0))

    def split_heads(self, states: str, heads: int, width: int) -> str:
        """`(batch, length, heads * width)` → `(batch, heads, length, width)`; lengths may be 0."""
        shaped = self("Reshape", states, self.ints(0, 0, heads, width))
        return self("Transpose", shaped, perm=[0, 2, 1, 3])

    def input(self, name: str, dtype: object, shape: Sequence[int | str]) -> str:
        """Add an input to the model; in `shape`, a `str` names a dimension that varies."""
        self.inputs.append(_value(name, dtype, shape))
        return name

    def output(self, value: str, name: str, shape: Sequence[int | str]) -> None:
        """Make a float32 value an output of the model."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value], [name], name=name))
        self.outputs.append(_value(name, np.float32, shape))

    def model(self, name: str) -> Any:
        """Build the `onnx.ModelProto`, including all weights."""
        from onnx import helper, numpy_helper

        initializers = [numpy_helper.from_array(array, name) for name, array in self.initializers.items()]
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        if any(node.domain == CONTRIB for node in self.nodes):
            opsets.append(helper.make_opsetid(CONTRIB, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="hf_vaswani")


def _value(name: str, dtype: object, shape: Sequence[int | str]) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


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
        """Apply a linear layer; a matrix that it shares with an embedding is stored only once."""
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
