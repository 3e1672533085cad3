"""Translates many texts with one model, in batches of like length."""

import sys

import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerFast


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
    encoded = tokenizer(texts).input_ids if texts else []
    longest_first = sorted(range(len(texts)), key=lambda i: -len(encoded[i]))
    translations = [""] * len(texts)
    with tqdm(total=len(texts), unit=" sentences", disable=not (show_progress and sys.stderr.isatty())) as bar:
        for start in range(0, len(texts), batch_size):
            rows = longest_first[start : start + batch_size]
            inputs = tokenizer.pad({"input_ids": [encoded[i] for i in rows]}, return_tensors="pt").to(model.device)
            output_ids = model.generate(**inputs, **generate_kwargs)
            for row, text in zip(rows, tokenizer.batch_decode(output_ids, skip_special_tokens=True)):
                translations[row] = text
            bar.update(len(rows))
    model.train(was_training)
    return translations
