"""Token ids as a model's input: what is refused, which of them are padding, and the positions that they have."""

import torch

FIT = (
    "If you added tokens to the tokenizer, call model.resize_token_embeddings(len(tokenizer)). Otherwise, use the "
    "tokenizer that the model was trained with."
)


def check_ids(name: str, token_ids: torch.Tensor) -> None:
    """Refuse anything but token ids of shape `(batch, length)`, both at least 1."""
    is_tensor = isinstance(token_ids, torch.Tensor)
    if is_tensor and token_ids.dim() == 2 and token_ids.numel() and token_ids.dtype in (torch.int32, torch.int64):
        return
    found = f"{token_ids.dtype} of shape {tuple(token_ids.shape)}" if is_tensor else f"a {type(token_ids).__name__}"
    raise ValueError(f"{name} must be a tensor of token ids, (batch, length), with at least one; got {found}.")


def check_token_ids(name: str, token_ids: torch.Tensor, vocab_size: int) -> None:
    """Refuse ids that are not of shape `(batch, length)` and, on a CPU, ids outside the vocabulary.

    On other devices, the second check would stall the computation.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    check_ids(name, token_ids)
    if token_ids.device.type != "cpu":
        return
    if token_ids.min() < 0 or token_ids.max() >= vocab_size:
        raise ValueError(
            f"{name}: token ids from {token_ids.min()} to {token_ids.max()} were given, but the vocabulary goes "
            f"from 0 to {vocab_size - 1}. {FIT}"
        )


def check_same_batch(sources: torch.Tensor, targets: torch.Tensor | None) -> None:
    """Refuse targets of another batch size than that of the sources, to which they would be broadcast."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    # Shapes are checked elsewhere.
    if not isinstance(targets, torch.Tensor) or targets.dim() < 2 or len(targets) in (0, len(sources)):
        return
    raise ValueError(
        f"The batch has {len(sources)} source(s) and {len(targets)} target(s) (labels, decoder_input_ids or "
        "decoder_inputs_embeds). Give one target for each source."
    )


def check_length(past_length: int | torch.Tensor, length: int, limit: int) -> None:
    """Refuse sequences longer than the learned positions. A length in a tensor is not checked: that would stall."""
    if isinstance(past_length, int) and past_length + length > limit:
        raise ValueError(
            f"The sequence has {past_length + length} tokens, but this model's learned positions end at "
            f"max_position_embeddings={limit}. Shorten or truncate the text, request a shorter translation "
            '(max_new_tokens), or train with position_type="sinusoidal", which has no limit.'
        )


def token_mask(
    inputs_embeds: torch.Tensor, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None, pad_token_id: int
) -> torch.Tensor:
    """Which input positions `(batch, length)` are not padding: by the ids, else by the mask, else all of them."""
    if input_ids is not None:
        return input_ids.ne(pad_token_id)
    if attention_mask is not None and attention_mask.dim() == 2:
        return attention_mask[:, -inputs_embeds.shape[1] :].bool()
    return torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)


def count_tokens(
    is_token: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int | torch.Tensor
) -> torch.Tensor:
    """Positions `(batch, length)`, counted from 0 without padding and continuing after those in the cache."""
    length = is_token.shape[1]
    if attention_mask is not None and attention_mask.dim() == 2 and attention_mask.shape[1] > length:
        past_length = attention_mask[:, :-length].sum(dim=1, keepdim=True)
    return (is_token.cumsum(dim=1) - 1 + past_length).clamp(min=0)
