"""Whether models that stages will make fit together in an ensemble or an average, found before any stage runs."""

from collections.abc import Mapping
from typing import Any

import torch

from ...core.configuration_vaswani import VaswaniConfig
from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...errors import InputError
from ...text.vocabularies import vocabularies
from ..checkpoints.average import MEANINGS
from ..recipe.recipe import Recipe
from ..setup.text_mix import OWN, REVERSED
from ..setup.tokenizer_and_model import FREE_FIELDS, tokenizer_of
from .arguments import AVERAGE, TRAIN, Stage
from .order import needs
from .record import settings_of

# Keys that decide which pairs a vocabulary is learned from, besides those of the training text and of its filters.
OF_PAIRS = ("source_column", "target_column", "header", "source_language", "target_language")
OF_SPLIT = ("validation_share", "test_share", "split_seed")


def together_errors(stage: Stage, stages: Mapping[str, Stage]) -> list[str]:
    """Errors for models of stages that cannot translate together, or whose weights cannot be averaged.

    Args:
        stage: one that translates or averages.
        stages: all stages of the recipe, without cycles.
    """
    names = [name for name in stage.arguments.models if name in stages]
    learned = {name: found for name in names if not isinstance(found := _vocabulary(name, stages), str)}
    # Those that exist already, by the name of the stage or model that has them.
    existing = {name: _vocabulary(name, stages) if name in stages else name for name in stage.arguments.models}
    existing = {name: place for name, place in existing.items() if name not in learned}
    first, other = next(iter(learned), ""), next(iter(existing), "")
    errors = [
        f"stages '{name}' and '{first}' learn vocabularies from different text, or with different settings. Set "
        f"tokenizer.path: {first} in stage '{name}', or in the stage that it starts from"
        for name, vocabulary in learned.items()
        if vocabulary != learned[first]
    ]
    if learned and existing:
        errors.append(
            f"stage '{first}' learns a vocabulary, but that of '{other}' exists already. Set tokenizer.path: "
            f"{existing[other]} in stage '{first}', or in the stage that it starts from"
        )
    errors += [
        f"'{name}' has a different vocabulary from '{other}'. Use the same tokenizer.path, or other models"
        for name, place in existing.items()
        if not _is_same_vocabulary(place, existing[other])
    ]
    if stage.kind == AVERAGE:
        errors += [
            f"stage '{name}' trains an adapter. {remedy}"
            for name in names
            if (remedy := _adapter_remedy(stages[name], stage.arguments.is_of_checkpoints))
        ]
        errors += _architecture_errors({name: _architecture(name, stages) for name in names})
    return [f"{stage.kind}.{'models' if stage.kind == AVERAGE else 'model'}: {error}" for error in errors]


def errors_of_models_used(recipe: Recipe, stages: Mapping[str, Stage]) -> list[str]:
    """Errors for models of stages that a training run cannot start from, or cannot distill.

    Args:
        recipe: of the run, with stages by name.
        stages: all stages of the recipe, without cycles.
    """
    return start_errors(recipe, stages) + word_teacher_errors(recipe, stages)


def start_errors(recipe: Recipe, stages: Mapping[str, Stage]) -> list[str]:
    """Errors for a stage that a training run cannot start from. Arguments as in [`errors_of_models_used`]."""
    name = recipe.training.start_from
    if not name or name not in stages:
        return []
    if remedy := _adapter_remedy(stages[name], False):
        return [f"training.start_from: stage '{name}' trains an adapter. {remedy}"]
    model = _architecture(name, stages)
    config = None if model is None else _config(model)
    if config is None:
        return []
    return [
        f"model.{key}={value!r} contradicts training.start_from: stage '{name}' has {getattr(config, key)!r}; remove "
        "it, or set it in both"
        for key, value in recipe.model.items()
        if key not in FREE_FIELDS and getattr(config, key) != value
    ]


def word_teacher_errors(recipe: Recipe, stages: Mapping[str, Stage]) -> list[str]:
    """Errors for models that a training run cannot distill word by word, as far as stages make the models or the run's
    vocabulary.

    Args:
        recipe: of the run, with stages by name.
        stages: all stages of the recipe, without cycles.
    """
    errors, own = [], vocabulary_of(recipe, stages)
    for name in recipe.training.teachers:
        vocabulary = _vocabulary(name, stages) if name in stages else name
        if not _is_same_vocabulary(vocabulary, own):
            errors.append(
                f"'{name}' has a different vocabulary from the run's. Set tokenizer.path: {name} in the run, or in "
                "the stage that it starts from, or the same tokenizer.path in both"
            )
        if name not in stages:
            continue
        if remedy := _adapter_remedy(stages[name], False):
            errors.append(f"stage '{name}' trains an adapter. {remedy}")
        model = _architecture(name, stages)
        config = _config(model) if model else None
        limit = config.longest_sequence if config else None
        if limit and (recipe.data.max_length or 0) > limit:
            errors.append(
                f"stage '{name}' has {limit} learned positions, fewer than data.max_length={recipe.data.max_length}; "
                "lower that"
            )
    return [f"training.distill_from: {error}" for error in errors]


def _is_same_vocabulary(one: Any, other: Any) -> bool:
    """Whether two results of [`vocabulary_of`] stand for the same tokens with the same ids."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return one == other
    try:
        return one == other or vocabularies(tokenizer_of(one)) == vocabularies(tokenizer_of(other))
    except InputError:  # reported when the run is checked
        return True


def _architecture_errors(models: dict[str, dict[str, Any] | None]) -> list[str]:
    """Errors for architectures with other weights than the first.

    Args:
        models: stage → its values of the section `model`; `None` if it starts from a model that no stage makes.
    """
    known = {name: model for name, model in models.items() if model is not None and _config(model)}
    weights = {
        name: [_shapes(model), [getattr(_config(model), key) for key in MEANINGS]] for name, model in known.items()
    }
    first = next(iter(known), "")
    errors = []
    for name, model in known.items():
        if weights[name] != weights[first]:
            keys = [key for key in {**known[first], **model} if key not in FREE_FIELDS]
            differ = ", ".join(f"model.{key}" for key in keys if model.get(key) != known[first].get(key))
            errors.append(
                f"stages '{name}' and '{first}' have different architectures: {differ} must be the same in both"
            )
    return errors


def _vocabulary(name: str, stages: Mapping[str, Stage]) -> Any:
    """What determines the vocabulary of the model that a stage makes."""
    stage = stages[name]
    if stage.kind == TRAIN:
        return vocabulary_of(stage.arguments, stages)
    first = stage.arguments.models[0]
    return _vocabulary(first, stages) if first in stages else first


def vocabulary_of(recipe: Recipe, stages: Mapping[str, Stage]) -> Any:
    """What determines the vocabulary of the model that a training run makes: the path or Hub id of one that exists, or
    all that it is learned from.

    Args:
        recipe: of the run, with stages by name.
    """
    place = recipe.tokenizer.path or recipe.training.start_from
    if place:
        return _vocabulary(place, stages) if place in stages else place
    settings = recipe.tokenizer.model_dump(exclude={"path", "bpe_dropout"})
    # With one vocabulary for both languages, the direction makes no difference. But with both directions, all words
    # are counted twice, so that fewer are too rare.
    counts_matter = recipe.tokenizer.min_frequency != 1 and OWN in (recipe.data.text or [OWN])
    turned = {REVERSED} if recipe.tokenizer.joint and not counts_matter else set()
    text = sorted(set(recipe.data.text or [OWN]) - turned)
    made = [_made_by(name, stages) for name in text if name in stages]
    keys = recipe.data.model_dump()
    is_split = recipe.data.validation_share or recipe.data.test_share
    own = {
        key: value
        for key, value in keys.items()
        if key.startswith(("train", "dataset", "drop_")) or key in OF_PAIRS or (is_split and key in OF_SPLIT)
    }
    return settings, text, made, own, recipe.data.reversed and not recipe.tokenizer.joint


def _made_by(name: str, stages: Mapping[str, Stage]) -> Any:
    """What determines what a stage makes, apart from files and models that no stage makes."""
    stage = stages[name]
    return settings_of(stage), [_made_by(other, stages) for other in needs(stage.kind, stage.arguments, stages)]


def _architecture(name: str, stages: Mapping[str, Stage]) -> dict[str, Any] | None:
    """The section `model` of the model that a stage makes; `None` if it starts from a model that no stage makes."""
    stage = stages[name]
    place = stage.arguments.models[0] if stage.kind == AVERAGE else stage.arguments.training.start_from
    own = {} if stage.kind == AVERAGE else stage.arguments.model
    if not place:
        return own
    before = _architecture(place, stages) if place in stages else None
    return None if before is None else {**before, **own}


def _adapter_remedy(stage: Stage, of_checkpoints: bool) -> str | None:
    """What to do about a stage that leaves an adapter where a model is needed; `None` if it leaves a model."""
    if stage.kind != TRAIN or not stage.arguments.peft.is_used:
        return None
    if of_checkpoints:
        return "Average its final model, without average.last and average.best, and set peft.merge: true in it"
    return None if stage.arguments.peft.merge else "Set peft.merge: true in it, or leave it out"


def _config(model: dict[str, Any]) -> VaswaniConfig | None:
    """The config of a section `model`; `None` if its values contradict each other, which is reported elsewhere."""
    try:
        return VaswaniConfig(**model)
    except ValueError:
        return None


def _shapes(model: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's weights by name, with some vocabulary, whether shared or not."""
    model = {key: value for key, value in model.items() if key != "share_encoder_decoder_embeddings"}
    with torch.device("meta"):
        weights = VaswaniForConditionalGeneration(VaswaniConfig(**model)).state_dict()
    return {name: tuple(weight.shape) for name, weight in weights.items()}
