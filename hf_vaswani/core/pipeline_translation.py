"""The translation pipeline of a checkpoint: sentences in, translations out.

It is what `pipeline("translation", trust_remote_code=True)` finds where hf_vaswani is not installed. With the package,
a pipeline of the same name takes its place, which is faster and has many more options.
"""

from collections.abc import Iterator
from typing import Any

from transformers.pipelines.base import ChunkPipeline

from .sentence_splitting import Piece, join_texts, split_like_training_text
from .tokenization_vaswani import LANGUAGE_MARK, leading_marks


class TranslationPipeline(ChunkPipeline):
    """Translates a text, a list of texts, or a stream of them.

    Each sentence is translated by itself if the model was trained on sentences, and translations are joined with the
    spaces and line breaks of the text. Arguments of a call go to `generate()`: `num_beams=4`, `max_new_tokens=100`, …

    Args of a call:
        src_lang, tgt_lang (`str`): languages, for a model for several language pairs.
        split_sentences (`bool`): `False` keeps texts whole.
        batch_size (`int`): number of sentences that are translated at once.

    Returns:
        For a text, a list of dicts with `translation_text`, one per hypothesis (`num_return_sequences`). For a list of
        texts, a list of such dicts, or of such lists if there are several hypotheses.
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.tokenizer.pad_token_id is None:
            raise ValueError("The tokenizer has no padding token, which translation in batches needs.")

    def __call__(self, inputs, **options):
        results = super().__call__(inputs, **options)
        if isinstance(inputs, str) or not isinstance(results, list):
            return results
        return [result[0] if len(result) == 1 else result for result in results]

    def _sanitize_parameters(self, split_sentences=None, src_lang=None, tgt_lang=None, **generate_kwargs):
        preprocess = {"split_sentences": split_sentences, "src_lang": src_lang, "tgt_lang": tgt_lang}
        return {name: value for name, value in preprocess.items() if value is not None}, generate_kwargs, {}

    def preprocess(
        self, text: str, split_sentences: bool = True, src_lang: str | None = None, tgt_lang: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """A text → the token ids and attention mask `(1, source_length)` of each piece of it."""
        text = self._mark(text, src_lang, tgt_lang)
        marks = leading_marks(self.tokenizer, text)  # each piece needs them
        config, pieces = self.model.config, [Piece(text[len(marks) :].strip())]
        if split_sentences:
            known = (config.longest_training_source, config.multi_sentence_share)
            count = lambda part: len(self.tokenizer(marks + part)["input_ids"])  # noqa: E731
            pieces = split_like_training_text(text[len(marks) :], *known, count)
        for number, piece in enumerate(pieces, 1):
            encoded = self.tokenizer(marks + piece.text, return_tensors="pt", return_token_type_ids=False)
            if not encoded["input_ids"].numel():  # nothing visible, and a tokenizer without an end token
                encoded = self.tokenizer.pad({"input_ids": [[config.eos_token_id]]}, return_tensors="pt")
            yield {"is_last": number == len(pieces), "piece": piece, **encoded}

    def _mark(self, text: str, src_lang: str | None, tgt_lang: str | None) -> str:
        """A text with the token of the language that it is to be translated into, if the model has several.

        Raises:
            ValueError: the model does not translate these languages, or needs one that is missing.
        """
        config, tokenizer = self.model.config, self.tokenizer
        own = (config.source_language, config.target_language)
        pairs = config.language_pairs or ([own] if all(own) else [])
        target = tgt_lang or getattr(tokenizer, "tgt_lang", None)
        if mark := LANGUAGE_MARK.match(leading_marks(tokenizer, text)):
            target = mark.group(1)
        fitting = [pair for pair in pairs if src_lang in (None, pair[0]) and target in (None, pair[1])]
        if pairs and not fitting:
            known = " or ".join(f"{source} to {target}" for source, target in pairs)
            raise ValueError(f"src_lang={src_lang!r} and tgt_lang={target!r}: this model translates {known}.")
        if mark or not getattr(tokenizer, "supported_language_codes", None):
            return text
        targets = {pair[1] for pair in fitting}
        if len(targets) != 1:
            known = ", ".join(sorted(targets))
            raise ValueError(f"This model translates into several languages: {known}. Choose one with tgt_lang.")
        return f">>{targets.pop()}<< {text}"

    def _forward(self, model_inputs: dict[str, Any], **generate_kwargs) -> dict[str, Any]:
        """Token ids `(batch, source_length)` → `output_ids` `(batch, hypotheses, target_length)`."""
        is_last, piece = model_inputs.pop("is_last"), model_inputs.pop("piece")
        output_ids = self.model.generate(**model_inputs, **generate_kwargs)
        output_ids = output_ids.unflatten(0, (len(model_inputs["input_ids"]), -1))
        return {"output_ids": output_ids, "is_last": is_last, "piece": piece}

    def postprocess(self, model_outputs: list[dict[str, Any]]) -> list[dict[str, str]]:
        """The hypotheses of all pieces of a text → the hypotheses of the text, best first."""
        pieces = [Piece(*outputs["piece"]) for outputs in model_outputs]
        decoded = [
            self.tokenizer.batch_decode(outputs["output_ids"].squeeze(0), skip_special_tokens=True)
            if piece.text
            else [""] * outputs["output_ids"].shape[1]
            for outputs, piece in zip(model_outputs, pieces)
        ]
        return [{"translation_text": join_texts(list(texts), pieces)} for texts in zip(*decoded)]


__all__ = ["TranslationPipeline"]
