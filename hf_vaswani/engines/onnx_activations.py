"""The activation functions of the feed-forward networks as ONNX operations."""

import math
from collections.abc import Callable

from .onnx_graph import Graph


def _gelu(graph: Graph, x: str) -> str:
    cumulative = graph("Add", graph("Erf", graph("Mul", x, graph.constant(math.sqrt(0.5)))), graph.constant(1))
    return graph("Mul", graph("Mul", x, graph.constant(0.5)), cumulative)


def _gelu_tanh(graph: Graph, x: str) -> str:
    cube = graph("Mul", graph("Mul", graph("Mul", x, x), x), graph.constant(0.044715))
    inner = graph("Mul", graph("Add", x, cube), graph.constant(math.sqrt(2 / math.pi)))
    return graph("Mul", graph("Mul", x, graph.constant(0.5)), graph("Add", graph("Tanh", inner), graph.constant(1)))


def _silu(graph: Graph, x: str, factor: float = 1.0) -> str:
    scaled = x if factor == 1 else graph("Mul", x, graph.constant(factor))
    return graph("Mul", x, graph("Sigmoid", scaled))


# Names in transformers' ACT2FN → functions that add the operations to a graph.
ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "gelu": _gelu,
    "gelu_python": _gelu,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_accurate": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "gelu_python_tanh": _gelu_tanh,
    "leaky_relu": lambda graph, x: graph("LeakyRelu", x, alpha=0.01),
    "linear": lambda graph, x: x,
    "mish": lambda graph, x: graph("Mul", x, graph("Tanh", graph("Softplus", x))),
    "quick_gelu": lambda graph, x: _silu(graph, x, 1.702),
    "relu": lambda graph, x: graph("Relu", x),
    "relu2": lambda graph, x: graph("Pow", graph("Relu", x), graph.constant(2)),
    "relu6": lambda graph, x: graph("Clip", x, graph.constant(0), graph.constant(6)),
    "sigmoid": lambda graph, x: graph("Sigmoid", x),
    "silu": _silu,
    "swish": _silu,
    "tanh": lambda graph, x: graph("Tanh", x),
}

__all__ = ["ACTIVATIONS"]
