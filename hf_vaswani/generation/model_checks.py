"""Whether a model can translate with its tokenizer, and how long a source may be."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..text.inputs import listed
from ..text.vocabularies import target_vocab_size, vocabularies

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
NO_LIMIT = 10**6  # tokenizers without a limit have a `model_max_length` far beyond
# Attention to a longer source would fill the memory, whatever the model's positions.
LONGEST_SOURCE = 4096
LONGEST_PIECE = 512


def damaged_weights(weights: Iterable[tuple[str, torch.Tensor]]) -> list[str]:
    """Names of weights with a NaN or infinite value, with which all results are meaningless.

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
    return f"The tokenizer is not that of the model, whose tokens in {folder} differ. Load the tokenizer from there."


def spare_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids of a Vaswani model that no target token has: no search prefers them, but sampling could draw them."""
    is_own = model.config.model_type == "vaswani"
    return list(range(target_vocab_size(tokenizer), model.config.decoder_vocab_size)) if is_own else []


class SourceLimits(NamedTuple):
    """Maximum numbers of source tokens, special tokens included.

    Attributes:
        whole: for a text as it is; longer ones are refused.
        cut: for texts that are to be cut.
        piece: for the pieces of a text that is to be split.
        is_known: whether model, tokenizer or caller set a limit at all.
    """

    whole: int
    cut: int
    piece: int
    is_known: bool


def source_limits(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, own: int | None = None) -> SourceLimits:
    """How long a source may be.

    The limit is the size of the encoder's position table, if it has one (Bart, mBART, Marian, Vaswani with learned
    positions), else the tokenizer's limit (M2M100, NLLB). For models with relative positions (T5), the latter is only
    advice: texts are cut and split there, but not refused.

    Args:
        own: the caller's limit, which replaces all but that of a position table.
    """
    table, advised = position_limit(model.get_encoder()), tokenizer.model_max_length
    if advised is not None and advised >= NO_LIMIT:
        advised = None
    known = min((n for n in (own, table) if n), default=advised)
    is_advice = known == advised and not own and not table and hasattr(model.config, "relative_attention_num_buckets")
    return SourceLimits(
        whole=LONGEST_SOURCE if known is None or is_advice else known,
        cut=known or LONGEST_SOURCE,
        piece=known or LONGEST_PIECE,
        is_known=known is not None,
    )


def position_limit(stack: nn.Module) -> int | None:
    """The size of the position table of an encoder or decoder; `None` if it has none, or one that grows."""
    positions = getattr(stack, "embed_positions", None)
    if isinstance(positions, nn.Embedding) and not hasattr(positions, "make_weight"):  # FSMT's grows
        return positions.num_embeddings - getattr(positions, "offset", 0)
    return None


def too_long_error(lengths: dict[int, int], limit: int) -> ValueError:
    """The error for texts that are too long.

    Args:
        lengths: position of a text → its number of tokens.
    """
    errors = [f"inputs[{i}] has {length} tokens" for i, length in lengths.items()]
    return ValueError(
        f"{listed(errors)}, but a text may have {limit} at most. Pass split_sentences=True to translate long texts "
        "in pieces, or truncation=True to cut them."
    )
