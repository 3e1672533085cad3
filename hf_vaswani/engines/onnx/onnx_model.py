"""Opens an ONNX folder as a transformers model: the search is this package's, and ONNX Runtime computes its steps.

`AutoModelForSeq2SeqLM.from_pretrained` returns this model for folders that `hf-vaswani export --to onnx` has written.
All settings of `generate()` have the same meaning as for the exported model.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import GenerationConfig, PreTrainedConfig
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import GENERATION_CONFIG_NAME

from ...backends import ONNX
from ...core.configuration_vaswani import VaswaniConfig
from ...core.modeling_base import check_length
from ...core.modeling_cache import CACHE_NAME, accepts_past_key_values
from ...errors import InputError, reason
from ...generation.mixin import FastGenerationMixin
from ...generation.settings import check_generation_file
from ...runtime.imports import import_extra
from ..engine_model import EngineModel, empty_table
from .graph_layers import cache_names
from .onnx_config import DECODER, ENCODER, OnnxConfig, graph_file, stored_quantization

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


class OnnxEncoder(nn.Module):
    """The encoder, for `generate()`."""

    main_input_name = "input_ids"

    def __init__(self, config: VaswaniConfig, graphs: OnnxGraphs):
        super().__init__()
        self.config, self.graphs = config, graphs

    @property
    def embed_positions(self) -> nn.Module | None:
        """A table without values, for callers that ask how long a text may be."""
        return empty_table(self.config.longest_sequence) if self.config.longest_sequence else None

    def forward(
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutput:
        """Encode source ids with a mask, both `(batch, length)`: states `(batch, length, d_model)` in float32."""
        refuse_recording(output_attentions, output_hidden_states)
        if limit := self.config.longest_sequence:
            check_length(0, input_ids.shape[1], limit)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return BaseModelOutput(last_hidden_state=self.graphs.encode(input_ids.cpu(), mask.cpu()))


class OnnxDecoder:
    """Runs the decoder for each step of a search; its states are logits.

    As in `generation/beam_decoder.py`, all hypotheses of a sentence attend to the same source, which is never copied
    or reordered, and finished sentences leave the batch. Only the states of the target have a row per hypothesis.

    Args:
        graphs: the graphs to run.
        prompt: `(sentences, prompt_length)`, the tokens that all hypotheses of a sentence begin with.
        states: the encoder's output, `(sentences, source_length, d_model)`.
        mask: `(sentences, source_length)`, 1 for tokens and 0 for padding.
    """

    sentences_may_leave = True
    # The caches are of no use outside the search.
    cache = None

    def __init__(self, graphs: OnnxGraphs, prompt: torch.Tensor, states: torch.Tensor, mask: torch.Tensor):
        self.graphs, self.prompt, self.states, self.mask = graphs, prompt, states, mask
        self.past: list[torch.Tensor] = []
        self.source: list[torch.Tensor] = []
        self.width = 1  # rows per sentence in the caches
        self.places = torch.arange(len(prompt))  # the first of these rows for each sentence

    def first(self) -> torch.Tensor:
        """The logits `(sentences, 1, vocab_size)` after the prompt, the same for all hypotheses of a sentence."""
        return self._step(self.prompt)[:, -1:]

    def next(self, sequences: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        """The logits `(sentences, beams, vocab_size)` after `sequences` `(sentences, beams, length)`.

        Args:
            parents: `(sentences, beams)`, the hypothesis of the previous step that each sequence continues.
        """
        n, beams = parents.shape
        rows = self.places.unsqueeze(1) + (parents if self.width > 1 else torch.zeros_like(parents))
        rows = rows.flatten()
        if len(rows) != len(self.past[0]) or not torch.equal(rows, torch.arange(len(rows))):
            self.past = [tensor.index_select(0, rows) for tensor in self.past]
        self.width, self.places = beams, torch.arange(n) * beams
        return self._step(sequences[:, :, -1].reshape(-1, 1)).view(n, beams, -1)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return states

    def keep(self, order: torch.Tensor) -> None:
        """Keep only the sentences in `order`, in that order."""
        self.places = self.places[order]
        self.states, self.mask, *self.source = (
            tensor.index_select(0, order) for tensor in (self.states, self.mask, *self.source)
        )

    def _step(self, tokens: torch.Tensor) -> torch.Tensor:
        if limit := self.graphs.config.longest_sequence:
            check_length(self.past[0].shape[2] if self.past else 0, tokens.shape[1], limit)
        logits, self.past, self.source = self.graphs.decode(tokens, self.states, self.mask, self.past, self.source)
        return logits


class OnnxModel(FastGenerationMixin, EngineModel):
    """Translates with ONNX Runtime on the CPU; has no torch weights and no gradients.

    Args:
        config: the folder's config, or the exported model's.
        folder: a folder with the graphs of encoder and decoder, and optionally a generation config.

    Raises:
        InputError: ONNX Runtime is not installed, or cannot open the folder.
    """

    config_class = OnnxConfig
    engine_key, engine_name = ONNX.name, ONNX.title

    def __init__(self, config: VaswaniConfig, folder: str | Path):
        super().__init__(config)
        self.stored = config
        self.graphs = OnnxGraphs(config, Path(folder))
        self.encoder = OnnxEncoder(config, self.graphs)
        settings = Path(folder) / GENERATION_CONFIG_NAME
        if settings.exists():
            check_generation_file(settings, config.decoder_vocab_size)
            self.generation_config = GenerationConfig.from_pretrained(folder)
        self.eval()

    @classmethod
    def engine_arguments(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        """None; raises an `InputError` for a `dtype` other than float32."""
        dtype = str(kwargs.get("dtype") or "auto").removeprefix("torch.")
        if dtype not in ("auto", "float32"):
            raise InputError(f"ONNX Runtime computes in float32 here, not in {dtype}. Leave out the dtype.")
        return {}

    computed_by = "ONNX Runtime on the CPU"

    def num_parameters(self, *args, **kwargs) -> int:
        """The number of parameters of the exported model; 0 if unknown."""
        return getattr(self.stored, "num_weights", 0)

    def get_encoder(self, *args, **kwargs) -> nn.Module:
        return self.encoder

    def get_decoder(self, *args, **kwargs) -> nn.Module:
        return self

    @property
    def embed_positions(self) -> nn.Module | None:
        return self.encoder.embed_positions

    def get_input_embeddings(self) -> nn.Module:
        return empty_table(self.config.vocab_size)

    def get_output_embeddings(self) -> nn.Module:
        return empty_table(self.config.decoder_vocab_size)

    @accepts_past_key_values
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        cache: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqLMOutput:
        """Compute logits `(rows, target_length, decoder_vocab_size)`; takes the arguments of the exported model.

        Raises:
            ValueError: attentions or hidden states are requested, or the target is padded on the left.
        """
        refuse_recording(output_attentions, output_hidden_states)
        if decoder_attention_mask is not None and not decoder_attention_mask[:, 0].all():
            raise ValueError("ONNX models do not accept left-padded targets. Pad them on the right.")
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        states = encoder_outputs[0]
        mask = torch.ones(states.shape[:2]) if attention_mask is None else attention_mask
        if cache is None and use_cache:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past, source = cached(cache, "self_attention_cache"), cached(cache, "cross_attention_cache")
        if limit := self.config.longest_sequence:
            check_length(past[0].shape[2] if past else 0, decoder_input_ids.shape[1], limit)
        logits, past, source = self.graphs.decode(decoder_input_ids.cpu(), states, mask, past, source)
        if cache is not None:
            store(cache.self_attention_cache, past)
            store(cache.cross_attention_cache, source)
        return Seq2SeqLMOutput(logits=logits, **{CACHE_NAME: cache}, encoder_last_hidden_state=states)

    def _shared_source(self, input_ids: torch.Tensor, model_kwargs: dict[str, Any], beams: int) -> OnnxDecoder:
        states = model_kwargs["encoder_outputs"].last_hidden_state[::beams].contiguous()
        mask = model_kwargs.get("attention_mask")
        mask = torch.ones(states.shape[:2], dtype=torch.long) if mask is None else mask[::beams].contiguous()
        return OnnxDecoder(self.graphs, input_ids[::beams].contiguous(), states, mask)


def open_conversion(
    folder: Path, config: PreTrainedConfig, generation_config: GenerationConfig, device: str
) -> OnnxModel:
    """Open a folder without a tokenizer, with the config and the generation config of the model."""
    model = OnnxModel(OnnxConfig.from_pretrained(folder), folder)
    model.config, model.generation_config = config, generation_config
    return model


def refuse_recording(output_attentions: bool | None, output_hidden_states: bool | None) -> None:
    """Raise a `ValueError` if outputs are requested that only the exported model itself can return."""
    if output_attentions or output_hidden_states:
        raise ValueError(
            "ONNX models do not support output_attentions or output_hidden_states. Use the original model."
        )


def cached(cache: EncoderDecoderCache | None, part: str) -> list[torch.Tensor]:
    """The cached keys and values of each layer in turn; empty if nothing is cached yet."""
    layers = getattr(cache, part).layers if cache is not None else []
    return [tensor for layer in layers if layer.is_initialized for tensor in (layer.keys, layer.values)]


def store(cache: DynamicCache, tensors: list[torch.Tensor]) -> None:
    """Replace a cache's contents with the given keys and values of each layer in turn."""
    for layer, key, value in zip(cache.layers, tensors[::2], tensors[1::2]):
        if not layer.is_initialized:
            layer.lazy_initialization(key, value)
        layer.keys, layer.values = key, value
