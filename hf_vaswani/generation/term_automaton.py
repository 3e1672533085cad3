"""Automata that read a hypothesis token by token and say how much of its terms is still missing.

A demand is an automaton: it has read some tokens of some spellings of its terms (Aho and Corasick 1975), and has seen
some of the times that one of them must occur. A term counts once the next token shows that its last word has
ended; if the word continues, it does not count. The automata of all demands in a batch are rows of the same tables,
so all hypotheses move at once.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import NamedTuple

import torch

from .term_spelling import JOINING, KINDS, LETTER, OTHER, TokenKinds

DONE = 0  # the state of a demand that is met
TOKENS = 2**32  # more than any vocabulary has
SKIPPED = len(KINDS) ** 2  # stands for tokens that leave nothing in the text


class _Spellings:
    """A tree of all spellings of a demand's terms. Node 0 is its root, where no spelling has begun.

    Args:
        spellings: token ids of each.
        is_free: whether a word ends between two tokens.

    Attributes:
        following: for each node, the tokens after it, and the nodes that these lead to.
        shorter: for each node, the node of the longest spelling that has begun later, with the same last tokens.
        has_ended: for each node, whether a spelling ends there, or at one of its shorter ones.
        left: for each node, the fewest tokens that a spelling that has begun still lacks.
        near: for each node, the tokens after it and after its shorter ones.
    """

    def __init__(self, spellings: Sequence[Sequence[int]], is_free: Callable[[int, int], bool]):
        self.following: list[dict[int, int]] = [{}]
        self.has_ended, self.left = [False], [inf]
        self.last: list[int | None] = [None]  # the token that leads to each node
        for spelling in spellings:
            node = 0
            for place, token in enumerate(spelling):
                if token not in self.following[node]:
                    self.following[node][token] = len(self.following)
                    self.following.append({})
                    self.has_ended.append(False)
                    self.left.append(inf)
                    self.last.append(token)
                node = self.following[node][token]
                if place + 1 < len(spelling):
                    self.left[node] = min(self.left[node], len(spelling) - place - 1)
            self.has_ended[node] = True
        self.shorter = [0] * len(self.following)
        self.near: list[Set[int]] = [frozenset()] * len(self.following)
        waiting = [0]  # breadth first
        for node in waiting:
            for token, after in self.following[node].items():
                if node:
                    self.shorter[after] = self.after(self.shorter[node], token, is_free(self.last[node], token))
                shorter, own = self.shorter[after], self.following[after].keys()
                self.has_ended[after] |= self.has_ended[shorter]
                self.left[after] = min(self.left[after], self.left[shorter])
                self.near[after] = self.near[shorter] if own <= self.near[shorter] else self.near[shorter] | own
                waiting.append(after)

    def after(self, node: int, token: int | None, is_free: bool) -> int:
        """The node after a token.

        Args:
            is_free: whether a word ends before the token, so that a spelling may begin with it.
        """
        while node and token not in self.following[node]:
            node = self.shorter[node]
        return self.following[node].get(token, 0) if node or is_free else 0


class Group(NamedTuple):
    """What the next state depends on, where no spelling that has begun continues.

    Attributes:
        seen: how often a term has occurred.
        is_pending: whether another one has, if its last word ends here.
        end: what the last token ends with.
    """

    seen: int
    is_pending: bool
    end: int


@dataclass(frozen=True)
class TermAutomaton:
    """The automaton of a demand. Its states are numbers; 0 is `DONE`, and 1 the first. So are groups of states.

    Attributes:
        missing: for each state, the number of tokens that are missing at least.
        is_pending: for each state, whether a term stands at the end if its last word ends there.
        moves: for each state, the next one after tokens with which a spelling that has begun continues.
        advances: for each state, the tokens after which fewer are missing.
        groups: for each state, its group.
        starts: for each group, the next state after tokens with which a spelling begins, unless there is a move.
        others: for each group, the next state after all other tokens, by what they begin with and end with.
    """

    missing: list[int]
    is_pending: list[bool]
    moves: list[dict[int, int]]
    advances: list[list[int]]
    groups: list[int]
    starts: list[dict[int, int]]
    others: list[list[int]]

    @property
    def width(self) -> int:
        """The largest number of tokens after which fewer are missing."""
        return max(map(len, self.advances))

    @classmethod
    def of(cls, spellings: Sequence[tuple[int, ...]], count: int, kinds: TokenKinds) -> "TermAutomaton":
        """Build the automaton, in time and memory that grow with `count` and the length of all spellings.

        Args:
            spellings: token ids of all spellings of all terms.
            count: how often one of them must occur in a hypothesis.
        """
        shortest = min(map(len, spellings))
        tokens = {token: (int(kinds.begins[token]), int(kinds.ends[token])) for each in spellings for token in each}

        def is_free(end: int, begin: int) -> bool:
            """Whether a word ends between what a token ends with and what the next one begins with."""
            return end == OTHER or begin == OTHER or end == begin == LETTER

        tree = _Spellings(spellings, lambda one, other: is_free(tokens[one][1], tokens[other][0]))
        # A state is how often a term has stood there, a node of the tree, and what the last token ends with.
        numbers: dict[tuple[int, int, int], int] = {(0, 0, OTHER): 1}
        waiting, groups = list(numbers), {None: 0}

        def read(group: Group, node: int, token: int | None, begin: int, end: int) -> int:
            """The state after a token."""
            seen, has_ended = group.seen, is_free(group.end, begin)
            if group.is_pending and has_ended:
                seen, node = seen + 1, 0
                if seen == count:
                    return DONE
            state = seen, tree.after(node, token, has_ended), end
            if state not in numbers:
                numbers[state] = len(numbers) + 1
                waiting.append(state)
            return numbers[state]

        def count_missing(seen: int, node: int) -> int:
            first = 0 if tree.has_ended[node] else tree.left[node] if tree.left[node] < inf else shortest
            return first + (count - seen - 1) * shortest

        result = cls([0], [False], [{}], [[]], [0], [{}], [[DONE] * SKIPPED])
        for seen, node, end in waiting:
            group = Group(seen, tree.has_ended[node], end)
            if group not in groups:
                groups[group] = len(groups)
                result.starts.append({token: read(group, 0, token, *tokens[token]) for token in tree.following[0]})
                result.others.append([read(group, 0, None, *those) for those in product(KINDS, KINDS)])
            result.missing.append(count_missing(seen, node))
            result.is_pending.append(group.is_pending)
            result.groups.append(groups[group])
            result.moves.append({token: read(group, node, token, *tokens[token]) for token in tree.near[node]})
        starting: dict[tuple[int, int], list[int]] = {}  # for each group and number of missing tokens
        for group, missing, moves in list(zip(result.groups, result.missing, result.moves))[1:]:
            if (group, missing) not in starting:
                starts = result.starts[group].items()
                starting[group, missing] = [token for token, after in starts if result.missing[after] < missing]
            fewer = [token for token, after in moves.items() if result.missing[after] < missing]
            fewer += [token for token in starting[group, missing] if token not in moves]
            result.advances.append(fewer)
        return result


class TermAutomata:
    """The automata of all demands of a batch; states are numbers of all of them together.

    Args:
        demands: the automata of each sentence.
        kinds: the kinds of the tokenizer's tokens; others that the model has count as `OTHER`.
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
        missing, pending, advances, groups, first = [0], [False], [[]], [0], {}
        others, moves, starts = [[DONE] * SKIPPED], [(-1, DONE)], [(-1, DONE)]
        for automaton in own:
            # State 1 of each automaton comes after the states of those before; `DONE` is the same for all.
            shift, groups_before = len(missing) - 1, len(others) - 1
            first[id(automaton)] = shift + 1
            numbers = [DONE, *range(shift + 1, shift + len(automaton.missing))]
            missing += automaton.missing[1:]
            pending += automaton.is_pending[1:]
            advances += automaton.advances[1:]
            groups += [groups_before + group for group in automaton.groups[1:]]
            for state, steps in enumerate(automaton.moves):
                moves += [(numbers[state] * TOKENS + token, numbers[after]) for token, after in steps.items()]
            for group, steps in enumerate(automaton.starts):
                starts += [((groups_before + group) * TOKENS + t, numbers[after]) for t, after in steps.items()]
            others += [[numbers[after] for after in row] for row in automaton.others[1:]]
        width = max(map(len, advances))
        most = max(map(len, demands))
        both = (kinds.begins * len(KINDS) + kinds.ends).masked_fill(kinds.is_skipped, SKIPPED)
        self.kinds = torch.cat([both, torch.tensor([OTHER])]).to(device)
        self.begins_word = ((kinds.begins != JOINING) & ~kinds.is_skipped).to(device)
        self.missing = torch.tensor(missing, device=device)
        self.is_pending = torch.tensor(pending, device=device)
        self.groups = torch.tensor(groups, device=device)
        self.others = torch.tensor(others, device=device)
        self.starts, self.moves = _Table(starts, device), _Table(moves, device)
        self.advances = torch.tensor(
            [tokens + [-1] * (width - len(tokens)) for tokens in advances], dtype=torch.long, device=device
        )
        self.first = torch.tensor(
            [[first[id(automaton)] for automaton in those] + [DONE] * (most - len(those)) for those in demands],
            dtype=torch.long,
            device=device,
        )

    def next(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The states `(…, demands)` after `tokens` `(…)`."""
        tokens, groups = tokens.unsqueeze(-1), self.groups[states]
        kinds = self.kinds[tokens.clamp(max=len(self.kinds) - 1)]
        others = torch.where(kinds == SKIPPED, states, self.others[groups, kinds.clamp(max=SKIPPED - 1)])
        return self.moves.find(states * TOKENS + tokens, self.starts.find(groups * TOKENS + tokens, others))

    def count_missing(self, states: torch.Tensor) -> torch.Tensor:
        """The number of tokens that are missing at least, `(…)`."""
        return self.missing[states].sum(-1)

    def count_missing_terms(self, states: torch.Tensor) -> torch.Tensor:
        """The number of demands that would not be met if the hypothesis ended here, `(…)`."""
        return (self.missing[states] > 0).sum(-1)


class _Table:
    """A table of states, in which they are found by a key."""

    def __init__(self, entries: list[tuple[int, int]], device: torch.device | None):
        keys, states = torch.tensor(sorted(entries), device=device).unbind(1)
        self._keys, self._states = keys.contiguous(), states

    def find(self, keys: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """The states of some keys; `others` where the table has none."""
        place = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        return torch.where(self._keys[place] == keys, self._states[place], others)


__all__ = ["DONE", "TermAutomata", "TermAutomaton"]
