"""BPE-dropout (Provilkov et al. 2020): in training a word is split anew each time, and some merges are left out.

The `tokenizers` library has it too, but draws from a generator that cannot be seeded; here every draw comes from the
caller's, so that a training which is gone on with is the same to the bit.
"""

import json
from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from ..errors import InputError

# Pieces of a word on its way from characters to sub-words, as ids.
State = tuple[int, ...]


class BpeDropout:
    """Encodes text with merges dropped at random.

    In each step the merges that a word's pieces allow are tried in the order of their learning, then from left to
    right. Each is dropped with the given probability; the first that is not is applied. Where all are dropped, the
    word is done. Without dropout that is byte-pair encoding itself.

    Args:
        backend: a tokenizer by byte-pair encoding, of `tokenizers`.
        probability: of a merge to be dropped in a step, in [0, 1); the paper's choice is 0.1.

    Raises:
        InputError: where the tokenizer has no merges, or the probability is none.
    """

    # Words come again and again: their states are remembered, up to so many, and up to so many pieces.
    REMEMBERED_STATES = 200_000
    REMEMBERED_PIECES = 24

    def __init__(self, backend: Tokenizer, probability: float):
        if not 0 <= probability < 1:
            raise InputError(f"The probability of BPE-dropout must be in [0, 1), got {probability}.")
        parts = json.loads(backend.to_str())
        model = parts["model"]
        if model["type"] != "BPE" or model.get("ignore_merges"):
            raise InputError(
                f"BPE-dropout leaves out merges of byte-pair encoding; this tokenizer works by {model['type']}"
                + (" without merges for known words." if model.get("ignore_merges") else ".")
            )
        self.probability = probability
        vocabulary, prefix = model["vocab"], model.get("continuing_subword_prefix") or ""
        self._merges = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right.removeprefix(prefix)])
            for rank, (left, right) in enumerate(model["merges"])
        }
        # Without its merges the tokenizer gives the characters of each word: all else stays as it is.
        parts["model"] = {**model, "merges": [], "dropout": None}
        self._characters = Tokenizer.from_str(json.dumps({**parts, "truncation": None, "padding": None}))
        self._characters.encode_special_tokens = backend.encode_special_tokens
        self._moves: dict[State, tuple[list[tuple[int, int]], list[State | None]]] = {}

    def encode(self, texts: Sequence[str], generator: np.random.Generator) -> list[list[int]]:
        """Token ids of each text, `</s>` and the like included, as the tokenizer itself would add them.

        The draws of a text depend on nothing but the generator's state when its turn comes.
        """
        return [
            self._encode(encoding.ids, encoding.word_ids, generator)
            for encoding in self._characters.encode_batch_fast(list(texts))
        ]

    def _encode(self, ids: list[int], words: list[int | None], generator: np.random.Generator) -> list[int]:
        # How many merges are dropped before one is not. A word of n pieces takes fewer than n steps.
        dropped = iter((generator.geometric(1 - self.probability, size=len(ids)) - 1).tolist())
        pieces: list[int] = []
        start = 0
        for end in range(1, len(ids) + 1):
            if end == len(ids) or words[end] != words[start]:
                pieces += self._split(tuple(ids[start:end]), dropped)
                start = end
        return pieces

    def _split(self, state: State, dropped) -> State:
        while True:
            merges, states = self._moves.get(state) or self._remember(state)
            if not merges:
                return state
            choice = next(dropped)
            if choice >= len(merges):
                return state
            after = states[choice]
            if after is None:
                position, merged = merges[choice]
                after = states[choice] = (*state[:position], merged, *state[position + 2 :])
            state = after

    def _remember(self, state: State) -> tuple[list[tuple[int, int]], list[State | None]]:
        """The merges that a state allows, in order, as (position, merged piece); room for the states after them."""
        candidates = sorted(
            (*self._merges[pair], position)
            for position, pair in enumerate(zip(state, state[1:]))
            if pair in self._merges
        )
        moves = [(position, merged) for _, merged, position in candidates], [None] * len(candidates)
        if len(state) <= self.REMEMBERED_PIECES:
            if len(self._moves) >= self.REMEMBERED_STATES:
                self._moves.clear()
            self._moves[state] = moves
        return moves
