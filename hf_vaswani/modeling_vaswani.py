"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) as a transformers model.

To be read from top to bottom: positions (section 3.5), attention (3.2), layers (3.1, 3.3), the two stacks, the model
and its softmax head with the smoothed loss (5.4). The file travels with each checkpoint as remote code and therefore
imports nothing but torch, transformers and its siblings.
"""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_vaswani import VaswaniConfig
from .generation_vaswani import VaswaniGenerationMixin

IGNORED_LABEL = -100


def sinusoidal_positions(
    position_ids: torch.Tensor, dim: int, layout: str = "interleaved", exponent: str = "paper"
) -> torch.Tensor:
    """Sinusoids of the given positions, exact at any length (section 3.5).

    Args:
        position_ids: integer positions of any shape `(…)`.
        dim: even width of the encoding.
        layout: `"interleaved"` (sin, cos, sin, cos, …) or `"halves"` (all sines, then all cosines).
        exponent: frequency i is 10000^(-2i/dim) for `"paper"`, 10000^(-i/(dim/2 - 1)) for `"tensor2tensor"`.

    Returns:
        `(…, dim)`, float64 (float32 on devices without float64).
    """
    # float64, since at position 5000 a float32 angle is already wrong in the fourth decimal.
    dtype = torch.float32 if position_ids.device.type == "mps" else torch.float64
    half = dim // 2
    index = torch.arange(half, dtype=dtype, device=position_ids.device)
    steps = half if exponent == "paper" else max(half - 1, 1)
    angles = position_ids.to(dtype).unsqueeze(-1) * torch.exp(index * (-math.log(10000.0) / steps))
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class SinusoidalPositions(nn.Module):
    """Positions computed on the fly: no table to store, to grow or to fill after loading (section 3.5)."""

    def __init__(self, config: VaswaniConfig):
        super().__init__()
        self.dim = config.d_model
        self.layout = config.sinusoid_layout
        self.exponent = config.sinusoid_exponent

    def forward(self, past_length: int | torch.Tensor, length: int, embeddings: torch.Tensor) -> torch.Tensor:
        """Positions `past_length … past_length + length - 1`, `(length, d_model)` in the type of `embeddings`."""
        position_ids = torch.arange(length, device=embeddings.device) + past_length
        return sinusoidal_positions(position_ids, self.dim, self.layout, self.exponent).to(embeddings.dtype)


class LearnedPositions(nn.Embedding):
    """A trained vector for each position (Table 3, row E); there is none beyond `max_position_embeddings`."""

    def __init__(self, config: VaswaniConfig):
        super().__init__(config.max_position_embeddings, config.d_model)

    def forward(self, past_length: int | torch.Tensor, length: int, embeddings: torch.Tensor) -> torch.Tensor:
        """Positions `past_length … past_length + length - 1`, `(length, d_model)`.

        Raises:
            ValueError: where the sequence is longer than `max_position_embeddings`.
        """
        if isinstance(past_length, int) and past_length + length > self.num_embeddings:
            raise ValueError(
                f"The sequence has {past_length + length} tokens, but this model's learned positions end at "
                f"max_position_embeddings={self.num_embeddings}. Shorten or truncate the text, or train with "
                'position_type="sinusoidal", which has no limit.'
            )
        return super().forward(torch.arange(length, device=embeddings.device) + past_length)


POSITIONS = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}


def scaled_dot_product_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V (equation 1): the "eager" attention, which also returns its weights.

    Args:
        query: `(batch, heads, target_length, d_k)`; key and value: `(batch, heads, source_length, d_k)`.
        attention_mask: additive, broadcastable to `(batch, heads, target_length, source_length)`.

    Returns:
        The attended values `(batch, target_length, heads, d_k)` and the weights
        `(batch, heads, target_length, source_length)`.
    """
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    scores = torch.matmul(query, key.transpose(-1, -2)) * scaling
    # float32: in fp16 the lowest finite mask value plus a negative score is -inf, and a row of these a NaN.
    scores = scores.float()
    if attention_mask is not None:
        scores = scores + attention_mask.float()
    weights = scores.softmax(dim=-1).to(value.dtype)
    weights = F.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


class VaswaniAttention(nn.Module):
    """Multi-head attention (section 3.2.2) through transformers' attention interface, with key–value caches."""

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int, is_causal: bool = False):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.head_dim = config.d_model // num_heads
        self.scaling = self.head_dim**-0.5
        self.dropout = config.attention_dropout
        self.q_proj = nn.Linear(config.d_model, config.d_model, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.d_model, config.d_model, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.d_model, config.d_model, bias=config.attention_bias)
        self.out_proj = nn.Linear(config.d_model, config.d_model, bias=config.attention_bias)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend from `hidden_states` to themselves or, where given, to `encoder_hidden_states`.

        Args:
            hidden_states: `(batch, target_length, d_model)`.
            attention_mask: in the form of the attention implementation in use.
            encoder_hidden_states: `(batch, source_length, d_model)`; makes this a cross-attention.
            past_key_values: keys and values of earlier steps, extended in place.

        Returns:
            `(batch, target_length, d_model)`, and the attention weights where the implementation gives them.
        """
        if encoder_hidden_states is None:
            key, value = self._self_attention_states(hidden_states, past_key_values)
        else:
            key, value = self._cross_attention_states(encoder_hidden_states, past_key_values)
        attend: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, scaled_dot_product_attention
        )
        attended, weights = attend(
            self,
            self._split_heads(self.q_proj(hidden_states)),
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        return self.out_proj(attended.reshape(*hidden_states.shape[:-1], -1).contiguous()), weights

    def _split_heads(self, states: torch.Tensor) -> torch.Tensor:
        """`(batch, length, heads * head_dim)` → `(batch, heads, length, head_dim)`."""
        return states.view(*states.shape[:-1], -1, self.head_dim).transpose(1, 2)

    def _self_attention_states(
        self, hidden_states: torch.Tensor, past_key_values: Cache | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of this step behind those of the steps before."""
        key = self._split_heads(self.k_proj(hidden_states))
        value = self._split_heads(self.v_proj(hidden_states))
        if isinstance(past_key_values, EncoderDecoderCache):
            past_key_values = past_key_values.self_attention_cache
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        return key, value

    def _cross_attention_states(
        self, encoder_hidden_states: torch.Tensor, past_key_values: Cache | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the source, projected at the first step alone."""
        cache = past_key_values.cross_attention_cache if isinstance(past_key_values, EncoderDecoderCache) else None
        if cache is not None and past_key_values.is_updated.get(self.layer_idx):
            return cache.layers[self.layer_idx].keys, cache.layers[self.layer_idx].values
        key = self._split_heads(self.k_proj(encoder_hidden_states))
        value = self._split_heads(self.v_proj(encoder_hidden_states))
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx)
            past_key_values.is_updated[self.layer_idx] = True
        return key, value


class VaswaniLayer(GradientCheckpointingLayer):
    """What encoder and decoder layers share: residual sub-layers (3.1) and the feed-forward network (3.3)."""

    def __init__(self, config: VaswaniConfig, ffn_dim: int):
        super().__init__()
        self.norm_first = config.norm_position == "pre"
        self.dropout = config.dropout
        self.activation_dropout = config.activation_dropout
        self.activation_fn = ACT2FN[config.activation_function]
        self.fc1 = nn.Linear(config.d_model, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, config.d_model)
        self.final_layer_norm = layer_norm(config)

    def residual(self, hidden_states: torch.Tensor, norm: nn.Module, sublayer: Callable) -> torch.Tensor:
        """LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) where the norm comes first."""
        output = sublayer(norm(hidden_states) if self.norm_first else hidden_states)
        output = hidden_states + F.dropout(output, p=self.dropout, training=self.training)
        return output if self.norm_first else norm(output)

    def feed_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """max(0, x W1 + b1) W2 + b2 (equation 2), with the config's activation."""
        hidden_states = self.activation_fn(self.fc1(hidden_states))
        hidden_states = F.dropout(hidden_states, p=self.activation_dropout, training=self.training)
        return self.fc2(hidden_states)


class VaswaniEncoderLayer(VaswaniLayer):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__(config, config.encoder_ffn_dim)
        self.self_attn = VaswaniAttention(config, config.encoder_attention_heads, layer_idx)
        self.self_attn_layer_norm = layer_norm(config)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs) -> torch.Tensor:
        """`(batch, source_length, d_model)` → the same shape."""
        hidden_states = self.residual(
            hidden_states, self.self_attn_layer_norm, lambda x: self.self_attn(x, attention_mask, **kwargs)[0]
        )
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


class VaswaniDecoderLayer(VaswaniLayer):
    """Causal self-attention over the target, attention to the source, then the feed-forward network."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__(config, config.decoder_ffn_dim)
        heads = config.decoder_attention_heads
        self.self_attn = VaswaniAttention(config, heads, layer_idx, is_causal=True)
        self.self_attn_layer_norm = layer_norm(config)
        self.encoder_attn = VaswaniAttention(config, heads, layer_idx)
        self.encoder_attn_layer_norm = layer_norm(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """`(batch, target_length, d_model)` → the same shape."""
        hidden_states = self.residual(
            hidden_states,
            self.self_attn_layer_norm,
            lambda x: self.self_attn(x, attention_mask, past_key_values=past_key_values, **kwargs)[0],
        )
        if encoder_hidden_states is not None:
            hidden_states = self.residual(
                hidden_states,
                self.encoder_attn_layer_norm,
                lambda x: self.encoder_attn(
                    x, encoder_attention_mask, encoder_hidden_states, past_key_values, **kwargs
                )[0],
            )
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


def layer_norm(config: VaswaniConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)


class VaswaniPreTrainedModel(PreTrainedModel):
    """Initialisation, loading and saving that all Vaswani models share."""

    config_class = VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["VaswaniEncoderLayer", "VaswaniDecoderLayer"]
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """Xavier-uniform projections with zero biases; embeddings and softmax N(0, d_model^-0.5); unit norms."""
        std = self.config.d_model**-0.5
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=std)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, nn.Linear):
            if module is self.get_output_embeddings():
                init.normal_(module.weight, std=std)
            else:
                init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Tied parameter → the one that holds its values.

        transformers ties nothing where `tie_word_embeddings` is off. Here that option is the softmax's alone: source
        and target may still share their embeddings.
        """
        tied = self._tied_weights_keys or {}
        return {k: v for k, v in tied.items() if k != "lm_head.weight" or self.config.tie_word_embeddings}

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs) -> nn.Embedding:
        """Resize the joint vocabulary: source, target and softmax together.

        Raises:
            ValueError: where source and target have embeddings of their own.
        """
        if not self.config.share_encoder_decoder_embeddings:
            raise ValueError(
                "Source and target have embeddings of their own (share_encoder_decoder_embeddings=False), and "
                "resize_token_embeddings cannot tell which of them to resize."
            )
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self.config.decoder_vocab_size = self.config.vocab_size
        return embeddings

    def save_pretrained(self, save_directory, is_main_process: bool = True, **kwargs):
        """As in transformers, and with the code that loads the checkpoint where this package is not installed."""
        if is_main_process:
            Path(save_directory).mkdir(parents=True, exist_ok=True)
            for source in remote_code_files():
                shutil.copyfile(source, Path(save_directory) / source.name)
        super().save_pretrained(save_directory, is_main_process=is_main_process, **kwargs)

    def _get_files_timestamps(self, working_dir) -> dict[str, float]:
        """Files that are there before the weights are saved, and thus not pushed; the code always is."""
        code = {path.name for path in remote_code_files()}
        return {k: v for k, v in super()._get_files_timestamps(working_dir).items() if k not in code}

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        input_ids = torch.tensor([[3, 4, 5], [3, 4, self.config.pad_token_id]], device=self.device)
        return {
            "input_ids": input_ids,
            "attention_mask": input_ids.ne(self.config.pad_token_id).long(),
            "decoder_input_ids": input_ids,
        }


def remote_code_files() -> list[Path]:
    """The source files that a checkpoint carries: this one and its siblings.

    The imports stand here so that transformers, which follows the relative imports of a remote file, fetches all of
    them together: a model loaded from remote code can then be saved whole again.
    """
    from .pipeline_translation import TranslationPipeline
    from .tokenization_vaswani import VaswaniTokenizer

    modules = [c.__module__ for c in (VaswaniConfig, VaswaniGenerationMixin, TranslationPipeline, VaswaniTokenizer)]
    names = [Path(__file__).name] + [f"{module.rpartition('.')[2]}.py" for module in modules]
    return [Path(__file__).with_name(name) for name in names]


class VaswaniStack(VaswaniPreTrainedModel):
    """What encoder and decoder share: embeddings scaled by sqrt(d_model) plus positions, dropout, a final norm."""

    def __init__(self, config: VaswaniConfig, vocab_size: int):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(vocab_size, config.d_model, config.pad_token_id)
        self.embed_positions = POSITIONS[config.position_type](config)
        self.embed_scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.dropout = config.dropout
        # Pre-norm leaves the residual stream unnormalised, hence the norm at its end.
        self.layer_norm = layer_norm(config) if config.norm_position == "pre" else nn.Identity()
        self.gradient_checkpointing = False

    def embed(
        self,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        past_length: int | torch.Tensor = 0,
    ) -> torch.Tensor:
        """Token ids `(batch, length)` or embeddings `(batch, length, d_model)` → `(batch, length, d_model)`."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError(
                "Exactly one of token ids and embeddings is needed: input_ids or inputs_embeds for the encoder; "
                "decoder_input_ids, decoder_inputs_embeds or labels for the decoder."
            )
        if inputs_embeds is None:
            check_token_ids(input_ids, self.embed_tokens.num_embeddings)
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds * self.embed_scale
        hidden_states = hidden_states + self.embed_positions(past_length, hidden_states.shape[1], hidden_states)
        return F.dropout(hidden_states, p=self.dropout, training=self.training)


def check_token_ids(token_ids: torch.Tensor, vocab_size: int) -> None:
    """Refuse token ids outside the vocabulary, on the CPU: elsewhere the look would stall the device."""
    is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if is_traced or token_ids.device.type != "cpu" or token_ids.numel() == 0:
        return
    if token_ids.min() < 0 or token_ids.max() >= vocab_size:
        raise ValueError(
            f"Token ids from {token_ids.min()} to {token_ids.max()} were given, but the vocabulary goes from 0 to "
            f"{vocab_size - 1}. Load tokenizer and model from the same place."
        )


class VaswaniEncoder(VaswaniStack):
    """N layers of self-attention and feed-forward network over the source (section 3.1)."""

    _can_record_outputs = {"hidden_states": VaswaniEncoderLayer, "attentions": VaswaniAttention}

    def __init__(self, config: VaswaniConfig):
        super().__init__(config, config.vocab_size)
        self.layers = nn.ModuleList(VaswaniEncoderLayer(config, i) for i in range(config.encoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """Source ids and padding mask `(batch, source_length)` → `(batch, source_length, d_model)`."""
        hidden_states = self.embed(input_ids, inputs_embeds)
        attention_mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask
        )
        for layer in self.layers:
            hidden_states = layer(hidden_states, attention_mask, **kwargs)
        return BaseModelOutput(last_hidden_state=self.layer_norm(hidden_states))


class VaswaniDecoder(VaswaniStack):
    """N layers of causal self-attention, attention to the source and feed-forward network (section 3.1)."""

    _can_record_outputs = {
        "hidden_states": VaswaniDecoderLayer,
        "attentions": OutputRecorder(VaswaniAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(VaswaniAttention, index=1, layer_name="encoder_attn"),
    }

    def __init__(self, config: VaswaniConfig):
        super().__init__(config, config.decoder_vocab_size)
        self.layers = nn.ModuleList(VaswaniDecoderLayer(config, i) for i in range(config.decoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Target ids `(batch, target_length)` → `(batch, target_length, d_model)`, with the cache for the next step.

        `attention_mask` covers cached and new target tokens, `encoder_attention_mask` the source.
        """
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past_length = past_key_values.get_seq_length() if past_key_values is not None else 0
        hidden_states = self.embed(input_ids, inputs_embeds, past_length)
        self_attention_cache = (
            past_key_values.self_attention_cache
            if isinstance(past_key_values, EncoderDecoderCache)
            else past_key_values
        )
        causal_mask = create_causal_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            past_key_values=self_attention_cache,
        )
        encoder_attention_mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )
        for layer in self.layers:
            # Gradient checkpointing sees only positional arguments: what needs a gradient must be one.
            hidden_states = layer(
                hidden_states,
                causal_mask,
                encoder_hidden_states,
                encoder_attention_mask=encoder_attention_mask,
                past_key_values=past_key_values,
                **kwargs,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.layer_norm(hidden_states), past_key_values=past_key_values
        )


class VaswaniModel(VaswaniPreTrainedModel):
    """Encoder and decoder without the softmax. Source and target share one embedding matrix unless told not to."""

    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        if config.share_encoder_decoder_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
            self._tied_weights_keys = {
                "encoder.embed_tokens.weight": "shared.weight",
                "decoder.embed_tokens.weight": "shared.weight",
            }
        self.encoder = VaswaniEncoder(config)
        self.decoder = VaswaniDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.shared if self.config.share_encoder_decoder_embeddings else self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding):
        self.encoder.embed_tokens = value
        if self.config.share_encoder_decoder_embeddings:
            self.shared = value
            self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """Encode the source, then decode the target given so far.

        Args:
            input_ids, attention_mask: `(batch, source_length)`; the mask is 1 for tokens and 0 for padding.
            decoder_input_ids, decoder_attention_mask: `(batch, target_length)`, beginning with
                `decoder_start_token_id`.
            encoder_outputs: output of the encoder, where it ran before.
            past_key_values: cache of earlier steps; then only the new target tokens are given.
            inputs_embeds, decoder_inputs_embeds: `(batch, length, d_model)`, unscaled, instead of ids.

        Returns:
            `last_hidden_state` of shape `(batch, target_length, d_model)` and all else that was asked for.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        elif isinstance(encoder_outputs, dict):
            names = ("last_hidden_state", "hidden_states", "attentions")
            encoder_outputs = BaseModelOutput(**{name: encoder_outputs.get(name) for name in names})
        else:
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


class VaswaniForConditionalGeneration(VaswaniPreTrainedModel, VaswaniGenerationMixin):
    """The Transformer with its softmax head: trains on `labels`, translates with `generate()`.

    Example:

    ```python
    >>> from transformers import AutoTokenizer
    >>> from hf_vaswani import VaswaniForConditionalGeneration

    >>> tokenizer = AutoTokenizer.from_pretrained("path-or-hub-id")
    >>> model = VaswaniForConditionalGeneration.from_pretrained("path-or-hub-id")
    >>> inputs = tokenizer(["Ein Hund läuft."], return_tensors="pt")
    >>> tokenizer.batch_decode(model.generate(**inputs, num_beams=4), skip_special_tokens=True)
    ['A dog is running.']
    ```
    """

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        target = "model.decoder.embed_tokens.weight"
        tied = {}
        if config.share_encoder_decoder_embeddings:
            tied["model.encoder.embed_tokens.weight"] = "model.shared.weight"
            tied[target] = "model.shared.weight"
        if config.tie_word_embeddings:
            tied["lm_head.weight"] = tied.get(target, target)
        self._tied_weights_keys = tied
        self.model = VaswaniModel(config)
        self.lm_head = nn.Linear(config.d_model, config.decoder_vocab_size, bias=config.output_bias)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Logits of the next target token at each position and, given `labels`, their loss.

        Args:
            labels: `(batch, target_length)`, ending with `eos_token_id`; padding is `pad_token_id` or -100. The
                decoder's input is made from them by shifting one to the right.
            logits_to_keep: logits of only the last so many positions, 0 for all; or of the positions in a tensor.
            num_items_in_batch: what the summed loss is divided by, for gradient accumulation; without it, the
                number of target tokens in `labels`.

            The others are those of [`VaswaniModel`].

        Returns:
            `logits` of shape `(batch, target_length, decoder_vocab_size)`; `loss`, a scalar.
        """
        if labels is not None:
            labels = ignore_padding(labels, self.config)
            check_token_ids(labels.masked_fill(labels == IGNORED_LABEL, 0), self.config.decoder_vocab_size)
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept])
        loss = None
        if labels is not None:
            loss = sequence_loss(
                logits,
                labels,
                self.config.label_smoothing if self.training else 0.0,
                num_items_in_batch,
            )
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Labels `(batch, target_length)` → decoder input of that shape: the start token, then all but the last."""
        if self.config.pad_token_id is None:
            raise ValueError("Labels become the decoder's input with padding, but config.pad_token_id is not set.")
        decoder_input_ids = labels.new_full(labels.shape, self.config.decoder_start_token_id)
        decoder_input_ids[:, 1:] = labels[:, :-1]
        return decoder_input_ids.masked_fill(decoder_input_ids == IGNORED_LABEL, self.config.pad_token_id)


def ignore_padding(labels: torch.Tensor, config: VaswaniConfig) -> torch.Tensor:
    """Labels with padding tokens replaced by the label that the loss ignores."""
    if config.pad_token_id is None or config.pad_token_id == config.eos_token_id:
        return labels
    return labels.masked_fill(labels == config.pad_token_id, IGNORED_LABEL)


def sequence_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Cross-entropy per target token, in float32, against smoothed labels (section 5.4).

    Args:
        logits: `(batch, target_length, vocab_size)`.
        labels: `(batch, target_length)`; positions of -100 do not count.
        label_smoothing: epsilon; the right token gets 1 - epsilon + epsilon / V, the others epsilon / V.
        num_items_in_batch: divisor of the summed loss; the number of counted labels where not given.
    """
    labels = labels.to(logits.device)
    total = F.cross_entropy(
        logits.float().flatten(0, -2),
        labels.flatten(),
        ignore_index=IGNORED_LABEL,
        label_smoothing=label_smoothing,
        reduction="sum",
    )
    if num_items_in_batch is None:
        # A batch of padding alone has loss 0, not 0 / 0.
        num_items_in_batch = labels.ne(IGNORED_LABEL).sum().clamp(min=1)
    elif torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(total.device)
    return total / num_items_in_batch


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel", "VaswaniPreTrainedModel"]
