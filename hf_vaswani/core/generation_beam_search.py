"""Beam search, as transformers does it and as the paper does (section 6.1).

Each step scores the next tokens of all hypotheses, takes the best continuations of each sentence, adds those that end
to the finished ones and continues the others. A sentence whose result can no longer change is done, and leaves the
batch if the decoder allows it. Each sentence is searched as if it were alone: no result depends on other sentences.

The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its
siblings.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from transformers import EpsilonLogitsWarper, LogitsProcessorList, StoppingCriteria

from .generation_beam_decoder import BatchedDecoder, SharedSourceDecoder
from .generation_length_penalty import Scoring
from .generation_search_observer import SearchObserver, SearchStep

# The score of a missing hypothesis. Finite, as in transformers: sums with it stay comparable.
NEVER = -1.0e9
BLOCK = 128
ROWS_AT_ONCE = 64


@dataclass
class BeamState:
    """The state of the search: one row for each sentence that is still being searched.

    A path is a hypothesis, `(…, length, 2)`: its token ids, prompt included, and for each the row in the whole batch
    of the hypothesis that it extends; -1 in the prompt.
    """

    numbers: torch.Tensor  # (n,) which sentences of the batch they are
    limits: torch.Tensor  # (n,) tokens that a hypothesis may have, prompt included
    paths: torch.Tensor  # (n, beams, length, 2) running hypotheses
    scores: torch.Tensor  # (n, beams) their log-probabilities
    finished_paths: torch.Tensor  # (n, beams, length, 2), padded
    finished_scores: torch.Tensor  # (n, beams) log-probabilities divided by their penalties, best first
    is_finished: torch.Tensor  # (n, beams) whether there is such a finished hypothesis
    is_open: torch.Tensor  # (n,) whether the result may still change

    def at(self, order: torch.Tensor) -> "BeamState":
        """The state of the sentences in these rows."""
        return BeamState(**{field.name: getattr(self, field.name)[order] for field in fields(self)})


@dataclass
class BeamOutput:
    """The result of the search: tensors `(batch * n_best, …)`, best first within each sentence."""

    sequences: torch.Tensor  # token ids with the prompt, padded
    scores: torch.Tensor
    rows: torch.Tensor  # for each generated token, the row in the batch of the hypothesis it extends; -1 for padding


class Stragglers(StoppingCriteria):
    """Ends the search of a batch when only a few of its sentences are left.

    Those of many batches can then be searched together: a step of a few sentences takes nearly as long as one of many.
    To be passed to `generate()` as a stopping criterion.

    Args:
        rows: number of hypotheses, at most, that are not worth further steps.

    Attributes:
        unfinished: which sentences of the batch have no result, in no particular order.
    """

    def __init__(self, rows: int):
        self.rows = rows
        self.unfinished: list[int] = []

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        # Ends no sentence: only searches that do not know this criterion call it.
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class BeamSearch:
    """A search over one batch.

    Args:
        decoder: scores next tokens.
        scoring: compares hypotheses.
        prompt: `(batch, prompt_length)`, what the output of each sentence begins with.
        limits: `(batch,)`, maximum number of tokens in each output, prompt included.
        beams: number of hypotheses followed at once.
        n_best: number of hypotheses to return, at most `beams`.
        eos_token_ids: `(k,)`, the tokens that end a hypothesis; or None.
        fill_token_id: what pads shorter outputs.
        processors: `(input_ids, log_probs)`, of shapes `(n * beams, length)` and `(n * beams, vocab_size)`, →
            log-probabilities; or None.
        criteria: `input_ids` `(rows, length)` → which of the rows end, `(rows,)` bool; or None.
        do_sample: draw continuations instead of taking the best.
        log_probs_fall: whether a hypothesis never gets more probable with its next token; processors may change that.
        sentences_may_leave: whether finished sentences leave the batch. Otherwise all stay, as needed by processors
            that identify sentences by row.
        stragglers: ends the search before all sentences are done, if they may leave.
        record: called at each step with logits, processed log-probabilities and the decoder.
        observer: receives each step.
        continues: called at each step with whether all sentences are done; returns whether to take another step, which
            depends on all processes if they share the weights.
    """

    def __init__(
        self,
        decoder: SharedSourceDecoder | BatchedDecoder,
        scoring: Scoring,
        prompt: torch.Tensor,
        limits: torch.Tensor,
        beams: int,
        n_best: int = 1,
        eos_token_ids: torch.Tensor | None = None,
        fill_token_id: int = -1,
        processors: Callable | None = None,
        criteria: Callable | None = None,
        do_sample: bool = False,
        log_probs_fall: bool = True,
        sentences_may_leave: bool = True,
        stragglers: Stragglers | None = None,
        record: Callable | None = None,
        observer: SearchObserver | None = None,
        continues: Callable[[bool], bool] = lambda is_done: not is_done,
    ):
        self.decoder = decoder
        self.scoring = scoring
        self.prompt = prompt
        self.limits = limits
        self.beams = beams
        self.n_best = n_best
        self.eos_token_ids = eos_token_ids
        self.fill_token_id = fill_token_id
        self.processors = processors
        self.criteria = criteria
        self.do_sample = do_sample
        self.log_probs_fall = log_probs_fall
        self.sentences_may_leave = sentences_may_leave and decoder.sentences_may_leave
        self.stragglers = stragglers
        self.record = record
        self.observer = observer
        self.continues = continues
        # Enough candidates for a full beam to continue, even if all others end.
        ends = 0 if eos_token_ids is None else len(eos_token_ids)
        self.candidates = max(2, 1 + ends) * beams

    def run(self) -> BeamOutput:
        """Search to the end and return the best hypotheses of each sentence.

        Raises:
            ValueError: the model's scores are NaN.
        """
        state = self._start()
        done = []
        hidden = self.decoder.first()
        while True:
            parents = self._step(state, hidden)
            is_done = ~state.is_open
            while self.continues(all_done := bool(is_done.all())) and all_done:
                self.decoder.again()
            if all_done:
                return self._result([*done, state])
            if self.sentences_may_leave and is_done.any():
                done.append(state.at(is_done.nonzero().squeeze(1)))
                order = close_ranks(state.is_open)
                state, parents = state.at(order), parents[order]
                if self.stragglers and len(order) * self.beams <= self.stragglers.rows:
                    self.stragglers.unfinished = state.numbers.tolist()
                    return self._result([*done, state])
                self.decoder.keep(order)
            hidden = self.decoder.next(state.paths[..., 0], parents)

    def _start(self) -> BeamState:
        batch, length = self.prompt.shape
        new = self.prompt.new_full
        paths = torch.stack([self.prompt, torch.full_like(self.prompt, -1)], dim=-1)
        paths = paths.unsqueeze(1).repeat(1, self.beams, 1, 1)
        # All hypotheses of a sentence are the same at first: only one of them counts.
        scores = torch.full((batch, self.beams), NEVER, device=self.prompt.device)
        scores[:, 0] = 0
        return BeamState(
            numbers=torch.arange(batch, device=self.prompt.device),
            limits=self.limits,
            paths=paths,
            scores=scores,
            finished_paths=paths.clone(),
            finished_scores=torch.full_like(scores, NEVER),
            is_finished=new((batch, self.beams), False, dtype=torch.bool),
            is_open=new((batch,), True, dtype=torch.bool),
        )

    def _step(self, state: BeamState, hidden: torch.Tensor) -> torch.Tensor:
        """Extend each running hypothesis by a token; return which old one each new one continues, `(n, beams)`."""
        scores, beams, tokens = self._continuations(state, hidden)
        rows = beams + state.numbers.unsqueeze(1) * self.beams
        paths = torch.cat([pick(state.paths, beams), torch.stack([tokens, rows], dim=-1).unsqueeze(2)], dim=2)
        ends = self._ends(paths, tokens, state.limits)
        self._finish(state, paths, scores, ends)
        running = torch.where(ends, scores + NEVER, scores)
        before = state.scores
        state.scores, chosen = running.topk(self.beams)
        state.paths = pick(paths, chosen)
        reasons = self._close(state, ends)
        if self.observer is not None:
            log_probs = scores - pick(before, beams)
            self._show(state, reasons, (beams, tokens, log_probs, scores, ends, chosen))
        return pick(beams, chosen)

    def _continuations(
        self, state: BeamState, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Scores, hypotheses and new tokens `(n, candidates)` of the best continuations of each sentence."""
        if self.processors is not None or self.record is not None or self.do_sample:
            return self._processed_continuations(state, self.decoder.logits(hidden))
        # In parts, whose logits stay in the processor's caches.
        parts = []
        for some_hidden, scores in zip(self._parts(hidden), self._parts(state.scores)):
            log_probs = self.decoder.logits(some_hidden).float().log_softmax(-1)
            if log_probs.shape[1] * log_probs.shape[2] < self.candidates:
                log_probs = log_probs.expand(-1, self.beams, -1)
            best, indices = top(log_probs, scores[:, : log_probs.shape[1]], self.candidates)
            parts.append((best, indices // log_probs.shape[2], indices % log_probs.shape[2]))
        return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts)))

    def _parts(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Split `(n, …)` into parts whose sentences are scored together."""
        return tensor.split(max(1, ROWS_AT_ONCE // self.beams)) if tensor.device.type == "cpu" else (tensor,)

    def _processed_continuations(
        self, state: BeamState, logits: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same if all log-probabilities are recorded, processed or sampled from."""
        logits = logits.float().expand(-1, self.beams, -1)
        log_probs = logits.log_softmax(-1)
        if self.processors is not None:
            sequences = state.paths[..., 0].flatten(0, 1)
            log_probs = self.processors(sequences, log_probs.flatten(0, 1)).view(logits.shape)
        if self.record is not None:
            self.record(logits, log_probs, self.decoder)
        if self.do_sample:
            sums = (log_probs + state.scores.unsqueeze(-1)).flatten(1)
            indices = torch.multinomial(sums.softmax(-1), self.candidates)
            best = sums.gather(1, indices)
        else:
            best, indices = top(log_probs, state.scores, self.candidates)
        return best, indices // logits.shape[2], indices % logits.shape[2]

    def _ends(self, paths: torch.Tensor, tokens: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
        """Which continuations `(n, candidates)` end here."""
        ends = (limits <= paths.shape[2]).unsqueeze(1).expand(tokens.shape)
        if self.eos_token_ids is not None:
            ends = ends | torch.isin(tokens, self.eos_token_ids)
        if self.criteria is not None:
            ends = ends | self.criteria(paths[..., 0].flatten(0, 1)).view(ends.shape)
        return ends

    def _finish(self, state: BeamState, paths: torch.Tensor, scores: torch.Tensor, ends: torch.Tensor) -> None:
        """Add continuations that end to the finished hypotheses. Those ranked below the beam do not count."""
        paths, scores = paths[:, : self.beams], scores[:, : self.beams]
        ends = ends[:, : self.beams] & state.is_open.unsqueeze(1)
        if not ends.any():
            return
        length = paths.shape[2] - self.prompt.shape[1]
        scores = torch.where(ends, scores / self.scoring.penalty(length), NEVER)
        merged = torch.cat([state.finished_scores, scores], dim=1)
        state.finished_scores, chosen = merged.topk(self.beams)
        state.finished_paths = pick(torch.cat([self._padded(state.finished_paths, paths.shape[2]), paths], 1), chosen)
        state.is_finished = pick(torch.cat([state.is_finished, ends], dim=1), chosen)

    def _close(self, state: BeamState, ends: torch.Tensor) -> dict[str, torch.Tensor]:
        """Mark the sentences whose finished hypotheses are final; return for each reason where it holds, `(n,)`."""
        hoped = self._reachable(state)
        may_enter = hoped
        if self.scoring.early_stopping != "never":
            may_enter = state.scores[:, 0] / self.scoring.penalty(state.paths.shape[2] - self.prompt.shape[1])
        is_full = state.is_finished.all(-1)
        reasons = {"all_ended": ends.all(-1)}
        if self.scoring.early_stopping is True:
            reasons["full"] = is_full
        else:
            reasons["settled"] = is_full & ~(may_enter > state.finished_scores[:, -1])
        if self.log_probs_fall:
            # Nothing can beat even the last of the n best that were requested: the same result, sooner.
            reasons["decided"] = ~(hoped > state.finished_scores[:, self.n_best - 1])
        for is_reason in reasons.values():
            state.is_open &= ~is_reason
        return reasons

    def _reachable(self, state: BeamState) -> torch.Tensor:
        """The best score `(n,)` that a running hypothesis might still end with, as log-probabilities only fall."""
        start = self.prompt.shape[1]
        return state.scores[:, 0] / self.scoring.best_penalty(state.paths.shape[2] - start, state.limits - start)

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

    def _result(self, done: list[BeamState]) -> BeamOutput:
        length = max(part.finished_paths.shape[2] for part in done)
        paths = torch.cat([self._padded(part.finished_paths[:, : self.n_best], length) for part in done])
        scores = torch.cat([part.finished_scores[:, : self.n_best] for part in done])
        order = torch.cat([part.numbers for part in done]).argsort()
        paths, scores = paths[order].flatten(0, 1), scores[order].flatten()
        # A sentence with NaN scores is done at once, without a hypothesis.
        if any(part.scores.isnan().any() for part in done):
            raise ValueError(
                "The model's scores are NaN: its weights are damaged, or its dtype is too narrow for "
                "them. Copy or download the model again, or load it in float32."
            )
        start = self.prompt.shape[1]
        length = start + (paths[:, start:, 1] >= 0).sum(-1).max()
        return BeamOutput(paths[:, :length, 0], scores, paths[:, start:length, 1])

    def _padded(self, paths: torch.Tensor, length: int) -> torch.Tensor:
        """Pad paths to a length."""
        missing = length - paths.shape[2]
        if not missing:
            return paths
        padding = paths.new_tensor([self.fill_token_id, -1]).expand(*paths.shape[:2], missing, 2)
        return torch.cat([paths, padding], dim=2)


class GreedySearch(BeamSearch):
    """Beam search with a single beam that ends with its first finished hypothesis. Its scores are meaningless."""

    def __init__(self, decoder: SharedSourceDecoder, prompt: torch.Tensor, limits: torch.Tensor, **kwargs):
        super().__init__(decoder, Scoring(early_stopping=True), prompt, limits, beams=1, **kwargs)

    def _step(self, state: BeamState, hidden: torch.Tensor) -> torch.Tensor:
        parents = super()._step(state, hidden)
        # In the sum of a long output, rounding would hide which token is best. NaN stays NaN.
        state.scores = torch.zeros_like(state.scores).masked_fill(state.scores.isnan(), torch.nan)
        return parents


class Sampling(GreedySearch):
    """A search with a single hypothesis, whose next token is drawn from the model's distribution."""

    def __init__(self, *given, processors: LogitsProcessorList | None = None, **options):
        # transformers' processor of `epsilon_cutoff` takes longer than all else here; without it, a softmax is saved.
        self.epsilon = 0.0
        if processors and type(processors[-1]) is EpsilonLogitsWarper and processors[-1].min_tokens_to_keep == 1:
            self.epsilon, processors = processors[-1].epsilon, LogitsProcessorList(processors[:-1])
        super().__init__(*given, processors=processors or None, **options)

    def _continuations(
        self, state: BeamState, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logits = self.decoder.logits(hidden).float().flatten(0, 1)
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
    index are slow, so those of lines of `BLOCK` weights come first, and then those within the line that is drawn.
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


def pick(tensor: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Pick the entries `indices` `(n, k)` of dimension 1 from `(n, m, …)`: `(n, k, …)`."""
    return tensor[torch.arange(len(indices), device=indices.device).unsqueeze(1), indices]


def close_ranks(is_kept: torch.Tensor) -> torch.Tensor:
    """An order of the kept rows in which only those at the end move, to fill the gaps before them."""
    count = int(is_kept.sum())
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


__all__ = ["BeamSearch", "BeamOutput", "GreedySearch", "Sampling", "Scoring", "Stragglers"]
