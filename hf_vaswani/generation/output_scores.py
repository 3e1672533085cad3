"""Hypotheses: lengths, scores and alignments of translations from `generate()`, for every encoder–decoder."""

from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from .alignment import alignments, forced_attentions, text_mask, to_tokens

LOGITS_AT_ONCE = 2**26  # 256 MiB in float32


def output_lengths(
    output_ids: torch.LongTensor, eos_token_ids: list[int], pad_token_id: int | None
) -> torch.LongTensor:
    """The number of tokens of each output `(rows, length)`, start and end included, padding excluded: `(rows,)`."""
    length = output_ids.shape[1]
    position = torch.arange(1, length + 1, device=output_ids.device)
    ends = torch.isin(output_ids, torch.tensor(eos_token_ids, dtype=torch.long, device=output_ids.device))
    # Many decoders start with the token that elsewhere is the end or padding.
    ends[:, 0] = False
    first_end = torch.where(ends, position, length + 1).amin(dim=1)
    is_token = output_ids != (-1 if pad_token_id is None else pad_token_id)
    is_token[:, 0] = True
    last_token = torch.where(is_token, position, 0).amax(dim=1)
    return torch.minimum(first_end, torch.where(first_end > length, last_token, length))


def decoder_start(model: PreTrainedModel) -> int | None:
    """The token that the decoder starts from."""
    start = getattr(model.generation_config, "decoder_start_token_id", None)
    return model.config.decoder_start_token_id if start is None else start


def forced_output(model: PreTrainedModel, labels: torch.LongTensor) -> torch.LongTensor:
    """Labels `(batch, length)` as `generate()` would return them: `(batch, length + 1)`, the decoder's start first."""
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        start = model.prepare_decoder_input_ids_from_labels(labels)[:, :1]
    else:
        start = torch.full_like(labels[:, :1], decoder_start(model))
    return torch.cat([start, labels], dim=1)


def prompt_length(prompt: torch.LongTensor | None, output_ids: torch.LongTensor) -> int:
    """The number of tokens at the start of outputs `(rows, length)` that are a prompt, the start token included.

    Args:
        prompt: `(1 or rows, prompt_length)`, with or without the start token, which `generate()` adds; None without a
            prompt.
    """
    if prompt is None:
        return 1
    length = prompt.shape[1]
    return length if torch.equal(output_ids[0, :length], prompt[0].to(output_ids.device)) else length + 1


@torch.no_grad()
def token_log_probabilities(
    model: PreTrainedModel,
    inputs: Mapping[str, torch.Tensor],
    output_ids: torch.LongTensor,
    never: Sequence[int] = (),
) -> torch.Tensor:
    """Natural log-probability of each token of given translations (teacher forcing), by a model in eval mode.

    Args:
        inputs: `input_ids` and `attention_mask`, `(batch, source_length)`.
        output_ids: `(batch * n, target_length)`, n hypotheses per source, beginning with the decoder's start token.
        never: tokens that are ruled out, so that the others share their probability.

    Returns:
        float32 `(batch * n, target_length - 1)`, for all tokens but the start; values at padding are meaningless.
    """
    decoder_input, labels = output_ids[:, :-1], output_ids[:, 1:]
    encoder_output = model.get_encoder()(**inputs, return_dict=True).last_hidden_state
    source = torch.arange(len(encoder_output), device=labels.device).repeat_interleave(
        len(output_ids) // len(encoder_output)
    )
    row_logits = model.get_output_embeddings().weight.shape[0] * max(1, labels.shape[1])
    parts = []
    for rows in torch.arange(len(output_ids), device=labels.device).split(max(1, LOGITS_AT_ONCE // row_logits)):
        logits = model(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoder_output[source[rows]]),
            attention_mask=inputs["attention_mask"][source[rows]],
            decoder_input_ids=decoder_input[rows],
            use_cache=False,
        ).logits
        if never:
            logits[..., never] = -torch.inf
        # Row by row: in float32, a whole batch would need the memory of its logits once more.
        normalizers = torch.stack([row.float().logsumexp(-1) for row in logits])
        parts.append(logits.gather(-1, labels[rows].unsqueeze(-1)).squeeze(-1).float() - normalizers)
    return torch.cat(parts)


def log_probabilities(
    model: PreTrainedModel,
    inputs: Mapping[str, torch.Tensor],
    output_ids: torch.LongTensor,
    lengths: torch.LongTensor,
    given: int = 1,
) -> torch.Tensor:
    """Natural log-probabilities of given translations, the end included; arguments as in [`token_log_probabilities`].

    Args:
        lengths: `(batch * n)`, from [`output_lengths`].
        given: number of tokens at the beginning, start included, that the model did not choose and that do not count.

    Returns:
        float32 `(batch * n)`.
    """
    values = token_log_probabilities(model, inputs, output_ids)
    number = torch.arange(1, values.shape[1] + 1, device=values.device)
    counts = (number < lengths.unsqueeze(1)) & (number >= given)
    return values.masked_fill(~counts, 0).sum(dim=1)


def align(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Mapping[str, torch.Tensor],
    output_ids: torch.LongTensor,
    lengths: torch.LongTensor,
) -> list[list[dict[str, list]]]:
    """Word alignments of hypotheses, from the attention with which the model produces them.

    Args:
        inputs: `input_ids` and `attention_mask`, `(batch, source_length)`.
        output_ids: `(batch, hypotheses, target_length)`; `lengths` `(batch, hypotheses)`.

    Returns:
        For each text and hypothesis, a dict of `source_tokens` and `target_tokens`, without special tokens, and
        `alignment`, pairs of indices (source, target) into them.
    """
    batch_size, hypotheses, length = output_ids.shape
    source_ids, output_ids = inputs["input_ids"], output_ids.flatten(0, 1)
    position = torch.arange(length, device=output_ids.device)
    is_source = text_mask(tokenizer, source_ids) & inputs["attention_mask"].bool()
    is_target = text_mask(tokenizer, output_ids, is_target=True) & (position > 0) & (position < lengths.reshape(-1, 1))
    cross = forced_attentions(model, inputs, output_ids).cross
    is_source_of_hypothesis = is_source.repeat_interleave(hypotheses, dim=0)
    heads = getattr(model.config, "alignment_heads", None)
    aligned = alignments(cross, is_source_of_hypothesis, is_target[:, 1:], heads=heads)
    sources = [to_tokens(tokenizer, ids[kept].tolist()) for ids, kept in zip(source_ids, is_source)]
    rows = [
        {
            "alignment": pairs,
            "source_tokens": sources[i // hypotheses],
            "target_tokens": to_tokens(tokenizer, ids[kept].tolist(), is_target=True),
        }
        for i, (pairs, ids, kept) in enumerate(zip(aligned, output_ids, is_target))
    ]
    return [rows[i * hypotheses : (i + 1) * hypotheses] for i in range(batch_size)]


__all__ = [
    "align",
    "decoder_start",
    "forced_output",
    "log_probabilities",
    "output_lengths",
    "prompt_length",
    "token_log_probabilities",
]
