"""How a tokenizer spells terms in running text, and which tokens continue the word before them.

A term is spelled differently at the start of a text, after a space and after punctuation. It counts in a translation
only as whole words: the tokens around it must neither continue nor begin its words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from ..core.tokenization_vaswani import private_copy
from ..text.glossary import Term, joins_words, words
from ..text.normalization import clean, normalized
from ..text.vocabularies import target_encoding_error, target_vocab_size

# What a token begins or ends with: something other than a letter; a letter that a space divides from its neighbor,
# unless that neighbor joins; a letter that joins.
OTHER, LETTER, JOINING = KINDS = range(3)
OPENING = "("
MOST_REMEMBERED = 4_000_000


@dataclass(frozen=True)
class TokenKinds:
    """What each target token begins and ends with: `OTHER`, `LETTER` or `JOINING`.

    Attributes:
        begins, ends: `(vocab_size,)` int64.
        is_skipped: `(vocab_size,)` bool, whether it leaves nothing in the text, as special tokens do.
    """

    begins: torch.Tensor
    ends: torch.Tensor
    is_skipped: torch.Tensor


class TermSpeller:
    """Spells the terms of the target language.

    Args:
        tokenizer: the model's tokenizer.
        target_language: the code of the target language, for multilingual tokenizers.

    Attributes:
        automata: what was made of its spellings, by terms and how often one of them must occur.
        remembered: the number of tokens of all spellings, and of states of all automata. Beyond a limit, all are
            forgotten.

    Raises:
        ValueError: the tokenizer cannot encode targets.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, target_language: str | None = None):
        if error := target_encoding_error(tokenizer):
            raise ValueError(error)
        self.tokenizer = private_copy(tokenizer)
        if target_language:
            self.tokenizer.tgt_lang = target_language
        self._known: dict[Term, list[tuple[int, ...]]] = {}
        self.automata: dict[tuple[tuple[Term, ...], int], Any] = {}
        self.remembered = 0
        self._word, self._word_ids = self._find_word()

    def spellings(self, terms: Iterable[Term]) -> list[tuple[int, ...]]:
        """Token ids of all spellings of terms; none of those that the tokenizer cannot spell."""
        terms = list(terms)
        self._learn(dict.fromkeys(terms))
        return [spelling for term in terms for spelling in self._known[term]]

    def _learn(self, terms: Iterable[Term]) -> None:
        """Spell terms together, which takes much less time."""
        if self.remembered > MOST_REMEMBERED:
            self._known, self.automata, self.remembered = {}, {}, 0
        new = [(term, place) for term in terms if term not in self._known for place in self._places(term)]
        spelled = self._encode([place for _, place in new])
        texts = self._decode(spelled)
        for term in terms:
            self._known.setdefault(term, [])
        for (term, _), spelling, text in zip(new, spelled, texts):
            # Another text if tokens are unknown, or if it is not encoded by itself in this place.
            is_same = _lowered_words(text) == _lowered_words(term.text)
            if spelling and is_same and spelling not in self._known[term]:
                self._known[term].append(spelling)
                self.remembered += len(spelling)

    def _places(self, term: Term) -> list[tuple[str, str]]:
        """Texts before the term, and the term as it is written there."""
        forms = [term.text] if term.is_exact else dict.fromkeys([term.text, term.text[0].upper() + term.text[1:]])
        return [(before, form) for form in forms for before in ("", f"{self._word} ", OPENING)]

    def _encode(self, places: list[tuple[str, str]]) -> list[tuple[int, ...]]:
        """The tokens of texts that follow others; none where the two are not encoded separately."""
        texts = [text for before, form in places for text in (before, before + form)]
        texts = [normalized(clean(text), self.tokenizer, is_target=True) for text in texts]
        ids = self.tokenizer(text_target=texts, add_special_tokens=False)["input_ids"] if texts else []
        pairs = zip(ids[::2], ids[1::2])
        return [tuple(both[len(first) :]) if both[: len(first)] == first else () for first, both in pairs]

    def _decode(self, those: Sequence[Sequence[int]]) -> list[str]:
        those = [list(ids) for ids in those]
        return self.tokenizer.batch_decode(those, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _find_word(self) -> tuple[str, list[int]]:
        """A word next to which tokens are looked at, and its token ids."""
        for token_id in range(target_vocab_size(self.tokenizer)):
            text = self._decode([[token_id]])[0].strip()
            if words(text) == [text] and joins_words(text):
                [ids] = self._encode([("", text)])
                if self._decode([ids])[0].strip() == text:
                    return text, list(ids)
        raise ValueError("terms: the tokenizer has no words.")

    @cached_property
    def token_kinds(self) -> TokenKinds:
        """What each token of the tokenizer begins and ends with."""
        tokens = [[token_id] for token_id in range(target_vocab_size(self.tokenizer))]
        second = list(self._encode([(f"{self._word} ", self._word)])[0])
        [before, after] = self._decode([self._word_ids, second])
        begins = [
            _kind(text.removeprefix(before).lstrip()[:1], text[len(before) : len(before) + 1])
            for text in self._decode([self._word_ids + token for token in tokens])
        ]
        ends = [
            _kind(text.removesuffix(after).rstrip()[-1:], text.removesuffix(after)[-1:])
            for text in self._decode([token + second for token in tokens])
        ]
        texts = zip(self._decode(tokens), self.tokenizer.batch_decode(tokens, skip_special_tokens=False))
        is_skipped = [not text and bool(whole.strip()) for text, whole in texts]
        return TokenKinds(torch.tensor(begins), torch.tensor(ends), torch.tensor(is_skipped))


def _kind(letter: str, nearest: str) -> int:
    """What a token begins or ends with: its outer character but for spaces, and the one next to its neighbor."""
    if not letter or not joins_words(letter):
        return OTHER
    return JOINING if letter == nearest else LETTER


def _lowered_words(text: str) -> list[str]:
    return [word.lower() for word in words(text)]


__all__ = ["JOINING", "KINDS", "LETTER", "OTHER", "TermSpeller", "TokenKinds"]
