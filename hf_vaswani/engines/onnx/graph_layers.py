"""Encoder and decoder as ONNX operations, layer by layer, with the arithmetic of `core/modeling_layers.py`."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from ...core.configuration_vaswani import VaswaniConfig
from ...core.modeling_layers import VaswaniAttention, VaswaniLayer
from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...generation.alignment import alignment_layer
from .graph import WEIGHTS, Graph

LOWEST = float(np.finfo(np.float32).min)
# How the names of the caches end.
KEY, VALUE = "key", "value"


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


def cache_names(layers: int, kind: str) -> list[str]:
    """The decoder's caches of the target (`"decoder"`) or the source (`"encoder"`), without a prefix."""
    return [f"{i}.{kind}.{part}" for i in range(layers) for part in (KEY, VALUE)]


def source_mask(graph: Graph, mask: str) -> str:
    """Turn a mask `(sources, length)`, 1 for tokens, into the values to add to scores, `(sources, 1, 1, length)`."""
    padding = graph("Sub", graph.constant(1), graph("Cast", mask, to=1))
    return graph("Unsqueeze", graph("Mul", padding, graph.constant(LOWEST)), graph.ints(1, 2))


class Steps:
    """What all decoder layers share: masks, shapes, and the source states that have yet to be projected."""

    def __init__(self, graph: Graph, ids: str, source: str, past_length: str, source_cache: str, mask: str):
        self.sources, self.rows, length = graph.size(source, 0), graph.size(ids, 0), graph.size(ids, 1)
        self.source_mask = source_mask(graph, mask)
        # The source positions that are not cached yet: all or none.
        is_new = graph("Equal", graph.size(source_cache, 2), graph.ints(0))
        count = graph("Where", is_new, graph.size(source, 1), graph.ints(0))
        self.new_source = graph("Slice", source, graph.ints(0), count, graph.ints(1))
        self.shape = graph("Concat", self.rows, length, graph.ints(-1), axis=0)
        # Query positions begin after the past; key positions begin at 0.
        end = graph("Add", past_length, length)
        query, key = (
            graph("Range", graph.scalar(first), graph.scalar(end), graph.constant(1, np.int64))
            for first in (past_length, graph.ints(0))
        )
        is_later = graph("Greater", key, graph("Unsqueeze", query, graph.ints(1)))
        self.causal_mask = graph("Where", is_later, graph.constant(LOWEST), graph.constant(0))

    def query_shape(self, graph: Graph, heads: int, width: int) -> str:
        """The shape of queries grouped by source: `(sources, rows per source * length, heads, width)`."""
        return graph("Concat", self.sources, graph.ints(-1, heads, width), axis=0)


class StackGraph:
    """Builds the graph of an encoder or decoder (`side`), with weights in `"float32"` or `"int8"`."""

    def __init__(self, config: VaswaniConfig, stack: nn.Module, side: str, quantization: str):
        self.config, self.stack, self.side = config, stack, side
        self.graph = Graph()
        self.weights = WEIGHTS[quantization](self.graph)
        # Cross-attention weights of the layers so far, `(sources, heads, rows per source * length, source_length)`.
        self.cross_weights: list[str] = []

    def embed(self, ids: str, past_length: str, mask: str | None = None) -> str:
        """Embed ids `(rows, length)` and add their positions, which begin at the scalar `past_length`, and after
        padding on the left if a `mask` `(rows, length)` is given."""
        graph, config = self.graph, self.config
        states = self.weights.embedding("embed_tokens", ids, self.stack.embed_tokens.weight)
        if self.side == "decoder" and config.decoder_start_embedding == "zero":
            states = self._zeroed(states, graph("Equal", ids, graph.constant(config.decoder_start_token_id, np.int64)))
        if config.scale_embedding:
            states = graph("Mul", states, graph.constant(math.sqrt(config.d_model)))
        if config.position_type == "none":
            return states
        if config.positions_skip_padding:
            is_padding = graph("Equal", ids, graph.constant(config.pad_token_id, np.int64))
            tokens = graph("Cast", graph("Not", is_padding), to=7)
            counted = graph("Sub", graph("CumSum", tokens, graph.constant(1, np.int64)), graph.constant(1, np.int64))
            position_ids = graph("Max", graph("Add", counted, past_length), graph.constant(0, np.int64))
            return graph("Add", states, self._zeroed(self._positions(position_ids), is_padding))
        end = graph("Add", past_length, graph.scalar(graph.size(ids, 1)))
        position_ids = graph("Range", past_length, end, graph.constant(1, np.int64))
        # The extra dimension is needed: ONNX Runtime turns a gather by a bare range into a slice, and takes the start
        # of the slice to be a vector, which it is not.
        positions = self._positions(graph("Unsqueeze", position_ids, graph.ints(0)))
        if mask is not None:
            first = graph("ArgMax", mask, axis=1)
            counted = graph("Max", graph("Sub", position_ids, first), graph.constant(0, np.int64))
            positions = graph("Gather", graph("Squeeze", positions, graph.ints(0)), counted)
        return graph("Add", states, positions)

    def _zeroed(self, states: str, where: str) -> str:
        """Zero states `(rows, length, width)` wherever the mask `where` `(rows, length)` is true."""
        return self.graph("Where", self.graph("Unsqueeze", where, self.graph.ints(2)), self.graph.constant(0), states)

    def _positions(self, position_ids: str) -> str:
        """Embed position ids `(…)`: `(…, d_model)`."""
        graph, config = self.graph, self.config
        if config.position_type == "learned":
            return self.weights.embedding("embed_positions", position_ids, self.stack.embed_positions.weight)
        # In float64, as in the model; a cosine is a sine a quarter turn ahead.
        half = config.d_model // 2
        steps = half if config.sinusoid_exponent == "paper" else max(half - 1, 1)
        frequencies = np.exp(np.arange(half) * (-math.log(10000.0) / steps))
        phases = np.array([0, math.pi / 2])
        if config.sinusoid_layout == "halves":
            frequencies, phases = np.tile(frequencies, 2), np.repeat(phases, half)
        else:
            frequencies, phases = np.repeat(frequencies, 2), np.tile(phases, half)
        phases = phases + config.sinusoid_offset * frequencies
        positions = graph("Unsqueeze", graph("Cast", position_ids, to=11), graph.ints(-1))
        angles = graph("Mul", positions, graph.weight("frequencies", frequencies))
        return graph("Cast", graph("Sin", graph("Add", angles, graph.weight("phases", phases))), to=1)

    def _sublayer_input(self, name: str, states: str, norm: nn.LayerNorm) -> str:
        return self.norm(f"{name}_layer_norm", states, norm) if self.config.norm_position == "pre" else states

    def _add_residual(self, name: str, states: str, output: str, norm: nn.LayerNorm) -> str:
        output = self.graph("Add", states, output)
        return output if self.config.norm_position == "pre" else self.norm(f"{name}_layer_norm", output, norm)

    def norm(self, name: str, states: str, norm: nn.LayerNorm) -> str:
        weight, bias = self.graph.weight(f"{name}.weight", norm.weight), self.graph.weight(f"{name}.bias", norm.bias)
        return self.graph("LayerNormalization", states, weight, bias, axis=-1, epsilon=norm.eps)

    def final_norm(self, states: str) -> str:
        norm = self.stack.layer_norm
        return self.norm("layer_norm", states, norm) if isinstance(norm, nn.LayerNorm) else states

    def feed_forward(self, name: str, states: str, layer: VaswaniLayer) -> str:
        """Apply the feed-forward network with its residual connection and norm."""
        norm = layer.final_layer_norm
        inner = self.weights.linear(f"{name}.fc1", self._sublayer_input(f"{name}.final", states, norm), [layer.fc1])
        inner = ACTIVATIONS[self.config.activation_function](self.graph, inner)
        return self._add_residual(
            f"{name}.final", states, self.weights.linear(f"{name}.fc2", inner, [layer.fc2]), norm
        )

    def self_attention(
        self, name: str, states: str, layer: VaswaniLayer, mask: str, past: list[str] | None = None
    ) -> tuple[str, str, str]:
        """Apply self-attention with its residual connection and norm to states `(rows, length, d_model)`.

        Returns:
            The new states, and keys and values including past ones.
        """
        name, attention, norm = f"{name}.self_attn", layer.self_attn, layer.self_attn_layer_norm
        graph, heads = self.graph, self._heads(attention)
        layers = [attention.q_proj, attention.k_proj, attention.v_proj]
        joint = self.weights.linear(f"{name}.qkv_proj", self._sublayer_input(name, states, norm), layers)
        widths = graph.ints(*(layer.out_features for layer in layers))
        query, key, value = graph("Split", joint, widths, outputs=3, axis=-1)
        query = graph.split_heads(query, heads, attention.d_k)
        key, value = (graph.split_heads(part, heads, d) for part, d in ((key, attention.d_k), (value, attention.d_v)))
        if past:
            key, value = (graph("Concat", old, new, axis=2) for old, new in zip(past, (key, value)))
        weights = self._attention_weights(query, key, attention, mask)
        attended = graph("Transpose", graph("MatMul", weights, value), perm=[0, 2, 1, 3])
        attended = graph("Reshape", attended, graph.ints(0, 0, heads * attention.d_v))
        output = self.weights.linear(f"{name}.out_proj", attended, [attention.out_proj])
        return self._add_residual(name, states, output, norm), key, value

    def cross_attention(
        self, name: str, states: str, layer: VaswaniLayer, steps: Steps, past: list[str]
    ) -> tuple[str, str, str]:
        """Like [`self_attention`], but to the source, whose keys and values are projected if `past` is empty."""
        name, attention, norm = f"{name}.encoder_attn", layer.encoder_attn, layer.encoder_attn_layer_norm
        graph, heads = self.graph, self._heads(attention)
        key_layer, value_layer = attention.k_proj, attention.v_proj
        joint = self.weights.linear(f"{name}.kv_proj", steps.new_source, [key_layer, value_layer])
        widths = graph.ints(key_layer.out_features, value_layer.out_features)
        key, value = (
            graph("Concat", old, graph.split_heads(new, heads, width), axis=2)
            for old, new, width in zip(
                past, graph("Split", joint, widths, outputs=2, axis=-1), (attention.d_k, attention.d_v)
            )
        )
        query = self.weights.linear(f"{name}.q_proj", self._sublayer_input(name, states, norm), [attention.q_proj])
        query = graph("Reshape", query, steps.query_shape(graph, heads, attention.d_k))
        query = graph("Transpose", query, perm=[0, 2, 1, 3])
        weights = self._attention_weights(query, key, attention, steps.source_mask)
        self.cross_weights.append(weights)
        attended = graph("Transpose", graph("MatMul", weights, value), perm=[0, 2, 1, 3])
        output = self.weights.linear(f"{name}.out_proj", graph("Reshape", attended, steps.shape), [attention.out_proj])
        return self._add_residual(name, states, output, norm), key, value

    def _attention_weights(self, query: str, key: str, attention: VaswaniAttention, mask: str) -> str:
        """softmax(Q K^T / sqrt(d_k) + mask) (equation 1), `(rows, heads, length, key_length)`."""
        graph = self.graph
        scores = graph("MatMul", query, graph("Transpose", key, perm=[0, 1, 3, 2]))
        scores = graph("Add", graph("Mul", scores, graph.constant(attention.scaling)), mask)
        return graph("Softmax", scores, axis=-1)

    def _heads(self, attention: VaswaniAttention) -> int:
        return attention.q_proj.out_features // attention.d_k

    def cache_inputs(self, kind: str, rows: str) -> list[str]:
        """Add the target's or source's caches as inputs: the keys and values of each layer in turn."""
        length = "past_decoder_sequence_length" if kind == "decoder" else "past_encoder_sequence_length"
        return [
            self.graph.input(f"past_key_values.{name}", np.float32, self._cache_shape(name, rows, length))
            for name in cache_names(self.config.decoder_layers, kind)
        ]

    def cache_outputs(self, kind: str, rows: str, values: list[str]) -> None:
        length = "present_decoder_sequence_length" if kind == "decoder" else "encoder_sequence_length"
        for name, value in zip(cache_names(self.config.decoder_layers, kind), values):
            self.graph.output(value, f"present.{name}", self._cache_shape(name, rows, length))

    def _cache_shape(self, name: str, rows: str, length: str) -> tuple[str | int, ...]:
        attention = self.stack.layers[0].self_attn
        width = attention.d_k if name.endswith(KEY) else attention.d_v
        return rows, self._heads(attention), length, width


def make_encoder(model: VaswaniForConditionalGeneration, quantization: str = "float32") -> Any:
    """Make the graph of the encoder, an `onnx.ModelProto`.

    Inputs are `input_ids` and `attention_mask` `(batch, length)`, int64; the output is `last_hidden_state` `(batch,
    length, d_model)`.
    """
    stack = StackGraph(model.config, model.model.encoder, "encoder", quantization)
    graph, shape = stack.graph, ("batch_size", "encoder_sequence_length")
    ids = graph.input("input_ids", np.int64, shape)
    is_token = graph.input("attention_mask", np.int64, shape)
    states, mask = stack.embed(ids, graph.constant(0, np.int64), is_token), source_mask(graph, is_token)
    for i, layer in enumerate(stack.stack.layers):
        states, *_ = stack.self_attention(f"layers.{i}", states, layer, mask)
        states = stack.feed_forward(f"layers.{i}", states, layer)
    graph.output(stack.final_norm(states), "last_hidden_state", (*shape, model.config.d_model))
    return graph.model("encoder")


def make_decoder(
    model: VaswaniForConditionalGeneration,
    quantization: str = "float32",
    for_greedy_batches: bool = False,
    with_alignment: bool = False,
) -> Any:
    """Make the graph of the decoder with its output projection, an `onnx.ModelProto`.

    Inputs are `input_ids` `(rows, length)`, `encoder_attention_mask` `(sources, source_length)`,
    `encoder_hidden_states` `(sources, source_length, d_model)`, and for each layer `past_key_values.N.decoder.key`
    and `.value` `(rows, heads, past_length, d_k or d_v)` and `past_key_values.N.encoder.…` `(sources, heads,
    source_length or 0, …)`. Outputs are `logits` `(rows, length, decoder_vocab_size)` and `present.…` for all caches.

    Args:
        for_greedy_batches: build the graph for transformers.js, which has a single batch size, and takes steps until
            the last token of every row is an end token: after its end token, a row then gets only end tokens.
        with_alignment: add the output `alignment` `(rows, length, source_length)`: how much each token that the logits
            predict attends to each source token, as in `generation/alignment.py`; only with `for_greedy_batches`.
    """
    config = model.config
    sources = "batch_size" if for_greedy_batches else "source_batch_size"
    stack = StackGraph(config, model.model.decoder, "decoder", quantization)
    graph = stack.graph
    ids = graph.input("input_ids", np.int64, ("batch_size", "decoder_sequence_length"))
    mask = graph.input("encoder_attention_mask", np.int64, (sources, "encoder_sequence_length"))
    source = graph.input("encoder_hidden_states", np.float32, (sources, "encoder_sequence_length", config.d_model))
    caches = {kind: stack.cache_inputs(kind, rows) for kind, rows in (("decoder", "batch_size"), ("encoder", sources))}
    past_length = graph.size(caches["decoder"][0], 2)
    states = stack.embed(ids, graph.scalar(past_length))
    steps = Steps(graph, ids, source, past_length, caches["encoder"][0], mask)
    presents: dict[str, list[str]] = {"decoder": [], "encoder": []}

    for i, layer in enumerate(stack.stack.layers):
        target_past, source_past = (caches[kind][2 * i : 2 * i + 2] for kind in ("decoder", "encoder"))
        states, *target = stack.self_attention(f"layers.{i}", states, layer, steps.causal_mask, target_past)
        states, *source_present = stack.cross_attention(f"layers.{i}", states, layer, steps, source_past)
        presents["decoder"] += target
        presents["encoder"] += source_present
        states = stack.feed_forward(f"layers.{i}", states, layer)
    logits = stack.weights.projection("lm_head", stack.final_norm(states), model.lm_head)
    if for_greedy_batches:
        logits = with_lasting_ends(graph, config, logits, ids, past_length)
    graph.output(logits, "logits", ("batch_size", "decoder_sequence_length", config.decoder_vocab_size))
    if with_alignment:
        if config.alignment_heads:
            chosen = [
                graph("Gather", stack.cross_weights[layer], graph.constant([head], np.int64), axis=1)
                for layer, head in config.alignment_heads
            ]
            weights = graph("Concat", *chosen, axis=1)
        else:
            weights = stack.cross_weights[alignment_layer(config.decoder_layers)]
        mean = graph("ReduceMean", weights, axes=[1], keepdims=0)
        graph.output(mean, "alignment", ("batch_size", "decoder_sequence_length", "encoder_sequence_length"))
    stack.cache_outputs("decoder", "batch_size", presents["decoder"])
    stack.cache_outputs("encoder", sources, presents["encoder"])
    return graph.model("decoder")


def with_lasting_ends(graph: Graph, config: VaswaniConfig, logits: str, ids: str, past_length: str) -> str:
    """Mask the logits so that an end token is followed only by end tokens, unless it is the decoder's start token."""
    eos = [config.eos_token_id] if isinstance(config.eos_token_id, int) else list(config.eos_token_id or ())
    only_end = np.full(config.decoder_vocab_size, LOWEST, np.float32)
    only_end[eos[0]] = 0
    is_end = graph("Equal", graph("Unsqueeze", ids, graph.ints(2)), graph.ints(*eos))
    is_end = graph("ReduceMax", graph("Cast", is_end, to=6), axes=[-1], keepdims=1)
    is_later = graph("Greater", past_length, graph.ints(0))
    is_end = graph("And", graph("Cast", is_end, to=9), is_later)
    return graph("Where", is_end, graph.weight("only_end", only_end), logits)
