"""The translation pipeline that transformers 5 removed, with its interface from transformers 4.

It serves every sequence-to-sequence model in transformers: Marian, T5, M2M100, NLLB, mBART, Bart and Vaswani. The
[`Translator`](translator.py) behind it does the work; a subclass may still override `preprocess`, `_forward` and
`postprocess`.
"""

import inspect
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Dataset, IterableDataset
from tqdm import tqdm
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    Pipeline,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..core.modeling_base import RESIZE_HINT
from ..core.tokenization_vaswani import private_copy
from ..generation.alignment import evaluation
from ..generation.model_checks import damaged_weights, tokenizer_warning, vocabulary_error
from ..generation.output_scores import output_lengths
from ..generation.settings import GenerateArguments
from ..text.inputs import check_many, check_text, shown
from ..text.languages import (
    TRANSLATION_TASK,
    check_pair,
    choose_languages,
    is_multilingual,
    language_pairs,
)
from ..text.vocabularies import vocabularies
from .backends.selection import BackendSelection
from .backends.torch_backend import TorchBackend, collate, own_arguments, search_batch
from .encoder import tokenize, translation_task
from .options import MEANINGS, Terms, TranslationOptions, described
from .segments import Candidate, Hypothesis, Result, Row, SearchBatch, SearchRequest
from .translator import EXPECTED, SharedState, Translator, not_texts, not_texts_error

if TYPE_CHECKING:
    from .reranking import Reranker

# Options that a stage of the pipeline takes, by the stage; the others are the translator's.
PREPROCESS = ("src_lang", "tgt_lang", "truncation", "max_source_length")
FORWARD = ("n_best", "return_scores", "return_alignments")
POSTPROCESS = ("return_tensors", "clean_up_tokenization_spaces")
OWN = tuple(name for name in MEANINGS if name not in (*PREPROCESS, *FORWARD, *POSTPROCESS))
# The methods that a batch passes through.
STAGES = ("collate", "forward", "_forward", "postprocess")
# Arguments of `pipeline()` that hold for all calls.
OF_ALL_CALLS = ("engine", "quantize", "second_model")
# Earlier names of options.
RENAMED = {"on_unmet": "on_missing_term"}


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

    Attributes:
        second: the pipeline of the second model, if any.

    Where no model has a pair, two translate over a third language: `second_model`, a folder or Hub id that only
    `pipeline()` accepts, translates what this model writes. A multilingual model does so by itself with `via="en"`.
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False

    def __init__(self, model, *args, task: str = "translation", **kwargs):
        second, via, self._target = kwargs.pop("second_model", None), kwargs.get("via"), None
        self._is_chain = second is not None or bool(via)
        if self._is_chain:  # whose first step is into the third language
            if languages := TRANSLATION_TASK.fullmatch(task):
                kwargs = {"src_lang": languages["source"], "tgt_lang": languages["target"], **kwargs}
            task, self._target = "translation", kwargs.pop("tgt_lang", None)
            kwargs |= {"tgt_lang": via} if via else {}
        task, self.task_params = translation_task(model, task, kwargs.get("src_lang"), kwargs.get("tgt_lang"))
        self.prefix = self.task_params.pop("prefix")
        languages = TRANSLATION_TASK.fullmatch(task)
        if languages:
            kwargs.setdefault("src_lang", languages["source"])
            kwargs.setdefault("tgt_lang", languages["target"])
        if "prefixes" in kwargs:
            raise ValueError("prefixes belong to the texts of one call. Pass them when you call the pipeline.")
        engine, quantize = kwargs.pop("engine", None) or "auto", kwargs.pop("quantize", None)
        self.selection = engine if isinstance(engine, BackendSelection) else BackendSelection(engine, quantize)
        self._defaults = _own_options(kwargs)
        self._shared = SharedState()
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
        self.selection.check(self.model)
        if error := vocabulary_error(self.model, self.tokenizer):
            raise ValueError(f"The {error.removeprefix('the ')}. {RESIZE_HINT}")
        if warning := tokenizer_warning(self.model, self.tokenizer):
            warnings.warn(warning, UserWarning, stacklevel=2)
        # T5's prefix is chosen once, and with it the languages of all calls.
        self._pair = languages.groups() if self.prefix and languages else None
        self._pairs = [self._pair] if self._pair else language_pairs(self.model, self.tokenizer)
        self.second: TranslationPipeline | None = None
        if not self._is_chain:
            self._choose_languages(self._preprocess_params, bool(self._defaults.get("zero_shot")))
            return
        more: dict[str, Any] = {"device": kwargs.get("device")}
        if second is not None:
            model, tokenizer = self._open(second)
            self.second = TranslationPipeline(model, tokenizer=tokenizer, engine=engine, quantize=quantize, **more)
        elif self.prefix:  # T5 has another one for the other step
            more |= {"src_lang": via, "tgt_lang": self._target, "engine": self.selection}
            self.second = TranslationPipeline(self.model, tokenizer=self.tokenizer, **more)
        from .chain import pivot_language

        requested = self._preprocess_params.get("src_lang"), via, self._target
        pivot_language(requested, self._pairs, (self.second or self)._pairs, self.second is None)

    def _open(self, name: str | os.PathLike) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The second model, from its folder or the Hub; errors as in [`load`]."""
        from ..models.load import load

        if not isinstance(name, (str, os.PathLike)):
            raise ValueError(f"second_model must be a folder or a Hub id, got {type(name).__name__}.")
        is_engine = hasattr(self.model, "engine_name")
        return load(os.fspath(name), None if is_engine else str(self.model.dtype).removeprefix("torch."))

    def _choose_languages(self, preprocess: dict[str, Any], zero_shot: bool) -> dict[str, str]:
        """The languages of a call, as arguments of `preprocess`; errors as in [`check_pair`]."""
        requested = preprocess.get("src_lang"), preprocess.get("tgt_lang")
        if self._pair:
            check_pair(requested, [self._pair], "To use another prefix, make a new pipeline with its languages.")
        return choose_languages(self.model, self.tokenizer, requested, zero_shot).arguments()

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
            terms: one of the options; or a list of such, one for each text.
            options: fields of `TranslationOptions`, and anything that `generate()` takes.
            return_text (`bool`): return text, the default.
            return_type (`int` or an enumeration): 0 or `TENSORS` for token ids, like `return_tensors`; as in
                transformers 4.
            stop_sequence (`str`): its first token ends a translation, as in transformers 4.
            assistant_model: a smaller model with the same tokenizer, its folder or its Hub id, that drafts
                translations for `generate()`; texts are then translated one at a time.
            generate_kwargs: anything that `generate()` takes, as a dict.

        Returns:
            For one text, a list of dicts with `translation_text`, one per hypothesis. For a list or column, a list of
            such dicts, or of such lists if several hypotheses are requested. For texts read piece by piece, an
            iterator over such lists, as in transformers 4; it reads 128 texts, then 512, 2048 and 4096 at a time,
            before it returns their results.

        Raises:
            ValueError: inputs are not texts, texts exceed the limit, languages are missing or unknown, or `n_best`
                exceeds `num_beams`. It is raised before any text is translated, and names up to five of the texts. An
                iterator first returns the translations of all texts before an input that is not a text; if a text
                exceeds the limit, the translations of the texts read together with it are lost.
        """
        has_many = isinstance(terms, list | tuple)
        terms_of_texts = terms if has_many else ()
        translator = self.translator(terms=None if has_many else terms, **options)
        texts, is_lazy = as_texts([inputs] if isinstance(inputs, str) else inputs)
        if prefixes != ():
            check_many("prefixes", prefixes)
        for name, each, given in (("prefixes", "prefix", prefixes), ("terms", "dict", terms_of_texts)):
            if given and (is_lazy or len(given) != len(texts)):
                many = "texts read piece by piece" if is_lazy else f"{len(texts)} text{'s' * (len(texts) != 1)}"
                raise ValueError(f"{name} must have one {each} per text of a list, got {len(given)} for {many}.")
        if is_lazy:
            return translator.stream(texts)
        texts = list(texts)
        wrong = not_texts(texts)
        if wrong:
            raise not_texts_error(texts, wrong)
        glossaries = []
        if terms_of_texts:
            from ..text.glossary import Glossary  # only texts with terms need it

            glossaries = [Glossary.of(own or {}) for own in terms_of_texts]
        results = translator.translate(texts, prefixes, glossaries=glossaries)
        return results[0] if isinstance(inputs, str) else [_flat(result) for result in results]

    def translator(self, **options) -> Translator:
        """Make what translates any number of texts with the arguments of a call, which are checked here."""
        if misplaced := [name for name in OF_ALL_CALLS if name in options]:
            raise ValueError(f"{' and '.join(misplaced)}: chosen once for all calls. Pass it to pipeline().")
        given = _own_options(options)
        preprocess, forward, postprocess = self._sanitize_parameters(**options)
        given |= {**preprocess, **forward, **postprocess}
        stages = self._preprocess_params | self._forward_params | self._postprocess_params
        together = self._defaults | stages | given
        if not (self.second or together.get("via")):
            return self.step(
                together, {*preprocess, *self._preprocess_params}, {*postprocess, *self._postprocess_params}
            )
        if self.prefix and not self._is_chain:
            raise ValueError("via: chosen once for all calls with this model. Pass it to pipeline().")
        from .chain import Step, make_chain

        target = self._target if self._is_chain else stages.get("tgt_lang")
        steps = [Step(each.step, each._pairs, is_multilingual(each.tokenizer)) for each in (self, self.second or self)]
        return make_chain(*steps, {**together, "tgt_lang": given.get("tgt_lang", target)})

    def step(
        self,
        options: dict[str, Any],
        of_preprocess: Iterable[str] = PREPROCESS,
        of_postprocess: Iterable[str] = POSTPROCESS,
    ) -> Translator:
        """Make the translator of this model alone.

        Args:
            options: all of them, those of `pipeline()` included.
            of_preprocess, of_postprocess: names of those that are arguments of these methods.
        """
        preprocess, postprocess = (
            {name: options[name] for name in names if name in options} for names in (of_preprocess, of_postprocess)
        )
        chosen = self._choose_languages(options, bool(options.get("zero_shot")))
        options, preprocess = {**options, **chosen}, {**preprocess, **chosen}
        given = TranslationOptions(**{name: value for name, value in options.items() if name in MEANINGS})
        others = MEANINGS.keys() | preprocess.keys() | postprocess.keys()
        generate_kwargs = {name: value for name, value in options.items() if name not in others}
        return Translator(
            self.model, self.tokenizer, given, generate_kwargs, self.task_params, self.prefix, self.selection,
            self._shared, *self._own_stages(preprocess, postprocess),
        )  # fmt: skip

    def _own_stages(
        self, preprocess: dict[str, Any], postprocess: dict[str, Any]
    ) -> tuple[Callable[..., list[Row]] | None, "PipelineBackend | None"]:
        """What encodes and what searches, if a subclass has overridden a stage, or it has been replaced here."""

        def is_own(name: str) -> bool:
            return name in vars(self) or getattr(type(self), name) is not getattr(TranslationPipeline, name)

        def encode(texts: list[str], truncation: bool | str = False, max_length: int | None = None) -> list[Row]:
            limits = {"truncation": truncation, "max_source_length": max_length} if truncation else {}
            others = {name: value for name, value in preprocess.items() if name not in PREPROCESS[2:]}
            rows = [self.preprocess(text, **others, **limits) for text in texts]
            return [{k: v[0].tolist() if isinstance(v, torch.Tensor) else v for k, v in row.items()} for row in rows]

        backend = PipelineBackend(self, postprocess) if any(map(is_own, STAGES)) else None
        return encode if is_own("preprocess") else None, backend

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
        if return_tensors is None and return_text is not None:
            return_tensors = not return_text
        elif return_tensors is None and return_type is not None:
            return_tensors = getattr(return_type, "name", return_type) in ("TENSORS", 0)
        if not isinstance(generate_kwargs, dict | None):
            raise ValueError(f"generate_kwargs must be a dict of arguments, got {generate_kwargs!r}.")
        forward = {**(generate_kwargs or {}), **other_generate_kwargs}
        if not isinstance(config := forward.get("generation_config"), GenerationConfig | None):
            raise ValueError(f"generation_config must be a GenerationConfig, got {type(config).__name__}.")
        last = vars(self).get("second") or self
        if stop_sequence is not None:
            forward["eos_token_id"] = last._first_token(stop_sequence, tgt_lang)
        if forward.get("assistant_model") is not None:
            forward["assistant_model"] = last._assistant(forward["assistant_model"])
        postprocess = {
            "return_tensors": return_tensors,
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

    # Text → token ids

    def preprocess(
        self, text: str, src_lang=None, tgt_lang=None, truncation=False, max_source_length=None
    ) -> dict[str, torch.Tensor]:
        """One text → token ids and attention mask `(1, source_length)`, and the target language's token if needed.

        If a subclass overrides this method, it is called for each text; otherwise many texts are tokenized at once.
        """
        limits = {"truncation": truncation, "max_length": max_source_length}
        inputs = tokenize(self.tokenizer, [text], self.prefix, src_lang, tgt_lang, **limits)
        return {k: torch.tensor(v) if isinstance(v, list) else v for k, v in inputs.items()}

    def collate(self, rows: list[Row]) -> dict[str, Any]:
        """Encoded texts → a batch."""
        return collate(self.tokenizer, rows)

    # Token ids → hypotheses

    def get_inference_context(self):
        return torch.inference_mode

    def _forward(
        self,
        model_inputs: dict,
        n_best=None,
        return_scores=False,
        return_alignments=False,
        arguments: GenerateArguments | None = None,
        **generate_kwargs,
    ) -> dict:
        """Token ids `(batch, source_length)` → the hypotheses of each text, see [`search_batch`].

        Args:
            arguments: the arguments of `generate()` for all batches of a call; `generate_kwargs` are then this batch's
                own.
        """
        if arguments is None:
            arguments = GenerateArguments(self.model, generate_kwargs, self.task_params)
        else:
            arguments = arguments.updated(generate_kwargs)
        with evaluation(self.model) as model:
            return search_batch(
                model, self.tokenizer, model_inputs, arguments, n_best, return_scores, return_alignments
            )

    # Hypotheses → results

    def postprocess(
        self, model_outputs: dict, return_tensors: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> list[Hypothesis]:
        """Hypotheses of one text → a dict for each one."""
        hypotheses = [
            ids[:length] for ids, length in zip(model_outputs["output_ids"][0], model_outputs["lengths"][0].tolist())
        ]
        if return_tensors:
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


def _with_options(doc: str) -> str:
    """A docstring with the options at the end of its arguments."""
    wrap = partial(textwrap.fill, width=100, initial_indent=" " * 4, subsequent_indent=" " * 8)
    before, returns, after = inspect.cleandoc(doc).partition("\n\nReturns:")
    return "\n".join([before, *map(wrap, described())]) + returns + after


TranslationPipeline.__call__.__doc__ = _with_options(TranslationPipeline.__call__.__doc__ or "")


class PipelineBackend(TorchBackend):
    """Searches with the stages of a pipeline that has its own.

    Args:
        postprocess: arguments of its `postprocess`.
    """

    def __init__(self, pipeline: TranslationPipeline, postprocess: dict[str, Any]):
        super().__init__(pipeline.model, pipeline.tokenizer)
        self.pipeline, self.arguments = pipeline, postprocess
        # Methods that have been replaced may be meant to see all batches.
        self.must_see_all = any(name in vars(pipeline) for name in STAGES)

    def search(self, batch: SearchBatch, request: SearchRequest) -> list[list[Candidate]]:
        pipeline = self.pipeline
        own = {name: value for name in FORWARD if (value := getattr(request, name)) is not None}
        if type(pipeline)._forward is TranslationPipeline._forward:
            own["arguments"] = request.arguments
        else:  # which may change arguments: it gets them itself
            own |= request.arguments.generate_kwargs
        own |= own_arguments(batch, pipeline.model.device)
        outputs = pipeline.forward(pipeline.collate(list(batch.rows)), **own)
        if "lengths" not in outputs:  # as in transformers 4
            ids = outputs["output_ids"]
            lengths = output_lengths(ids.flatten(0, 1), request.arguments.eos_token_ids(), None)
            outputs = {**outputs, "lengths": lengths.view(ids.shape[:2])}
        found = []
        for row in range(len(batch.rows)):
            # One text's share of the outputs, with batch size 1.
            share = {name: values[row : row + 1] for name, values in outputs.items()}
            hypotheses = pipeline.postprocess(share, **self.arguments)
            lengths = outputs["lengths"][row].tolist()
            found.append([Candidate(range(length), None, None, each) for length, each in zip(lengths, hypotheses)])
        return found


def as_texts(inputs: object) -> tuple[Iterable, bool]:
    """Inputs of the pipeline other than a single text → an iterable of texts, and whether to read it lazily.

    Raises:
        ValueError: the pipeline does not accept such inputs.
    """

    if isinstance(inputs, Dataset) and not isinstance(inputs, IterableDataset):
        return (inputs[i] for i in range(len(inputs))), True
    is_sequence = isinstance(inputs, Sequence) or (hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__"))
    is_other = isinstance(inputs, (bytes, bytearray, Mapping, set, frozenset))  # sets have no order
    if is_other or not (is_sequence or isinstance(inputs, Iterable)):
        raise ValueError(f"{EXPECTED}, got {type(inputs).__name__}: {shown(inputs)}")
    return inputs, not is_sequence


def _own_options(options: dict[str, object]) -> dict[str, object]:
    """Take the translator's options out of a call's or a pipeline's; `None` counts as not given."""
    for old, name in RENAMED.items():
        if old in options:
            options[name] = options.pop(old)
    taken = {name: options.pop(name) for name in OWN if name in options}
    return {name: value for name, value in taken.items() if value is not None}


def _flat(result: Result) -> Hypothesis | Result:
    """A text's result within a list: its one hypothesis, the list of them, or its error."""
    return result[0] if isinstance(result, list) and len(result) == 1 else result


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    batch_size: int | None = None,
    show_progress: bool = False,
    utility: str | None = None,
    samples: int | None = None,
    reranker: "Reranker | None" = None,
    **options,
) -> list[str]:
    """Translate texts.

    Texts that are too long for the model are cut, with a warning that counts them, so that one long text among
    thousands does not stop the others. The model stays on its device, and in training mode if it is in training mode.

    Args:
        texts: sentences; the order is kept.
        batch_size: maximum number of sentences in a batch; default: as many as the size of the model allows.
        show_progress: show a progress bar, if there is a terminal.
        utility, samples: as in [`translate_mbr`]; with a utility, it chooses the translations.
        reranker: if given, it chooses among the translations of the beam.
        options: arguments of the pipeline, of its call and of `model.generate()`, such as `num_beams=4`.

    Returns:
        One translation for each text.
    """
    check_many("texts", texts)
    texts = list(texts)
    # A model that is spread over several devices cannot be moved to one.
    device = None if getattr(model, "hf_device_map", None) else model.device
    # The pipeline must know the languages from the start to choose T5's prefix.
    chosen = ("src_lang", "tgt_lang", "zero_shot", "engine", "quantize")
    own = {name: options.pop(name) for name in chosen if name in options}
    translator = TranslationPipeline(model, tokenizer=tokenizer, device=device, **own)
    with tqdm(total=len(texts), unit=" sentences", disable=not (show_progress and sys.stderr.isatty())) as bar:
        options = {"truncation": True, "batch_size": batch_size, "progress": bar.update, **options}
        if utility:
            from .mbr import DEFAULT_SAMPLES, translate_mbr

            rankings = translate_mbr(translator, texts, samples or DEFAULT_SAMPLES, utility, **options)
            return [ranking[0].text for ranking in rankings]
        if reranker:
            from .reranking import beam_candidates

            options |= beam_candidates(model, options.get("num_beams"))
            return [ranked[0]["translation_text"] for ranked in reranker(texts, translator(texts, **options))]
        return [result["translation_text"] for result in translator(texts, **options)]


__all__ = ["TranslationPipeline", "translate"]
