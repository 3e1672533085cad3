"""Makes a text what its tokenizer can read: no lone surrogates, and nothing invisible that it does not know."""

import re
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from tokenizers.normalizers import Normalizer
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from .invisible import FORMATS, INVISIBLE, SPACES, invisible_normalizer
from .vocabularies import vocabularies

# The entry in the settings of this package's tokenizers that says how they treat whitespace: "normalize" or "keep".
WHITESPACE = "whitespace"
BYTES = {letter: byte for byte, letter in bytes_to_unicode().items()}  # in tokens of byte-level vocabularies
RUN_OF_SPACES = re.compile("  |▁▁")
# Tokenizer → its number of tokens, and the normalizers of its sources and targets.
_normalizers: WeakKeyDictionary[PreTrainedTokenizerBase, tuple] = WeakKeyDictionary()


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
