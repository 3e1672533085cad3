"""What the stopping criteria of transformers' `generate()` say to a search: lengths, end tokens, what it must call.

The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its
siblings.
"""

import torch
from transformers import GenerationConfig, MaxLengthCriteria, StoppingCriteria, StoppingCriteriaList
from transformers.generation import EosTokenCriteria

from .generation_beam_search import Stragglers
from .generation_search_observer import SearchObserver


class SourceLengthCriteria(StoppingCriteria):
    """Ends each row at a length of its own.

    Args:
        limits: `(rows,)`, maximum number of tokens in each output, prompt included.
    """

    def __init__(self, limits: torch.Tensor):
        self.limits = limits

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        return self.limits.to(input_ids.device) <= input_ids.shape[1]


def length_limits(criteria: StoppingCriteriaList, generation_config: GenerationConfig, input_ids) -> torch.Tensor:
    """The maximum number of tokens in the output of each row, prompt included: `(rows,)`."""
    lengths = [criterion.max_length for criterion in criteria if type(criterion) is MaxLengthCriteria]
    longest = min(lengths, default=generation_config.max_length)
    for criterion in criteria:
        if isinstance(criterion, SourceLengthCriteria):
            return criterion.limits.to(input_ids.device).clamp(max=longest)
    return torch.full((len(input_ids),), longest, device=input_ids.device)


def end_token_ids(criteria: StoppingCriteriaList, input_ids: torch.Tensor) -> torch.Tensor | None:
    """The tokens that end an output, `(k,)`, from the config or a criterion of the caller; `None` without any."""
    ids = [criterion.eos_token_id.reshape(-1) for criterion in criteria if type(criterion) is EosTokenCriteria]
    return torch.cat(ids).to(input_ids.device) if ids else None


def other_criteria(criteria: StoppingCriteriaList) -> StoppingCriteriaList:
    """The criteria that a search must call: all but those that it handles itself."""
    known = (MaxLengthCriteria, EosTokenCriteria, SourceLengthCriteria, Stragglers, SearchObserver)
    return StoppingCriteriaList(criterion for criterion in criteria if type(criterion) not in known)


def only_one(kind: type[StoppingCriteria], criteria: StoppingCriteriaList) -> StoppingCriteria | None:
    """The first criterion of that kind, or `None`."""
    return next((criterion for criterion in criteria if type(criterion) is kind), None)


__all__ = ["SourceLengthCriteria", "end_token_ids", "length_limits", "only_one", "other_criteria"]
