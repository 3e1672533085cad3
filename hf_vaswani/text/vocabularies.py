"""The tokens in a tokenizer's vocabularies, whichever of transformers' classes it is."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def vocabularies(tokenizer: "PreTrainedTokenizerBase") -> tuple[dict[str, int], dict[str, int]]:
    """Source and target tokens with their ids."""
    source = tokenizer.get_vocab()
    if hasattr(tokenizer, "get_target_vocab"):  # a VaswaniTokenizer
        return source, tokenizer.get_target_vocab()
    if getattr(tokenizer, "separate_vocabs", False):  # a MarianTokenizer
        return source, tokenizer.target_encoder
    if hasattr(tokenizer, "src_vocab_size"):  # an FSMTTokenizer
        return source, {token: i for i, token in tokenizer.decoder.items()}
    return source, source


def target_vocab_size(tokenizer: "PreTrainedTokenizerBase") -> int:
    """The number of target tokens."""
    if getattr(tokenizer, "separate_vocabs", False):  # a MarianTokenizer
        return len(tokenizer.target_encoder)
    sizes = (getattr(tokenizer, name, None) for name in ("target_vocab_size", "tgt_vocab_size"))  # ours, FSMT's
    return next((size for size in sizes if size is not None), len(tokenizer))


def target_encoding_error(tokenizer: "PreTrainedTokenizerBase") -> str | None:
    """Why a tokenizer cannot encode targets, or `None`: FSMT's with two vocabularies silently uses the source's."""
    source, target = vocabularies(tokenizer) if hasattr(tokenizer, "src_vocab_size") else ({}, {})
    if source == target:
        return None
    return (
        "FSMTTokenizer encodes targets with the source's vocabulary, but the target has its own: this tokenizer "
        "cannot be used to train on given targets or to score them."
    )
