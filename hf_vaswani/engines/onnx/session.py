"""Runs the encoder and decoder with ONNX Runtime, on torch tensors that both libraries use in place.

A session has its own threads, which a forked process does not inherit. So a session with a single thread is opened
right away: it uses only the caller's thread, and works in every process that is forked later, which then shares its
weights. If torch uses more threads, a session with that many is opened when it is first needed.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core.configuration_vaswani import VaswaniConfig
from ...errors import InputError, reason
from ...runtime.imports import import_extra
from .graph_layers import cache_names
from .onnx_config import DECODER, ENCODER, graph_file, stored_quantization

TYPES = {torch.float32: np.float32, torch.int64: np.int64}


class GraphSession:
    """Runs the graph in a file; raises an `InputError` if ONNX Runtime is not installed or cannot open it."""

    def __init__(self, file: Path):
        self.file = file
        self._sessions: dict[Any, Any] = {}
        self._open(1)

    def __call__(self, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
        """Run the graph, and write its results into `outputs`.

        Args:
            inputs, outputs: contiguous float32 or int64 tensors on the CPU, by name; other outputs are discarded.
        """
        session = self._open(torch.get_num_threads())
        binding = session.io_binding()
        for bind, tensors in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
            for name, tensor in tensors.items():
                bind(name, "cpu", 0, TYPES[tensor.dtype], tensor.shape, tensor.data_ptr())
        session.run_with_iobinding(binding)

    def _open(self, threads: int) -> Any:
        key = 1 if threads == 1 else (threads, os.getpid())
        if key not in self._sessions:
            self._sessions[key] = open_session(self.file, threads)
        return self._sessions[key]


def open_session(file: Path, threads: int) -> Any:
    """Open an `onnxruntime.InferenceSession` on the CPU."""
    runtime = import_extra("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    # Otherwise the threads would spin between two steps, on cores that torch uses in the meantime.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no base class of their own
        raise InputError(f"ONNX Runtime cannot open {file}: {reason(error)}") from None


class OnnxGraphs:
    """The encoder and decoder graphs of a folder.

    Raises:
        InputError: one of the graphs is missing, or they cannot be opened.
    """

    def __init__(self, config: VaswaniConfig, folder: Path):
        quantization = stored_quantization(folder)
        if quantization is None:
            raise InputError(f"{folder} needs both graphs, {ENCODER}.onnx and {DECODER}.onnx. Export the model again.")
        self.config = config
        self.encoder, self.decoder = (
            GraphSession(graph_file(folder, name, quantization)) for name in (ENCODER, DECODER)
        )
        heads, d_model = config.decoder_attention_heads, config.d_model
        self.widths = [config.d_k or d_model // heads, config.d_v or d_model // heads] * config.decoder_layers

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Encode ids with a mask, both `(batch, length)`: states `(batch, length, d_model)`."""
        states = torch.empty(*ids.shape, self.config.d_model)
        inputs = {"input_ids": ids.contiguous(), "attention_mask": mask.long().contiguous()}
        self.encoder(inputs, {"last_hidden_state": states})
        return states

    def decode(
        self,
        ids: torch.Tensor,
        states: torch.Tensor,
        mask: torch.Tensor,
        past: Sequence[torch.Tensor] = (),
        source: Sequence[torch.Tensor] = (),
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        """Run one step of the decoder.

        Args:
            ids: the new tokens, `(rows, length)`.
            states, mask: the encoder's output and mask, `(sources, source_length, d_model)` and `(sources,
                source_length)`; the rows of each source are next to each other.
            past, source: the keys and values that the previous step returned for target and source, with the rows
                of this step; empty in the first step.

        Returns:
            Logits `(rows, length, decoder_vocab_size)`, and the keys and values of the target and of the source, of
            each layer in turn, `(rows or sources, heads, length, d_k or d_v)`.
        """
        layers, heads = self.config.decoder_layers, self.config.decoder_attention_heads
        (rows, length), (sources, source_length) = ids.shape, states.shape[:2]
        past_length = past[0].shape[2] if past else 0
        old = {
            "decoder": past or [torch.empty(rows, heads, 0, width) for width in self.widths],
            "encoder": source or [torch.empty(sources, heads, 0, width) for width in self.widths],
        }
        new = {"decoder": [torch.empty(rows, heads, past_length + length, width) for width in self.widths]}
        if not source:
            new["encoder"] = [torch.empty(sources, heads, source_length, width) for width in self.widths]
        inputs = {
            "input_ids": ids.contiguous(),
            "encoder_attention_mask": mask.long().contiguous(),
            "encoder_hidden_states": states.contiguous(),
        }
        outputs = {"logits": torch.empty(rows, length, self.config.decoder_vocab_size)}
        logits = outputs["logits"]
        for tensors, prefix, caches in ((inputs, "past_key_values", old), (outputs, "present", new)):
            for kind, values in caches.items():
                names = cache_names(layers, kind)
                tensors.update({f"{prefix}.{name}": value.contiguous() for name, value in zip(names, values)})
        self.decoder(inputs, outputs)
        return logits, new["decoder"], new.get("encoder", list(source))
