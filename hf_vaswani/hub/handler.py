"""What an Inference Endpoint on the Hub runs; it needs transformers alone. `hf-vaswani push --handler` adds it."""

from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

BATCH = 32


class EndpointHandler:
    """Translates the texts of a request: `{"inputs": "…" or ["…"], "parameters": {"num_beams": 4}}`.

    Args:
        path: folder of the model.
    """

    def __init__(self, path: str = ""):
        self.tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=True)
        model = AutoModelForSeq2SeqLM.from_pretrained(path, trust_remote_code=True)
        self.model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def __call__(self, data: dict[str, Any]) -> list[dict[str, str]]:
        """Return `{"translation_text": "…"}` for each text."""
        inputs = data.get("inputs")
        texts = [inputs] if isinstance(inputs, str) else inputs
        if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
            return [{"error": "inputs must be a text or a list of texts"}]
        # Texts of similar length together.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        translations = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            numbers = order[start : start + BATCH]
            batch = self.tokenizer([texts[number] for number in numbers], return_tensors="pt", padding=True)
            batch = {name: batch[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
            output = self.model.generate(**batch, **(data.get("parameters") or {}))
            for number, text in zip(numbers, self.tokenizer.batch_decode(output, skip_special_tokens=True)):
                translations[number] = text
        return [{"translation_text": text} for text in translations]
