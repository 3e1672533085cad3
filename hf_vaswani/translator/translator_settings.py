"""Which models translate, by the content of their files, and how: a value from which each process opens its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase, pipeline

from ..data.tokenizers.tokenizer import load_tokenizer
from ..errors import InputError, reason
from ..models.load import load_ensemble
from ..models.model_digest import adapter_base, content_digest
from ..models.model_files import GENERATION_FILE, check_settings, has_weights
from ..text.languages import fits_pair, group_languages, language_pairs
from .backends.selection import BackendSelection, backend_of, note_files
from .lines import Line, LineTranslator
from .reranking import open_reranker
from .segments import SourceTooLong

# Of source text, roughly.
BYTES_A_TOKEN = 4
# Arguments with which only the model itself can translate.
NEEDS_MODEL = {"return_alignments", "do_sample", "utility", "assistant_model", "terms", "keep"}


@dataclass(frozen=True)
class TranslatorSettings:
    """Everything that a [`LineTranslator`] is made from."""

    models: tuple[str, ...]  # folders or Hub ids; several form an ensemble
    dtype: str | None = None  # dtype to compute in, as in [`load`]
    quantize: str | None = None  # `"int8"` for 8-bit weights
    engine: str = "auto"  # what computes the translations, as in the pipeline
    languages: Mapping[str, str] = field(default_factory=dict)  # `src_lang`, `tgt_lang` and `via`, if given
    # Further arguments of [`LineTranslator`]; those that are None are left out.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    # Folder or Hub id of a model of the other direction, which chooses among the translations.
    reranker: str | None = None
    rerank_weight: float | None = None  # as in [`open_reranker`]
    second_model: str | None = None  # folder or Hub id of the model that translates out of a third language
    expected_bytes: int = 0  # of text, if known: a large one is worth converting the model at the start

    def content_digest(self) -> str:
        """Digest of the files of all models."""
        others = [self.reranker, self.second_model, self.arguments.get("assistant_model")]
        names = [*self.models, *(name for name in others if isinstance(name, str))]
        return " ".join(map(content_digest, names))

    def open(self, takes_prefixes: bool = False) -> LineTranslator:
        """Load the models, or open the model's conversion for CTranslate2 if that translates the same.

        Args:
            takes_prefixes: whether translations will have prefixes.

        Raises:
            InputError: the models cannot be loaded, the engine is not installed, or the arguments cannot be used.
        """
        try:
            selection = BackendSelection(self.engine, self.quantize)
        except ValueError as error:
            raise InputError(str(error)) from None
        files = self._files_digest() if selection.is_possible else None
        if files and (converted := self._find_converted(selection, files)):
            try:
                translate = self.translator(*converted, takes_prefixes, quantize=None)
                backend, request = backend_of(*converted), translate.translator.request
                if selection.is_requested or backend.computes_the_same(request):
                    return translate
            except InputError:
                if selection.is_requested:
                    raise
        model, tokenizer = load_ensemble(list(self.models), self.dtype)
        # By itself, the engine does not take the place of a model in 16 bits; and files may have been replaced.
        if files and model.dtype == torch.float32 and files == self._files_digest():
            note_files(model, files)
        return self.translator(model, tokenizer, takes_prefixes, self.quantize)

    def _files_digest(self) -> str | None:
        """The key of the model's conversion in the cache; `None` if it could not take the place of the model."""
        arguments = {name for name, value in self.arguments.items() if value not in (None, False)}
        [model, *others] = self.models
        if others or self.second_model or self.dtype not in (None, "float32") or arguments & NEEDS_MODEL:
            return None
        if torch.accelerator.is_available() or not Path(model).is_dir():
            return None
        is_whole = has_weights(Path(model)) and (Path(model) / GENERATION_FILE).exists()
        return f"{content_digest(model)} {self.dtype}" if is_whole and not adapter_base(model) else None

    def _find_converted(
        self, selection: BackendSelection, files: str
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
        folder = self.models[0]
        check_settings(Path(folder))
        config, settings = AutoConfig.from_pretrained(folder), GenerationConfig.from_pretrained(folder)
        engine = selection.find(files, config, settings)
        return None if engine is None else (engine, load_tokenizer(folder))

    def translator(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, takes_prefixes: bool, quantize: str | None
    ) -> LineTranslator:
        """Make a translator, and try it on one line, so that invalid arguments are reported once.

        Args:
            takes_prefixes: whether translations will have prefixes; if so, the trial has one as well.
            quantize: the type of the weights, unless the model has been converted to it already.

        Raises:
            InputError: the arguments cannot be used; the error calls them by the pipeline's names.
        """
        arguments = {name: value for name, value in self.arguments.items() if value is not None}
        if arguments.get("return_alignments") and (engine := getattr(model, "engine_name", None)):
            raise InputError(
                f"return_alignments needs attention weights, which {engine} does not return. Leave it out, or use the "
                "original model."
            )
        if arguments.get("n_best") and not {"utility", "num_beams"} & arguments.keys():
            arguments["num_beams"] = max(arguments["n_best"], model.generation_config.num_beams or 1)
        if self.reranker:
            arguments["reranker"] = open_reranker(
                self.reranker, self.rerank_weight, [language_pairs(model, tokenizer)], self.languages, self.dtype
            )
        try:
            translator = pipeline(
                "translation", model=model, tokenizer=tokenizer, engine=self.engine, quantize=quantize,
                zero_shot=arguments.get("zero_shot"), **self.languages,
                **({"second_model": self.second_model} if self.second_model else {}),
            )  # fmt: skip
            for each in filter(None, (translator, translator.second)):
                each.selection.work = self.expected_bytes // BYTES_A_TOKEN
            translate = LineTranslator(translator, **arguments)
            mark = "" if translate.translator.options.tgt_lang else self._some_mark(model, tokenizer)
            [result] = translate([Line(mark + "a", "a" if takes_prefixes else "")])
            if isinstance(result, Exception) and not isinstance(result, SourceTooLong):
                raise result
        except ValueError as error:
            raise InputError(_in_one_line(error)) from None
        except RuntimeError as error:  # a beam that does not fit in memory
            raise InputError(f"Nothing can be translated with these options: {reason(error)}.") from None
        return translate

    def _some_mark(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
        """A mark as texts may have it that name their target languages themselves."""
        source, codes = self.languages.get("src_lang"), group_languages(tokenizer)
        pairs = language_pairs(model, tokenizer)
        possible = [code for code in codes if not pairs or any(fits_pair((source, code), pair) for pair in pairs)]
        return "".join(f">>{code}<< " for code in possible[:1])


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
