"""BPE-dropout (Provilkov et al. 2020): in training, some merges are dropped at random, so word splits vary.

The `tokenizers` library has it too, but its random generator cannot be seeded; here, all draws come from the caller's
generator, so that a resumed run is bit-for-bit the same. The library also retries dropped merges within a step if its
queue holds outdated ones, and so drops fewer than it should; this implementation follows the paper.
"""

import json
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import numpy as np
from tokenizers import Tokenizer

from ...errors import InputError

# The pieces of a word that is partly merged, from its characters to its subwords, as ids.
State = tuple[int, ...]
# Rank of the merge, position in the word, merged piece.
Merge = tuple[int, int, int]


class BpeDropout:
    """Encodes text with merges dropped at random.

    In each step, the merges possible in a word are tried in the order in which they were learned, then from left to
    right. Each is dropped with the given probability; the first one that is not dropped is applied. If all are
    dropped, the word is done. With a probability of 0, this is plain byte-pair encoding.

    Args:
        backend: a BPE tokenizer.
        probability: probability that a merge is dropped in a step, in [0, 1); 0.1 in the paper.

    Raises:
        InputError: the tokenizer has no merges.
    """

    # Words recur, so states are cached: at most this many, each of at most this many pieces.
    REMEMBERED_STATES = 200_000
    REMEMBERED_PIECES = 24
    # Encodings take a lot of memory.
    TEXTS_AT_ONCE = 512

    def __init__(self, backend: Tokenizer, probability: float):
        parts = json.loads(backend.to_str())
        model = parts["model"]
        if model["type"] != "BPE" or model.get("ignore_merges"):
            raise InputError(
                f"BPE-dropout drops merges of byte-pair encoding; this tokenizer uses {model['type']}"
                + (" without merges for known words." if model.get("ignore_merges") else ".")
            )
        self.probability = probability
        vocabulary, prefix = model["vocab"], model.get("continuing_subword_prefix") or ""
        self._merges = {
            (vocabulary[left], vocabulary[right]): ((rank, vocabulary[left + right.removeprefix(prefix)]),)
            for rank, (left, right) in enumerate(model["merges"])
        }
        # Without its merges, the tokenizer gives the characters of each word; everything else is unchanged.
        parts["model"] = {**model, "merges": [], "dropout": None}
        self._characters = Tokenizer.from_str(json.dumps({**parts, "truncation": None, "padding": None}))
        self._characters.encode_special_tokens = backend.encode_special_tokens
        # State → its merges in order, and the states that these lead to, filled in as needed.
        self._remembered: dict[State, tuple[list[Merge], list[State | None]]] = {}

    def encode(self, texts: Sequence[str], generator: np.random.Generator) -> list[list[int]]:
        """Encode texts as token ids, adding `</s>` and other special tokens as the tokenizer itself does.

        The result for a text depends only on the state of the generator when the text's turn comes.
        """
        rows = []
        for start in range(0, len(texts), self.TEXTS_AT_ONCE):
            for encoding in self._characters.encode_batch(list(texts[start : start + self.TEXTS_AT_ONCE])):
                rows.append(self._encode(encoding.ids, encoding.word_ids, generator))
        return rows

    def _encode(self, ids: list[int], words: list[int | None], generator: np.random.Generator) -> list[int]:
        # How many merges are dropped before one is applied. A word of n pieces takes fewer than n steps.
        dropped = iter((generator.geometric(1 - self.probability, size=len(ids)) - 1).tolist())
        pieces: list[int] = []
        start = 0
        for end in range(1, len(ids) + 1):
            if end == len(ids) or words[end] != words[start]:
                pieces += self._split(tuple(ids[start:end]), dropped)
                start = end
        return pieces

    def _split(self, state: State, dropped: Iterator[int]) -> Sequence[int]:
        """Apply merges to a word until none are left or all are dropped."""
        if len(state) > self.REMEMBERED_PIECES:
            return self._split_long(list(state), dropped)
        while True:
            merges, states = self._remembered.get(state) or self._remember(state)
            if not merges:
                return state
            choice = next(dropped)
            if choice >= len(merges):
                return state
            after = states[choice]
            if after is None:
                _, position, merged = merges[choice]
                after = states[choice] = (*state[:position], merged, *state[position + 2 :])
            state = after

    def _remember(self, state: State) -> tuple[list[Merge], list[State | None]]:
        merges = sorted(
            (rank, position, merged)
            for position, pair in enumerate(zip(state, state[1:]))
            for rank, merged in self._merges.get(pair, ())
        )
        if len(self._remembered) >= self.REMEMBERED_STATES:
            self._remembered.clear()
        self._remembered[state] = merges, [None] * len(merges)
        return self._remembered[state]

    def _split_long(self, pieces: list[int], dropped: Iterator[int]) -> list[int]:
        """Do the same for a long word, which is unlikely to recur: its merges are updated in place, not cached."""
        end = len(pieces)
        left, right = list(range(-1, end - 1)), list(range(1, end + 1))  # neighbors of the piece at each position

        def merges_at(*positions: int) -> list[Merge]:
            return [
                (rank, position, merged)
                for position in positions
                if position >= 0 and right[position] < end
                for rank, merged in self._merges.get((pieces[position], pieces[right[position]]), ())
            ]

        merges = sorted(merges_at(*range(end - 1)))
        while merges:
            choice = next(dropped)
            if choice >= len(merges):
                break
            _, position, merged = merges[choice]
            second = right[position]
            for gone in merges_at(left[position], position, second):
                del merges[bisect_left(merges, gone)]
            pieces[position] = merged
            right[position] = right[second]
            if right[second] < end:
                left[right[second]] = position
            for new in merges_at(left[position], position):
                insort(merges, new)
        position, result = 0, []
        while position < end:
            result.append(pieces[position])
            position = right[position]
        return result
