"""The search of a PyTorch model, which is its `generate()`."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...generation.alignment import evaluation
from ...generation.mixin import FastGenerationMixin
from ...generation.output_scores import align, log_probabilities, output_lengths, prompt_length
from ...generation.settings import GenerateArguments
from ...text.languages import target_argument
from ..encoder import FIRST_TOKEN
from ..segments import Candidate, Row, SearchBatch, SearchRequest


class TorchBackend:
    """Searches with the `generate()` of a model."""

    takes_constraints, makes_batches = True, False
    must_see_all = False

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase):
        self.model, self.tokenizer = model, tokenizer
        self.name, self.title = getattr(model, "engine_key", "torch"), getattr(model, "engine_name", "PyTorch")
        self.leaves_unfinished = getattr(model, "leaves_unfinished", False)

    def search(self, batch: SearchBatch, request: SearchRequest) -> list[list[Candidate]]:
        inputs = {name: _to_device(value, self.model) for name, value in collate(self.tokenizer, batch.rows).items()}
        own = own_arguments(batch, self.model.device)
        with torch.inference_mode(), evaluation(self.model) as model:
            outputs = search_batch(
                model, self.tokenizer, inputs, request.arguments.updated(own), request.n_best,
                bool(request.return_scores), bool(request.return_alignments),
            )  # fmt: skip
        return [list(_candidates(outputs, row)) for row in range(len(batch.rows))]

    def obstacle(self, request: SearchRequest, longest: int) -> str | None:
        return None

    @staticmethod
    def computes_the_same(request: SearchRequest) -> bool:
        return True


def own_arguments(batch: SearchBatch, device: torch.device) -> dict[str, object]:
    """The arguments of `generate()` that belong to one batch."""
    own: dict[str, object] = {}
    if batch.prompts:
        own["decoder_input_ids"] = torch.tensor(batch.prompts, device=device)
    if batch.unfinished:
        own["stopping_criteria"] = [batch.unfinished]
    if batch.constraints:
        from ...generation.constrained_search import search_with_terms  # only texts with terms need it

        own["custom_generate"] = partial(search_with_terms, automata=batch.constraints)
    return own


def collate(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Row]) -> dict[str, Any]:
    """Encoded texts → a batch, padded on the right, since most models count positions from the left."""
    first_token = rows[0].get(FIRST_TOKEN)
    rows = [{k: v for k, v in row.items() if k != FIRST_TOKEN} for row in rows]
    if tokenizer.pad_token_id is None:  # such texts are translated one at a time
        batch = {k: torch.tensor([v]) for k, v in rows[0].items()}
    else:
        batch = dict(tokenizer.pad(rows, padding_side="right", return_tensors="pt", return_attention_mask=True))
    batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
    # Multilingual tokenizers choose the target language by the first token; in a batch it is the same for all.
    return batch if first_token is None else {**batch, FIRST_TOKEN: int(first_token)}


def search_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: dict[str, Any],
    arguments: GenerateArguments,
    n_best: int | None = None,
    return_scores: bool = False,
    return_alignments: bool = False,
) -> dict[str, Any]:
    """Token ids `(batch, source_length)` → the hypotheses of each text.

    Args:
        arguments: the arguments of `generate()`.

    Returns:
        `output_ids` `(batch, hypotheses, target_length)`, their `lengths` `(batch, hypotheses)` and, if requested,
        `scores` `(batch, hypotheses)` and `alignments`: a dict for each text and hypothesis.
    """
    generate_kwargs = dict(arguments.generate_kwargs)
    first_token = inputs.pop(FIRST_TOKEN, None)
    start = arguments.get("decoder_start_token_id")
    if first_token is not None and first_token != start:
        generate_kwargs.setdefault(target_argument(tokenizer, start), first_token)
    if n_best:
        generate_kwargs["num_return_sequences"] = n_best
    arguments = arguments.updated(generate_kwargs)
    with_scores = bool(n_best or return_scores)
    # With one beam, this package's search is faster if only tokens are requested, and has no scores anyway.
    if with_scores and not (isinstance(model, FastGenerationMixin) and arguments.get("num_beams", 1) == 1):
        arguments.generate_kwargs["return_dict_in_generate"] = True
    output = model.generate(**inputs, **arguments.generate_kwargs)
    output_ids = getattr(output, "sequences", output)
    pad_token_id = arguments.get("pad_token_id", tokenizer.pad_token_id) if arguments.may_end_without_eos() else None
    lengths = output_lengths(output_ids, arguments.eos_token_ids(), pad_token_id)
    outputs = {"output_ids": output_ids, "lengths": lengths}
    if with_scores:
        scores = getattr(output, "sequences_scores", None)
        outputs["scores"] = _scores(model, inputs, arguments, output_ids, lengths) if scores is None else scores
    batch_size = len(inputs["input_ids"])
    outputs = {name: tensor.reshape(batch_size, -1, *tensor.shape[1:]) for name, tensor in outputs.items()}
    if n_best and arguments.get("do_sample"):
        best_first = outputs["scores"].argsort(dim=1, descending=True)
        row = torch.arange(batch_size, device=best_first.device).unsqueeze(1)
        outputs = {name: tensor[row, best_first] for name, tensor in outputs.items()}
    if return_alignments:
        outputs["alignments"] = align(model, tokenizer, inputs, outputs["output_ids"], outputs["lengths"])
    return outputs


def _scores(
    model: PreTrainedModel,
    inputs: dict[str, torch.Tensor],
    arguments: GenerateArguments,
    output_ids: torch.LongTensor,
    lengths: torch.LongTensor,
) -> torch.Tensor:
    """Scores by which beam search would rank hypotheses `(rows, target_length)`, for searches without scores."""
    prompt = prompt_length(arguments.get("decoder_input_ids"), output_ids)
    first_is_forced = prompt == 1 and arguments.get(FIRST_TOKEN) is not None
    sums = log_probabilities(model, inputs, output_ids, lengths, given=prompt + int(first_is_forced))
    return sums / arguments.scoring().penalty((lengths - prompt).clamp(min=1))


def _candidates(outputs: dict[str, torch.Tensor], row: int) -> Iterator[Candidate]:
    ids, lengths = outputs["output_ids"][row].tolist(), outputs["lengths"][row].tolist()
    scores = outputs["scores"][row].tolist() if "scores" in outputs else [None] * len(ids)
    alignments = outputs["alignments"][row] if "alignments" in outputs else [None] * len(ids)
    for own, length, score, alignment in zip(ids, lengths, scores, alignments):
        yield Candidate(own[:length], score, alignment)


def _to_device(value: object, model: PreTrainedModel) -> Any:
    return value.to(model.device) if isinstance(value, torch.Tensor) else value


__all__ = ["TorchBackend", "collate", "own_arguments", "search_batch"]
