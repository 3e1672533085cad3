"""A model of another class of transformers that training starts from, with its tokenizer: M2M100, NLLB, mBART, T5, …

Class, tokenizer and files stay as they are, so that everything that loads the model loads what a run makes of it.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ...core.tokenization_vaswani import VaswaniTokenizer
from ...data.sources.text_files import Pair
from ...data.tokenizers.tokenizer import SOURCE_PREFIX, load_tokenizer
from ...errors import InputError, reason
from ...models.families import FAMILIES, Family, longest_sequence
from ...models.model_files import CONFIG_FILE, check_settings
from ...models.model_types import keeps_its_class
from ...text.languages import (
    Languages,
    check_languages,
    fits_pair,
    group_languages,
    group_prefix,
    is_multilingual,
    is_same_language,
    language_codes,
    pairs_in_words,
    task_parameters,
    translation_tasks,
)
from ..recipe.arguments import DataArguments, GenerationArguments
from ..recipe.model_arguments import FREE_FIELDS
from ..recipe.recipe import Recipe
from .splits import learns_both_directions, model_directions


def read_config(source: str) -> PreTrainedConfig:
    """The config of a model that keeps its class.

    Raises:
        InputError: it is damaged.
    """
    if Path(source).is_dir():
        check_settings(Path(source))
    try:
        return AutoConfig.from_pretrained(source)
    except Exception as error:  # of many types, for values of the wrong type
        raise InputError(f"{source}/{CONFIG_FILE}: {reason(error)}") from None


def set_direction(tokenizer: PreTrainedTokenizerBase, source: str, data: DataArguments) -> None:
    """Have a tokenizer encode pairs as its model reads them: with the tokens of their languages, or with a prefix.

    Args:
        source: the model that keeps its class.

    Raises:
        InputError: the model does not know the recipe's languages, or must be told them.
    """
    languages = Languages(*data.text_languages)
    if is_multilingual(tokenizer):
        languages = Languages(*(own_code(tokenizer, code) for code in languages))
    try:
        check_languages(tokenizer, *languages, has_own_target=False)
        prefix = source_prefix(read_config(source), tokenizer, languages)
    except ValueError as error:
        keys = ("data.source_language", "data.target_language")[:: -1 if data.reversed else 1]
        message = str(error)
        for name, key in zip(("src_lang", "tgt_lang"), keys):
            message = message.replace(name, key)
        raise InputError(f"{source}: {message}") from None
    if is_multilingual(tokenizer):
        tokenizer.src_lang, tokenizer.tgt_lang = languages
    tokenizer.init_kwargs.pop(SOURCE_PREFIX, None)
    if prefix:
        tokenizer.init_kwargs[SOURCE_PREFIX] = prefix


def add_language(tokenizer: PreTrainedTokenizerBase, recipe: Recipe) -> None:
    """Add the recipe's new language to a tokenizer, as a token that no text can spell.

    Raises:
        InputError: the tokenizer has it already, or a list of languages that cannot grow, or lacks the related one.
    """
    training, kind = recipe.training, type(tokenizer).__name__
    code, key = training.add_language, f"training.add_language={training.add_language!r}"
    if known := isinstance(tokenizer, VaswaniTokenizer) and group_languages(tokenizer):
        if code in known:
            raise InputError(f"{key}: {training.start_from} has this language already; remove it")
        if training.like not in known:
            raise InputError(
                f"training.like={training.like!r}: {training.start_from} translates into {', '.join(sorted(known))}"
            )
        return  # its token is added with those of tags
    if not is_multilingual(tokenizer):
        raise InputError(f"{key}: the {kind} of {training.start_from} has no tokens of languages; remove it")
    if hasattr(tokenizer, "id_to_lang_token") or hasattr(tokenizer, "_build_language_code_mappings"):
        raise InputError(f"{key}: the languages of a {kind} cannot be changed. NLLB's and mBART's can")
    if own_code(tokenizer, code) in language_codes(tokenizer):
        raise InputError(f"{key}: {training.start_from} has this language already; remove it")
    if code in tokenizer.get_vocab():
        raise InputError(
            f"{key}: in the vocabulary of {training.start_from}, this is an ordinary token. Choose a longer "
            "name, such as with the script: gn_Latn"
        )
    if code not in recipe.data.text_languages:
        raise InputError(
            f"{key} is not a language of the text, from which it would be learned. Set "
            "data.source_language or data.target_language to it"
        )
    if training.like not in {*language_codes(tokenizer), *tokenizer.get_added_vocab()}:
        try:
            check_languages(tokenizer, training.like, training.like, has_own_target=False)
        except ValueError as error:
            raise InputError(str(error).partition(" and ")[0].replace("src_lang", "training.like")) from None
    tokenizer.add_special_tokens({"extra_special_tokens": [code]}, replace_extra_special_tokens=False)


def begin_like(model: PreTrainedModel, new: int, like: int | None) -> None:
    """Give a new token all weights of another one; those of all other tokens stay as they are.

    Args:
        new, like: ids of these tokens; the new one may be beyond the model's embeddings. `None` for the mean of all.
    """
    known = min(new, len(model.get_input_embeddings().weight))
    others = slice(known) if like is None else [like]
    if new >= len(model.get_input_embeddings().weight):
        model.resize_token_embeddings(new + 1, mean_resizing=False)
    with torch.no_grad():
        for module in (model.get_input_embeddings(), model.get_output_embeddings()):
            module.weight[new] = module.weight[others].mean(dim=0)
        if (bias := getattr(model, "final_logits_bias", None)) is not None:
            bias[:, new] = bias[:, others].mean(dim=1)


def cut_to_languages(
    tokenizer: PreTrainedTokenizerBase, recipe: Recipe, texts: Iterable[Pair]
) -> PreTrainedTokenizerBase:
    """The tokenizer of a new run, cut to the recipe's languages.

    Raises:
        InputError: it cannot be cut, or the recipe keeps a language in which it has no text.
    """
    from .cut_vocabulary import cut_tokenizer

    training, kept = recipe.training, set(recipe.training.keep_languages)
    if not keeps_its_class(training.start_from):
        raise InputError(f"training.keep_languages: {training.start_from} is for few languages; remove the key")
    given = {code for code in recipe.data.text_languages if code}
    if is_multilingual(tokenizer):
        kept = {own_code(tokenizer, code) for code in kept}
        given = {tokenizer.src_lang, tokenizer.tgt_lang}
    if not given:
        raise InputError("training.keep_languages: set data.source_language and data.target_language, too")
    if kept != given:
        raise InputError(
            f"training.keep_languages={training.keep_languages} must be the languages of the text, "
            f"{' and '.join(sorted(given))}: in others, it is not known which tokens they need"
        )
    cut = cut_tokenizer(tokenizer, texts, sorted(given))
    set_direction(cut, training.start_from, recipe.data)
    return cut


def own_code(tokenizer: PreTrainedTokenizerBase, code: str | None) -> str | None:
    """A language as a multilingual tokenizer spells it: `es` is mBART's `es_XX`, `spa` NLLB's `spa_Latn`.

    The code itself, if the tokenizer does not know it.

    Raises:
        ValueError: several of the tokenizer's languages fit.
    """
    known = language_codes(tokenizer)
    if code is None or {code, f"__{code}__"} & known:
        return code
    fitting = sorted(own for own in known if is_same_language(code, own.strip("_")))
    if len(fitting) > 1:
        raise InputError(f"{code!r} may be {' or '.join(fitting)}: choose one")
    return fitting[0].strip("_") if fitting else code


def source_prefix(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, languages: Languages) -> str:
    """What each source begins with: T5's name of the task, or Marian's mark of one of several target languages.

    Raises:
        ValueError: the model has none for these languages.
    """
    if not translation_tasks(config):
        return getattr(config, "prefix", None) or group_prefix(tokenizer, languages.target)
    task = choose_task(config, languages)
    return task_parameters(config)[task].get("prefix") or ""


def choose_task(config: PreTrainedConfig, languages: Languages) -> str:
    """The name of T5's task for two languages; one that its config lacks is added to it.

    Raises:
        ValueError: several tasks fit, or none, and a language is missing.
    """
    tasks = translation_tasks(config)
    fitting = [name for name, pair in tasks.items() if fits_pair(languages, pair)]
    if not fitting and languages.source and languages.target:
        source, target = languages
        prefix, name = f"translate {source} to {target}: ", f"translation_{source}_to_{target}".replace("-", "_")
        config.task_specific_params = {**task_parameters(config), name: {"prefix": prefix}}
        return name
    if len(fitting) != 1:
        given = f"src_lang={languages.source} and tgt_lang={languages.target}"
        raise ValueError(f"{given}: this model translates {pairs_in_words(list(tasks.values()))}. Choose one pair.")
    return fitting[0]


def load_start_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """The model of another class that a recipe starts from, with the dropout and the search that the recipe says.

    Raises:
        InputError: it cannot be read, does not fit the tokenizer, or contradicts the recipe.
    """
    from ...models.load import check_vocabularies, unfit_weights
    from ...models.model_loading import damage_errors, read_weights
    from .cut_vocabulary import cut_model, rows_of

    source, config = recipe.training.start_from, read_config(recipe.training.start_from)
    errors = [
        f"{key}={value!r} needs a model of this package, which training.start_from={source} is not; remove it"
        for key, value in unsupported_keys(recipe).items()
        if value
    ]
    if errors := errors + set_fields(config, recipe.model, source):
        raise InputError.of(errors)
    model, report = read_weights(AutoModelForSeq2SeqLM, source, config=config, dtype=torch.float32)
    if errors := unfit_weights(source, model, report) + damage_errors(source, model.named_parameters()):
        raise InputError.of(errors)
    if recipe.training.keep_languages:
        cut_model(model, rows_of(tokenizer, load_tokenizer(recipe.tokenizer.path or source), recipe.training.like))
    elif recipe.training.add_language:
        begin_like(model, *(tokenizer.convert_tokens_to_ids([recipe.training.add_language, recipe.training.like])))
    check_vocabularies(source, model, tokenizer)
    errors = [
        f"training.start_from={source}: {kind} is {getattr(tokenizer, kind)} in the tokenizer and "
        f"{getattr(config, kind)} in {CONFIG_FILE}"
        for kind in ("pad_token_id", "eos_token_id")
        if getattr(tokenizer, kind) != getattr(config, kind)
    ]
    limit = longest_sequence(model)
    if limit and (recipe.data.max_length or 0) > limit:
        errors.append(
            f"data.max_length={recipe.data.max_length} exceeds the {limit} positions of training.start_from={source}; "
            "lower it"
        )
    if errors:
        raise InputError.of(errors)
    settings = set_search(model, tokenizer, recipe.generation)
    if translation_tasks(model.config):
        task = choose_task(model.config, Languages(*recipe.data.text_languages))
        tasks = task_parameters(model.config)
        own = {name: value for name, value in tasks[task].items() if name not in settings}
        model.config.task_specific_params = {**tasks, task: own}
    for name, parameter in model.named_parameters():
        # Marian's sinusoids, which are not saved but computed again: trained, they would be lost.
        if name in (model._keys_to_ignore_on_save or ()):
            parameter.requires_grad_(False)
    return model


def drop_unsupported(recipe: Recipe) -> list[str]:
    """Remove what only models of this package support from a recipe whose file was written for another model.

    Returns:
        A line for each key.
    """
    source, dropped = recipe.training.start_from, {}
    with suppress(InputError, OSError):  # reported with all other errors
        if recipe.replaceable and source and keeps_its_class(source):
            own = unsupported_keys(recipe).items()
            dropped = {key: value for key, value in own if value and key in recipe.replaceable}
    for section, _, name in (key.partition(".") for key in dropped):
        arguments = getattr(recipe, section)
        setattr(arguments, name, type(arguments).model_fields[name].get_default(call_default_factory=True))
    return [
        f"{key}={value!r} of {recipe.file} is left out, since {source} is not a model of this package"
        for key, value in dropped.items()
    ]


def unsupported_keys(recipe: Recipe) -> dict[str, Any]:
    """The keys that only models of this package support, with their values."""
    training, evaluation = recipe.training, recipe.evaluation
    return {
        "tokenizer.bpe_dropout": recipe.tokenizer.bpe_dropout,
        **{f"augmentation.{name}": share for name, share in recipe.augmentation.shares.items()},
        "training.distill_from": training.teachers,
        "training.guided_alignment": training.guided_alignment,
        "training.shortlist": training.shortlist,
        "evaluation.confidence": evaluation.confidence,
        "evaluation.attention": evaluation.attention,
        "evaluation.compare_with": evaluation.compared,
        "data.text": learns_both_directions(recipe.data) and recipe.data.text,
        "data.train": len(model_directions(recipe.data)) > 1 and recipe.data.train,
    }


def set_fields(config: PreTrainedConfig, fields: dict[str, Any], source: str) -> list[str]:
    """Set the recipe's dropout and label smoothing in a config; errors for other fields that differ from it.

    Args:
        fields: the recipe's section `model`.
    """
    family: Family = FAMILIES[config.model_type]
    errors = []
    for name, value in fields.items():
        own = family.value(config, name)
        if name in FREE_FIELDS and own is not None:
            setattr(config, family.name(name), value)
        elif own != value:
            has = "has no such field" if own is None else f"has {own!r}"
            errors.append(f"model.{name}={value!r} contradicts training.start_from={source}, which {has}; remove it")
    return errors


def set_search(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, arguments: GenerationArguments
) -> dict[str, Any]:
    """Set the recipe's search, as far as transformers has it, and that translations begin as targets do in training.

    All other settings of the model stay as they are.

    Returns:
        What was set of the recipe's.
    """
    from ...generation.output_scores import forced_output

    settings, defaults = model.generation_config, type(model.generation_config)()
    values: dict[str, Any] = {"num_beams": arguments.num_beams, "early_stopping": arguments.early_stopping}
    if arguments.length_penalty_type == "length":
        values["length_penalty"] = arguments.length_penalty
    if arguments.num_beams == 1:
        beam_search = ("length_penalty", "early_stopping", "num_return_sequences")
        values |= {name: getattr(defaults, name) for name in beam_search}
    for name, value in values.items():
        setattr(settings, name, value)
    if is_multilingual(tokenizer):
        labels = tokenizer(text_target="a")["input_ids"]
        named = tokenizer._build_translation_inputs(
            ["a"], return_tensors=None, src_lang=tokenizer.src_lang, tgt_lang=tokenizer.tgt_lang
        )
        language = int(named["forced_bos_token_id"])
        # mBART's decoder starts with the language itself.
        settings.forced_bos_token_id = language if labels[0] == language else None
        settings.decoder_start_token_id = int(forced_output(model, torch.tensor([labels]))[0, 0])
    return values
