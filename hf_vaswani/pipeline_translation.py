"""The translation pipeline that transformers 5 removed, with the contract it had in transformers 4.

It serves every sequence-to-sequence model of transformers: Marian, T5, M2M100, NLLB, mBART, Bart and Vaswani. The file
travels with each checkpoint as remote code and therefore imports nothing but torch and transformers.
"""

import re

import torch
from transformers import Pipeline
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import logging

logger = logging.get_logger(__name__)

TRANSLATION_TASK = re.compile(r"translation_(?P<source>\w+)_to_(?P<target>\w+)")
DEFAULT_MAX_NEW_TOKENS = 256


class TranslationPipeline(Pipeline):
    """Translates one text or a list of texts.

    Example:

    ```python
    >>> import hf_vaswani
    >>> from transformers import pipeline

    >>> translator = pipeline("translation", model="path-or-hub-id")
    >>> translator("Ein Hund läuft.")
    [{'translation_text': 'A dog is running.'}]
    ```

    Multilingual models take their languages from `src_lang` and `tgt_lang` or from a task name such as
    `"translation_en_to_de"`. Further arguments go to `generate()`: `num_beams=4`, `max_new_tokens=100`, …
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False

    def __init__(self, model, *args, task: str = "translation", **kwargs):
        # T5 keeps its prefix and search parameters under the name of the task, "translation_en_to_fr".
        self.task_params = dict((getattr(model.config, "task_specific_params", None) or {}).get(task, {}))
        self.prefix = self.task_params.pop("prefix", getattr(model.config, "prefix", None)) or ""
        languages = TRANSLATION_TASK.fullmatch(task)
        if languages:
            kwargs.setdefault("src_lang", languages["source"])
            kwargs.setdefault("tgt_lang", languages["target"])
        super().__init__(model, *args, task=task, **kwargs)
        if not self.model.can_generate():
            raise ValueError(
                f"{type(self.model).__name__} cannot generate text. Load the model with AutoModelForSeq2SeqLM."
            )

    def __call__(self, inputs, **kwargs):
        """Translate.

        Args:
            inputs (`str`, `list[str]`, generator or `Dataset`): the texts.
            src_lang, tgt_lang (`str`, *optional*): languages, for multilingual models.
            return_tensors (`bool`): give `translation_token_ids` instead of text.
            return_text (`bool`): give the text, the default.
            clean_up_tokenization_spaces (`bool`): as in `tokenizer.decode`.
            truncation (`bool` or `str`): as in the tokenizer; nothing is cut by default.
            batch_size (`int`): texts computed together.
            generate_kwargs: anything that `generate()` takes.

        Returns:
            A list of dicts with `translation_text`, one for each hypothesis of a single text. For a list of texts, a
            list of such dicts, or of such lists where several hypotheses are asked for.
        """
        if isinstance(inputs, (list, tuple)):
            results = super().__call__(list(inputs), **kwargs) if inputs else []
            return [r[0] for r in results] if all(len(r) == 1 for r in results) else results
        return super().__call__(inputs, **kwargs)

    def _sanitize_parameters(
        self,
        src_lang=None,
        tgt_lang=None,
        truncation=None,
        return_tensors=None,
        return_text=None,
        clean_up_tokenization_spaces=None,
        generate_kwargs=None,
        **other_generate_kwargs,
    ):
        preprocess = {"src_lang": src_lang, "tgt_lang": tgt_lang, "truncation": truncation}
        as_tensors = return_tensors
        if return_tensors is None and return_text is not None:
            as_tensors = not return_text
        postprocess = {
            "as_tensors": as_tensors,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        # Only what was given, lest a call undo what was set when the pipeline was made.
        return (
            {key: value for key, value in preprocess.items() if value is not None},
            {**(generate_kwargs or {}), **other_generate_kwargs},
            {key: value for key, value in postprocess.items() if value is not None},
        )

    def preprocess(
        self, text: str, src_lang=None, tgt_lang=None, truncation=TruncationStrategy.DO_NOT_TRUNCATE
    ) -> dict:
        """One text → token ids and attention mask `(1, source_length)`."""
        if not isinstance(text, str):
            raise ValueError(
                f"The translation pipeline takes a str or a list of str, got {type(text).__name__}: {text!r}"
            )
        text = self.prefix + text
        if hasattr(self.tokenizer, "_build_translation_inputs"):
            return self.tokenizer._build_translation_inputs(
                text, return_tensors="pt", truncation=truncation, src_lang=src_lang, tgt_lang=tgt_lang
            )
        inputs = self.tokenizer(text, return_tensors="pt", truncation=truncation)
        inputs.pop("token_type_ids", None)
        return inputs

    def _forward(self, model_inputs: dict, **generate_kwargs) -> dict:
        """Token ids `(batch, source_length)` → hypotheses `(batch, hypotheses a text, target_length)`."""
        batch_size, source_length = model_inputs["input_ids"].shape
        # Tokenizers that add no token of their own make nothing of an empty text, and there it stays.
        is_token = model_inputs.get("attention_mask", torch.ones_like(model_inputs["input_ids"]))
        is_empty = is_token.sum(dim=-1) == 0
        if is_empty.all():
            hypotheses = generate_kwargs.get("num_return_sequences") or 1
            return {"output_ids": model_inputs["input_ids"].new_zeros(batch_size, hypotheses, 0)}
        # Multilingual tokenizers choose the target language by the first token; in a batch it is the same for all.
        first_token = model_inputs.pop("forced_bos_token_id", None)
        if first_token is not None:
            generate_kwargs.setdefault(
                "forced_bos_token_id", int(first_token if isinstance(first_token, int) else first_token[0])
            )
        if "generation_config" not in generate_kwargs:
            generate_kwargs = {**self.task_params, **generate_kwargs}
        self._limit_length(source_length, generate_kwargs)
        output = self.model.generate(**model_inputs, **generate_kwargs)
        output_ids = getattr(output, "sequences", output)
        output_ids = output_ids.reshape(batch_size, -1, output_ids.shape[-1])
        if is_empty.any() and self.tokenizer.pad_token_id is not None:
            output_ids[is_empty.to(output_ids.device)] = self.tokenizer.pad_token_id
        return {"output_ids": output_ids}

    def _limit_length(self, source_length: int, generate_kwargs: dict) -> None:
        """Let the output be long enough where nobody set a limit; warn where the limit looks too short."""
        config = generate_kwargs.get("generation_config") or self.model.generation_config
        limits = [generate_kwargs.get(name, getattr(config, name)) for name in ("max_new_tokens", "max_length")]
        limit = next((limit for limit in limits if limit is not None), None)
        if limit is None:
            if not getattr(self.model, "length_follows_source", False):
                generate_kwargs["max_new_tokens"] = DEFAULT_MAX_NEW_TOKENS
        elif source_length > 0.9 * limit:
            logger.warning(
                f"The input has {source_length} tokens, and the translation ends at {limit}. To make room for a "
                "longer one, call translator('...', max_new_tokens=400)."
            )

    def postprocess(
        self, model_outputs: dict, as_tensors: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> list[dict]:
        """Hypotheses of one text → a dict for each."""
        hypotheses = model_outputs["output_ids"][0]
        if as_tensors:
            return [{"translation_token_ids": token_ids} for token_ids in hypotheses]
        return [
            {
                "translation_text": self.tokenizer.decode(
                    token_ids,
                    skip_special_tokens=True,
                    clean_up_tokenization_spaces=clean_up_tokenization_spaces,
                )
            }
            for token_ids in hypotheses
        ]


__all__ = ["TranslationPipeline"]
