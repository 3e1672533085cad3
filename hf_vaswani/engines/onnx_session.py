"""Encoder and decoder run by ONNX Runtime, on tensors of torch that both use in place.

A session has threads of its own, which a forked process does not inherit. So one with a single thread is opened at
once: it has none besides the caller's, and works in every process that is forked later, which then shares its weights.
Where torch has more threads, a session with as many is opened when it is first used.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core.configuration_vaswani import VaswaniConfig
from ..errors import InputError, reason
from .extras import import_extra
from .onnx_config import DECODER, ENCODER, graph_file, stored_quantization
from .onnx_layers import cache_names

TYPES = {torch.float32: np.float32, torch.int64: np.int64}


class GraphSession:
    """One graph.

    Args:
        file: to be opened.

    Raises:
        InputError: where ONNX Runtime is not installed, or cannot open it.
    """

    def __init__(self, file: Path):
        self.file = file
        self._sessions: dict[Any, Any] = {}
        self._open(1)

    def __call__(self, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
        """Compute; `outputs` are written into.

        Args:
            inputs, outputs: contiguous tensors of float32 or int64 on the CPU; outputs not given are not kept.
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
    """An `onnxruntime.InferenceSession` on the CPU."""
    runtime = import_extra("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    # Between two steps the threads would wait in a loop, on cores that torch uses meanwhile.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base of their own
        raise InputError(f"ONNX Runtime cannot open {file}: {reason(error)}") from None


class OnnxGraphs:
    """Encoder and decoder of a folder.

    Raises:
        InputError: where the folder has not both, or they cannot be opened.
    """

    def __init__(self, config: VaswaniConfig, folder: Path):
        quantization = stored_quantization(folder)
        if quantization is None:
            raise InputError(
                f"{folder} has not both graphs, {ENCODER}.onnx and {DECODER}.onnx. Export the model again."
            )
        self.config = config
        self.encoder, self.decoder = (
            GraphSession(graph_file(folder, name, quantization)) for name in (ENCODER, DECODER)
        )
        heads, d_model = config.decoder_attention_heads, config.d_model
        self.widths = [config.d_k or d_model // heads, config.d_v or d_model // heads] * config.decoder_layers

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Ids and mask `(batch, length)` → states `(batch, length, d_model)`."""
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
        """A step of the decoder.

        Args:
            ids: new tokens, `(rows, length)`.
            states, mask: of the sources, `(sources, source_length, d_model)` and `(sources, source_length)`; the rows
                of each stand together.
            past, source: what the steps before have returned, with the rows of this one; nothing at first.

        Returns:
            Logits `(rows, length, decoder_vocab_size)`; keys and values of target and of source, of each layer in
            turn, `(rows or sources, heads, length, d_k or d_v)`.
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


__all__ = ["GraphSession", "OnnxGraphs"]
