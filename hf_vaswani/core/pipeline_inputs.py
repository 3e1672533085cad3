"""Checks the inputs of the translation pipeline: models, tokenizers, texts, languages and source lengths.

The file travels with each checkpoint as remote code and therefore imports nothing but torch and transformers.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from tokenizers.normalizers import Normalizer
from torch import nn
from torch.utils.data import Dataset, IterableDataset
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from .generation_settings import LARGEST_NUMBER
from .tokenization_invisible import FORMATS, INVISIBLE, SPACES, invisible_normalizer
from .tokenization_invisible import is_blank as is_blank

TRANSLATION_TASK = re.compile(r"translation_(?P<source>\w+)_to_(?P<target>\w+)")
# A language's code, with or without its script or region: pt, pt-BR, zh_Hans.
LANGUAGE = re.compile("([a-z]{2,3})([-_][a-z0-9]{2,8})*", re.IGNORECASE)
# Column names that look like such codes.
NO_LANGUAGES = ("src", "tgt", "trg")
LanguagePair = tuple[str | None, str | None]
# The entry in the settings of this package's tokenizers that says how they treat whitespace: "normalize" or "keep".
WHITESPACE = "whitespace"
BYTES = {letter: byte for byte, letter in bytes_to_unicode().items()}  # in tokens of byte-level vocabularies
RUN_OF_SPACES = re.compile("  |▁▁")
# Tokenizer → its number of tokens, and the normalizers of its sources and targets.
_normalizers: WeakKeyDictionary[PreTrainedTokenizerBase, tuple] = WeakKeyDictionary()
NO_LIMIT = 10**6  # tokenizers without a limit have a `model_max_length` far beyond
# Attention to a longer source would fill the memory, whatever the model's positions.
LONGEST_SOURCE = 4096
LONGEST_PIECE = 512
SHOWN_ERRORS = 5
OTHER_NAMES = dict.fromkeys(("beam_size", "beam_width", "beams"), "num_beams")  # of arguments, in other toolkits
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


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


def spare_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids of a Vaswani model that no target token has: no search prefers them, but sampling could draw them."""
    is_own = model.config.model_type == "vaswani"
    return list(range(target_vocab_size(tokenizer), model.config.decoder_vocab_size)) if is_own else []


def target_vocab_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """The number of target tokens."""
    if getattr(tokenizer, "separate_vocabs", False):  # a MarianTokenizer
        return len(tokenizer.target_encoder)
    sizes = (getattr(tokenizer, name, None) for name in ("target_vocab_size", "tgt_vocab_size"))  # ours, FSMT's
    return next((size for size in sizes if size is not None), len(tokenizer))


def vocabularies(tokenizer: PreTrainedTokenizerBase) -> tuple[dict[str, int], dict[str, int]]:
    """Source and target tokens with their ids."""
    source = tokenizer.get_vocab()
    if hasattr(tokenizer, "get_target_vocab"):  # a VaswaniTokenizer
        return source, tokenizer.get_target_vocab()
    if getattr(tokenizer, "separate_vocabs", False):  # a MarianTokenizer
        return source, tokenizer.target_encoder
    if hasattr(tokenizer, "src_vocab_size"):  # an FSMTTokenizer
        return source, {token: i for i, token in tokenizer.decoder.items()}
    return source, source


def target_encoding_error(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Why a tokenizer cannot encode targets, or `None`: FSMT's with two vocabularies silently uses the source's."""
    source, target = vocabularies(tokenizer) if hasattr(tokenizer, "src_vocab_size") else ({}, {})
    if source == target:
        return None
    return (
        "FSMTTokenizer encodes targets with the source's vocabulary, but the target has its own: this tokenizer "
        "cannot be used to train on given targets or to score them."
    )


def clean(text: str) -> str:
    """Make a text valid for any tokenizer: lone surrogates, which no encoding has, become U+FFFD; pairs are joined."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def normalized(text: str, tokenizer: PreTrainedTokenizerBase, is_target: bool = False) -> str:
    """Remove from a text what is invisible and the tokenizer does not know, see [`invisible_normalizer`].

    Tokenizers trained by this package say in their settings that they normalize texts themselves, or keep whitespace.

    Args:
        text: without lone surrogates, see [`clean`].
        is_target: whether it is a target, for which the tokenizer may have another vocabulary.
    """
    if WHITESPACE in getattr(tokenizer, "init_kwargs", {}):
        return text
    size, *sides = _normalizers.get(tokenizer, (0,))
    if size != len(tokenizer):  # new, or with more tokens than before
        sides = [outer_normalizer(tokenizer, vocabulary) for vocabulary in vocabularies(tokenizer)]
        _normalizers[tokenizer] = (len(tokenizer), *sides)
    return sides[is_target].normalize_str(text)


def outer_normalizer(tokenizer: PreTrainedTokenizerBase, vocabulary: Iterable[str]) -> Normalizer:
    """The normalizer for the texts of a tokenizer that has none of its own, by the tokens that it has."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if "ByteLevel" in f"{backend and backend.pre_tokenizer} {backend and backend.decoder}":
        in_bytes = ([BYTES.get(letter, 0) for letter in token] for token in vocabulary)
        vocabulary, handled = [bytes(token).decode(errors="ignore") for token in in_bytes], set()
    else:
        handled = _find_handled(tokenizer)
    known = INVISIBLE.intersection("".join(vocabulary)) | handled
    return invisible_normalizer(known, keeps_runs=any(map(RUN_OF_SPACES.search, vocabulary)))


def _find_handled(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """The invisible characters that a tokenizer itself reads as a space or as nothing, as SentencePiece does."""
    spaced, joint = tokenizer.tokenize("a b"), tokenizer.tokenize("ab")
    if tokenizer.unk_token in (*spaced, *joint):
        return set()
    return {
        character
        for character in SPACES + FORMATS
        if tokenizer.tokenize(f"a{character}b") in (spaced, joint)
        and all(
            tokenizer.tokenize(text) == spaced for text in (f"{character}a b", f"a {character}b", f"a b{character}")
        )
    } - {" "}


def text_pairs(pairs: Iterable) -> Iterator[tuple[str, str]]:
    """Yield pairs of source and target lazily, each checked to be two texts and cleaned with [`clean`]."""
    for i, pair in enumerate(pairs):
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not (is_pair and all(isinstance(text, str) for text in pair)):
            raise ValueError(f"pairs must be (source, target), two str each, but pairs[{i}] is {_shown(pair)}.")
        yield clean(pair[0]), clean(pair[1])


def as_texts(inputs: Any) -> tuple[Iterable, bool]:
    """Inputs of the pipeline other than a single text → an iterable of texts, and whether to read it lazily.

    Raises:
        ValueError: the pipeline does not accept such inputs.
    """
    if isinstance(inputs, Dataset) and not isinstance(inputs, IterableDataset):
        return (inputs[i] for i in range(len(inputs))), True
    is_sequence = isinstance(inputs, Sequence) or (hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__"))
    is_other = isinstance(inputs, (bytes, bytearray, Mapping, set, frozenset))  # sets have no order
    if is_other or not (is_sequence or isinstance(inputs, Iterable)):
        raise ValueError(f"{EXPECTED}, got {type(inputs).__name__}: {_shown(inputs)}")
    return inputs, not is_sequence


EXPECTED = "The translation pipeline takes a str or a list of str"


def not_texts(inputs: list, first: int = 0) -> list[int]:
    """Positions of inputs that are not texts, counted from `first`."""
    return [i for i, text in enumerate(inputs, first) if not isinstance(text, str)]


def not_texts_error(inputs: list, positions: list[int], first: int = 0) -> ValueError:
    errors = [f"inputs[{i}] is {type(inputs[i - first]).__name__}: {_shown(inputs[i - first])}" for i in positions]
    return ValueError(f"{EXPECTED}, but {_listed(errors)}")


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
        f"{_listed(errors)}, but a text may have {limit} at most. Pass split_sentences=True to translate long texts "
        "in pieces, or truncation=True to cut them."
    )


def check_number(name: str, value: Any, least: int = 1) -> None:
    """Refuse anything but a whole number of 32 bits, at least `least`, or `None` for a number that is not given."""
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        value = value.item()
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if value is not None and value > LARGEST_NUMBER:
        raise ValueError(f"{name} must be at most {LARGEST_NUMBER:,}, got {value!r}.")


def check_switch(name: str, value: Any) -> None:
    """Refuse anything but true, false, or `None` for a switch that is not given: any text would count as true."""
    if value not in (True, False, None):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def suggest_argument(error: ValueError, known: Iterable[str]) -> str | None:
    """What is meant by an argument that `generate()` does not know, if its error is about one, and it is clear."""
    for name in re.findall(r"'(\w+)'", str(error)) if "model_kwargs" in str(error) else []:
        if close := get_close_matches(OTHER_NAMES.get(name, name), known, 1, cutoff=0.75):
            return f"{name} is not an argument of translation. Did you mean {close[0]}?"
    return None


def check_search(get: Callable[[str], Any]) -> None:
    """Refuse invalid numbers among the arguments of a search, and end tokens that are not ids.

    Args:
        get: returns the value of an argument of `generate()` by its name, or `None`.
    """
    for name in ("num_beams", "num_return_sequences", "max_new_tokens", "max_length"):
        check_number(name, get(name))
    given = get("eos_token_id")
    ids = given.tolist() if hasattr(given, "tolist") else given
    ids = ids if isinstance(ids, Sequence) and not isinstance(ids, str) else [ids]
    if given is not None and (not ids or any(isinstance(i, bool) or not isinstance(i, Integral) for i in ids)):
        raise ValueError(f"eos_token_id must be a token id or a list of at least one, got {given!r}.")


def check_text(name: str, value: Any) -> None:
    """Refuse anything but a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a str, got {type(value).__name__}: {_shown(value)}")


def check_many(name: str, value: Any, of: str = "str") -> None:
    """Refuse what cannot be iterated, a single text, which is iterable too, and a set, whose order is undefined."""
    if isinstance(value, (str, bytes, set, frozenset)) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list of {of}, got {type(value).__name__}: {_shown(value)}")


def language_code(name: Any) -> str | None:
    """The name itself if it is a language code, else `None`."""
    return name if isinstance(name, str) and LANGUAGE.fullmatch(name) and name.lower() not in NO_LANGUAGES else None


def is_same_language(code: str, other: str) -> bool:
    """Whether two codes agree as far as both go: `pt` and `pt-BR` do, `pt-PT` and `pt-BR` do not."""
    parts = (re.split("[-_]", name.lower()) for name in (code, other))
    return all(part == other_part for part, other_part in zip(*parts))


def translation_tasks(config: PreTrainedConfig) -> dict[str, LanguagePair]:
    """The tasks `translation_XX_to_YY` for which T5's config has prefixes, with their languages."""
    names = getattr(config, "task_specific_params", None) or {}
    return {name: match.group("source", "target") for name in names if (match := TRANSLATION_TASK.fullmatch(name))}


def own_languages(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase | None = None) -> LanguagePair:
    """Source and target language of a model for a single language pair, each `None` if it is not known.

    Vaswani and FSMT models have them in their config, Marian models in their tokenizer.
    """
    pair = getattr(config, "source_language", None), getattr(config, "target_language", None)
    if pair == (None, None) and config.model_type == "fsmt" and len(config.langs) == 2:
        pair = tuple(map(language_code, config.langs))
    if pair == (None, None) and hasattr(tokenizer, "supported_language_codes"):
        # Marian also has groups of languages: gem, ROMANCE. A text then names its target language itself: >>fr<<.
        source, target = tokenizer.source_lang, None if tokenizer.supported_language_codes else tokenizer.target_lang
        pair = tuple(name if name and re.fullmatch("[a-z]{2}", name) else None for name in (source, target))
    return pair


def language_pairs(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[LanguagePair]:
    """The language pairs that a model translates; empty if they are not known, or left to the tokenizer."""
    if tasks := translation_tasks(model.config):
        return list(tasks.values())
    pair = own_languages(model.config, tokenizer)
    return [] if pair == (None, None) else [pair]


def fits_pair(asked: LanguagePair, pair: LanguagePair) -> bool:
    """Whether a language pair matches the requested one, as far as both are known."""
    return all(code is None or own is None or is_same_language(code, own) for code, own in zip(asked, pair))


def check_pair(asked: LanguagePair, pairs: list[LanguagePair], remedy: str = "") -> None:
    """Refuse languages that a model does not translate.

    Args:
        asked: source and target language, `None` if not given.
        pairs: the pairs that the model translates; empty if it accepts any.
        remedy: what to do, at the end of the message.

    Raises:
        ValueError: a language is not a text, or the model does not translate them; the message names the languages
            requested and those it has.
    """
    for name, code in zip(("src_lang", "tgt_lang"), asked):
        if code is not None:
            check_text(name, code)
    if not pairs or any(fits_pair(asked, pair) for pair in pairs):
        return
    given = [f"{name}={code!r}" for name, code in zip(("src_lang", "tgt_lang"), asked) if code is not None]
    remedy = remedy or "Use its own languages, or none."
    raise ValueError(f"{' and '.join(given)}: this model translates {pairs_in_words(pairs)}. {remedy}")


def pairs_in_words(pairs: list[LanguagePair]) -> str:
    """Language pairs as in `de to en or fr to en`."""
    return " or ".join(f"{source or 'any language'} to {target or 'any language'}" for source, target in pairs)


def check_languages(
    tokenizer: PreTrainedTokenizerBase, src_lang: str | None, tgt_lang: str | None, has_own_target: bool
) -> None:
    """Refuse languages that are unknown to a multilingual tokenizer, or missing although it needs them.

    Args:
        has_own_target: whether `forced_bos_token_id`, for example in the model's generation config, sets the target
            language; then no languages need to be given.

    Raises:
        ValueError: a language is unknown or missing; the message names each, and some of those that are known.
    """
    if not hasattr(tokenizer, "_build_translation_inputs"):
        return
    codes = language_codes(tokenizer)
    errors = []
    for name, code in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
        if code is None:
            if not has_own_target:
                errors.append(f"{name} is missing")
        elif codes and not ({code, f"__{code}__"} & codes or code in tokenizer.get_added_vocab()):
            errors.append(f"{name}={code!r} is not a language of this tokenizer")
    if errors:
        known = sorted(codes)
        examples = ", ".join(known[:: max(1, len(known) // 8)][:8])
        raise ValueError(
            f"{' and '.join(errors)}. A multilingual model needs both src_lang and tgt_lang; this one knows "
            f"{len(known)} languages, such as {examples}."
        )


def language_codes(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Codes of the languages that a multilingual tokenizer knows, in its own spelling."""
    codes = getattr(tokenizer, "lang_code_to_id", None)
    if codes:
        return set(codes)
    # NLLB has them only among its special tokens.
    roles = {str(getattr(tokenizer, name)) for name in tokenizer.SPECIAL_TOKENS_ATTRIBUTES}
    return set(tokenizer.all_special_tokens) - roles


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _listed(errors: list[str]) -> str:
    rest = len(errors) - SHOWN_ERRORS
    return ", ".join(errors[:SHOWN_ERRORS]) + (f" and {rest} more" if rest > 0 else "")


__all__ = ["as_texts", "check_languages", "clean", "is_blank", "source_limits"]
