"""Attention weights of a given translation, and the word alignment that follows from them.

Works for every encoder–decoder in transformers.
"""

import copy
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

# Held while a model that cannot be copied is in eval mode.
_switching = threading.RLock()


class ForcedAttentions(NamedTuple):
    """Attention weights in float32: rows attend to columns and sum to 1. Rows and columns of padding are 0.

    Attributes:
        encoder: `(batch, layers, heads, source_length, source_length)`.
        decoder: `(batch * n, layers, heads, target_length, target_length)`.
        cross: `(batch * n, layers, heads, target_length, source_length)`.
    """

    encoder: torch.Tensor
    decoder: torch.Tensor
    cross: torch.Tensor


@torch.no_grad()
def forced_attentions(
    model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], output_ids: torch.LongTensor
) -> ForcedAttentions:
    """All attention weights with which a model produces given translations, from one teacher-forced pass.

    The decoder reads `output_ids[:, :-1]`. Row i of `cross` and `decoder` is therefore the attention from which token
    `output_ids[:, i + 1]` is predicted, and column i of `decoder` stands for token `output_ids[:, i]`.

    Weights are computed with "eager" attention, since the other implementations never materialize them, and in eval
    mode, see [`evaluation`].

    Args:
        inputs: `input_ids` and, if there is padding, `attention_mask`, `(batch, source_length)` each. Other entries
            are ignored.
        output_ids: `(batch * n, target_length + 1)` as `generate()` returns them: n hypotheses per source, each
            beginning with the decoder's start token, padded at the end.

    Raises:
        ValueError: the number of hypotheses is not a multiple of the number of sources, nothing follows the start
            token, or the model returns no weights.
    """
    input_ids, output_ids = inputs["input_ids"].to(model.device), output_ids.to(model.device)
    mask = inputs.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask.to(model.device)
    hypotheses, remainder = divmod(len(output_ids), len(input_ids))
    if remainder or not hypotheses:
        raise ValueError(f"{len(output_ids)} hypotheses are not a multiple of {len(input_ids)} sources.")
    if output_ids.shape[1] < 2:
        raise ValueError("output_ids has no tokens after the decoder start token.")
    with evaluation(model, "eager") as reader:
        encoded = reader.get_encoder()(input_ids, attention_mask=mask, output_attentions=True, return_dict=True)
        # The model without its LM head, if it has one: logits over a large vocabulary are not needed here.
        outputs = reader.base_model(
            input_ids=input_ids.repeat_interleave(hypotheses, dim=0),
            attention_mask=mask.repeat_interleave(hypotheses, dim=0),
            encoder_outputs=BaseModelOutput(encoded.last_hidden_state.repeat_interleave(hypotheses, dim=0)),
            decoder_input_ids=output_ids[:, :-1],
            output_attentions=True,
            use_cache=False,
            return_dict=True,
        )
    is_source = mask.bool()
    is_source_of_hypothesis = is_source.repeat_interleave(hypotheses, dim=0)
    is_target = before_padding(output_ids, model.config.pad_token_id)
    return ForcedAttentions(
        encoder=_stack(model, encoded.attentions, is_source, is_source),
        decoder=_stack(model, outputs.decoder_attentions, is_target[:, 1:], is_target[:, :-1]),
        cross=_stack(model, outputs.cross_attentions, is_target[:, 1:], is_source_of_hypothesis),
    )


def alignments(
    cross: torch.Tensor,
    source_mask: torch.Tensor,
    target_mask: torch.Tensor,
    layer: int | None = None,
    heads: Sequence[Sequence[int]] | None = None,
) -> list[list[tuple[int, int]]]:
    """Which source token each target token comes from: the one that the heads of a layer attend to most.

    Args:
        cross: weights of the cross-attention, `(batch, layers, heads, target_length, source_length)`.
        source_mask, target_mask: bool, `(batch, source_length)` and `(batch, target_length)`; `False` for tokens to
            leave out, which are special tokens and padding. See [`text_mask`].
        layer: decoder layer, counted from 0; negative numbers count from the last. By default `alignment_layer`.
        heads: the heads to read instead of a whole layer, as in `alignment_heads` of a config.

    Returns:
        For each row of the batch, pairs (source index, target index) in target order, one for each target token that
        is not left out. Indices count from 0, as if the tokens left out were not there.
    """
    if heads and layer is None:
        layers, numbers = zip(*heads)
        weights = cross[:, list(layers), list(numbers)]
    else:
        weights = cross[:, alignment_layer(cross.shape[1]) if layer is None else layer]
    source_mask, target_mask = source_mask.to(cross.device), target_mask.to(cross.device)
    weights = weights.mean(dim=1).masked_fill(~source_mask.unsqueeze(1), -1)
    best = weights.argmax(dim=-1)
    # Positions in the sequences → positions among the tokens that are not left out.
    best = (source_mask.cumsum(dim=-1) - 1).gather(1, best)
    return [
        [(source, target) for target, source in enumerate(row[kept].tolist())] if has_source else []
        for row, kept, has_source in zip(best, target_mask, source_mask.any(dim=1).tolist())
    ]


def alignment_layer(layers: int) -> int:
    """The decoder layer, counted from 0, whose heads align best on average: five sixths of the way up.

    Of six layers, that is the second to last (Garg et al. 2019, https://arxiv.org/abs/1909.02074). Of three, it is the
    last: in trained post-norm models, it finds 93% and 63% of the links on which two IBM Model 1 aligners agree, and
    the layer before it 77% and 45%.
    """
    return math.ceil(5 * layers / 6) - 1


def before_padding(token_ids: torch.Tensor, pad_token_id: int | None) -> torch.Tensor:
    """Which ids `(batch, length)` are not padding at the end.

    The first one always counts as a token, since many decoders start from the padding token.
    """
    is_token = token_ids.ne(-1 if pad_token_id is None else pad_token_id)
    is_token[:, :1] = True
    return is_token.flip(1).cummax(dim=1).values.flip(1)


def text_mask(tokenizer: PreTrainedTokenizerBase, token_ids: torch.Tensor, is_target: bool = False) -> torch.Tensor:
    """Which ids, in a tensor of any shape, stand for text: words, subwords and unknown tokens, not special tokens.

    Tokens that name a target language, with which sources begin, do not.
    """
    special = tokenizer.all_special_ids
    if is_target and hasattr(tokenizer, "backends"):  # a VaswaniTokenizer, whose own ids are the source's
        special = [tokenizer.backends["target"].token_to_id(token) for token in tokenizer.all_special_tokens]
    elif marks := getattr(tokenizer, "supported_language_codes", None):
        special = [*special, *tokenizer.convert_tokens_to_ids(marks)]
    special = [i for i in special if i != tokenizer.unk_token_id]
    return torch.isin(token_ids, torch.tensor(special, dtype=token_ids.dtype, device=token_ids.device), invert=True)


def to_tokens(tokenizer: PreTrainedTokenizerBase, token_ids: list[int], is_target: bool = False) -> list[str]:
    """Convert ids of one side to tokens, even if source and target have separate vocabularies."""
    if is_target and hasattr(tokenizer, "backends"):  # a VaswaniTokenizer, whose own tokens are the source's
        return [tokenizer.backends["target"].id_to_token(i) for i in token_ids]
    # A MarianTokenizer with two vocabularies, or an FSMTTokenizer: their own tokens are the target's.
    has_target_tokens = getattr(tokenizer, "separate_vocabs", False) or hasattr(tokenizer, "src_vocab_size")
    if has_target_tokens and not is_target:
        tokens = {i: token for token, i in tokenizer.get_src_vocab().items()}
        return [tokens[i] for i in token_ids]
    return tokenizer.convert_ids_to_tokens(token_ids)


@contextmanager
def evaluation(model: PreTrainedModel, attention: str | None = None) -> Iterator[PreTrainedModel]:
    """Lend a model in eval mode, which shares all weights with the given one.

    A model that is in eval mode already is lent as it is. Else it is a copy, since other threads may be using the
    model. Only a model with parts that are tied to it, such as a compiled or patched `forward`, is itself switched to
    eval mode, and back at the end.

    Args:
        attention: the implementation of attention meanwhile; by default, the model's.
    """
    if attention is None and not model.training:
        yield model
        return
    if not any(_cannot_be_copied(part) for part in model.modules()):
        yield _copied(model, attention, {}, {})
        return
    with _switching:
        modes = [(part, part.training) for part in model.modules()]
        configs = {id(part.config): part.config for part in model.modules() if isinstance(part, PreTrainedModel)}
        # Outer configs come first and also set their inner ones.
        implementations = [(config, config._attn_implementation) for config in configs.values()]
        try:
            for config, own in implementations:
                config._attn_implementation = attention or own
            yield model.eval()
        finally:
            for config, own in implementations:
                config._attn_implementation = own
            for part, is_training in modes:
                part.training = is_training


def _cannot_be_copied(module: nn.Module) -> bool:
    """Whether a module has a `forward` of its own that is not Accelerate's, or refers to modules in unknown ways."""
    attributes = vars(module)
    if is_parametrized(module) or ("forward" in attributes and "_old_forward" not in attributes):
        return True
    if type(module).__new__ is not object.__new__:  # sharded by FSDP, which knows modules by identity
        return True
    return any(
        isinstance(part, nn.Module)
        for value in attributes.values()
        if isinstance(value, list | tuple)
        for part in value
    )


def _copied(module: nn.Module, attention: str | None, done: dict[nn.Module, nn.Module], configs: dict) -> nn.Module:
    """Copy a module and those in it; one that is used in several places is copied once, and so is each config."""
    if module in done:
        return done[module]
    done[module] = copied = copy.copy(module)
    copied.training = False
    copied._modules = {
        name: child if child is None else _copied(child, attention, done, configs)
        for name, child in module._modules.items()
    }
    for name, value in vars(module).items():
        if name.endswith("_hooks"):  # requesting attention adds hooks
            setattr(copied, name, copy.copy(value))
        elif name in ("forward", "_old_forward"):  # Accelerate's, bound to the module
            setattr(copied, name, copy.deepcopy(value, {id(module): copied}))
    if attention and isinstance(config := vars(module).get("config"), PreTrainedConfig):
        copied.config = copy.deepcopy(config, configs)
        copied.config._attn_implementation = attention
    return copied


def _stack(
    model: nn.Module, weights: tuple[torch.Tensor, ...] | None, is_row: torch.Tensor, is_column: torch.Tensor
) -> torch.Tensor:
    """Stack layers' `(batch, heads, rows, columns)` into `(batch, layers, heads, rows, columns)`, with padding 0."""
    if not weights or any(layer is None for layer in weights):
        raise ValueError(f"{type(model).__name__} returns no attention weights.")
    is_token = is_row[:, None, None, :, None] & is_column[:, None, None, None, :]
    return torch.stack([layer.float() for layer in weights], dim=1).masked_fill(~is_token, 0)


__all__ = [
    "ForcedAttentions",
    "alignment_layer",
    "alignments",
    "evaluation",
    "forced_attentions",
    "text_mask",
    "to_tokens",
]
