"""The translation pipeline that transformers 5 removed, with the contract it had in transformers 4, and fast batches.

It serves every sequence-to-sequence model of transformers: Marian, T5, M2M100, NLLB, mBART, Bart and Vaswani. The file
travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its siblings.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice
from typing import Any, NamedTuple

import torch
from transformers import Pipeline
from transformers.utils import logging

from .attention_vaswani import alignments, forced_attentions, text_mask, to_tokens
from .hypothesis_scores import log_probabilities, output_lengths
from .search_options import SearchOptions
from .text_splitting import join_results, split_text
from .translation_inputs import (
    as_texts,
    check_languages,
    clean,
    is_blank,
    not_texts,
    not_texts_error,
    position_limit,
    source_limit,
    tokenizer_limit,
    too_long_error,
)

logger = logging.get_logger(__name__)

TRANSLATION_TASK = re.compile(r"translation_(?P<source>\w+)_to_(?P<target>\w+)")
DEFAULT_MAX_NEW_TOKENS = 256
DEFAULT_BATCH_TOKENS = 1024
FIRST_WINDOW, LAST_WINDOW = 64, 4096


class Run(NamedTuple):
    """All that one call of the pipeline goes by."""

    preprocess: dict[str, Any]
    forward: dict[str, Any]
    postprocess: dict[str, Any]
    batch_tokens: int
    batch_size: int | None
    split_sentences: bool
    progress: Callable[[int], None] | None
    search: SearchOptions
    hypotheses: int


class TranslationPipeline(Pipeline):
    """Translates one text, a list of texts, or an endless stream of them.

    Example:

    ```python
    >>> import hf_vaswani
    >>> from transformers import pipeline

    >>> translator = pipeline("translation", model="path-or-hub-id")
    >>> translator("Ein Hund läuft.")
    [{'translation_text': 'A dog is running.'}]
    ```

    Multilingual models take their languages from `src_lang` and `tgt_lang` or from a task name such as
    `"translation_en_to_de"`. Further arguments go to `generate()`: `num_beams=4`, `max_new_tokens=100`, … Whatever a
    call takes, `pipeline()` takes too, as the default of all calls.
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
        self._batch_tokens = kwargs.pop("batch_tokens", None) or DEFAULT_BATCH_TOKENS
        self._split_sentences = kwargs.pop("split_sentences", False)
        super().__init__(model, *args, task=task, **kwargs)
        if not self.model.can_generate():
            raise ValueError(
                f"{type(self.model).__name__} cannot generate text. Load the model with AutoModelForSeq2SeqLM."
            )

    def __call__(
        self,
        inputs,
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        split_sentences: bool | None = None,
        progress: Callable[[int], None] | None = None,
        **kwargs,
    ):
        """Translate.

        Texts are batched with others of like length, the longest first; the order of the results is that of the texts.
        A translation does not depend on the batch that it was made in.

        Args:
            inputs: a `str`; a list, tuple or column of a data set (`dataset["de"]`); or something to be read piece by
                piece: a generator or another iterator, a column of a streamed data set, a `torch.utils.data.Dataset`
                such as transformers' `KeyDataset`. Texts that are empty or white space (control characters count as
                that) are translated by the empty text. Lone surrogates are read as U+FFFD.
            n_best (`int`): give so many translations of each text, best first, with scores. At most `num_beams`,
                unless `do_sample=True`.
            return_scores (`bool`): give each translation's `score`: the natural log-probability that the model gives
                it, divided by its number of tokens to the power of `length_penalty`, by which beam search ranks. The
                end counts as a token. That of an empty text is 0.
            return_alignments (`bool`): give each translation's `alignment`, pairs (source index, target index) of
                `source_tokens` and `target_tokens`, which are given too.
            src_lang, tgt_lang (`str`): languages, for multilingual models.
            split_sentences (`bool`): translate texts beyond the model's limit in pieces, divided at sentence ends
                where possible, and each line for itself, so that line breaks stay. Each piece holds as many sentences
                as the limit allows, or one where no limit is known.
            max_source_length (`int`): a limit in tokens of one's own, for `split_sentences` and `truncation`.
            truncation (`bool` or `str`): cut texts beyond the limit, as in the tokenizer; with a warning.
            batch_tokens (`int`): source tokens in a batch at most, padding included.
            batch_size (`int`): texts in a batch at most.
            num_workers: not used; accepted since transformers' pipelines have it.
            progress: called after each batch with the number of texts that are done since it was last called.
            return_tensors (`bool`): give `translation_token_ids` instead of text.
            return_text (`bool`): give the text, the default.
            clean_up_tokenization_spaces (`bool`): as in `tokenizer.decode`.
            generate_kwargs: anything that `generate()` takes.

        Returns:
            For one text a list of dicts with `translation_text`, one for each hypothesis. For a list or column a list
            of such dicts, or of such lists where several hypotheses are asked for. For what is read piece by piece an
            iterator over the same, which reads 64 texts, then 128 and so on up to 4096, before it gives their results.

        Raises:
            ValueError: for inputs that are no text, texts beyond the limit, languages that are missing or unknown, and
                `n_best` beyond `num_beams`; it names all texts at fault, before any is translated. An iterator raises
                it when it comes to such a text, the translations of those before it being given.
        """
        preprocess, forward, postprocess = self._sanitize_parameters(**kwargs)
        forward = {**self._forward_params, **forward}
        search = self._search_options(forward)
        one_by_one = search.takes_one_text_at_a_time() or self.tokenizer.pad_token_id is None
        run = Run(
            {**self._preprocess_params, **preprocess},
            forward,
            {**self._postprocess_params, **postprocess},
            batch_tokens=batch_tokens or self._batch_tokens,
            batch_size=1 if one_by_one else batch_size or self._batch_size,
            split_sentences=self._split_sentences if split_sentences is None else split_sentences,
            progress=progress,
            search=search,
            hypotheses=search.hypotheses(forward.get("n_best")),
        )
        languages = (run.preprocess.get(name) for name in ("src_lang", "tgt_lang"))
        check_languages(self.tokenizer, *languages, search.get("forced_bos_token_id") is not None)
        if isinstance(inputs, str):
            return self._translate([inputs], run)[0]
        texts, is_lazy = as_texts(inputs)
        if is_lazy:
            return self._stream(texts, run)
        texts = list(texts)
        wrong = not_texts(texts)
        if wrong:
            raise not_texts_error(texts, wrong)
        return [_flat(result) for result in self._translate(texts, run)]

    def _sanitize_parameters(
        self,
        src_lang=None,
        tgt_lang=None,
        truncation=None,
        max_source_length=None,
        return_tensors=None,
        return_text=None,
        clean_up_tokenization_spaces=None,
        generate_kwargs=None,
        **other_generate_kwargs,
    ):
        preprocess = {
            "src_lang": src_lang,
            "tgt_lang": tgt_lang,
            "truncation": truncation,
            "max_source_length": max_source_length,
        }
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

    # Texts → results

    def _stream(self, texts: Iterable[str], run: Run) -> Iterator[dict | list[dict]]:
        texts, done, size = iter(texts), 0, FIRST_WINDOW
        while window := list(islice(texts, size)):
            wrong = not_texts(window, done)
            good = window[: wrong[0] - done] if wrong else window
            yield from map(_flat, self._translate(good, run, done))
            if wrong:
                raise not_texts_error(window, wrong, done)
            done, size = done + len(window), min(2 * size, LAST_WINDOW)

    def _translate(self, texts: list[str], run: Run, first: int = 0) -> list[list[dict]]:
        """Texts, of which the first has number `first` → the hypotheses of each."""
        texts = [clean(text) for text in texts]
        if not run.split_sentences:
            return self._translate_pieces(texts, list(range(len(texts))), run, first)[0]
        fits = self._fits(run)
        split = [split_text(text, fits) for text in texts]
        owners = [owner for owner, pieces in enumerate(split) for _ in pieces]
        results, lengths = self._translate_pieces([p.text for pieces in split for p in pieces], owners, run, first)
        penalty = run.search.get("length_penalty", 1.0)
        ends = list(accumulate(len(pieces) for pieces in split))
        return [
            join_results(results[start:end], lengths[start:end], pieces, penalty) if pieces else self._nothing(run)
            for start, end, pieces in zip([0, *ends], ends, split)
        ]

    def _translate_pieces(
        self, texts: list[str], owners: list[int], run: Run, first: int
    ) -> tuple[list[list[dict]], list[list[int]]]:
        """Texts or pieces of them → the hypotheses of each, and the number of tokens of each hypothesis.

        Args:
            owners: the number of the text that a piece is of.
        """
        encoded = self._encode_all(texts, owners, run, first)
        results = [None if row else self._nothing(run) for row in encoded]
        lengths = [[0] * run.hypotheses] * len(texts)
        unfinished = Counter(owner for owner, result in zip(owners, results) if result is None)
        self._report(run, len(set(owners)) - len(unfinished))
        longest_first = sorted((i for i, row in enumerate(encoded) if row), key=lambda i: -_length(encoded[i]))
        if longest_first:
            self._warn_of_short_limit(_length(encoded[longest_first[0]]), run)
        for numbers in _batches(longest_first, encoded, run):
            outputs = self.forward(self._collate([encoded[i] for i in numbers]), **run.forward)
            for row, i in enumerate(numbers):
                # One text's share, of batch size 1.
                share = {name: values[row : row + 1] for name, values in outputs.items()}
                results[i] = self.postprocess(share, **run.postprocess)
                lengths[i] = (outputs["lengths"][row] - 1).tolist()
            unfinished.subtract(owners[i] for i in numbers)
            self._report(run, sum(not unfinished[owner] for owner in {owners[i] for i in numbers}))
        return results, lengths

    @staticmethod
    def _report(run: Run, done: int) -> None:
        if run.progress and done:
            run.progress(done)

    def _warn_of_short_limit(self, source_length: int, run: Run) -> None:
        """Warn where translations end at a length that looks too short for their source."""
        limit = run.search.length_limit()
        limit = self._default_length() if limit is None else limit
        if limit is not None and source_length > 0.9 * limit:
            logger.warning(
                f"The input has {source_length} tokens, and the translation ends at {limit}. To make room for a "
                "longer one, call translator('...', max_new_tokens=400)."
            )

    # Text → token ids

    def preprocess(
        self, text: str, src_lang=None, tgt_lang=None, truncation=False, max_source_length=None
    ) -> dict[str, torch.Tensor]:
        """One text → token ids and attention mask `(1, source_length)`, and what the tokenizer says of the target.

        A subclass that overrides this method is asked for each text; otherwise many are tokenised at once.
        """
        limits = {"truncation": truncation, "max_length": max_source_length} if truncation else {}
        inputs = self._tokenize([text], src_lang, tgt_lang, **limits)
        return {k: torch.tensor(v) if isinstance(v, list) else v for k, v in inputs.items()}

    def _tokenize(self, texts: list[str], src_lang=None, tgt_lang=None, **limits) -> dict[str, Any]:
        texts = [self.prefix + text for text in texts]
        is_multilingual = hasattr(self.tokenizer, "_build_translation_inputs")
        if is_multilingual and src_lang is None:
            src_lang = self.tokenizer.src_lang
        if is_multilingual and tgt_lang is not None:
            inputs = self.tokenizer._build_translation_inputs(
                texts, return_tensors=None, src_lang=src_lang, tgt_lang=tgt_lang, **limits
            )
        else:
            if is_multilingual:
                self.tokenizer.src_lang = src_lang
            inputs = self.tokenizer(texts, **limits)
        inputs.pop("token_type_ids", None)
        return dict(inputs)

    def _encode(self, texts: list[str], src_lang=None, tgt_lang=None, **limits) -> list[dict[str, Any]]:
        """Texts → a dict for each, of lists of ids."""
        if type(self).preprocess is not TranslationPipeline.preprocess:
            rows = [self.preprocess(text, src_lang=src_lang, tgt_lang=tgt_lang, **limits) for text in texts]
            return [{k: v[0].tolist() if isinstance(v, torch.Tensor) else v for k, v in row.items()} for row in rows]
        inputs = self._tokenize(texts, src_lang, tgt_lang, **limits)
        return [{k: v[i] if isinstance(v, list) else v for k, v in inputs.items()} for i in range(len(texts))]

    def _encode_all(self, texts: list[str], owners: list[int], run: Run, first: int) -> list[dict | None]:
        """Texts → what [`_encode`] makes of them, `None` where there is nothing to translate."""
        options = dict(run.preprocess)
        truncation, own_limit = options.pop("truncation", False), options.pop("max_source_length", None)
        hard_limit = source_limit(self.model, self.tokenizer)
        limit = min((n for n in (own_limit, hard_limit) if n), default=None)
        if truncation and truncation != "do_not_truncate":
            limit = limit or tokenizer_limit(self.tokenizer)
        else:
            truncation, limit = False, hard_limit
        encoded: list[dict | None] = [None] * len(texts)
        filled = [i for i, text in enumerate(texts) if not is_blank(text)]
        # A tokenizer's output holds much more than the ids: not of all texts at once.
        for start in range(0, len(filled), LAST_WINDOW):
            chunk = filled[start : start + LAST_WINDOW]
            for i, row in zip(chunk, self._encode([texts[i] for i in chunk], **options)):
                encoded[i] = row if _length(row) else None
        too_long = [i for i, row in enumerate(encoded) if row and limit and _length(row) > limit]
        if too_long and not truncation:
            raise too_long_error({first + owners[i]: _length(encoded[i]) for i in too_long}, limit)
        if too_long:
            logger.warning(f"Texts cut: {len(too_long)}, at {limit} tokens.")
            cut = {"truncation": truncation, "max_length": limit}
            for i in too_long:
                [encoded[i]] = self._encode([texts[i]], **options, **cut)
        return encoded

    def _fits(self, run: Run) -> Callable[[str], bool] | None:
        """Whether a text is within the limit for pieces; `None` where there is no limit."""
        options = {k: v for k, v in run.preprocess.items() if k in ("src_lang", "tgt_lang")}
        limits = (source_limit(self.model, self.tokenizer), run.preprocess.get("max_source_length"))
        limit = min((n for n in limits if n), default=tokenizer_limit(self.tokenizer))
        if limit is None:
            return None
        return lambda text: _length(self._encode([text], **options)[0]) <= limit

    def _collate(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        """Encoded texts → a batch."""
        first_token = rows[0].get("forced_bos_token_id")
        rows = [{k: v for k, v in row.items() if k != "forced_bos_token_id"} for row in rows]
        batch = dict(self.tokenizer.pad(rows, return_tensors="pt"))
        batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        # Multilingual tokenizers choose the target language by the first token; in a batch it is the same for all.
        return batch if first_token is None else {**batch, "forced_bos_token_id": int(first_token)}

    # Token ids → hypotheses

    def get_inference_context(self):
        return torch.inference_mode

    def forward(self, model_inputs: dict, **forward_params) -> dict:
        """A batch → its hypotheses, see [`_forward`], with the model in eval mode; afterwards it is as it was."""
        was_training = self.model.training
        try:
            if was_training:
                self.model.eval()
            return super().forward(model_inputs, **forward_params)
        finally:
            if was_training:
                self.model.train()

    def _forward(
        self, model_inputs: dict, n_best=None, return_scores=False, return_alignments=False, **generate_kwargs
    ) -> dict:
        """Token ids `(batch, source_length)` → for each text its hypotheses.

        Returns:
            `output_ids` `(batch, hypotheses, target_length)`, their `lengths` `(batch, hypotheses)` and, where asked
            for, `scores` of the same shape, and `alignments`: for each text and hypothesis a dict, see `__call__`.
        """
        first_token = model_inputs.pop("forced_bos_token_id", None)
        if first_token is not None:
            generate_kwargs.setdefault("forced_bos_token_id", first_token)
        if n_best:
            generate_kwargs["num_return_sequences"] = n_best
        with_scores = bool(n_best or return_scores)
        if with_scores:
            generate_kwargs["return_dict_in_generate"] = True
        search = self._search_options(generate_kwargs)
        if search.length_limit() is None and (default_length := self._default_length()):
            search.arguments["max_new_tokens"] = default_length
        output = self.model.generate(**model_inputs, **search.arguments)
        output_ids = getattr(output, "sequences", output)
        pad_token_id = search.get("pad_token_id", self.tokenizer.pad_token_id) if search.ends_early() else None
        outputs = {
            "output_ids": output_ids,
            "lengths": output_lengths(output_ids, search.eos_token_ids(), pad_token_id),
        }
        if with_scores:
            scores = getattr(output, "sequences_scores", None)
            outputs["scores"] = self._scores(model_inputs, search, **outputs) if scores is None else scores
        batch_size = len(model_inputs["input_ids"])
        outputs = {name: tensor.reshape(batch_size, -1, *tensor.shape[1:]) for name, tensor in outputs.items()}
        if n_best and search.get("do_sample"):
            best_first = outputs["scores"].argsort(dim=1, descending=True)
            row = torch.arange(batch_size, device=best_first.device).unsqueeze(1)
            outputs = {name: tensor[row, best_first] for name, tensor in outputs.items()}
        if return_alignments:
            outputs["alignments"] = self._align(model_inputs, outputs["output_ids"], outputs["lengths"])
        return outputs

    def _scores(
        self, inputs: dict, search: SearchOptions, output_ids: torch.LongTensor, lengths: torch.LongTensor
    ) -> torch.Tensor:
        """Scores by which beam search would rank hypotheses `(rows, target_length)`, for searches that tell none."""
        first_is_forced = search.get("forced_bos_token_id") is not None
        sums = log_probabilities(self.model, inputs, output_ids, lengths, first_is_forced)
        return sums / (lengths - 1).clamp(min=1) ** search.get("length_penalty", 1.0)

    def _align(self, inputs: dict, output_ids: torch.LongTensor, lengths: torch.LongTensor) -> list[list[dict]]:
        """For each text and hypothesis its alignment, with the tokens of both sides."""
        batch_size, hypotheses, length = output_ids.shape
        source_ids, output_ids = inputs["input_ids"], output_ids.flatten(0, 1)
        position = torch.arange(length, device=output_ids.device)
        is_source = text_mask(self.tokenizer, source_ids) & inputs["attention_mask"].bool()
        is_target = text_mask(self.tokenizer, output_ids) & (position > 0) & (position < lengths.reshape(-1, 1))
        cross = forced_attentions(self.model, inputs, output_ids).cross
        aligned = alignments(cross, is_source.repeat_interleave(hypotheses, dim=0), is_target[:, 1:])
        sources = [to_tokens(self.tokenizer, ids[kept].tolist()) for ids, kept in zip(source_ids, is_source)]
        rows = [
            {
                "alignment": pairs,
                "source_tokens": sources[i // hypotheses],
                "target_tokens": to_tokens(self.tokenizer, ids[kept].tolist(), is_target=True),
            }
            for i, (pairs, ids, kept) in enumerate(zip(aligned, output_ids, is_target))
        ]
        return [rows[i * hypotheses : (i + 1) * hypotheses] for i in range(batch_size)]

    # Hypotheses → results

    def postprocess(
        self, model_outputs: dict, as_tensors: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> list[dict]:
        """Hypotheses of one text → a dict for each."""
        hypotheses = [
            ids[:length] for ids, length in zip(model_outputs["output_ids"][0], model_outputs["lengths"][0].tolist())
        ]
        if as_tensors:
            results = [{"translation_token_ids": ids} for ids in hypotheses]
        else:
            texts = self.tokenizer.batch_decode(
                hypotheses,
                skip_special_tokens=True,
                clean_up_tokenization_spaces=clean_up_tokenization_spaces,
            )
            results = [{"translation_text": text} for text in texts]
        if "scores" in model_outputs:
            for result, score in zip(results, model_outputs["scores"][0].tolist()):
                result["score"] = score
        if "alignments" in model_outputs:
            for result, alignment in zip(results, model_outputs["alignments"][0]):
                result.update(alignment)
        return results

    def _nothing(self, run: Run) -> list[dict]:
        """The hypotheses of a text that has nothing to translate."""
        hypotheses = []
        for _ in range(run.hypotheses):
            as_tensors = run.postprocess.get("as_tensors")
            no_ids = torch.zeros(0, dtype=torch.long)
            result = {"translation_token_ids": no_ids} if as_tensors else {"translation_text": ""}
            if run.forward.get("n_best") or run.forward.get("return_scores"):
                result["score"] = 0.0
            if run.forward.get("return_alignments"):
                result.update(alignment=[], source_tokens=[], target_tokens=[])
            hypotheses.append(result)
        return hypotheses

    # Search

    def _search_options(self, generate_kwargs: dict) -> SearchOptions:
        return SearchOptions(generate_kwargs, self.task_params, self.model.generation_config)

    def _default_length(self) -> int | None:
        """New tokens where nobody set a limit; `None` where the model has a rule of its own."""
        if getattr(self.model, "length_follows_source", False):
            return None
        positions = position_limit(self.model.get_decoder())
        return min(DEFAULT_MAX_NEW_TOKENS, positions - 1) if positions else DEFAULT_MAX_NEW_TOKENS


def _flat(hypotheses: list[dict]) -> dict | list[dict]:
    """A text's result within a list: its one hypothesis, or the list of them."""
    return hypotheses[0] if len(hypotheses) == 1 else hypotheses


def _length(row: dict) -> int:
    return len(row["input_ids"])


def _batches(longest_first: list[int], encoded: list[dict], run: Run) -> Iterator[list[int]]:
    """Numbers of texts, sorted by length → numbers of those that are translated together."""
    batch: list[int] = []
    for i in longest_first:
        is_full = batch and (len(batch) + 1) * _length(encoded[batch[0]]) > run.batch_tokens
        if is_full or len(batch) == run.batch_size:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


__all__ = ["TranslationPipeline"]
