"""Translates many texts with one model, in batches of like length."""

import logging
import sys

import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)


@torch.inference_mode()
def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: list[str],
    batch_size: int = 32,
    show_progress: bool = False,
    **generate_kwargs,
) -> list[str]:
    """Translate texts.

    Args:
        texts: sentences; the order is kept.
        batch_size: sentences computed together; those of like length meet, which saves padding.
        show_progress: draw a progress bar, where there is a terminal.
        generate_kwargs: arguments of `model.generate()`, such as `num_beams=4`.

    Returns:
        One translation for each text.
    """
    was_training = model.training
    model.eval()
    encoded = _cut(tokenizer(texts).input_ids if texts else [], model, tokenizer.eos_token_id)
    longest_first = sorted(range(len(texts)), key=lambda i: -len(encoded[i]))
    translations = [""] * len(texts)
    with tqdm(total=len(texts), unit=" sentences", disable=not (show_progress and sys.stderr.isatty())) as bar:
        for start in range(0, len(texts), batch_size):
            # Tokenizers that add no token of their own make nothing of an empty text, and there it stays.
            rows = [row for row in longest_first[start : start + batch_size] if encoded[row]]
            if not rows:
                continue
            inputs = tokenizer.pad({"input_ids": [encoded[i] for i in rows]}, return_tensors="pt").to(model.device)
            output_ids = model.generate(**inputs, **generate_kwargs)
            for row, text in zip(rows, tokenizer.batch_decode(output_ids, skip_special_tokens=True)):
                translations[row] = text
            bar.update(len(rows))
    model.train(was_training)
    return translations


def _cut(encoded: list[list[int]], model: PreTrainedModel, eos_token_id: int | None) -> list[list[int]]:
    """Shorten the texts that reach beyond a model's learned positions, with a warning: the others need no less."""
    if getattr(model.config, "position_type", None) != "learned":
        return encoded
    limit = model.config.max_position_embeddings
    too_long = sum(len(token_ids) > limit for token_ids in encoded)
    if too_long:
        logger.warning("Texts cut: %d, at %d tokens, where the model's learned positions end", too_long, limit)
    end = [] if eos_token_id is None else [eos_token_id]
    return [ids if len(ids) <= limit else [*ids[: limit - len(end)], *end] for ids in encoded]
