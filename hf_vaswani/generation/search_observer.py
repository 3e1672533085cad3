"""What a search decides, step by step, for anyone who wants to look at it, for example as a beam tree."""

from dataclasses import dataclass

import torch
from transformers import StoppingCriteria

from ..core.generation_beam_search import Scoring


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
