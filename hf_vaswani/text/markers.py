"""Tokens that no text can spell: placeholders for what stays as it is, and those around target terms in a source.

A tokenizer has them under names such as `<keep_0>`. What it reads as such a name is text, as it splits brackets from
what they enclose. For the tokens themselves, a text has code points that Unicode reserves for internal use, and is
encoded and decoded with the tokenizer that [`with_markers`] makes of the model's.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

if TYPE_CHECKING:  # importing them takes seconds
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

KEEP_TOKENS = tuple(f"<keep_{number}>" for number in range(10))
TERM_TOKENS = ("<term>", "</term>")
# Token → the character that stands for it in a text. The code point before the first is taken, see `data/tokenizers`.
MARKERS = {token: chr(0xFDD2 + number) for number, token in enumerate((*KEEP_TOKENS, *TERM_TOKENS))}
KEEPS, (TERM, END) = (tuple(MARKERS[token] for token in tokens) for tokens in (KEEP_TOKENS, TERM_TOKENS))
RESERVED = re.compile("[\ufdd0-\ufdef]")

# Tokenizer → its number of tokens, and the tokenizer that reads markers.
_marked: "WeakKeyDictionary[PreTrainedTokenizerBase, tuple[int, PreTrainedTokenizerBase]]" = WeakKeyDictionary()


def without_markers(text: str) -> str:
    """A text of a user, whose reserved code points are not markers: they become U+FFFD."""
    return RESERVED.sub("\ufffd", text)


def has_tokens(tokenizer: "PreTrainedTokenizerBase", tokens: Iterable[str], sides: Iterable[str]) -> bool:
    """Whether a tokenizer has all of these tokens on some sides, `"source"` and `"target"`."""
    backends = _backends(tokenizer)
    names = [(token, MARKERS[token]) for token in tokens]  # the second in a tokenizer that reads markers
    return bool(backends) and all(
        any(backends[side].token_to_id(name) is not None for name in both) for side in sides for both in names
    )


def has_keep_tokens(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a model with this tokenizer has learned to keep placeholders."""
    return has_tokens(tokenizer, KEEP_TOKENS, ("source", "target"))


def has_term_tokens(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a model with this tokenizer has learned to use the terms in its sources."""
    return has_tokens(tokenizer, TERM_TOKENS, ("source",))


def with_markers(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    """A tokenizer with the same ids that reads markers as tokens, and decodes these tokens to markers."""
    size, marked = _marked.get(tokenizer, (0, None))
    if marked is None or size != len(tokenizer):  # new, or with more tokens than before
        from ..core.tokenization_vaswani import private_copy

        marked, backends = private_copy(tokenizer), _backends(tokenizer)
        source = _reading_markers(backends["source"])
        marked._tokenizer = source
        if hasattr(tokenizer, "backends"):  # a VaswaniTokenizer
            is_joint = backends["target"] is backends["source"]
            target = source if is_joint else _reading_markers(backends["target"])
            marked._backends = {"source": source, "target": target}
        _marked[tokenizer] = len(tokenizer), marked
    return marked


def _backends(tokenizer: "PreTrainedTokenizerBase") -> "dict[str, Tokenizer]":
    """Both sides' tokenizers of the tokenizers library; empty for tokenizers that are not built on it."""
    if hasattr(tokenizer, "backends"):
        return tokenizer.backends
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return {"source": backend, "target": backend} if hasattr(backend, "token_to_id") else {}


def _reading_markers(backend: "Tokenizer") -> "Tokenizer":
    """A copy in which tokens are named by their markers, and found in normalized text, so that spaces stay next to."""
    from tokenizers import Tokenizer

    parts = json.loads(backend.to_str())
    vocabulary = parts["model"]["vocab"]
    if isinstance(vocabulary, dict):
        parts["model"]["vocab"] = {MARKERS.get(token, token): number for token, number in vocabulary.items()}
    else:  # with scores
        parts["model"]["vocab"] = [[MARKERS.get(token, token), score] for token, score in vocabulary]
    found = [token for token in MARKERS if backend.token_to_id(token) is not None]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False) | {"normalized": True}
    added = [token for token in parts["added_tokens"] if token["content"] not in MARKERS]
    added += [{"id": backend.token_to_id(token), "content": MARKERS[token], **flags} for token in found]
    parts["added_tokens"] = sorted(added, key=lambda token: token["id"])
    copy = Tokenizer.from_str(json.dumps({**parts, "truncation": None, "padding": None}))
    copy.encode_special_tokens = backend.encode_special_tokens
    return copy


class Edit(NamedTuple):
    """A change of a text: what takes the place of its characters from `start` to `end`, given these."""

    start: int
    end: int
    write: Callable[[str], str]


def rewrite(text: str, edits: Iterable[Edit], change: Callable[[str], str] = str) -> str:
    """Apply edits that do not overlap.

    Args:
        change: also applied to all that is between edits, and that they enclose.
    """
    parts, at = [], 0
    for start, end, write in sorted(edits, key=lambda edit: edit[:2]):
        parts += [change(text[at:start]), write(change(text[start:end]))]
        at = end
    return "".join([*parts, change(text[at:])])


def term_edit(text: str, start: int, end: int, term: str) -> Edit:
    """The edit that puts a target term in the place of the source term (Dinu et al. 2019, "train-by-replace").

    The space before the term moves inside, so that it has the same tokens as in running text.
    """
    if text[start - 1 : start] == " ":
        start -= 1
    return Edit(start, end, lambda _: f"{TERM} {term}{END}")


def with_terms(text: str, terms: Iterable[tuple[int, int, str]]) -> str:
    """Write target terms into a source: `(start, end, term)` in place of each source term, which do not overlap.

    Args:
        text: without markers of its own, see [`without_markers`]; the result is for [`with_markers`].
    """
    return rewrite(text, [term_edit(text, *term) for term in terms])


__all__ = [
    "END", "Edit", "KEEPS", "KEEP_TOKENS", "MARKERS", "TERM", "TERM_TOKENS", "with_terms", "has_keep_tokens",
    "has_term_tokens", "has_tokens", "rewrite", "term_edit", "with_markers", "without_markers",
]  # fmt: skip
