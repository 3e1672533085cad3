"""Builds an ONNX graph: nodes that name their own outputs, and initializers that are each stored only once."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

OPSET = 17
# The domain of ONNX Runtime's own operators: int8 products that also scale their results.
CONTRIB = "com.microsoft"
IR_VERSION = 8


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

    def __call__(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
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

    def constant(self, value: float | int | Sequence[float | int], dtype: Any = np.float32) -> str:
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

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> str:
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


def _value(name: str, dtype: Any, shape: Sequence[int | str]) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
