"""What the translation pipeline takes: which models and tokenizers, which inputs are texts, which languages there are,
how long a source may be.

The file travels with each checkpoint as remote code and therefore imports nothing but torch and transformers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

# White space and control characters: a text of nothing else has nothing to translate.
BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]*")
NO_LIMIT = 10**6  # tokenizers without a limit have a `model_max_length` far beyond
# Attention to a longer source would fill the memory, whatever the model's positions.
LONGEST_SOURCE = 4096
LONGEST_PIECE = 512
SHOWN_FAULTS = 5
# What the decoder's caches may hold: source tokens * hypotheses * layers * d_model. More tokens gain no speed.
CPU_CACHE, CPU_TOKENS, CPU_ROWS = 12 * 2**20, 1536, 384
DEVICE_CACHE, DEVICE_TOKENS = 2**30, 32768
# Of one step, each as large as 1 GiB in fp32, and there are several copies of them.
DEVICE_LOGITS = 2**28
FEW_ROWS = 4
# To these embeddings are padded for the sake of speed; the rows beyond the tokenizer's tokens are never used.
MULTIPLES = (8, 16, 32, 64, 128, 256, 512)
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def damaged_weights(weights: Iterable[tuple[str, torch.Tensor]]) -> list[str]:
    """Names of weights with a value that is NaN or infinite: what is computed with them means nothing. A bias of minus
    infinity on the logits, which rules out a token, is none of them; quantized and sharded weights are not looked at.
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
    least, most = torch.aminmax(tensor)  # in one pass, in which NaN prevails
    return not (bool(most.isfinite()) and (rules_out or bool(least.isfinite())))


def vocabulary_error(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """That a tokenizer cannot be that of a Vaswani model, by the number of its tokens; `None` where it can be.

    Other models often have fewer tokens than embeddings, and tokenizers that do not count all tokens: not looked at.
    """
    config = model.config
    if config.model_type != "vaswani":
        return None
    tokens, rows = (len(tokenizer), target_vocab_size(tokenizer)), (config.vocab_size, config.decoder_vocab_size)
    if all(map(fills, tokens, rows)):
        return None
    counts = [f"{side[0]:,}" if len(set(side)) == 1 else f"{side[0]:,} source and {side[1]:,} target"
              for side in (tokens, rows)]  # fmt: skip
    return f"the tokenizer has {counts[0]} tokens, but the model has embeddings for {counts[1]}"


def fills(tokens: int, rows: int) -> bool:
    """Whether so many embeddings are of so many tokens, padding to a multiple of 8, 16, … 512 aside."""
    return rows in (tokens, *(-(-tokens // multiple) * multiple for multiple in MULTIPLES))


def target_vocab_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """The number of the target's tokens."""
    if getattr(tokenizer, "separate_vocabs", False):  # a MarianTokenizer
        return len(tokenizer.target_encoder)
    sizes = (getattr(tokenizer, name, None) for name in ("target_vocab_size", "tgt_vocab_size"))  # ours, FSMT's
    return next((size for size in sizes if size is not None), len(tokenizer))


def clean(text: str) -> str:
    """Text that every tokenizer can take: lone surrogates, which no encoding has, become U+FFFD; pairs are joined."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_blank(text: str) -> bool:
    """Whether there is nothing to translate."""
    return BLANK.fullmatch(text) is not None


def as_texts(inputs: Any) -> tuple[Iterable, bool]:
    """Inputs of the pipeline that are not one text → an iterable of texts, and whether it is to be read lazily.

    Raises:
        ValueError: where the inputs are none of those that the pipeline takes.
    """
    if isinstance(inputs, Dataset) and not isinstance(inputs, IterableDataset):
        return (inputs[i] for i in range(len(inputs))), True
    is_sequence = isinstance(inputs, Sequence) or (hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__"))
    if isinstance(inputs, (bytes, bytearray, Mapping)) or not (is_sequence or isinstance(inputs, Iterable)):
        raise ValueError(f"{EXPECTED}, got {type(inputs).__name__}: {_shown(inputs)}")
    return inputs, not is_sequence


EXPECTED = "The translation pipeline takes a str or a list of str"


def not_texts(inputs: list, first: int = 0) -> list[int]:
    """Positions of those inputs that are no text, counted from `first`."""
    return [i for i, text in enumerate(inputs, first) if not isinstance(text, str)]


def not_texts_error(inputs: list, positions: list[int], first: int = 0) -> ValueError:
    faults = [f"inputs[{i}] is {type(inputs[i - first]).__name__}: {_shown(inputs[i - first])}" for i in positions]
    return ValueError(f"{EXPECTED}, but {_listed(faults)}")


class SourceLimits(NamedTuple):
    """Source tokens at most, special ones included.

    Attributes:
        whole: of a text as it is; beyond, it is refused.
        cut: where texts are to be cut.
        piece: of the pieces of a text that is to be divided.
        is_known: whether model, tokenizer or caller set a limit at all.
    """

    whole: int
    cut: int
    piece: int
    is_known: bool


def source_limits(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, own: int | None = None) -> SourceLimits:
    """How long a source may be.

    The limit is the size of the encoder's table of positions, where there is one (Bart, mBART, Marian, Vaswani with
    learned positions), else what the tokenizer says (M2M100, NLLB). To models with relative positions (T5) that is
    advice, by which texts are cut and divided but not refused.

    Args:
        own: the caller's limit. It replaces all but that of a table.
    """
    table, advised = position_limit(model.get_encoder()), tokenizer_limit(tokenizer)
    known = min((n for n in (own, table) if n), default=advised)
    is_advice = known == advised and not own and not table and hasattr(model.config, "relative_attention_num_buckets")
    return SourceLimits(
        whole=LONGEST_SOURCE if known is None or is_advice else known,
        cut=known or LONGEST_SOURCE,
        piece=known or LONGEST_PIECE,
        is_known=known is not None,
    )


def position_limit(stack: nn.Module) -> int | None:
    """The size of an encoder's or a decoder's table of positions, where it has one that does not grow."""
    positions = getattr(stack, "embed_positions", None)
    if isinstance(positions, nn.Embedding) and not hasattr(positions, "make_weight"):  # FSMT's grows
        return positions.num_embeddings - getattr(positions, "offset", 0)
    return None


def tokenizer_limit(tokenizer: PreTrainedTokenizerBase) -> int | None:
    limit = tokenizer.model_max_length
    return limit if limit is not None and limit < NO_LIMIT else None


def too_long_error(lengths: dict[int, int], limit: int) -> ValueError:
    """The error for texts that are too long.

    Args:
        lengths: position of a text → its number of tokens.
    """
    faults = [f"inputs[{i}] has {length} tokens" for i, length in lengths.items()]
    return ValueError(
        f"{_listed(faults)}, but a text may have {limit} at most. Pass split_sentences=True to have long texts "
        "translated in pieces, or truncation=True to have them cut."
    )


def default_batch_tokens(model: PreTrainedModel, rows: int) -> int:
    """Source tokens that a batch may have, such that the decoder's caches take a like amount of memory in all models.

    Args:
        rows: hypotheses of a text that are followed at once.
    """
    decoder = model.config.get_text_config(decoder=True)
    values = decoder.num_hidden_layers * decoder.hidden_size * max(rows, FEW_ROWS)
    is_cpu = model.device.type == "cpu"
    return max(1, min((CPU_CACHE if is_cpu else DEVICE_CACHE) // values, CPU_TOKENS if is_cpu else DEVICE_TOKENS))


def default_batch_size(model: PreTrainedModel, rows: int) -> int:
    """Texts that a batch may have: on a CPU more rows would only take more memory, elsewhere their logits too much."""
    if model.device.type == "cpu":
        return max(1, CPU_ROWS // rows)
    decoder = model.config.get_text_config(decoder=True)
    vocab_size = getattr(decoder, "decoder_vocab_size", None) or decoder.vocab_size
    return max(1, DEVICE_LOGITS // (vocab_size * rows))


def check_number(name: str, value: Any) -> None:
    """Refuse what is no whole number from 1 on; `None` is none given."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}.")


def check_languages(
    tokenizer: PreTrainedTokenizerBase, src_lang: str | None, tgt_lang: str | None, has_own_target: bool
) -> None:
    """Refuse languages that a multilingual tokenizer does not know, or needs and has not been given.

    Args:
        has_own_target: whether the model itself knows its target language, from `forced_bos_token_id` in its
            generation config; then none needs to be given.

    Raises:
        ValueError: naming each language at fault and some of those that the tokenizer knows.
    """
    if not hasattr(tokenizer, "_build_translation_inputs"):
        return
    codes = language_codes(tokenizer)
    faults = []
    for name, code in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
        if code is None:
            if not has_own_target:
                faults.append(f"{name} is missing")
        elif codes and not ({code, f"__{code}__"} & codes or code in tokenizer.get_added_vocab()):
            faults.append(f"{name}={code!r} is no language of this tokenizer")
    if faults:
        known = sorted(codes)
        examples = ", ".join(known[:: max(1, len(known) // 8)][:8])
        raise ValueError(
            f"{' and '.join(faults)}. A multilingual model needs both src_lang and tgt_lang; this one knows "
            f"{len(known)} languages, such as {examples}."
        )


def language_codes(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Codes of the languages that a multilingual tokenizer knows, in its own spelling."""
    codes = getattr(tokenizer, "lang_code_to_id", None)
    if codes:
        return set(codes)
    # NLLB has them among its special tokens alone.
    roles = {str(getattr(tokenizer, name)) for name in tokenizer.SPECIAL_TOKENS_ATTRIBUTES}
    return set(tokenizer.all_special_tokens) - roles


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _listed(faults: list[str]) -> str:
    rest = len(faults) - SHOWN_FAULTS
    return ", ".join(faults[:SHOWN_FAULTS]) + (f" and {rest} more" if rest > 0 else "")


__all__ = ["as_texts", "check_languages", "clean", "is_blank", "source_limits"]
