"""A model's encoder and decoder as ONNX graphs, with the input and output names of Optimum and transformers.js.

The decoder is a single graph for the first step and all later ones: it appends the keys and values of new tokens to
those that it is given, and projects the encoder's output only if the source caches are still empty. The number of
decoder rows is a multiple of the number of sources, with the rows of each source next to each other: all hypotheses of
a beam attend to the same source.
"""

from typing import Any

import numpy as np

from ...core.configuration_vaswani import VaswaniConfig
from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...pipeline.alignment import alignment_layer
from .graph import Graph
from .graph_layers import LOWEST, StackGraph, Steps, source_mask


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
            predict attends to each source token, as in `pipeline/alignment.py`; only with `for_greedy_batches`.
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
