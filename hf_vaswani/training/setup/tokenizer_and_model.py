"""Tokenizer and model before the first step: new ones, or those of a model that training starts from."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, set_seed
from transformers.utils import ADAPTER_CONFIG_NAME

from ...core.configuration_vaswani import VaswaniConfig
from ...core.tokenization_vaswani import VaswaniTokenizer
from ...data.encoding import dropout_encoder
from ...data.sources.text_files import Pair
from ...data.tokenizers.tokenizer import (
    check_target_encoding,
    has_tokenizer,
    load_tokenizer,
    train_tokenizer,
    with_marks,
)
from ...errors import InputError, reason
from ...generation.fast_model import VaswaniForConditionalGeneration
from ...generation.model_checks import spare_ids, vocabulary_error
from ...models.families import config_value
from ...models.model_files import CONFIG_FILE, check_settings, finish_hint, model_kind
from ...models.model_types import is_own_model, keeps_its_class
from ...text.languages import fits_pair, group_languages, is_multilingual, language_code, pairs_in_words
from ...text.vocabularies import target_vocab_size, vocabularies
from ..checkpoints.artifacts import TOKENIZER, is_checkpoint
from ..optimization.optimizer import freeze
from ..recipe.arguments import DataArguments, GenerationArguments
from ..recipe.model_arguments import FREE_FIELDS
from ..recipe.recipe import Recipe
from .directions import common_languages, name_of, same_languages, tag_token, target_mark
from .splits import learns_both_directions, model_directions, model_languages, model_marks, parse_sources

logger = logging.getLogger(__name__)

T = TypeVar("T")


def open_tokenizer(recipe: Recipe, pairs: Iterable[Pair], is_resumed: bool) -> PreTrainedTokenizerBase:
    """The tokenizer of the run being resumed, the one that the recipe names, or a new one.

    Args:
        pairs: the pairs that a new one is trained on; they are read more than once.
    """
    if is_resumed:
        path = Path(recipe.training.output_dir) / TOKENIZER
        if not has_tokenizer(path):
            raise InputError(f"{path} is missing or empty. Restore it, or set --overwrite true to delete the run.")
        return require_trainable(load_tokenizer(str(path)), str(path), recipe)
    augmentation = recipe.augmentation
    return existing_tokenizer(recipe) or train_tokenizer(
        pairs,
        recipe.tokenizer,
        augmentation.markers,
        folds_capitals=augmentation.uppercase > 0,
        marks=model_marks(recipe.data),
    )


def settle_marks(recipe: Recipe) -> None:
    """Have a recipe mark its targets if the tokenizer that it names has such marks, as its model then reads them."""
    start = recipe.training.start_from
    with suppress(InputError, OSError):  # reported with all other errors
        if (source := recipe.tokenizer.path or start) and not (start and keeps_its_class(start)):
            tokenizer = tokenizer_of(source)
            if isinstance(tokenizer, VaswaniTokenizer) and group_languages(tokenizer):
                recipe.data.mark_targets = True


def existing_tokenizer(recipe: Recipe) -> PreTrainedTokenizerBase | None:
    """The tokenizer that the recipe names, or that of the model that it starts from; `None` if it names neither."""
    tokenizer, training = None, recipe.training
    if source := recipe.tokenizer.path:
        tokenizer = named("tokenizer.path", lambda: load_tokenizer(source))
    elif source := training.start_from:
        tokenizer = named("training.start_from", lambda: tokenizer_of(source))
    if tokenizer is not None:
        if training.add_language:
            from .start_model import add_language

            add_language(tokenizer, recipe)
        with_marks(tokenizer, list(new_marks(recipe)))
        key = "tokenizer.path" if recipe.tokenizer.path else "training.start_from"
        named(key, lambda: require_trainable(tokenizer, source, recipe))
    if tokenizer is not None and (missing := missing_marks(recipe, tokenizer)):
        raise InputError(
            f"{recipe.tokenizer_source} has no token for {', '.join(missing)}, which the sources of data.train need. "
            "Learn a new tokenizer, or train on the languages and tags that it knows"
            + ("; training.add_language adds one." if recipe.data.mark_targets else ".")
        )
    if tokenizer is not None and recipe.augmentation.shares:
        from ...data.augmentation.augmenter import check_tokens

        check_tokens(recipe.augmentation, tokenizer, recipe.tokenizer_source)
    if tokenizer is not None and (probability := recipe.tokenizer.bpe_dropout):
        named("tokenizer.bpe_dropout", lambda: dropout_encoder(tokenizer, probability))
    return tokenizer


def missing_marks(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The tokens of target languages and tags that the training text needs and a tokenizer does not have."""
    return [mark for mark in model_marks(recipe.data) if mark not in tokenizer.get_added_vocab()]


def new_marks(recipe: Recipe) -> dict[str, str | None]:
    """The tokens that a run adds to those of the model of this package that it starts from.

    Returns:
        For each, the token that it begins as: a new language as a related one; a tag as the mean of all, `None`.
    """
    training = recipe.training
    if not training.start_from or recipe.tokenizer.path or not is_own_model(training.start_from):
        return {}
    new = {target_mark(training.add_language): target_mark(training.like)} if training.add_language else {}
    missing = missing_marks(recipe, tokenizer_of(training.start_from))
    tags = [tag_token(source.tag) for source in parse_sources(recipe.data)["train"] if source.tag]
    return new | {tag: None for tag in missing if tag in tags}


def named(key: str, work: Callable[[], T]) -> T:
    """Do some work, and prefix its errors with the recipe's key that they are about."""
    try:
        return work()
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def tokenizer_of(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model to start from: a folder, a Hub id, or another system's checkpoint.

    Raises:
        InputError: if there is none.
    """
    path = Path(source)
    if (path / CONFIG_FILE).exists():
        check_settings(path)  # tokenizers read the config as well, and their errors do not name it
    if not path.is_file() and (not path.is_dir() or has_tokenizer(path)):
        return load_tokenizer(source)
    from ...interop import import_tokenizer

    is_own = (path / CONFIG_FILE).exists() and model_kind(path) == VaswaniConfig.model_type
    tokenizer = None if is_own else import_tokenizer(source)
    if tokenizer is None:
        raise InputError(f"{source} has no tokenizer. Specify one with tokenizer.path.")
    return tokenizer


def require_trainable(tokenizer: PreTrainedTokenizerBase, source: str, recipe: Recipe) -> PreTrainedTokenizerBase:
    """Return a tokenizer after checking that training can use it; that of a model which keeps its class with the
    recipe's languages.

    Raises:
        InputError: if it has no padding or end-of-sentence token, needs to know the languages of each text, cannot
            encode targets, or does not end them with the end-of-sentence token.
    """
    if (start := recipe.training.start_from) and keeps_its_class(start):
        from .start_model import set_direction

        set_direction(tokenizer, start, recipe.data)
    elif is_multilingual(tokenizer):
        raise InputError(
            f"{source}: {type(tokenizer).__name__} marks each text with its language, as only multilingual models "
            "read it. Choose another tokenizer, or leave out tokenizer.path to learn one."
        )
    try:
        check_target_encoding(tokenizer)
    except InputError as error:
        raise InputError(f"{source}: {error} Choose another tokenizer with tokenizer.path.") from None
    missing = [kind for kind in ("pad_token", "eos_token") if getattr(tokenizer, kind) is None]
    if missing:
        raise InputError(f"{source}: the tokenizer has no {' and no '.join(missing)}.")
    if tokenizer.eos_token_id not in tokenizer(text_target="a")["input_ids"]:
        raise InputError(
            f"{source}: the tokenizer does not end a text with {tokenizer.eos_token!r}, from which a model learns "
            "when to stop. Add a post-processor that does (TemplateProcessing), or choose another tokenizer."
        )
    return tokenizer


def make_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """The model that training begins with, new or the one to start from, with parameters frozen as the recipe says.

    Raises:
        InputError: if the model to start from cannot be read, or does not fit the recipe or the tokenizer.
    """
    set_seed(recipe.training.seed)
    source = recipe.training.start_from
    if source and keeps_its_class(source):
        if recipe.tokenizer.path and not _has_tokenizer_of(source, tokenizer):
            raise InputError(
                f"training.start_from={source} has a different tokenizer; remove tokenizer.path to use it"
            )
        from .start_model import load_start_model

        model = load_start_model(recipe, tokenizer)
    else:
        model = make_own_model(recipe, tokenizer)
    # With this flag set, transformers would drop unknown settings on loading.
    model.generation_config._from_model_config = False
    try:
        model.generation_config.validate(strict=True)
    except ValueError as error:  # which saving it would raise, hours later
        raise InputError(
            f"training.start_from={recipe.training.start_from}, generation_config: {reason(error)}"
        ) from None
    freeze(model, recipe.training.freeze)
    return model


def make_own_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    """The same for a model of this package, with the recipe's languages and search."""
    if recipe.training.start_from:
        model = load_start(recipe, tokenizer)
    else:
        model = VaswaniForConditionalGeneration(new_config(recipe, tokenizer))
        model.generation_config = GenerationConfig.from_model_config(model.config)
    named("training.start_from", lambda: set_directions(model.config, recipe.data))
    for name, value in search_settings(recipe.generation).items():
        setattr(model.generation_config, name, value)
    return model


def set_directions(config: VaswaniConfig, data: DataArguments) -> None:
    """Name in a config the languages that a run trains, besides those of the model that it starts from."""
    known = [(source, target) for source, target in config.language_pairs or ()]
    directions, languages = model_directions(data), model_languages(data)
    if known:
        pair = data.text_languages
        own = directions or ([pair, pair[::-1]] if learns_both_directions(data) else [pair])
        if any(None in each for each in own):
            raise InputError("data.source_language and data.target_language are missing: the model knows several")
        if not data.mark_targets and (new := {target for _, target in own} - {target for _, target in known}):
            raise InputError(
                f"data.target_language={min(new)!r}: the model translates into {known[0][1]} only, and has no tokens "
                "of target languages, by which it could tell another one"
            )
        directions = list(dict.fromkeys([*known, *own]))
        if same := same_languages(directions):
            raise InputError(f"{' and '.join(same[0])} name one language. Use the name that the model knows.")
        languages = common_languages(directions)
    for name, language in zip(("source_language", "target_language"), languages):
        # A language may be the name of a column. A model for several has none, whatever it starts from.
        if (code := language_code(language)) or known or learns_both_directions(data):
            setattr(config, name, code)
    if len(directions) > 1 or data.mark_targets:
        config.language_pairs = [list(pair) for pair in directions]


def new_config(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> VaswaniConfig:
    """The config of the recipe's architecture, for a tokenizer.

    Raises:
        InputError: if the tokenizer has a vocabulary for each side, but the recipe one embedding matrix for both.
    """
    source, target = vocabularies(tokenizer)
    if any(max(side.values()) >= len(side) for side in (source, target)):
        raise InputError(f"tokenizer.path={recipe.tokenizer.path} has gaps in its ids. Number its tokens from 0.")
    are_shared = recipe.model.get("share_encoder_decoder_embeddings", source == target)
    if are_shared and source != target:
        raise InputError(
            f"tokenizer.path={recipe.tokenizer.path} has a separate vocabulary for each side, which contradicts "
            "model.share_encoder_decoder_embeddings=True: remove that key"
        )
    return VaswaniConfig(
        **{**recipe.model, "share_encoder_decoder_embeddings": are_shared},
        vocab_size=len(tokenizer),
        decoder_vocab_size=target_vocab_size(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        # Without a start token, the decoder begins with padding, as in T5 and Marian.
        decoder_start_token_id=tokenizer.pad_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id,
    )


def _has_tokenizer_of(source: str, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer has the tokens of a model to start from, as far as that model has a tokenizer."""
    with suppress(InputError):
        return vocabularies(tokenizer_of(source)) == vocabularies(tokenizer)
    return True


def load_start(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    """The model that a recipe starts from, with the changes that the recipe may make to it.

    Raises:
        InputError: if it cannot be read, or does not fit the recipe or the tokenizer.
    """
    source = recipe.training.start_from
    model = named("training.start_from", lambda: read_model(source))
    new = new_marks(recipe)
    if recipe.peft.is_used and not recipe.peft.merge:
        known = [tuple(pair) for pair in model.config.language_pairs or ()]
        untrained = [pair for pair in model_directions(recipe.data) if known and pair not in known]
        lacks = [*new, *map(name_of, untrained)]
        if lacks:
            raise InputError(
                f"training.start_from={source} lacks {', '.join(lacks)}, which an adapter cannot add. Merge it "
                "(peft.merge: true)"
            )
    if new and not tokenizer.is_joint:
        raise InputError(
            f"training.start_from={source} lacks {', '.join(new)}, and its tokenizer has a vocabulary for each side, "
            "to which no token can be added"
        )
    for mark, like in new.items():
        from .start_model import begin_like

        begin_like(model, *(mark and tokenizer.convert_tokens_to_ids(mark) for mark in (mark, like)))
    config, errors = model.config, []
    languages = config.source_language, config.target_language
    if not fits_pair(tuple(map(language_code, model_languages(recipe.data))), languages):
        logger.warning(
            "warning: training.start_from=%s translates %s, not the languages of this run",
            source,
            pairs_in_words([languages]),
        )
    for name, value in recipe.model.items():
        if name in FREE_FIELDS:
            setattr(config, name, value)
        elif getattr(config, name) != value:
            errors.append(f"model.{name}={value!r} contradicts training.start_from={source}, which has "
                          f"{getattr(config, name)!r}; remove it")  # fmt: skip
    if error := vocabulary_error(model, tokenizer):
        errors.append(f"training.start_from={source}: {error}. Use the model's own tokenizer")
    elif recipe.tokenizer.path and spare_ids(model, tokenizer) and not _has_tokenizer_of(source, tokenizer):
        errors.append(f"training.start_from={source} has a different tokenizer; remove tokenizer.path to use it")
    for kind in ("pad_token_id", "eos_token_id"):
        if getattr(tokenizer, kind) != getattr(config, kind):
            errors.append(
                f"the tokenizer's {kind} is {getattr(tokenizer, kind)}, but that of training.start_from="
                f"{source} is {getattr(config, kind)}"
            )
    limit = config.longest_sequence
    if limit and (recipe.data.max_length or 0) > limit:
        errors.append(
            f"data.max_length={recipe.data.max_length} exceeds the {limit} learned positions of "
            f"training.start_from={source}; lower it"
        )
    try:
        config.validate_architecture()
    except ValueError as error:
        errors.append(f"model: {error}")
    if errors:
        raise InputError.of(errors)
    # Layers read their dropout from the config when they are created.
    if FREE_FIELDS & recipe.model.keys():
        before = model
        model = VaswaniForConditionalGeneration(config)
        model.load_state_dict(before.state_dict())
        model.tie_weights()
        model.generation_config = before.generation_config
    return model.float()


def check_is_model(key: str, source: str, is_start: bool = False) -> None:
    """Refuse what is not a model that can be trained: a checkpoint, an adapter, or a model of another architecture.

    Args:
        key: the recipe's key that names it.
        is_start: whether it is trained itself, so that it may keep its class.

    Raises:
        InputError: if it is one of these.
    """
    folder = Path(source)
    if is_checkpoint(folder):
        raise InputError(
            f"{key}={source} is a checkpoint, which has only weights. To start from it, {finish_hint(folder)}"
        )
    if not (folder / CONFIG_FILE).exists() and (folder / ADAPTER_CONFIG_NAME).exists():
        raise InputError(
            f"{key}={source} is an adapter, not a whole model. Specify its base model, or the model that its run "
            "saves with --merge"
        )
    if is_start and keeps_its_class(source):
        return
    if ((folder / CONFIG_FILE).exists() or not folder.exists()) and not is_own_model(source):
        from ...interop import check_model_type

        named(key, lambda: check_model_type(source))


def read_model(source: str) -> VaswaniForConditionalGeneration:
    """Load a model of this package, or import one of another system.

    Raises:
        InputError: if it cannot be read.
    """
    if not is_own_model(source):
        from ...interop import import_model

        return import_model(source)
    from ...models.model_loading import load_model

    return load_model(VaswaniForConditionalGeneration, source)


def search_settings(arguments: GenerationArguments) -> dict[str, Any]:
    """The model's default search settings, as fields of its `generation_config`."""
    settings = {"num_beams": arguments.num_beams, "max_length_offset": arguments.max_length_offset}
    settings |= {"max_length": None, "max_new_tokens": None}  # a model that training starts from may have them
    if arguments.num_beams == 1:
        # The model that training starts from may have settings for beam search, which greedy search does not accept.
        defaults = GenerationConfig()
        beam_search = ("length_penalty", "early_stopping", "num_return_sequences")
        return {**settings, **{name: getattr(defaults, name) for name in beam_search}}
    penalty = {"length_penalty": arguments.length_penalty, "length_penalty_type": arguments.length_penalty_type}
    return {**settings, **penalty, "early_stopping": arguments.early_stopping}


def drops_layers(config: PreTrainedConfig) -> bool:
    """Whether layers are dropped in training (LayerDrop), so that some parameters get no gradient."""
    return any(config_value(config, f"{side}_layerdrop") for side in ("encoder", "decoder"))
