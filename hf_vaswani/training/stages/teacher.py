"""The model that translates in a stage: any encoder-decoder that can be loaded, or an ensemble of several.

Errors that show without reading its weights are reported before work begins: the model does not exist, or translates
languages other than the recipe's.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import AutoConfig, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from ...data.tokenizers.tokenizer import load_tokenizer
from ...errors import InputError, reason
from ...files import collect_errors, model_path_error, where_not_found
from ...text.languages import (
    LanguagePair,
    check_languages,
    check_pair,
    group_languages,
    group_prefix,
    language_code,
    language_pairs,
    translation_tasks,
)
from ...translation.adapters import adapter_base, has_own_tokenizer
from ...translation.load import check_folder, load_ensemble, tokenizer_errors
from ..recipe.arguments import DataArguments
from .arguments import TranslateArguments

# Codes that some models use for the same language.
ONE_LANGUAGE = {"nb": "no", "nn": "no"}


@dataclass(frozen=True)
class Teacher:
    """A model that is ready to translate.

    Attributes:
        languages: arguments of the pipeline, for multilingual models.
        prefix: what each source begins with, for models that read the target language there.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    languages: dict[str, str]
    prefix: str


def open_teacher(arguments: TranslateArguments, data: DataArguments) -> Teacher:
    """Load the model of a stage that translates.

    Args:
        arguments: of the stage, with paths in place of stage names.
        data: of the recipe; it names the languages.

    Raises:
        InputError: if the model cannot be loaded, or does not translate these languages.
    """
    model, tokenizer = load_ensemble(arguments.models)
    languages, prefix = languages_for(model.config, model.generation_config, tokenizer, arguments, data)
    if "tgt_lang" in languages and hasattr(tokenizer, "tgt_lang"):
        tokenizer.tgt_lang = languages["tgt_lang"]  # needed to tokenize its own translations
    return Teacher(model, tokenizer, languages, prefix)


def teacher_errors(arguments: TranslateArguments, data: DataArguments, names: list[str]) -> list[str]:
    """Errors in models that show before their weights are read.

    Args:
        names: the models that no stage makes.
    """
    errors: list[str] = []
    tokenizers = {}
    for name in names:
        if tokenizer := collect_errors(errors, lambda name=name: _look_at(name, arguments, data)):
            tokenizers[name] = tokenizer
    errors += tokenizer_errors(tokenizers) if tokenizers else []
    return [f"translate.model: {error}" for error in errors]


def _look_at(name: str, arguments: TranslateArguments, data: DataArguments) -> PreTrainedTokenizerBase:
    """The tokenizer of a model, once what can be checked without weights shows that it can translate the text."""
    if error := model_path_error(name):
        raise InputError(error)
    base = adapter_base(name)
    if base is None and Path(name).is_dir():
        check_folder(Path(name))
    try:
        config = AutoConfig.from_pretrained(base or name)
        generation_config = GenerationConfig()
        if not Path(base or name).is_dir() or (Path(base or name) / "generation_config.json").exists():
            generation_config = GenerationConfig.from_pretrained(base or name)
    except Exception as error:  # each kind of model and connection raises its own
        raise InputError(f"{name}{where_not_found(name)} cannot be loaded: {reason(error)}") from None
    tokenizer = load_tokenizer(name if base and has_own_tokenizer(name) else base or name)
    try:
        languages_for(config, generation_config, tokenizer, arguments, data)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return tokenizer


def languages_for(
    config: Any, generation_config: Any, tokenizer: Any, arguments: TranslateArguments, data: DataArguments
) -> tuple[dict[str, str], str]:
    """The languages that a model must be told, and the prefix of its source sentences.

    Raises:
        InputError: if the model translates other languages, or must be told languages that are not given.
    """
    asked = asked_languages(arguments, data)
    given = {n: v for n in ("src_lang", "tgt_lang") if (v := getattr(arguments, n)) is not None}
    _check_given(given, arguments, data)
    try:
        if groups := group_languages(tokenizer):
            source = _two_letters(asked[0])
            remedy = f"translate.side={arguments.side} needs a model from {source}."
            check_pair((source, None), language_pairs(SimpleNamespace(config=config), tokenizer), remedy)
            if not (prefix := group_prefix(tokenizer, arguments.tgt_lang)):
                raise ValueError(
                    f"translate.tgt_lang is missing: this model translates into several languages: {', '.join(groups)}"
                )
            return {}, prefix
        if hasattr(tokenizer, "_build_translation_inputs"):
            has_own_target = generation_config.forced_bos_token_id is not None
            check_languages(tokenizer, arguments.src_lang, arguments.tgt_lang, has_own_target)
            return given, ""
        if translation_tasks(config):
            if None in asked:
                raise ValueError(
                    "this model must be given the languages: set translate.src_lang and translate.tgt_lang"
                )
            check_pair(asked, language_pairs(SimpleNamespace(config=config), tokenizer))
            return dict(zip(("src_lang", "tgt_lang"), asked)), ""
        pairs = language_pairs(SimpleNamespace(config=config), tokenizer)
        check_pair(asked, pairs, f"translate.side={arguments.side} needs a model from {asked[0]} to {asked[1]}.")
    except ValueError as error:
        raise InputError(str(error)) from None
    return {}, ""


def asked_languages(arguments: TranslateArguments, data: DataArguments) -> LanguagePair:
    """The languages to translate from and into; `None` for a language that is not given."""
    source, target = _languages_of_text(arguments, data)
    return arguments.src_lang or source, arguments.tgt_lang or target


def _languages_of_text(arguments: TranslateArguments, data: DataArguments) -> LanguagePair:
    """The recipe's languages, that of the stage's side first; `None` for one that is no code."""
    own = language_code(data.source_language), language_code(data.target_language)
    return own if arguments.side == "source" else own[::-1]


def _check_given(given: dict[str, str], arguments: TranslateArguments, data: DataArguments) -> None:
    """Refuse languages for a multilingual model that are not those of the recipe.

    Only codes of two letters are compared: those of three may name a language or a group that it belongs to.

    Raises:
        InputError: for each language that differs.
    """
    text = dict(zip(("src_lang", "tgt_lang"), _languages_of_text(arguments, data)))
    errors = []
    for name, code in given.items():
        pair = [_two_letters(code.strip("<>_")), _two_letters(text[name])]
        if None not in pair and len({ONE_LANGUAGE.get(letters, letters) for letters in pair}) > 1:
            errors.append(
                f"translate.{name}={code}: with translate.side={arguments.side}, the recipe's languages require "
                f"{text[name]}. Change one of them"
            )
    if errors:
        raise InputError.of(errors)


def _two_letters(code: str | None) -> str | None:
    """The language of a code, without script and region; `None` if it does not have two letters."""
    language = re.split("[-_]", code or "")[0].lower()
    return language if len(language) == 2 else None


def search_of(arguments: TranslateArguments, model: PreTrainedModel) -> dict[str, Any]:
    """The search settings of a stage, as arguments of a `LineTranslator`."""
    search = {name: getattr(arguments, name) for name in ("num_beams", "length_penalty", "max_new_tokens")}
    if arguments.mbr:
        search |= {"utility": arguments.mbr, "samples": arguments.samples}
    elif arguments.sample:
        search |= {"do_sample": True, "num_beams": 1, "top_k": 0, "top_p": 1.0, "temperature": arguments.sample}
    elif arguments.n_best > (arguments.num_beams or model.generation_config.num_beams or 1):
        search["num_beams"] = arguments.n_best
    return {name: value for name, value in search.items() if value is not None}
