"""Where in a text its tokens are, and the tokens as text, whatever markers the tokenizer adds."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from .normalization import letter_bytes
from .words import Span

# How tokenizers mark the beginning, the inside, and the end of words.
MARKS = re.compile(r"^(?:▁+|##|Ġ+|￭)|(?:@@|</w>|￭|▁+)$")
# How many characters between two tokens may belong to neither: whitespace, or what the tokenizer does not know.
FARTHEST = 24
JOINERS = "\u200c\u200d"  # invisible, but they shape Persian and Indic letters


def readable_tokens(tokenizer: PreTrainedTokenizerBase, tokens: Iterable[str]) -> list[str]:
    """Tokens as text: bytes are decoded where they form characters, and invisible characters are escaped.

    Spaces in byte-level tokens become `▁`, as in SentencePiece.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if "ByteLevel" in f"{backend and backend.pre_tokenizer} {backend and backend.decoder}":
        special = set(tokenizer.all_special_tokens)
        tokens = [token if token in special else _from_bytes(token) for token in tokens]
    return ["".join(c if c.isprintable() or c in JOINERS else ascii(c)[1:-1] for c in token) for token in tokens]


def _from_bytes(token: str) -> str:
    """Decode a token of byte-level BPE, in which each character stands for a byte."""
    byte_of = letter_bytes()
    if not byte_of.keys() >= set(token):
        return token
    data = bytes(byte_of[character] for character in token)
    try:
        return data.decode().replace(" ", "▁")
    except UnicodeDecodeError:  # part of a character
        return "".join(f"<0x{byte:02X}>" for byte in data)


def token_spans(tokens: Sequence[str], text: str) -> list[Span | None]:
    """The span of each token in a text, from left to right; None if its letters are not found."""
    folded, at, spans = "".join(map(_folded, text)), 0, []
    for token in tokens:
        found = None
        for letters in _letters(token):
            start = folded.find(letters, at, at + len(letters) + FARTHEST)
            if start >= 0:
                found = (start, start + len(letters))
                break
        spans.append(found)
        at = found[1] if found else at
    return spans


@lru_cache(100_000)
def _letters(token: str) -> list[str]:
    """What a token may stand for, with and without what looks like a mark of its tokenizer."""
    bare = MARKS.sub("", token)
    forms = ("".join(map(_folded, form.replace("▁", " "))).strip() for form in (token, bare, MARKS.sub("", bare)))
    return [form for form in dict.fromkeys(forms) if form]


@lru_cache(100_000)
def _folded(character: str) -> str:
    """A character without differences that tokenizers ignore: upper case, compatibility forms."""
    plain = unicodedata.normalize("NFKC", character).lower()
    return plain if len(plain) == 1 else character
