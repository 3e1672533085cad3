"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) as a transformers model.

Read it from top to bottom: the two stacks, the model and its output projection, the smoothed loss (5.4). The layers
are in `modeling_layers.py`; checks of token ids, initialization, and saving in `modeling_base.py`.
"""

import copy
import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils import can_return_tuple, is_torchdynamo_exporting
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder

from .configuration_vaswani import VaswaniConfig
from .generation_vaswani import VaswaniGenerationMixin
from .modeling_base import (
    VaswaniPreTrainedModel,
    check_ids,
    check_length,
    check_same_batch,
    check_token_ids,
    count_tokens,
    records_outputs,
    token_mask,
    warn_of_trainer,
)
from .modeling_cache import CACHE_NAME, accepts_past_key_values
from .modeling_layers import (
    POSITIONS,
    VaswaniAttention,
    VaswaniDecoderLayer,
    VaswaniEncoderLayer,
    layer_norm,
)

IGNORED_LABEL = -100


class VaswaniStack(VaswaniPreTrainedModel):
    """What encoder and decoder share: embeddings scaled by sqrt(d_model) plus positions, dropout, layers, a norm."""

    def __init__(
        self,
        config: VaswaniConfig,
        vocab_size: int,
        layers: list[nn.Module],
        layerdrop: float,
        word_dropout: float,
    ):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(vocab_size, config.d_model, config.pad_token_id)
        self.embed_positions = POSITIONS[config.position_type](config)
        self.embed_scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        self.dropout = self.layer_class.dropout_class(dropout)
        self.word_dropout = word_dropout
        self.layers = nn.ModuleList(layers)
        self.layerdrop = layerdrop
        # Pre-norm leaves the residual stream unnormalized, hence the norm at its end.
        final_norm = config.norm_position == "pre" if config.final_norm is None else config.final_norm
        self.layer_norm = layer_norm(config) if final_norm else nn.Identity()
        self.gradient_checkpointing = False
        self.post_init()

    def init_parallel_plans(self) -> None:
        """Leave a stack without plans of its own: the whole model's plans cover its modules."""
        self._tp_plan, self._ep_plan, self._pp_plan, self._fsdp_plan = {}, {}, {}, {}

    def embed(
        self,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        attention_mask: torch.Tensor | None = None,
        past_length: int | torch.Tensor = 0,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Token ids `(batch, length)` or embeddings `(batch, length, d_model)` → `(batch, length, d_model)`.

        Positions continue after the `past_length` cached ones, unless given by `position_ids`,
        `(batch or 1, length or 1)`. They begin after padding on the left, if an `attention_mask` `(batch, length)` is
        given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError(
                "Exactly one of token ids and embeddings is needed: input_ids or inputs_embeds for the encoder; "
                "decoder_input_ids, decoder_inputs_embeds or labels for the decoder. (If labels were given, the "
                "Trainer's label_smoothing_factor took them: use label_smoothing in the config instead.)"
            )
        if inputs_embeds is None:
            check_token_ids(self.ids_name, input_ids, self.embed_tokens.weight.shape[0])
            inputs_embeds = self.token_embeddings(input_ids)
        if self.training and self.word_dropout > 0:
            kept = F.dropout(inputs_embeds.new_ones(inputs_embeds.shape[:2]), p=self.word_dropout)
            inputs_embeds = inputs_embeds * kept.unsqueeze(-1)
        length = inputs_embeds.shape[1]
        if self.config.longest_sequence and position_ids is None:
            check_length(past_length, length, self.config.longest_sequence)
        if self.config.positions_skip_padding:
            is_token = token_mask(inputs_embeds, input_ids, attention_mask, self.config.pad_token_id)
            if position_ids is None:
                position_ids = count_tokens(is_token, attention_mask, past_length)
            positions = self.embed_positions(position_ids) * is_token.unsqueeze(-1)
        else:
            if position_ids is None:
                position_ids = torch.arange(length, device=inputs_embeds.device) + past_length
            positions = self.embed_positions(position_ids).to(inputs_embeds)
            if attention_mask is not None and attention_mask.dim() == 2 and position_ids.dim() == 1:
                first = attention_mask.int().argmax(dim=1, keepdim=True)  # after padding on the left
                positions = positions[(position_ids - first).clamp(min=0)]
        hidden_states = inputs_embeds * self.embed_scale + positions.to(inputs_embeds)
        return self.dropout(hidden_states)

    def token_embeddings(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Token ids `(batch, length)` → their unscaled embeddings `(batch, length, d_model)`."""
        return self.embed_tokens(input_ids)

    def source_mask(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        encoder_hidden_states: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """The padding mask of the source `(batch, source_length)`, in the form that the attention expects."""
        is_plain = attention_mask is not None and attention_mask.dim() == 2
        has_queue = hidden_states.device.type not in ("cpu", "mps")
        if is_plain and has_queue and self.training and self.config._attn_implementation == "sdpa":
            # transformers would look for padding in the mask, for which a GPU has to finish all its work first.
            return attention_mask[:, None, None].bool()
        return create_bidirectional_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )

    def kept_layers(self) -> Iterator[nn.Module]:
        """The layers to run: all of them, or in training those that LayerDrop keeps."""
        for layer in self.layers:
            if not (self.training and self.layerdrop > 0 and torch.rand(()) < self.layerdrop):
                yield layer


class VaswaniEncoder(VaswaniStack):
    """N layers of self-attention and a feed-forward network over the source (section 3.1)."""

    layer_class = VaswaniEncoderLayer
    ids_name = "input_ids"
    _can_record_outputs = {"hidden_states": VaswaniEncoderLayer, "attentions": VaswaniAttention}

    def __init__(self, config: VaswaniConfig):
        layers = [self.layer_class(config, i) for i in range(config.encoder_layers)]
        super().__init__(config, config.vocab_size, layers, config.encoder_layerdrop, config.encoder_word_dropout)

    @records_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,  # read by a decorator
    ) -> BaseModelOutput:
        """Source ids and padding mask `(batch, source_length)` → `(batch, source_length, d_model)`."""
        hidden_states = self.embed(input_ids, inputs_embeds, attention_mask)
        attention_mask = self.source_mask(hidden_states, attention_mask)
        for layer in self.kept_layers():
            hidden_states = layer(hidden_states, attention_mask)
        return BaseModelOutput(last_hidden_state=self.layer_norm(hidden_states))


DECODER_STATES = OutputRecorder(VaswaniDecoderLayer)
if hasattr(DECODER_STATES, "num_hidden_layers_key"):  # older transformers do not record layers by negative index
    DECODER_STATES.num_hidden_layers_key = "decoder_layers"


class VaswaniDecoder(VaswaniStack):
    """N layers of causal self-attention, cross-attention and a feed-forward network (section 3.1)."""

    layer_class = VaswaniDecoderLayer
    ids_name = "decoder_input_ids"
    _can_record_outputs = {
        "hidden_states": DECODER_STATES,
        "attentions": OutputRecorder(VaswaniAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(VaswaniAttention, index=1, layer_name="encoder_attn"),
    }

    def __init__(self, config: VaswaniConfig):
        layers = [self.layer_class(config, i) for i in range(config.decoder_layers)]
        super().__init__(
            config, config.decoder_vocab_size, layers, config.decoder_layerdrop, config.decoder_word_dropout
        )

    def token_embeddings(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Token ids `(batch, length)` → `(batch, length, d_model)`; the start token's may be a zero vector."""
        embeddings = super().token_embeddings(input_ids)
        if self.config.decoder_start_embedding == "zero":
            is_start = input_ids.eq(self.config.decoder_start_token_id)
            embeddings = embeddings.masked_fill(is_start.unsqueeze(-1), 0)
        return embeddings

    @accepts_past_key_values
    @merge_with_config_defaults
    @records_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        position_ids: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,  # read by a decorator
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Target ids `(batch, target_length)` → `(batch, target_length, d_model)`, with the cache for the next step.

        `attention_mask` covers cached and new target tokens, `encoder_attention_mask` the source.
        """
        if cache is not None and self.gradient_checkpointing and self.training and torch.is_grad_enabled():
            raise ValueError("Gradient checkpointing runs layers twice, which a cache does not allow. Leave one out.")
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past_length = cache.get_seq_length() if cache is not None else 0
        counted_mask = attention_mask if self.config.positions_skip_padding else None
        hidden_states = self.embed(input_ids, inputs_embeds, counted_mask, past_length, position_ids)
        self_attention_cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        causal_mask = create_causal_mask(self.config, hidden_states, attention_mask, self_attention_cache)
        encoder_attention_mask = self.source_mask(hidden_states, encoder_attention_mask, encoder_hidden_states)
        for layer in self.kept_layers():
            # Gradient checkpointing handles only positional arguments: whatever needs a gradient must be one.
            hidden_states = layer(
                hidden_states,
                causal_mask,
                encoder_hidden_states,
                encoder_attention_mask=encoder_attention_mask,
                cache=cache,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.layer_norm(hidden_states), **{CACHE_NAME: cache}
        )


class VaswaniModel(VaswaniPreTrainedModel):
    """Encoder and decoder without the LM head. By default, source and target share one embedding matrix."""

    encoder_class, decoder_class = VaswaniEncoder, VaswaniDecoder
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        if config.share_encoder_decoder_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
            self._tied_weights_keys = {
                "encoder.embed_tokens.weight": "shared.weight",
                "decoder.embed_tokens.weight": "shared.weight",
            }
        self.encoder = self.encoder_class(config)
        self.decoder = self.decoder_class(config)
        self.post_init()

    def init_parallel_plans(self) -> None:
        super().init_parallel_plans()
        self._tp_plan.pop("embed_tokens", None)  # which older transformers add to every plan
        if not self.config.share_encoder_decoder_embeddings:
            del self._tp_plan["shared"]

    def get_input_embeddings(self) -> nn.Embedding:
        """The source embeddings, which are what is called; `shared` only names a matrix that both sides may share."""
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding):
        self.encoder.embed_tokens = value
        if self.config.share_encoder_decoder_embeddings:
            self.shared = with_same_parameters(value)
            self.decoder.embed_tokens = with_same_parameters(value)

    @accepts_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        decoder_position_ids: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,  # read by a decorator
    ) -> Seq2SeqModelOutput:
        """Encode the source, then decode the target tokens given so far.

        Args:
            input_ids, attention_mask: `(batch, source_length)`; the mask is 1 for tokens and 0 for padding.
            decoder_input_ids, decoder_attention_mask: `(batch, target_length)`, beginning with
                `decoder_start_token_id`.
            encoder_outputs: output of the encoder, if it has run already.
            cache: keys and values of earlier steps; with it, only the new target tokens are given.
            inputs_embeds, decoder_inputs_embeds: `(batch, length, d_model)`, unscaled, instead of ids.
            decoder_position_ids: `(batch or 1, target_length or 1)`, positions counted from 0; by default, those
                after the cached ones.

        Returns:
            `last_hidden_state` of shape `(batch, target_length, d_model)`, and whatever else was requested.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
                return_dict=True,
            )
        elif isinstance(encoder_outputs, dict):
            names = ("last_hidden_state", "hidden_states", "attentions")
            encoder_outputs = BaseModelOutput(**{name: encoder_outputs.get(name) for name in names})
        else:
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        targets = decoder_inputs_embeds if decoder_input_ids is None else decoder_input_ids
        check_same_batch(encoder_outputs.last_hidden_state, targets)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            position_ids=decoder_position_ids,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            **{CACHE_NAME: getattr(decoder_outputs, CACHE_NAME)},
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


def with_same_parameters(module: nn.Module) -> nn.Module:
    """A copy of a module that shares its parameters.

    Adapters and hooks identify modules by name, and a module that is used in several places would have only the first
    of its names.
    """
    return copy.deepcopy(module, {id(parameter): parameter for parameter in module.parameters()})


def sequence_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: torch.Tensor | float | None = None,
) -> torch.Tensor:
    """Cross-entropy per target token, in float32, against smoothed labels (section 5.4).

    Args:
        logits: `(batch, target_length, vocab_size)`.
        labels: `(batch, target_length)`; positions of -100 do not count.
        label_smoothing: epsilon; the right token gets 1 - epsilon + epsilon / V, the others epsilon / V.
        num_items_in_batch: divisor of the summed loss; by default, the number of labels that count.
    """
    labels = labels.to(logits.device)
    if num_items_in_batch is None:
        # A batch of nothing but padding has loss 0, not 0 / 0.
        num_items_in_batch = labels.ne(IGNORED_LABEL).sum().clamp(min=1)
    elif torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(logits.device)
    rows, labels = logits.float().flatten(0, -2), labels.flatten()
    total = F.cross_entropy(rows, labels, ignore_index=IGNORED_LABEL, label_smoothing=label_smoothing, reduction="sum")
    return total / num_items_in_batch


class VaswaniForConditionalGeneration(VaswaniPreTrainedModel, VaswaniGenerationMixin):
    """The Transformer with its LM head: trains on `labels`, translates with `generate()`.

    Example:

    ```python
    >>> from transformers import AutoTokenizer
    >>> from hf_vaswani import VaswaniForConditionalGeneration

    >>> tokenizer = AutoTokenizer.from_pretrained("path-or-hub-id")
    >>> model = VaswaniForConditionalGeneration.from_pretrained("path-or-hub-id")
    >>> inputs = tokenizer(["Der Hund schläft."], return_tensors="pt")
    >>> tokenizer.batch_decode(model.generate(**inputs, num_beams=4), skip_special_tokens=True)
    ['The dog is sleeping.']
    ```
    """

    model_class = VaswaniModel
    _tp_plan = {"lm_head": "colwise_gather_output"}
    sequence_loss = staticmethod(sequence_loss)
    accepts_loss_kwargs = True  # tells the Trainer about `num_items_in_batch`

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
        self.model = self.model_class(config)
        self.lm_head = nn.Linear(config.d_model, config.decoder_vocab_size, bias=config.output_bias)
        self.post_init()

    @accepts_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        decoder_position_ids: torch.Tensor | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        num_items_in_batch: torch.Tensor | float | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,  # read by a decorator
    ) -> Seq2SeqLMOutput:
        """Logits of the next target token at each position and, given `labels`, their loss.

        Args:
            labels: `(batch, target_length)`, ending with `eos_token_id`; padding is -100, or `pad_token_id` unless
                that also ends outputs. Shifted right by one, they become the decoder's input.
            logits_to_keep: number of last positions to compute logits for, 0 for all; or a tensor of positions.
            num_items_in_batch: what the summed loss is divided by, for gradient accumulation; by default, the
                number of target tokens in `labels`.

            The other arguments are as for [`VaswaniModel`].

        Returns:
            `logits` of shape `(batch, target_length, decoder_vocab_size)`; `loss`, a scalar.
        """
        if use_cache is None and is_torchdynamo_exporting() and not is_exportable(EncoderDecoderCache):
            use_cache = False
        if labels is not None:
            if not torch.is_tensor(labels):
                check_ids("labels", labels)
            labels = ignore_padding(labels, self.config)
            known = labels.masked_fill(labels == IGNORED_LABEL, 0)
            check_token_ids("labels", known, self.config.decoder_vocab_size)
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            decoder_position_ids=decoder_position_ids,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept])
        if self.training:
            warn_of_trainer(labels, num_items_in_batch, logits.device)
        loss = None
        if labels is not None:
            if labels.shape != logits.shape[:2]:
                raise ValueError(
                    f"labels has the shape {tuple(labels.shape)}, but the decoder's input and logits_to_keep leave "
                    f"{tuple(logits.shape[:2])}. Give labels of that shape."
                )
            loss = self.sequence_loss(
                logits,
                labels,
                self.config.label_smoothing if self.training else 0.0,
                num_items_in_batch,
            )
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            **{CACHE_NAME: getattr(outputs, CACHE_NAME)},
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )

    def decode(self, **inputs) -> torch.Tensor:
        """Arguments of the forward pass → states before the output projection, `(batch, target_length, d_model)`."""
        return self.model(**inputs).last_hidden_state

    def project(self, states: torch.Tensor) -> torch.Tensor:
        """States of [`decode`] → logits of the next tokens, `(…, decoder_vocab_size)`."""
        return self.lm_head(states)

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Labels `(batch, target_length)` → decoder input of that shape: start token, then all but the last label."""
        if self.config.pad_token_id is None:
            raise ValueError("Decoder inputs made from labels need padding, but config.pad_token_id is not set.")
        decoder_input_ids = labels.new_full(labels.shape, self.config.decoder_start_token_id)
        decoder_input_ids[:, 1:] = labels[:, :-1]
        return decoder_input_ids.masked_fill(decoder_input_ids == IGNORED_LABEL, self.config.pad_token_id)


def is_exportable(output_class: type) -> bool:
    """Whether torch.export accepts the class as an output: caches only once transformers' exporters register them."""
    return output_class in torch.utils._pytree.SUPPORTED_NODES


def ignore_padding(labels: torch.Tensor, config: VaswaniConfig) -> torch.Tensor:
    """Labels with padding tokens replaced by the label that the loss ignores."""
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    if config.pad_token_id is None or config.pad_token_id in ends:
        return labels
    return labels.masked_fill(labels == config.pad_token_id, IGNORED_LABEL)


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel", "VaswaniPreTrainedModel"]
