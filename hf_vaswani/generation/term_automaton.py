"""Automata that read a hypothesis token by token and say how much of its terms is still missing.

A demand is an automaton: it has read some tokens of some spellings of its terms, and has seen some of the times that
one of them must stand there. A term counts once the next token shows that its last word has ended; if the word goes
on, it does not count. The automata of all demands in a batch are rows of the same tables, so that those of all
hypotheses move at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .term_spelling import JOINING, KINDS, LETTER, OTHER, TokenKinds

DONE = 0  # the state of a demand that is met
TOKENS = 2**32  # more than any vocabulary has
SKIPPED = len(KINDS) ** 2  # stands for tokens that leave nothing in the text


class Reading(NamedTuple):
    """A state of an automaton.

    Attributes:
        seen: how often a term has stood there.
        is_pending: whether another one has, if its last word ends here.
        begun: spellings that the last tokens may belong to, and how many of their tokens have been read.
        end: what the last token ends with.
    """

    seen: int
    is_pending: bool
    begun: frozenset[tuple[int, int]]
    end: int


@dataclass(frozen=True)
class TermAutomaton:
    """The automaton of a demand. Its states are numbers; 0 is `DONE`, and 1 the first.

    Attributes:
        missing: for each state, the number of tokens that are missing at least.
        is_pending: for each state, whether a term stands at the end if its last word ends there.
        moves: for each state, the next one after tokens that are part of a spelling.
        others: for each state, the next one after all other tokens, by what they begin with and end with; the last
            is that after a token that leaves nothing in the text, the state itself.
    """

    missing: list[int]
    is_pending: list[bool]
    moves: list[dict[int, int]]
    others: list[list[int]]

    @classmethod
    def of(cls, spellings: Sequence[tuple[int, ...]], count: int, kinds: TokenKinds) -> "TermAutomaton":
        """Build the automaton.

        Args:
            spellings: token ids of all spellings of all terms.
            count: how often one of them must stand in a hypothesis.
        """
        shortest = min(map(len, spellings))
        tokens = {token: (int(kinds.begins[token]), int(kinds.ends[token])) for token in sum(spellings, ())}

        def read(state: Reading, token: int | None, begin: int, end: int) -> Reading | None:
            """The state after a token; `None` if the demand is met."""
            seen, is_pending, begun, _ = state
            # Whether a word ends before this token.
            is_free = state.end == OTHER or begin == OTHER or (state.end == begin == LETTER)
            if is_pending and is_free:
                seen, begun = seen + 1, frozenset()
                if seen == count:
                    return None
            begun = {(number, done + 1) for number, done in begun if spellings[number][done] == token}
            if is_free:
                begun |= {(number, 1) for number, spelling in enumerate(spellings) if spelling[0] == token}
            unfinished = frozenset((number, done) for number, done in begun if done < len(spellings[number]))
            return Reading(seen, len(unfinished) < len(begun), unfinished, end)

        def count_missing(state: Reading) -> int:
            first = 0 if state.is_pending else min((len(spellings[n]) - d for n, d in state.begun), default=shortest)
            return first + (count - state.seen - 1) * shortest

        numbers: dict[Reading | None, int] = {None: DONE, (first := Reading(0, False, frozenset(), OTHER)): 1}
        result, waiting = cls([0], [False], [{}], [[DONE] * (SKIPPED + 1)]), [first]
        for state in waiting:

            def number_of(following: Reading | None) -> int:
                if following not in numbers:
                    numbers[following] = len(numbers)
                    waiting.append(following)
                return numbers[following]

            result.missing.append(count_missing(state))
            result.is_pending.append(state.is_pending)
            result.moves.append({token: number_of(read(state, token, *those)) for token, those in tokens.items()})
            others = [number_of(read(state, None, begin, end)) for begin in KINDS for end in KINDS]
            result.others.append([*others, numbers[state]])
        return result


class TermAutomata:
    """The automata of all demands of a batch; states are numbers of all of them together.

    Args:
        demands: the automata of each sentence.
        kinds: those of the tokenizer's tokens; others that the model has count as `OTHER`.
        device: where the tables are to be.

    Attributes:
        first: `(batch, demands)`, the first state of each automaton; `DONE` for sentences with fewer.
        missing: `(states,)`, the number of tokens that are missing at least.
        is_pending: `(states,)`, whether the next token must begin a word, so that a term stands before it.
        begins_word: `(tokens,)`, whether a token does.
        advances: `(states, n)`, tokens after which fewer are missing, -1 for none.
    """

    def __init__(
        self, demands: Sequence[Sequence[TermAutomaton]], kinds: TokenKinds, device: torch.device | None = None
    ):
        own = list({id(automaton): automaton for those in demands for automaton in those}.values())
        missing, pending, advances, starts = [0], [False], [[]], {}
        others, moves = [[DONE] * (SKIPPED + 1)], [(-1, DONE)]
        for automaton in own:
            # State 1 of each automaton comes after the states of those before; `DONE` is the same for all.
            shift = len(missing) - 1
            starts[id(automaton)] = shift + 1
            numbers = [DONE, *range(shift + 1, shift + len(automaton.missing))]
            for state in range(1, len(numbers)):
                lacks, steps = automaton.missing[state], automaton.moves[state]
                missing.append(lacks)
                pending.append(automaton.is_pending[state])
                others.append([numbers[after] for after in automaton.others[state]])
                moves += [(numbers[state] * TOKENS + token, numbers[after]) for token, after in steps.items()]
                advances.append([token for token, after in steps.items() if automaton.missing[after] < lacks])
        width = max(map(len, advances))
        most = max(map(len, demands))
        both = (kinds.begins * len(KINDS) + kinds.ends).masked_fill(kinds.is_skipped, SKIPPED)
        self.kinds = torch.cat([both, torch.tensor([OTHER])]).to(device)
        self.begins_word = ((kinds.begins != JOINING) & ~kinds.is_skipped).to(device)
        self.missing = torch.tensor(missing, device=device)
        self.is_pending = torch.tensor(pending, device=device)
        self.others = torch.tensor(others, device=device)
        keys, after = torch.tensor(sorted(moves), device=device).unbind(1)
        self.keys, self.after = keys.contiguous(), after
        self.advances = torch.tensor(
            [tokens + [-1] * (width - len(tokens)) for tokens in advances], dtype=torch.long, device=device
        )
        self.first = torch.tensor(
            [[starts[id(automaton)] for automaton in those] + [DONE] * (most - len(those)) for those in demands],
            dtype=torch.long,
            device=device,
        )

    def next(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The states `(…, demands)` after `tokens` `(…)`."""
        tokens = tokens.unsqueeze(-1)
        wanted = states * TOKENS + tokens
        place = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        others = self.others[states, self.kinds[tokens.clamp(max=len(self.kinds) - 1)]]
        return torch.where(self.keys[place] == wanted, self.after[place], others)

    def count_missing(self, states: torch.Tensor) -> torch.Tensor:
        """The number of tokens that are missing at least, `(…)`."""
        return self.missing[states].sum(-1)

    def count_unmet(self, states: torch.Tensor) -> torch.Tensor:
        """The number of demands that would not be met if the hypothesis ended here, `(…)`."""
        return (self.missing[states] > 0).sum(-1)


__all__ = ["DONE", "TermAutomata", "TermAutomaton"]
