"""The translation pipeline that transformers 5 removed, with its interface from transformers 4 and fast batching.

It serves every sequence-to-sequence model in transformers: Marian, T5, M2M100, NLLB, mBART, Bart and Vaswani.
"""

import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from re import Pattern
from typing import TYPE_CHECKING, Any, Union

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Pipeline, PreTrainedModel

from ..core.modeling_token_ids import FIT
from ..core.tokenization_vaswani import private_copy
from ..generation.alignment import evaluation
from ..generation.mixin import FastGenerationMixin
from ..generation.model_checks import damaged_weights, spare_ids, tokenizer_warning, vocabulary_error
from ..generation.output_scores import Hypothesis, align, log_probabilities, output_lengths, prompt_length
from ..generation.settings import check_switch, suggest_argument
from ..text.inputs import as_texts, check_many, check_text, not_texts, not_texts_error
from ..text.languages import (
    TRANSLATION_TASK,
    check_languages,
    check_pair,
    fits_pair,
    group_prefix,
    is_multilingual,
    language_pairs,
    mark_target,
    task_parameters,
    translation_tasks,
)
from ..text.normalization import clean
from ..text.vocabularies import vocabularies
from .arguments import GenerateArguments
from .engine import STAGES, Result, TranslationEngine

if TYPE_CHECKING:
    from ..text.glossary import Glossary
    from ..text.keep import Keep

# Arguments of a call that the search step takes itself; the others go to `generate()`.
STEP_OPTIONS = ("n_best", "return_scores", "return_alignments")
# Terms that translations must have, as the pipeline takes them.
Terms = Union[Mapping[str, str | Sequence[str]], "Glossary", None]
# The argument with which multilingual tokenizers choose the target language.
FIRST_TOKEN = "forced_bos_token_id"


def translation_task(
    model: PreTrainedModel, task: str = "translation", src_lang: str | None = None, tgt_lang: str | None = None
) -> tuple[str, dict[str, Any]]:
    """The task that a model is used for, and the parameters that its config has for it.

    T5's config has a prefix for sources, and search parameters, under the name of a task such as
    `"translation_en_to_fr"`. The languages select the task, whether its name or the other arguments give them; if they
    leave a choice, the first task is used, with a warning.

    Returns:
        The task, and its parameters: `prefix`, "" without one, and search parameters.

    Raises:
        ValueError: the model has prefixes, but none for these languages.
    """
    of_tasks, own_tasks = task_parameters(model.config), translation_tasks(model.config)
    named = TRANSLATION_TASK.fullmatch(task)
    if own_tasks:
        asked = (src_lang, tgt_lang) if named is None else (src_lang or named["source"], tgt_lang or named["target"])
        check_pair(asked, list(own_tasks.values()), "Choose one of these pairs.")
        task, *others = [name for name, pair in own_tasks.items() if fits_pair(asked, pair)]
        if others:
            warnings.warn(
                f"Several of this model's tasks fit: {', '.join([task, *others])}. "
                f'Using "{task}". Pass src_lang and tgt_lang to choose another.',
                UserWarning,
                stacklevel=3,
            )
    parameters = dict(of_tasks.get(task, {}))
    prefix = parameters.get("prefix", getattr(model.config, "prefix", None)) or ""
    check_text("The prefix in the model's config", prefix)
    return task, {**parameters, "prefix": clean(prefix)}


class TranslationPipeline(Pipeline):
    """Translates one text, a list of texts, or an endless stream of them.

    Example:

    ```python
    >>> import hf_vaswani
    >>> from transformers import pipeline

    >>> translator = pipeline("translation", model="path-or-hub-id")
    >>> translator("Der Hund schläft.")
    [{'translation_text': 'The dog is sleeping.'}]
    ```

    Multilingual models take their languages from `src_lang` and `tgt_lang` or from a task name such as
    `"translation_en_to_de"`. Further arguments go to `generate()`: `num_beams=4`, `max_new_tokens=100`, … `pipeline()`
    accepts the arguments of a call, except `prefixes`, as defaults for all calls. Only `pipeline()` accepts `engine`,
    what computes the translations (`"auto"`, `"torch"`, `"ctranslate2"` or `"onnx"`), and `quantize="int8"`, for 8-bit
    weights in CTranslate2 or ONNX Runtime. The model itself is not changed.
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False

    def __init__(self, model, *args, task: str = "translation", **kwargs):
        task, self.task_params = translation_task(model, task, kwargs.get("src_lang"), kwargs.get("tgt_lang"))
        self.prefix = self.task_params.pop("prefix")
        languages = TRANSLATION_TASK.fullmatch(task)
        if languages:
            kwargs.setdefault("src_lang", languages["source"])
            kwargs.setdefault("tgt_lang", languages["target"])
        self._batch_tokens = kwargs.pop("batch_tokens", None)
        self._split_sentences = kwargs.pop("split_sentences", None)
        self._return_warnings = kwargs.pop("return_warnings", None)
        self.warned_of_many_sentences = False
        self._return_confidence = kwargs.pop("return_confidence", None)
        self._progress = kwargs.pop("progress", None)
        self._on_error = kwargs.pop("on_error", "raise")
        self._terms, self._on_unmet = kwargs.pop("terms", None), kwargs.pop("on_unmet", "warn")
        self._keep = kwargs.pop("keep", None)
        # By target language; the second of tokenizers that read placeholders.
        self.term_spellers: dict[str | None, Any] = {}
        self.marked_spellers: dict[str | None, Any] = {}
        if "prefixes" in kwargs:
            raise ValueError("prefixes belong to the texts of one call. Pass them when you call the pipeline.")
        from .serving import Serving  # importing the training loop does not need it

        engine, quantize = kwargs.pop("engine", None) or "auto", kwargs.pop("quantize", None)
        self.serving = engine if isinstance(engine, Serving) else Serving(engine, quantize)
        self._assistants: dict[str, PreTrainedModel] = {}
        super().__init__(model, *args, task=task, **kwargs)
        if not self.model.can_generate():
            raise ValueError(
                f"{type(self.model).__name__} cannot generate text. Load the model with AutoModelForSeq2SeqLM."
            )
        if not self.model.config.is_encoder_decoder:
            raise ValueError(
                f"{type(self.model).__name__} is not an encoder-decoder: it continues texts and does not translate "
                "them. Choose a model for translation."
            )
        if damaged := damaged_weights(self.model.named_parameters()):
            raise ValueError(
                f"NaN or infinite values in {len(damaged)} of the model's weights, for example in {damaged[0]}. "
                "Copy or download the model again."
            )
        self.serving.check(self.model)
        if error := vocabulary_error(self.model, self.tokenizer):
            raise ValueError(f"The {error.removeprefix('the ')}. {FIT}")
        if warning := tokenizer_warning(self.model, self.tokenizer):
            warnings.warn(warning, UserWarning, stacklevel=2)
        # T5's prefix is chosen once, and with it the languages of all calls.
        self._pairs = [languages.groups()] if self.prefix and languages else language_pairs(self.model, self.tokenizer)
        self._check_pair(self._preprocess_params)

    def _check_pair(self, preprocess: dict[str, Any]) -> None:
        remedy = "To use another prefix, make a new pipeline with its languages." if self.prefix else ""
        check_pair((preprocess.get("src_lang"), preprocess.get("tgt_lang")), self._pairs, remedy)

    def __call__(
        self, inputs, *, prefixes: Sequence[str] = (), terms: Terms | Sequence[Terms | None] = None, **options
    ):
        """Translate texts.

        Texts are batched with others of similar length, the longest first; results are in the order of the texts. A
        translation does not depend on the batch that it is in, except slightly with `quantize="int8"`.

        Args:
            inputs: a `str`; a list, tuple or column of a dataset (`dataset["de"]`); or something to be read piece by
                piece: a generator or another iterator, a column of a streamed dataset, a `torch.utils.data.Dataset`
                such as transformers' `KeyDataset`. The translation of a text with nothing visible is empty.
                Lone surrogates are read as U+FFFD, and spaces of any kind, soft hyphens, byte order marks and the like
                make no difference unless the vocabulary has them.
            prefixes (list of `str`): what the translation of each text in a list must begin with, in whole words; an
                empty prefix demands nothing. Beam search scores what follows the prefix. By default, a text with a
                prefix is not split.
            terms (`dict`, or a list of them): terms of the source and what must stand for each in the translation, a
                text or a list of texts to choose from: `{"Hund": "hound"}`. A list has the terms of each text.
                Terms are whole words; the case of those with capitals must be the same. A model that has learned to
                use terms reads them in its sources. Translations that lack a term are searched for again in PyTorch,
                with a beam of at least 4.
            on_unmet (`"warn"`, `"error"` or `"accept"`): what to do about a translation that lacks a term even so,
                because the length limit leaves no room: warn, as of one that may be wrong, or treat it as an error of
                that text. `"accept"` leaves it to a model that has learned to use terms how it does: nothing is
                searched for again for them, and terms may be inflected.
            keep (`str`, pattern, or a list of them): what is to stay as it is in translations: a regular expression,
                or one of `url`, `email`, `number` (with its unit), `placeholder` (`{name}`, `%1$s`), `code` (in
                backticks) and `emoji`. A model trained with `augmentation.placeholders` translates placeholders in
                place of it; others search as for terms. `on_unmet` applies to it, too.
            n_best (`int`): number of translations to return for each text, best first, with scores. At most
                `num_beams`, unless `do_sample=True` with `num_beams=1`.
            return_scores (`bool`): return each translation's `score`, by which beam search ranks: its natural
                log-probability divided by the length penalty, which by default is the number of tokens, end token
                included, to the power of `length_penalty`. The score of an empty text is 0.
            return_confidence (`bool`): return each translation's score and its `confidence`, from 0 to 1: the sentence
                chrF / 100 to be expected of it. `hf-vaswani calibrate` makes a model able to tell it, by samples of
                the model unless it says otherwise, which take as long again or more.
            return_alignments (`bool`): return each translation's `alignment`, pairs (source index, target index) into
                `source_tokens` and `target_tokens`, which are returned too.
            src_lang, tgt_lang (`str`): languages, for multilingual models. A model for a single pair that is known
                refuses others.
            split_sentences (`bool`): by default, a Vaswani model translates each sentence and each line of a text by
                itself if at least 90% of the sources that it was trained on had only one sentence, or if they are
                unknown; other Vaswani models get pieces that are no longer than the longest of these sources.
                Translations are joined with the spaces and line breaks of the text. Models of other families get the
                whole text. With `False`, texts are always kept whole. With `True`, texts beyond the limit are
                translated in pieces, split at sentence ends where possible, and each line separately. Each piece holds
                as many sentences as the limit allows, or a single sentence if neither model nor tokenizer has a limit.
                Where a text is split, `max_new_tokens`, `stop_sequence` and the like apply to each piece.
            return_warnings (`bool`): give each translation that may be wrong a `warning`: it is far shorter or longer
                than usual for its source, repeats itself, or lacks a term or what is to be kept; or its source looks
                like another language, is in capitals, or has characters that the vocabulary lacks. By default, a
                message counts those of the first kind instead; with `False`, there is none.
            max_source_length (`int`): the limit in tokens, in place of the tokenizer's; the limit of a model with a
                fixed number of positions still applies. Without any limit, it is 4096, so that attention does not fill
                the memory. For T5, the tokenizer's 512 is advice: texts are split or cut there on request, and refused
                beyond 4096.
            truncation (`bool` or `str`): cut texts beyond the limit, as in the tokenizer, with a warning.
            batch_tokens (`int`): maximum number of source tokens in a batch, padding included; by default as many as
                the sizes of the model and the beam leave room for, such as 1536 for a small model on a CPU.
            batch_size (`int`): maximum number of texts in a batch.
            num_workers (`int`): number of processes that translate batches side by side, each on one core; by default
                as many as torch has threads (`torch.set_num_threads`, `OMP_NUM_THREADS`), if there is enough to
                translate. With 0 or 1, only this process. Translations stay the same, and so do samples from the same
                seed. Used only on a CPU, on Linux; not if arguments or hooks of your own must see all batches.
            on_error (`"raise"` or `"return"`): `"return"` returns the error of a text (too long, out of memory) in
                place of its hypotheses, so that no other text is lost.
            progress: called after each batch with the number of texts finished since the last call.
            return_tensors (`bool`): return `translation_token_ids` instead of text; where a text is split, those of
                each piece, with their start and end tokens.
            return_text (`bool`): return text, the default.
            return_type (`int` or an enumeration): 0 or `TENSORS` for token ids, like `return_tensors`; as in
                transformers 4.
            stop_sequence (`str`): its first token ends a translation, as in transformers 4.
            assistant_model: a smaller model with the same tokenizer, its folder or its Hub id, that drafts
                translations for `generate()`; texts are then translated one at a time.
            clean_up_tokenization_spaces (`bool`): as in `tokenizer.decode`.
            generate_kwargs: anything that `generate()` takes.

        Returns:
            For one text, a list of dicts with `translation_text`, one per hypothesis. For a list or column, a list of
            such dicts, or of such lists if several hypotheses are requested. For texts read piece by piece, an
            iterator over such lists, as in transformers 4; it reads 128 texts, then 512, 2048 and 4096 at a time,
            before it returns their results.

        Raises:
            ValueError: inputs are not texts, texts exceed the limit, languages are missing or unknown, or `n_best`
                exceeds `num_beams`. It is raised before any text is translated, and names up to five of the texts. An
                iterator first returns the translations of all texts before an input that is not a text; if a text
                exceeds the limit, those of the texts that it read together with it are lost.
        """
        of_texts = terms if isinstance(terms, list | tuple) else ()
        engine = self.engine(terms=None if of_texts else terms, **options)
        texts, is_lazy = as_texts([inputs] if isinstance(inputs, str) else inputs)
        check_many("prefixes", prefixes)
        for name, each, those in (("prefixes", "prefix", prefixes), ("terms", "dict", of_texts)):
            if those and (is_lazy or len(those) != len(texts)):
                many = "texts read piece by piece" if is_lazy else f"{len(texts)} text{'s' * (len(texts) != 1)}"
                raise ValueError(f"{name} must have one {each} per text of a list, got {len(those)} for {many}.")
        if is_lazy:
            return engine.stream(texts)
        texts = list(texts)
        wrong = not_texts(texts)
        if wrong:
            raise not_texts_error(texts, wrong)
        results = engine.translate(texts, prefixes, glossaries=[make_glossary(own or {}) for own in of_texts])
        return results[0] if isinstance(inputs, str) else [_flat(result) for result in results]

    def engine(
        self,
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        split_sentences: bool | None = None,
        return_warnings: bool | None = None,
        return_confidence: bool | None = None,
        progress: Callable[[int], None] | None = None,
        on_error: str | None = None,
        terms: Terms = None,
        on_unmet: str | None = None,
        keep: "Keep | None" = None,
        **options,
    ) -> TranslationEngine:
        """Make an engine that translates any number of texts with the arguments of a call, which are checked here."""
        preprocess, forward, postprocess = self._sanitize_parameters(**options)
        preprocess, forward = {**self._preprocess_params, **preprocess}, {**self._forward_params, **forward}
        return_confidence = self._return_confidence if return_confidence is None else return_confidence
        check_switch("return_confidence", return_confidence)
        if return_confidence:
            from ..generation.confidence import Calibration

            confidence, forward["return_scores"] = Calibration.of(self.model.config), True
        else:
            confidence = None
        generate_kwargs = {name: value for name, value in forward.items() if name not in STEP_OPTIONS}
        arguments = GenerateArguments(self.model, generate_kwargs, self.task_params)
        if arguments.get("do_sample") and (spare := spare_ids(self.model, self.tokenizer)):
            forward["suppress_tokens"] = [*arguments.get("suppress_tokens", []), *spare]
            arguments = arguments.of_batch({"suppress_tokens": forward["suppress_tokens"]})
        # A subclass may change arguments in its own step: it gets them as they were given.
        if type(self)._forward is TranslationPipeline._forward:
            own = {name: forward[name] for name in (*STEP_OPTIONS, FIRST_TOKEN) if name in forward}
            forward = {**own, "arguments": arguments}
        one_by_one = arguments.takes_one_text_at_a_time() or self.tokenizer.pad_token_id is None
        terms, keep = self._terms if terms is None else terms, self._keep if keep is None else keep
        self._check_pair(preprocess)
        languages = (preprocess.get(name) for name in ("src_lang", "tgt_lang"))
        check_languages(self.tokenizer, *languages, arguments.get(FIRST_TOKEN) is not None)
        pipeline, patterns = (self, ()) if keep is None else self._keeping(keep)
        return TranslationEngine(
            pipeline,
            preprocess,
            forward,
            {**self._postprocess_params, **postprocess},
            arguments,
            batch_tokens=self._batch_tokens if batch_tokens is None else batch_tokens,
            batch_size=1 if one_by_one else self._batch_size if batch_size is None else batch_size,
            num_workers=self._num_workers if num_workers is None else num_workers,
            split_sentences=self._split_sentences if split_sentences is None else split_sentences,
            return_warnings=self._return_warnings if return_warnings is None else return_warnings,
            confidence=confidence,
            progress=self._progress if progress is None else progress,
            on_error=self._on_error if on_error is None else on_error,
            glossary=None if terms is None else make_glossary(terms),
            keep=patterns,
            on_unmet=self._on_unmet if on_unmet is None else on_unmet,
        )

    def _keeping(self, keep: "Keep") -> "tuple[TranslationPipeline, Sequence[Pattern]]":
        """This pipeline, or one whose tokenizer reads placeholders, if it has some; and the patterns to keep."""
        from ..text.keep import keep_patterns  # only texts with such patterns need these
        from ..text.markers import has_keep_tokens, with_markers

        patterns = keep_patterns(keep)
        if not has_keep_tokens(self.tokenizer):
            return self, patterns
        pipeline = copy.copy(self)
        pipeline.tokenizer, pipeline.term_spellers = with_markers(self.tokenizer), self.marked_spellers
        return pipeline, patterns

    def _sanitize_parameters(
        self,
        src_lang=None,
        tgt_lang=None,
        truncation=None,
        max_source_length=None,
        return_tensors=None,
        return_text=None,
        return_type=None,
        stop_sequence=None,
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
        elif return_tensors is None and return_type is not None:
            as_tensors = getattr(return_type, "name", return_type) in ("TENSORS", 0)
        if not isinstance(generate_kwargs, dict | None):
            raise ValueError(f"generate_kwargs must be a dict of arguments, got {generate_kwargs!r}.")
        forward = {**(generate_kwargs or {}), **other_generate_kwargs}
        if stop_sequence is not None:
            forward["eos_token_id"] = self._first_token(stop_sequence, tgt_lang)
        if forward.get("assistant_model") is not None:
            forward["assistant_model"] = self._assistant(forward["assistant_model"])
        postprocess = {
            "as_tensors": as_tensors,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        # Only what was given, so that a call does not undo what was set when the pipeline was made.
        return (
            {key: value for key, value in preprocess.items() if value is not None},
            forward,
            {key: value for key, value in postprocess.items() if value is not None},
        )

    def _first_token(self, stop_sequence: str, target_language: str | None) -> int:
        check_text("stop_sequence", stop_sequence)
        tokenizer = private_copy(self.tokenizer)
        if target_language := target_language or vars(self).get("_preprocess_params", {}).get("tgt_lang"):
            tokenizer.tgt_lang = target_language  # M2M100's tokenizer needs it for any target
        token_ids = tokenizer(text_target=stop_sequence, add_special_tokens=False)["input_ids"]
        if not token_ids:
            raise ValueError(f"stop_sequence must be a text of at least one token, got {stop_sequence!r}.")
        return token_ids[0]

    def _assistant(self, given: PreTrainedModel | str | os.PathLike) -> PreTrainedModel:
        """The model that drafts translations, as given or loaded once from its folder or the Hub.

        Raises:
            ValueError: it cannot be loaded, or its tokens are not this pipeline's.
        """
        if isinstance(given, PreTrainedModel):
            return given
        if not isinstance(given, (str, os.PathLike)):
            raise ValueError(f"assistant_model must be a model, a folder or a Hub id, got {type(given).__name__}.")
        name = str(given)
        if name not in self._assistants:
            try:
                tokenizer = AutoTokenizer.from_pretrained(name)
                model = AutoModelForSeq2SeqLM.from_pretrained(name, dtype=self.model.dtype)
            except Exception as error:  # transformers raises many kinds for files that are damaged or missing
                raise ValueError(f"assistant_model={name!r} cannot be loaded: {error}") from error
            if vocabularies(tokenizer) != vocabularies(self.tokenizer):
                raise ValueError(
                    f"assistant_model={name!r} does not have this pipeline's tokenizer. Use a model trained with "
                    "the same tokenizer."
                )
            self._assistants[name] = model.to(self.model.device).eval()
        return self._assistants[name]

    @property
    def changes_stages(self) -> bool:
        """Whether a subclass has its own way from token ids to hypotheses."""
        return any(getattr(type(self), name) is not getattr(TranslationPipeline, name) for name in STAGES)

    # Text → token ids

    def preprocess(
        self, text: str, src_lang=None, tgt_lang=None, truncation=False, max_source_length=None
    ) -> dict[str, torch.Tensor]:
        """One text → token ids and attention mask `(1, source_length)`, and the target language's token if needed.

        If a subclass overrides this method, it is called for each text; otherwise many texts are tokenized at once.
        """
        inputs = self._tokenize([text], src_lang, tgt_lang, truncation, max_source_length)
        return {k: torch.tensor(v) if isinstance(v, list) else v for k, v in inputs.items()}

    def _tokenize(
        self, texts: list[str], src_lang=None, tgt_lang=None, truncation=False, max_source_length=None
    ) -> dict[str, Any]:
        texts = mark_target(texts, self.prefix or group_prefix(self.tokenizer, tgt_lang))
        limits = {"truncation": truncation, "max_length": max_source_length} if truncation else {}
        tokenizer = private_copy(self.tokenizer)
        if not is_multilingual(tokenizer):
            inputs = tokenizer(texts, **limits)
        else:
            src_lang = src_lang or tokenizer.src_lang
            if tgt_lang is None:  # the model has a target language of its own
                tokenizer.src_lang = src_lang
                inputs = tokenizer(texts, **limits)
            else:
                inputs = tokenizer._build_translation_inputs(
                    texts, return_tensors=None, src_lang=src_lang, tgt_lang=tgt_lang, **limits
                )
        inputs.pop("token_type_ids", None)
        return dict(inputs)

    def encode(self, texts: list[str], **preprocess_params) -> list[dict[str, Any]]:
        """Texts → for each, the output of [`preprocess`] as lists, of which `collate` makes a batch."""
        if type(self).preprocess is not TranslationPipeline.preprocess:
            rows = [self.preprocess(text, **preprocess_params) for text in texts]
            return [{k: v[0].tolist() if isinstance(v, torch.Tensor) else v for k, v in row.items()} for row in rows]
        inputs = self._tokenize(texts, **preprocess_params)
        inputs.pop("attention_mask", None)  # all ones until there is padding
        return [{k: v[i] if isinstance(v, list) else v for k, v in inputs.items()} for i in range(len(texts))]

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Encoded texts → a batch, padded on the right, since most models count positions from the left."""
        first_token = rows[0].get(FIRST_TOKEN)
        rows = [{k: v for k, v in row.items() if k != FIRST_TOKEN} for row in rows]
        if self.tokenizer.pad_token_id is None:  # there is only one row then, see `engine`
            batch = {k: torch.tensor([v]) for k, v in rows[0].items()}
        else:
            batch = dict(
                self.tokenizer.pad(rows, padding_side="right", return_tensors="pt", return_attention_mask=True)
            )
        batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        # Multilingual tokenizers choose the target language by the first token; in a batch it is the same for all.
        return batch if first_token is None else {**batch, FIRST_TOKEN: int(first_token)}

    # Token ids → hypotheses

    def get_inference_context(self):
        return torch.inference_mode

    def forward(self, model_inputs: dict, **forward_params) -> dict:
        """A batch → its hypotheses, see [`_forward`], with the model in eval mode."""
        if not self.model.training:
            return super().forward(model_inputs, **forward_params)
        pipeline = copy.copy(self)
        with evaluation(self.model) as pipeline.model:
            return super(TranslationPipeline, pipeline).forward(model_inputs, **forward_params)

    def _forward(
        self,
        model_inputs: dict,
        n_best=None,
        return_scores=False,
        return_alignments=False,
        arguments: GenerateArguments | None = None,
        **generate_kwargs,
    ) -> dict:
        """Token ids `(batch, source_length)` → the hypotheses of each text.

        Args:
            arguments: the arguments of `generate()` for all batches of a call; `generate_kwargs` are then this batch's
                own.

        Returns:
            `output_ids` `(batch, hypotheses, target_length)`, their `lengths` `(batch, hypotheses)` and, if requested,
            `scores` `(batch, hypotheses)` and `alignments`: a dict for each text and hypothesis, see `__call__`.
        """
        first_token = model_inputs.pop(FIRST_TOKEN, None)
        if first_token is not None:
            generate_kwargs.setdefault(FIRST_TOKEN, first_token)
        if n_best:
            generate_kwargs["num_return_sequences"] = n_best
        with_scores = bool(n_best or return_scores)
        if arguments is None:
            arguments = GenerateArguments(self.model, generate_kwargs, self.task_params)
        else:
            arguments = arguments.of_batch(generate_kwargs)
        # With one beam, this package's search is faster if only tokens are requested, and has no scores anyway.
        if with_scores and not (isinstance(self.model, FastGenerationMixin) and arguments.get("num_beams", 1) == 1):
            arguments.generate_kwargs["return_dict_in_generate"] = True
        try:
            output = self.model.generate(**model_inputs, **arguments.generate_kwargs)
        except ValueError as error:
            methods = (self.model.generate, self.model.forward, self._forward, self._sanitize_parameters, self.engine)
            known = [name for method in methods for name in signature(method).parameters]
            if suggestion := suggest_argument(error, [*known, "quantize", *vars(self.model.generation_config)]):
                raise ValueError(suggestion) from None
            raise
        output_ids = getattr(output, "sequences", output)
        pad_token_id = (
            arguments.get("pad_token_id", self.tokenizer.pad_token_id) if arguments.may_end_without_eos() else None
        )
        outputs = {
            "output_ids": output_ids,
            "lengths": output_lengths(output_ids, arguments.eos_token_ids(), pad_token_id),
        }
        if with_scores:
            scores = getattr(output, "sequences_scores", None)
            outputs["scores"] = self._scores(model_inputs, arguments, **outputs) if scores is None else scores
        batch_size = len(model_inputs["input_ids"])
        outputs = {name: tensor.reshape(batch_size, -1, *tensor.shape[1:]) for name, tensor in outputs.items()}
        if n_best and arguments.get("do_sample"):
            best_first = outputs["scores"].argsort(dim=1, descending=True)
            row = torch.arange(batch_size, device=best_first.device).unsqueeze(1)
            outputs = {name: tensor[row, best_first] for name, tensor in outputs.items()}
        if return_alignments:
            outputs["alignments"] = align(
                self.model, self.tokenizer, model_inputs, outputs["output_ids"], outputs["lengths"]
            )
        return outputs

    def _scores(
        self, inputs: dict, arguments: GenerateArguments, output_ids: torch.LongTensor, lengths: torch.LongTensor
    ) -> torch.Tensor:
        """Scores by which beam search would rank hypotheses `(rows, target_length)`, for searches without scores."""
        prompt = prompt_length(arguments.get("decoder_input_ids"), output_ids)
        first_is_forced = prompt == 1 and arguments.get(FIRST_TOKEN) is not None
        sums = log_probabilities(self.model, inputs, output_ids, lengths, given=prompt + int(first_is_forced))
        return sums / arguments.scoring().penalty((lengths - prompt).clamp(min=1))

    # Hypotheses → results

    def postprocess(
        self, model_outputs: dict, as_tensors: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> list[Hypothesis]:
        """Hypotheses of one text → a dict for each one."""
        hypotheses = [
            ids[:length] for ids, length in zip(model_outputs["output_ids"][0], model_outputs["lengths"][0].tolist())
        ]
        if as_tensors:
            # Copies, since tensors from inference mode cannot be trained on.
            results = [{"translation_token_ids": ids.clone()} for ids in hypotheses]
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


def make_glossary(terms: Terms) -> "Glossary":
    """The glossary of a call."""
    from ..text.glossary import Glossary  # only texts with terms need it

    return Glossary.of(terms)


def _flat(result: Result) -> Hypothesis | Result:
    """A text's result within a list: its one hypothesis, the list of them, or its error."""
    return result[0] if isinstance(result, list) and len(result) == 1 else result


__all__ = ["TranslationPipeline"]
