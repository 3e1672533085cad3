"""The model's beam search, faster, and greedy search and sampling as beam searches with one beam.

A sentence whose result can no longer change leaves the batch if the decoder allows it, the best tokens are found
without sorting all of them, and the last sentences of a batch may be left for a search together with other batches'.
"""

from dataclasses import dataclass, fields

import torch
from transformers import EpsilonLogitsWarper, LogitsProcessorList, StoppingCriteria

from ..core.generation_beam_search import BeamOutput, BeamSearch, BeamState, Scoring

BLOCK = 128
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class SearchStep:
    """One step of the search over `n` sentences; candidates are the continuations that it considers, best first."""

    numbers: torch.Tensor  # (n,) which sentences of the batch they are
    parents: torch.Tensor  # (n, candidates) which of the hypotheses so far each one continues
    tokens: torch.Tensor  # (n, candidates) the token that it adds
    log_probs: torch.Tensor  # (n, candidates) log-probability of that token
    scores: torch.Tensor  # (n, candidates) log-probability of all its tokens together
    ends: torch.Tensor  # (n, candidates) whether it ends here; those that end below the beam are dropped
    chosen: torch.Tensor  # (n, beams) candidates that become the hypotheses of the next step, best first
    finished_paths: torch.Tensor  # (n, beams, length, 2) as in `BeamState`, after this step
    finished_scores: torch.Tensor  # (n, beams)
    is_finished: torch.Tensor  # (n, beams)
    penalty: float  # what the log-probability of a hypothesis that ends here is divided by
    reachable: torch.Tensor  # (n,) the best score that a running hypothesis might still end with
    reasons: dict[str, torch.Tensor]  # reason to end the search → (n,), whether it holds
    prompt_length: int
    scoring: Scoring


class SearchObserver(StoppingCriteria):
    """Records all steps of a search.

    To be passed to `generate()` as a stopping criterion, although it stops nothing. Only this package's searches know
    it.

    Attributes:
        steps: empty after other searches: sampling, greedy search with recorded scores, assisted generation.
    """

    is_handled_by_search = True

    def __init__(self):
        self.steps: list[SearchStep] = []

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        # Ends no sentence: only searches that do not know this criterion call it.
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


__all__ = ["SearchObserver", "SearchStep"]


class UnfinishedSentences(StoppingCriteria):
    """Ends the search of a batch when only a few of its sentences are left.

    The rest of many batches can then be searched together: a step of a few sentences takes nearly as long as one of
    many. To be passed to `generate()` as a stopping criterion.

    Args:
        rows: number of hypotheses, at most, that are not worth further steps.

    Attributes:
        numbers: which sentences of the batch have no result, in no particular order.
    """

    is_handled_by_search = True

    def __init__(self, rows: int):
        self.rows = rows
        self.numbers: list[int] = []

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        # Ends no sentence: only searches that do not know this criterion call it.
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class FastBeamSearch(BeamSearch):
    """[`BeamSearch`] in less time, with the same result.

    Args:
        log_probs_fall: whether a hypothesis never gets more probable with its next token; processors may change that.
        sentences_may_leave: whether finished sentences leave the batch. Otherwise all stay, as needed by processors
            that identify sentences by row.
        unfinished: ends the search before all sentences are done, if they may leave.
        observer: receives each step.
        options: the other arguments of [`BeamSearch`].
    """

    def __init__(
        self,
        decoder,
        *,
        log_probs_fall: bool = True,
        sentences_may_leave: bool = True,
        unfinished: UnfinishedSentences | None = None,
        observer: SearchObserver | None = None,
        **options,
    ):
        super().__init__(decoder, observe=None if observer is None else self._show, **options)
        self.log_probs_fall = log_probs_fall
        self.sentences_may_leave = sentences_may_leave and decoder.sentences_may_leave
        self.unfinished = unfinished
        self.observer = observer

    def run(self) -> BeamOutput:
        state, states = self._start(), self.decoder.first()
        done = []
        while True:
            parents = self._step(state, states)
            # The only value that the search reads in each step: a GPU has to finish all its work for it.
            left = int(state.is_open.sum())
            while self.continues(all_done := not left) and all_done:
                self.decoder.again()
            if all_done:
                return self._result([*done, state])
            if self.sentences_may_leave and left < len(state.is_open):
                done.append(rows_of(state, state.is_open.logical_not().nonzero().squeeze(1)))
                order = close_ranks(state.is_open, left)
                state, parents = rows_of(state, order), parents[order]
                if self.unfinished and len(order) * self.beams <= self.unfinished.rows:
                    self.unfinished.numbers = state.numbers.tolist()
                    return self._result([*done, state])
                self.decoder.keep(order)
            states = self.decoder.next(state.paths[..., 0], parents)

    def _continuations(
        self, state: BeamState, states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if self.processors is not None or self.record is not None or self.do_sample:
            return super()._continuations(state, states)
        # In parts, whose logits stay in the processor's caches.
        parts = []
        for some_states, scores in zip(self._parts(states), self._parts(state.scores)):
            log_probs = self.decoder.logits(some_states).float().log_softmax(-1)
            if log_probs.shape[1] * log_probs.shape[2] < self.candidates:
                log_probs = log_probs.expand(-1, self.beams, -1)
            best, indices = self._top(log_probs, scores[:, : log_probs.shape[1]])
            parts.append((best, indices // log_probs.shape[2], indices % log_probs.shape[2]))
        return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts)))

    def _parts(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Split `(n, …)` into parts whose sentences are scored together."""
        return tensor.split(max(1, ROWS_AT_ONCE // self.beams)) if tensor.device.type == "cpu" else (tensor,)

    def _top(self, log_probs: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return top(log_probs, scores, self.candidates)

    def _close(self, state: BeamState, ends: torch.Tensor) -> dict[str, torch.Tensor]:
        reasons = super()._close(state, ends)
        if self.log_probs_fall:
            # Nothing can beat even the last of the n best that were requested: the same result, sooner.
            reasons["decided"] = ~(self._reachable(state) > state.finished_scores[:, self.n_best - 1])
            state.is_open &= ~reasons["decided"]
        return reasons

    def _show(self, state: BeamState, reasons: dict[str, torch.Tensor], candidates: tuple[torch.Tensor, ...]) -> None:
        """Pass what this step decided to the observer."""
        start = self.prompt.shape[1]
        step = SearchStep(
            state.numbers,
            *candidates,
            state.finished_paths,
            state.finished_scores,
            state.is_finished,
            penalty=self.scoring.penalty(state.paths.shape[2] - start),
            reachable=self._reachable(state),
            reasons=reasons,
            prompt_length=start,
            scoring=self.scoring,
        )
        self.observer.steps.append(step)


class GreedySearch(FastBeamSearch):
    """Beam search with a single beam that ends with its first finished hypothesis. Its scores are meaningless."""

    def __init__(self, decoder, **options):
        super().__init__(decoder, scoring=Scoring(early_stopping=True), beams=1, **options)

    def _step(self, state: BeamState, states: torch.Tensor) -> torch.Tensor:
        parents = super()._step(state, states)
        # In the sum of a long output, rounding would hide which token is best. NaN stays NaN.
        state.scores = torch.zeros_like(state.scores).masked_fill(state.scores.isnan(), torch.nan)
        return parents


class Sampling(GreedySearch):
    """A search with a single hypothesis, whose next token is drawn from the model's distribution."""

    def __init__(self, decoder, *, processors: LogitsProcessorList | None = None, **options):
        # transformers' processor of `epsilon_cutoff` takes longer than all else here; without it, a softmax is saved.
        self.epsilon = 0.0
        if processors and type(processors[-1]) is EpsilonLogitsWarper and processors[-1].min_tokens_to_keep == 1:
            self.epsilon, processors = processors[-1].epsilon, LogitsProcessorList(processors[:-1])
        super().__init__(decoder, processors=processors or None, **options)

    def _continuations(
        self, state: BeamState, states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logits = self.decoder.logits(states).float().flatten(0, 1)
        if self.processors is not None:
            logits = self.processors(state.paths[:, 0, :, 0], logits)
        probabilities = logits.softmax(-1)
        if self.epsilon:
            least = probabilities.amax(-1, keepdim=True).clamp(max=self.epsilon)
            probabilities.masked_fill_(probabilities < least, 0)
        # A uniform number for each row, finished or not, so that what a row draws does not depend on when others end.
        # float64, as the sum of all probabilities would round the small ones off; MPS has none.
        dtype = torch.float32 if logits.device.type == "mps" else torch.float64
        uniform = torch.rand(len(self.prompt), 1, dtype=dtype, device=logits.device)[state.numbers]
        tokens = draw(probabilities, uniform)
        # Zero, or NaN where the logits are.
        scores = probabilities[:, :1].to(state.scores.dtype) * 0
        return scores, torch.zeros_like(tokens), tokens


def draw(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Draw an index from each row of weights `(n, vocab_size)`, with a uniform number `(n, 1)` below 1: `(n, 1)`.

    The index is the first at which the sum of the weights so far exceeds that share of the whole sum. Sums at every
    index are slow, so the lines of `BLOCK` weights are summed first, and then the weights of the line that is drawn.
    """
    n, vocab_size = weights.shape
    lines = vocab_size // BLOCK
    if lines < 4:
        return _first_above(weights, uniform)[0]
    rest = weights[:, lines * BLOCK :].sum(-1, keepdim=True)
    totals = torch.cat([weights[:, : lines * BLOCK].view(n, lines, BLOCK).sum(-1), rest], dim=1)
    line, within = _first_above(totals, uniform)
    indices = line * BLOCK + torch.arange(BLOCK, device=weights.device)
    of_line = weights.gather(1, indices.clamp(max=vocab_size - 1)).masked_fill(indices >= vocab_size, 0)
    return line * BLOCK + _first_above(of_line, within)[0]


def _first_above(weights: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first index in each row at which the sum so far exceeds a share of the whole, and where in its weight the
    share lies, from 0 to 1: `(n, 1)` each."""
    sums = weights.cumsum(-1, dtype=uniform.dtype)
    whole = sums[:, -1:].contiguous()
    bound = uniform * whole
    # Not above the last index with a weight, as rounding may bring the bound up to the whole sum, nor where there is
    # none, as for NaN.
    index = torch.minimum(torch.searchsorted(sums, bound, right=True), torch.searchsorted(sums, whole))
    index = index.clamp(max=weights.shape[1] - 1)
    weight = weights.gather(1, index)
    return index, ((bound - sums.gather(1, index) + weight) / weight).clamp(0, 1)


def rows_of(state: BeamState, order: torch.Tensor) -> BeamState:
    """The state of the sentences in these rows."""
    return type(state)(**{field.name: getattr(state, field.name)[order] for field in fields(state)})


def close_ranks(is_kept: torch.Tensor, count: int) -> torch.Tensor:
    """An order of the `count` kept rows in which only those at the end move, to fill the gaps before them."""
    order = torch.arange(count, device=is_kept.device)
    order[~is_kept[:count]] = is_kept[count:].nonzero().squeeze(1) + count
    return order


def top(log_probs: torch.Tensor, scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The best sums of `log_probs` `(n, m, vocab_size)` and `scores` `(n, m)` for each of the n.

    A partial sort of all sums is slow. Here the vocabulary is laid out in lines of `BLOCK` tokens and read once, for
    the maximum of each column: the best tokens can only be in the columns with the best maxima.

    Returns:
        Sums and indices into `m * vocab_size`, `(n, count)` each, the best first.
    """
    n, m, vocab_size = log_probs.shape
    lines = vocab_size // BLOCK
    if lines < 4 or m * BLOCK < count:
        return (log_probs + scores.unsqueeze(-1)).flatten(1).topk(count)
    rest = vocab_size - lines * BLOCK
    maxima = log_probs[..., : lines * BLOCK].unflatten(-1, (lines, BLOCK)).amax(2)
    if rest:
        maxima[..., :rest] = torch.maximum(maxima[..., :rest], log_probs[..., lines * BLOCK :])
    columns = (maxima + scores.unsqueeze(-1)).flatten(1).topk(count).indices
    rows, column = columns // BLOCK, columns % BLOCK
    tokens = column.unsqueeze(-1) + torch.arange(0, vocab_size, BLOCK, device=log_probs.device)
    indices = rows.unsqueeze(-1) * vocab_size + tokens.clamp(max=vocab_size - 1)
    sums = log_probs.flatten(1).gather(1, indices.flatten(1)).view(indices.shape) + scores.gather(1, rows).unsqueeze(
        -1
    )
    sums = sums.masked_fill(tokens >= vocab_size, -torch.inf)
    best, chosen = sums.flatten(1).topk(count)
    return best, indices.flatten(1).gather(1, chosen)


__all__ = ["FastBeamSearch", "GreedySearch", "Sampling", "UnfinishedSentences"]
