"""The search of CTranslate2, from lists of token ids to lists of token ids."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from ...backends import CTRANSLATE2
from ...engines.ctranslate2_model import CTranslate2Model
from ..encoder import FIRST_TOKEN
from ..segments import Candidate, SearchBatch, SearchRequest

# Settings that forbid tokens.
ON_LOGITS = ("suppress_tokens", "no_repeat_ngram_size", "min_length", "min_new_tokens")


class CTranslate2Backend:
    """Searches with a CTranslate2 model, which forms batches itself and distributes them to its workers."""

    name, title = CTRANSLATE2.name, CTRANSLATE2.title
    makes_batches, leaves_unfinished, must_see_all, takes_constraints = True, False, False, False

    def __init__(self, model: CTranslate2Model, tokenizer: PreTrainedTokenizerBase):
        self.model = model

    def search(self, batch: SearchBatch, request: SearchRequest) -> list[list[Candidate]]:
        if request.return_alignments:
            self.model.forward()  # which says that it has no attention weights
        given = dict(request.arguments.generate_kwargs)
        if FIRST_TOKEN in batch.rows[0]:
            given.setdefault(FIRST_TOKEN, int(batch.rows[0][FIRST_TOKEN]))
        if request.n_best:
            given["num_return_sequences"] = request.n_best
        settings = self.model.search_settings(given.pop("generation_config", None), given)
        sources, given_prompts = [row["input_ids"] for row in batch.rows], [list(ids) for ids in batch.prompts or ()]
        with_scores = bool(request.n_best or request.return_scores)
        ends = request.arguments.eos_token_ids()
        found = []
        for hypotheses in self.model.search(sources, given_prompts, settings, batch.finished):
            scores = torch.tensor([score for score, _ in hypotheses]).tolist()  # in float32, as PyTorch's
            own = [
                Candidate(_until(ends, ids), score if with_scores else None)
                for score, (_, ids) in zip(scores, hypotheses)
            ]
            if request.n_best and settings.do_sample:
                own.sort(key=lambda candidate: -(candidate.score or 0))
            found.append(own)
        return found

    def obstacle(self, request: SearchRequest, longest: int) -> str | None:
        limit = self.model.stored.max_position_embeddings
        if limit and longest > limit:
            return f"a text has {longest} tokens, more than its {limit} positions"
        given = dict(request.arguments.generate_kwargs)
        try:
            self.model.search_settings(given.pop("generation_config", None), given)
        except ValueError as error:
            return str(error).rstrip(".")
        return None

    @staticmethod
    def computes_the_same(request: SearchRequest) -> bool:
        """As in [`SearchBackend`].

        Samples are not, nor are scores if tokens are forbidden or penalized: the engine changes logits and then
        normalizes them; transformers' beam search changes log-probabilities. The most probable token is the same. That
        padding is forbidden, as Marian's settings have it, makes no difference.
        """
        arguments = request.arguments
        if arguments.get("do_sample") or request.return_alignments:
            return False
        padding = [[arguments.get("pad_token_id")]]
        is_set = any(arguments.get(name) for name in ON_LOGITS) or arguments.get("bad_words_ids", padding) != padding
        is_set |= (arguments.get("repetition_penalty") or 1) != 1
        return not (is_set and (arguments.rows() > 1 or request.return_scores or request.n_best))


def _until(ends: Sequence[int], ids: list[int]) -> list[int]:
    """Ids up to the first end token, without the start token, which may be the same."""
    return next((ids[: place + 1] for place, token_id in enumerate(ids) if place and token_id in ends), ids)


__all__ = ["CTranslate2Backend"]
