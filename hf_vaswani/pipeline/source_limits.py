"""How long the source of a translation may be."""

from typing import NamedTuple

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..text.inputs import listed

NO_LIMIT = 10**6  # tokenizers without a limit have a `model_max_length` far beyond
# Attention to a longer source would fill the memory, whatever the model's positions.
LONGEST_SOURCE = 4096
LONGEST_PIECE = 512


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
