"""Beam search as in the paper (section 6.1), to be read along with it.

Each step scores the next tokens of all hypotheses, takes the best continuations of each sentence, adds those that end
to the finished ones and continues the others. Finished hypotheses are compared by their log-probability divided by a
length penalty. A sentence is done when its result can no longer change; no result depends on other sentences.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import torch

# The score of a missing hypothesis. Finite, as in transformers: sums with it stay comparable.
NEVER = -1.0e9
LARGEST_PENALTY = 10  # beyond this, powers of lengths become infinite or 0 in fp32, and NaN compares with nothing
LENGTH_PENALTY_TYPES = ("length", "gnmt")


@dataclass(frozen=True)
class Scoring:
    """How hypotheses of different lengths compare, and when a sentence is done.

    Args:
        length_penalty: exponent α; 0 compares plain log-probabilities.
        length_penalty_type: `"length"` divides the log-probability by length^α, as transformers does; `"gnmt"` by
            ((5 + length) / 6)^α, as the paper does (section 6.1; Wu et al. 2016, equation 14).
        early_stopping: as in transformers: True ends a sentence as soon as it has as many finished hypotheses as
            beams; False when no running one would beat the worst of them if it ended now; `"never"` when none can,
            however long it gets.

    Raises:
        ValueError: α is not between -10 and 10.
    """

    length_penalty: float = 1.0
    length_penalty_type: str = "length"
    early_stopping: bool | str = False

    def __post_init__(self):
        is_number = isinstance(self.length_penalty, Real) and not isinstance(self.length_penalty, bool)
        if not (is_number and abs(self.length_penalty) <= LARGEST_PENALTY):
            raise ValueError(
                f"length_penalty is {self.length_penalty!r}, but must be from -{LARGEST_PENALTY} to {LARGEST_PENALTY}."
            )

    def penalty(self, length: int | torch.Tensor) -> float | torch.Tensor:
        """The divisor of the log-probability of a hypothesis of `length` tokens, end token included."""
        if self.length_penalty_type == "gnmt":
            length = (5 + length) / 6
        return length**self.length_penalty

    def best_penalty(self, length: int, limits: torch.Tensor) -> float | torch.Tensor:
        """The most favorable penalty that a running hypothesis of `length` tokens can get: log-probabilities fall."""
        return self.penalty(limits) if self.length_penalty > 0 else self.penalty(length)


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


@dataclass
class BeamOutput:
    """The result of the search: tensors `(batch * n_best, …)`, best first within each sentence."""

    sequences: torch.Tensor  # token ids with the prompt, padded
    scores: torch.Tensor
    rows: torch.Tensor  # for each generated token, the row in the batch of the hypothesis it extends; -1 for padding


class BeamSearch:
    """A search over one batch.

    Args:
        decoder: scores next tokens: `first()` those after the prompt, `next(sequences, parents)` those after
            `sequences` `(n, beams, length)`, each of which continues the hypothesis `parents` `(n, beams)` of the step
            before; both return states, which `logits(states)` turns into `(n, beams or 1, vocab_size)`.
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
        record: called at each step with logits, processed log-probabilities and the decoder.
        observe: called at each step with what it has decided, see `_step`.
        continues: called at each step with whether all sentences are done; returns whether to take another step, which
            depends on all processes if they share the weights.
    """

    def __init__(
        self,
        decoder,
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
        record: Callable | None = None,
        observe: Callable | None = None,
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
        self.record = record
        self.observe = observe
        self.continues = continues
        # Enough candidates for a full beam to continue, even if all others end.
        ends = 0 if eos_token_ids is None else len(eos_token_ids)
        self.candidates = max(2, 1 + ends) * beams

    def run(self) -> BeamOutput:
        """Search to the end and return the best hypotheses of each sentence.

        Raises:
            ValueError: the model's scores are NaN.
        """
        state, states = self._start(), self.decoder.first()
        while True:
            parents = self._step(state, states)
            while self.continues(all_done := not state.is_open.any()) and all_done:
                self.decoder.again()
            if all_done:
                return self._result([state])
            states = self.decoder.next(state.paths[..., 0], parents)

    def _start(self) -> BeamState:
        batch = len(self.prompt)
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

    def _step(self, state: BeamState, states: torch.Tensor) -> torch.Tensor:
        """Extend each running hypothesis by a token; return which old one each new one continues, `(n, beams)`."""
        before, (scores, beams, tokens) = state.scores, self._continuations(state, states)
        rows = beams + state.numbers.unsqueeze(1) * self.beams
        paths = torch.cat([pick(state.paths, beams), torch.stack([tokens, rows], dim=-1).unsqueeze(2)], dim=2)
        ends = self._ends(paths, tokens, state.limits)
        self._finish(state, paths, scores, ends)
        state.scores, chosen = torch.where(ends, scores + NEVER, scores).topk(self.beams)
        state.paths = pick(paths, chosen)
        reasons = self._close(state, ends)
        if self.observe is not None:
            log_probs = scores - pick(before, beams)
            self.observe(state, reasons, (beams, tokens, log_probs, scores, ends, chosen))
        return pick(beams, chosen)

    def _continuations(
        self, state: BeamState, states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Scores, hypotheses and new tokens `(n, candidates)` of the best continuations of each sentence."""
        logits = self.decoder.logits(states).float().expand(-1, self.beams, -1)
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
            best, indices = self._top(log_probs, state.scores)
        return best, indices // logits.shape[2], indices % logits.shape[2]

    def _top(self, log_probs: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The best sums of `log_probs` `(n, beams, vocab_size)` and `scores` `(n, beams)` of each sentence.

        Returns:
            Sums and indices into `beams * vocab_size`, `(n, candidates)` each, the best first.
        """
        return (log_probs + scores.unsqueeze(-1)).flatten(1).topk(self.candidates)

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
        # On a GPU, looking takes longer than the work that it saves.
        if ends.device.type == "cpu" and not ends.any():
            return
        length = paths.shape[2] - self.prompt.shape[1]
        scores = torch.where(ends, scores / self.scoring.penalty(length), NEVER)
        merged = torch.cat([state.finished_scores, scores], dim=1)
        state.finished_scores, chosen = merged.topk(self.beams)
        state.finished_paths = pick(torch.cat([self._padded(state.finished_paths, paths.shape[2]), paths], 1), chosen)
        state.is_finished = pick(torch.cat([state.is_finished, ends], dim=1), chosen)

    def _close(self, state: BeamState, ends: torch.Tensor) -> dict[str, torch.Tensor]:
        """Mark the sentences whose finished hypotheses are final; return for each reason where it holds, `(n,)`."""
        start = self.prompt.shape[1]
        if self.scoring.early_stopping == "never":
            may_enter = self._reachable(state)
        else:
            may_enter = state.scores[:, 0] / self.scoring.penalty(state.paths.shape[2] - start)
        is_full = state.is_finished.all(-1)
        reasons = {"all_ended": ends.all(-1)}
        if self.scoring.early_stopping is True:
            reasons["full"] = is_full
        else:
            reasons["settled"] = is_full & ~(may_enter > state.finished_scores[:, -1])
        for is_reason in reasons.values():
            state.is_open &= ~is_reason
        return reasons

    def _reachable(self, state: BeamState) -> torch.Tensor:
        """The best score `(n,)` that a running hypothesis might still end with, as log-probabilities only fall."""
        start = self.prompt.shape[1]
        return state.scores[:, 0] / self.scoring.best_penalty(state.paths.shape[2] - start, state.limits - start)

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
        padding = paths.new_full((*paths.shape[:2], missing, 2), -1)
        padding[..., 0] = self.fill_token_id
        return torch.cat([paths, padding], dim=2)


def pick(tensor: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Pick the entries `indices` `(n, k)` of dimension 1 from `(n, m, …)`: `(n, k, …)`."""
    return tensor[torch.arange(len(indices), device=indices.device).unsqueeze(1), indices]


__all__ = ["BeamOutput", "BeamSearch", "BeamState", "Scoring"]
