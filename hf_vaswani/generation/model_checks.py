"""Whether a model can translate with its tokenizer, and how long a source may be."""

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.tokenization_vaswani import VaswaniTokenizer
from ..text.vocabularies import target_vocab_size, vocabularies

# The token of a target language or of a tag.
MARK = re.compile(r">>\S+<<|<[\w-]+>")
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def damaged_weights(weights: Iterable[tuple[str, torch.Tensor]]) -> list[str]:
    """Names of weights with a NaN or infinite value, which makes all results meaningless.

    A bias of minus infinity on the logits, which rules out a token, does not count; quantized and sharded weights are
    not checked.
    """
    return [
        name
        for name, tensor in weights
        if type(tensor) in (torch.Tensor, nn.Parameter)
        and tensor.dtype in FLOATS
        and tensor.numel()
        and not tensor.is_meta
        and _is_damaged(tensor.detach(), rules_out=name.endswith("lm_head.bias"))
    ]


def _is_damaged(tensor: torch.Tensor, rules_out: bool) -> bool:
    least, most = torch.aminmax(tensor)  # in one pass, which propagates NaN
    return not (bool(most.isfinite()) and (rules_out or bool(least.isfinite())))


def vocabulary_error(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Why a tokenizer cannot belong to a Vaswani model: it has tokens without an embedding; `None` if it has none.

    There may be more embeddings than tokens, for example as many as a multiple of 8, for speed. Other models are not
    checked, since their tokenizers may not count all tokens.
    """
    config = model.config
    if config.model_type != "vaswani":
        return None
    tokens, rows = (len(tokenizer), target_vocab_size(tokenizer)), (config.vocab_size, config.decoder_vocab_size)
    if all(count <= embeddings for count, embeddings in zip(tokens, rows)):
        return None
    counts = [f"{side[0]:,}" if len(set(side)) == 1 else f"{side[0]:,} source and {side[1]:,} target"
              for side in (tokens, rows)]  # fmt: skip
    return f"the tokenizer has {counts[0]} tokens, but the model has embeddings for {counts[1]}"


def tokenizer_warning(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """A warning if a Vaswani model's folder has a tokenizer of its own, and the given one lacks tokens of it.

    Sizes do not tell: a model may have more embeddings than tokens.
    """
    folder, file = model.name_or_path, Path(model.name_or_path, "tokenizer.json")
    is_own = not folder or tokenizer.name_or_path == folder
    if is_own or model.config.model_type != "vaswani" or not file.is_file():
        return None
    if Tokenizer.from_file(str(file)).get_vocab().items() <= vocabularies(tokenizer)[0].items():
        return None
    return f"The tokenizer is not the model's: the tokens in {folder} differ. Load the tokenizer from there."


def spare_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids of a Vaswani model that no target token has: no search prefers them, but sampling could draw them."""
    is_own = model.config.model_type == "vaswani"
    return list(range(target_vocab_size(tokenizer), model.config.decoder_vocab_size)) if is_own else []


def unwritten_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids of a Vaswani model that no target has: spare ones, and marks with which only sources begin, as `>>fr<<`."""
    spare = spare_ids(model, tokenizer)
    if not isinstance(tokenizer, VaswaniTokenizer):
        return spare
    target = tokenizer.get_target_vocab()
    added = (token for token in tokenizer.added_tokens_decoder.values() if token.lstrip and not token.special)
    return spare + [target[mark.content] for mark in added if MARK.fullmatch(mark.content) and mark.content in target]
