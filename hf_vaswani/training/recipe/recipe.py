"""The recipe of a run: a YAML file with sections of keys, each of which is also a command-line option.

The keys are declared in `arguments.py`.
"""

import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from ...configuration.keys import Keys, Section, Sections, describe_type, types_of
from ...configuration.name_hints import OTHER_NAMES, hint
from ...configuration.yaml_reader import read_yaml
from ...core.configuration_vaswani import FOREIGN_NAMES, VaswaniConfig
from ...data.augmentation.arguments import AugmentationArguments
from ...data.tokenizers.arguments import OF_ANY_TOKENIZER, TokenizerArguments
from ...errors import InputError, reason
from ...evaluation.score_settings import default_tokenizer
from ...presets import preset_fields
from ..schedule import SCHEDULES
from .arguments import (
    COMPARED,
    HUB_KEYS,
    RERANKER,
    SPLITS,
    TEACHER,
    DataArguments,
    EvaluationArguments,
    GenerationArguments,
    PeftArguments,
    TrainingArguments,
    text_keys,
)
from .bundled_recipes import recipe_file
from .model_arguments import DERIVED_FIELDS, ModelArguments

# In the order in which they are documented.
SECTIONS: dict[str, type[Section]] = {
    cls.section: cls
    for cls in (
        DataArguments, TokenizerArguments, AugmentationArguments, TrainingArguments, PeftArguments,
        GenerationArguments, EvaluationArguments, ModelArguments
    )
}  # fmt: skip
DATASET_KEYS = ("dataset", "dataset_config", "dataset_revision")
# Descriptions of the text, for the model card, which do not apply to any other text.
DESCRIPTION_KEYS = ("name", "license")


class Recipe(BaseModel):
    """Everything about a run. `model` holds the fields of [`VaswaniConfig`] that differ from its defaults."""

    data: DataArguments = Field(default_factory=DataArguments)
    tokenizer: TokenizerArguments = Field(default_factory=TokenizerArguments)
    augmentation: AugmentationArguments = Field(default_factory=AugmentationArguments)
    model: Keys = Field(default_factory=dict)
    training: TrainingArguments = Field(default_factory=TrainingArguments)
    peft: PeftArguments = Field(default_factory=PeftArguments)
    generation: GenerationArguments = Field(default_factory=GenerationArguments)
    evaluation: EvaluationArguments = Field(default_factory=EvaluationArguments)
    file: str | None = Field(default=None, exclude=True)  # the YAML file that it was read from
    # Its keys, except those of the text, if an option replaces the model that they were written for.
    replaceable: frozenset[str] = Field(default=frozenset(), exclude=True)

    def to_dict(self) -> Sections:
        """The sections with plain values, as in the YAML file."""
        return self.model_dump()

    @property
    def model_names(self) -> list[tuple[str, str]]:
        """The models and tokenizers that it trains with, by folder or Hub id, each with the key that names it."""
        named = [("tokenizer.path", self.tokenizer.path), ("training.start_from", self.training.start_from)]
        return [(key, name) for key, name in named if name] + [(TEACHER, name) for name in self.training.teachers]

    @property
    def scoring_model_names(self) -> list[tuple[str, str]]:
        """The same of models that only take part in scoring what it made."""
        reranker, compared = self.evaluation.rerank_with, self.evaluation.compared
        return [(RERANKER, reranker)] * bool(reranker) + [(COMPARED, name) for name in compared]

    @property
    def tokenizer_source(self) -> str | None:
        """The key and value that name an existing tokenizer; `None` if a new one is learned."""
        if self.tokenizer.path:
            return f"tokenizer.path={self.tokenizer.path}"
        return f"training.start_from={self.training.start_from}" if self.training.start_from else None

    def validate(self) -> list[str]:
        """Errors for keys that conflict, although each is valid by itself, one line each."""
        sections = (self.data, self.tokenizer, self.training, self.augmentation)
        errors = self._data_errors() + [error for section in sections for error in section.validate()]
        return errors + self._tokenizer_errors() + self._peft_errors() + self._model_errors()

    def _data_errors(self) -> list[str]:
        data, training, errors = self.data, self.training, []
        if data.streaming and training.keep_languages:
            errors.append(
                f"training.keep_languages={training.keep_languages} needs the characters of all pairs, unlike "
                "data.streaming: choose one"
            )
        if not (data.streaming and (data.max_length or 0) > training.max_tokens):
            return errors
        return [
            *errors,
            f"data.max_length={data.max_length} allows sentences that do not fit in a batch of training.max_tokens="
            f"{training.max_tokens}, and a stream cannot be checked in advance: lower the former or raise the latter",
        ]

    def _tokenizer_errors(self) -> list[str]:
        """Conflicts between the tokenizer, what changes its text, and what needs a certain vocabulary."""
        tokenizer, training, errors = self.tokenizer, self.training, []
        is_new = not self.tokenizer_source  # an existing one is checked when it is read
        for name, markers in zip(("vocab_size", "target_vocab_size"), self.augmentation.markers):
            size = getattr(tokenizer, name)
            if is_new and size and size < 2 * len(markers):
                errors.append(
                    f"tokenizer.{name}={size} has no room for the {len(markers)} tokens of augmentation: raise it"
                )
        # The keys because of which text is tokenized again in each epoch.
        changing = {"data.streaming": self.data.streaming, "tokenizer.bpe_dropout": tokenizer.bpe_dropout}
        changing |= {f"augmentation.{name}": share for name, share in self.augmentation.shares.items()}
        errors += [
            f"training.distill_top_k={training.distill_top_k} needs text that is tokenized once, but {key}={value} "
            "tokenizes it again in each epoch: choose one"
            for key, value in changing.items()
            if training.distill_top_k and value
        ]
        if training.teachers and is_new:
            errors.append(
                f"training.distill_from={training.teachers[0]} needs a run with the same vocabulary: set "
                f"tokenizer.path={training.teachers[0]}, or start from a model that has it (training.start_from)"
            )
        return errors

    def _peft_errors(self) -> list[str]:
        """Conflicts between an adapter and the rest of the run."""
        peft, training, errors = self.peft, self.training, []
        if peft.is_used and not training.start_from:
            errors.append(f"peft.r={peft.r} needs a model to fine-tune: training.start_from")
        for key in ("add_language", "keep_languages"):
            if peft.is_used and not peft.merge and (value := getattr(training, key)):
                errors.append(
                    f"training.{key}={value!r} changes the model that the adapter would be loaded on: set peft.merge: "
                    "true"
                )
        if peft.is_used and training.freeze:
            errors.append(
                f"training.freeze={training.freeze} has no effect with peft.r={peft.r}, which freezes the whole "
                "model: remove it, and choose modules with peft.target_modules"
            )
        return errors

    def _model_errors(self) -> list[str]:
        """What is wrong with a new model's architecture."""
        data, tokenizer, model, training = self.data, self.tokenizer, self.model, self.training
        if training.start_from:
            return []  # checked when that model is read
        if not tokenizer.joint and model.get("share_encoder_decoder_embeddings"):
            return ["tokenizer.joint=False contradicts model.share_encoder_decoder_embeddings=True: choose one"]
        try:
            config = VaswaniConfig(**model)
        except Exception as error:  # whatever the strict dataclass raises, the recipe is invalid
            return [f"model: {reason(error)}"]
        limit = config.longest_sequence
        if limit and (data.max_length or 0) > limit:
            return [
                f"data.max_length={data.max_length} exceeds model.max_position_embeddings={limit}, the number of "
                "learned positions; lower the former or raise the latter"
            ]
        return []


def load_recipe(path: str | Path, options: list[str] | None = None) -> Recipe:
    """Read a recipe and apply the command line's options to it.

    Args:
        path: a YAML file, or the name of a recipe that comes with the package: `"quickstart"`.
        options: `["--training.max_steps", "100", "--d_model=64"]`; the section may be left out. Some
            replace further keys, such as a dataset the files of another one.

    Raises:
        InputError: for all errors together: unknown keys, with the most similar known one, invalid values, and values
            that conflict.
    """
    values, errors = _read_yaml(recipe_file(path))
    given = parse_options(options or [], errors)
    apply_options(values, given)
    recipe, found = make_recipe(values, str(path))
    errors += found
    if "start_from" in _not_null(given).get("training", {}):
        recipe.replaceable = frozenset(
            f"{section}.{name}"
            for section, keys in values.items()
            for name in keys
            if section != "data" and name not in given.get(section, {})
        )
    without_effect = sorted(_not_null(given).get("tokenizer", {}).keys() - OF_ANY_TOKENIZER)
    if recipe.tokenizer_source and without_effect:
        names = ", ".join(f"--{name}" for name in without_effect)
        what = "this option" if len(without_effect) == 1 else "these options"
        errors.append(f"{names}: the tokenizer of {recipe.tokenizer_source} is used as it is; remove {what}")
    if not recipe.training.push_to_hub and (of_hub := hub_options(_not_null(given).get("training", {}))):
        errors.append(f"{of_hub}: no effect without --push_to_hub true")
    if errors:
        raise InputError.of(errors)
    return recipe


def make_recipe(values: Sections, path: str) -> tuple[Recipe, list[str]]:
    """Make a recipe from the values of its keys, and list what is wrong with them.

    Args:
        values: by section; changed in place.
        path: the path of the file.
    """
    add_implied(values)
    typed, invalid = _checked(values)
    errors = list(invalid.values())
    model = _expand_preset(typed.pop("model"), errors)
    # Not validated again: values out of bounds stay in, so that all contradictions are reported together.
    sections = {section: SECTIONS[section].model_construct(**keys) for section, keys in typed.items()}
    recipe = Recipe.model_construct(**sections, model=model, file=path)
    if not recipe.data.has_directions:  # each target language has its own
        recipe.evaluation.tokenize = recipe.evaluation.tokenize or default_tokenizer(recipe.data.text_languages[1])
    if not recipe.tokenizer.joint and not recipe.training.start_from:
        model.setdefault("share_encoder_decoder_embeddings", False)
    if "peft" in values and "r" not in values["peft"]:
        errors.append("peft.r is missing: the rank of the adapter, such as 8; null for none")
    found = recipe.validate()
    return recipe, errors + [error for error in found if error.partition(" ")[0] not in invalid]


def apply_options(values: Sections, given: dict[str, dict[str, str]]) -> None:
    """Apply options to the values of a file, and remove what they replace.

    Args:
        values: by section; changed in place.
        given: section → key → text.
    """
    remove_replaced(values, _not_null(given))
    for section, texts in given.items():
        keys = SECTIONS[section].model_fields
        values.setdefault(section, {}).update({name: option_value(text, keys[name]) for name, text in texts.items()})


def _not_null(given: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {s: {name: text for name, text in texts.items() if text != "null"} for s, texts in given.items()}


def hub_options(options: Iterable[str]) -> str:
    """The options about uploads to the Hub among the given ones, as a comma-separated list."""
    return ", ".join(f"--{name}" for name in sorted(options) if name in HUB_KEYS)


def value_errors(recipe: Sections) -> list[str]:
    """What is wrong with the values of a stored recipe."""
    return list(_checked({section: recipe.get(section, {}) for section in SECTIONS})[1].values())


def load_data(path: str | Path) -> DataArguments:
    """The section `data` of a recipe, which may lack anything that only training needs.

    Raises:
        InputError: for all unknown keys and invalid values together.
    """
    values, errors = _read_yaml(recipe_file(path))
    typed, wrong = DataArguments.checked(values.get("data", {}))
    if errors := errors + list(wrong.values()):
        raise InputError.of(errors)
    return DataArguments(**typed)


def section_from_options(section: str, options: dict[str, str]) -> Any:
    """The arguments of one section from its command-line options, for commands that use only that section.

    Raises:
        InputError: for all invalid values together.
    """
    keys = SECTIONS[section].model_fields
    errors = [f"--{name} is empty; use null for no value" for name, text in options.items() if text == ""]
    values = {name: option_value(text, keys[name]) for name, text in options.items()}
    typed, wrong = SECTIONS[section].checked(values)
    errors += wrong.values()
    if errors:
        raise InputError.of(errors)
    return SECTIONS[section](**typed)


def _expand_preset(model: Keys, errors: list[str]) -> Keys:
    """The fields of the preset named by `model.preset`, overridden by those that the recipe sets."""
    fields = {name: value for name, value in model.items() if name != "preset"}
    if model.get("preset") is None:
        return fields
    try:
        named = preset_fields(model["preset"])
    except InputError as error:
        errors.append(f"model.preset: {error}")
        return fields
    return {**{name: value for name, value in named.items() if name not in DERIVED_FIELDS}, **fields}


def recipe_keys() -> dict[str, dict[str, FieldInfo]]:
    """Section → key → its declaration."""
    return {name: cls.model_fields for name, cls in SECTIONS.items()}


def _read_yaml(path: Path) -> tuple[Sections, list[str]]:
    """A file's values of known keys, and errors about unknown keys."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}. Choose another file.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a YAML file: {reason(error)}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} must contain the sections {', '.join(recipe_keys())}, each with its keys.")
    keys, errors, values = recipe_keys(), [], {}
    for section, entries in content.items():
        if section not in keys:
            errors.append(f"{path}: unknown section '{section}'{_nearest(section, {key: key for key in keys})}")
        elif not isinstance(entries or {}, dict):
            errors.append(f"{path}: section '{section}' must contain keys and values, not {entries!r}")
        else:
            entries = entries or {}
            errors += [
                f"{path}: unknown key '{section}.{name}'{_nearest(name, _all_names(section))}"
                for name in entries
                if name not in keys[section]
            ]
            values[section] = {name: value for name, value in entries.items() if name in keys[section]}
    return values, errors


def parse_options(options: list[str], errors: list[str]) -> dict[str, dict[str, str]]:
    """Parse `--a.b value`, `--b=value` and `--flag` into section → key → text.

    Args:
        errors: the list to which errors are added.
    """
    if not isinstance(options, list | tuple) or not all(isinstance(option, str) for option in options):
        raise ValueError(f"options must be a list of strings, as on the command line, got {options!r}")
    parsed: dict[str, dict[str, str]] = {}
    rest = list(options)
    while rest:
        option = rest.pop(0)
        if not option.startswith("--"):
            errors.append(f"'{option}' is not an option: options are written --key value")
            continue
        name, has_value, text = option[2:].partition("=")
        if not has_value:
            text = rest.pop(0) if rest and not rest[0].startswith("--") else None
        name = name.replace("-", "_")
        if section := section_of(name, errors):
            bare = name.rpartition(".")[2]
            key = SECTIONS[section].model_fields[bare]
            if text is None and bool not in types_of(key):
                errors.append(f"--{name} needs a value: {describe_type(key)}")
            elif text == "":
                errors.append(f"--{name} is empty; use null for no value")
            else:
                parsed.setdefault(section, {})[bare] = text or "true"
    return parsed


def option_value(text: str, key: FieldInfo) -> Any:
    """An option's text as a YAML value, or as it was typed if the key takes text."""
    types = types_of(key)
    if text == "null":
        return None
    if list[str] in types and not text.startswith("["):
        return [item.strip() for item in text.split(",")]
    if str in types and not (text[:1] == "[" and list[str] in types or text[:1] in ("[", "{") and dict in types):
        return text
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return text


def section_of(name: str, errors: list[str]) -> str | None:
    """The section of a key, given with or without it; if there is no single such key, `None` and one more error."""
    section, _, bare = name.rpartition(".")
    keys = recipe_keys()
    if section in keys and bare in keys[section]:
        return section
    homes = [s for s in keys if bare in keys[s]] if not section else []
    if len(homes) == 1:
        return homes[0]
    if homes:
        errors.append(f"--{name} is in several sections; specify one: {', '.join(f'--{s}.{name}' for s in homes)}")
    else:
        errors.append(f"--{name}: unknown key{_nearest(name, _all_names())}")
    return None


def _all_names(section: str | None = None) -> dict[str, str]:
    """Names to compare with → how to suggest each: for a recipe's section, with the section if it is another one."""
    keys = recipe_keys()
    dotted = {f"{s}.{n}": f"{s}.{n}" for s in keys for n in keys[s]}
    bare = {n: f"{s}.{n}" if section else n for s in keys for n in keys[s]}
    return dotted | bare | {n: n for n in keys.get(section, [])}


def _nearest(name: str, names: typing.Mapping[str, str]) -> str:
    found = hint(str(name), names, OTHER_NAMES | FOREIGN_NAMES)
    return f"; {found or 'hf-vaswani train --help lists all keys'}"


def _checked(values: Sections) -> tuple[Sections, dict[str, str]]:
    """The values by section, converted to their types, and `section.key` → error."""
    checked, errors = {}, {}
    for section, cls in SECTIONS.items():
        checked[section], wrong = cls.checked(values.get(section, {}))
        errors |= {f"{section}.{name}": error for name, error in wrong.items()}
    return checked, errors


def remove_replaced(values: Sections, options: dict[str, dict[str, str]]) -> None:
    """Remove the values of a file that the options on the command line replace.

    Args:
        values: the file's values by section; changed in place.
        options: section → key → text of the options, without those that are null.
    """
    if "preset" in options.get("model", ()) or "start_from" in options.get("training", ()):
        values["model"] = {}
    _remove_from_training(values.get("training", {}), options.get("training", {}))
    given, replaced = options.get("data", {}).keys(), set()
    if "dataset" in given:
        replaced |= {*DATASET_KEYS, *DESCRIPTION_KEYS, *(name for split in SPLITS for name in text_keys(split))}
    elif any(given & set(text_keys(split)) for split in SPLITS):
        replaced |= {*DATASET_KEYS, *DESCRIPTION_KEYS, *(f"{split}_split" for split in SPLITS)}
    for split in SPLITS:
        both, *sides = text_keys(split)
        if both in given:
            replaced |= {*sides, f"{split}_share"}
        if given & {*sides, f"{split}_split"}:
            replaced |= {both, f"{split}_share"}
        if f"{split}_share" in given:
            replaced |= {both, *sides, f"{split}_split"}
    if "max_length" in given:
        replaced.add("max_length_coverage")
    if "max_length_coverage" in given:
        replaced.add("max_length")
    for name in replaced:
        values.get("data", {}).pop(name, None)


def _remove_from_training(values: Keys, options: dict[str, str]) -> None:
    """Remove a learning rate meant for another kind of schedule, and the file's choice of final weights."""
    replaced, default = set(), TrainingArguments.model_fields["lr_scheduler_type"].default
    schedule = values.get("lr_scheduler_type", default)
    before, now = (SCHEDULES.get(str(name)) for name in (schedule, options.get("lr_scheduler_type", schedule)))
    if before and now and (before.default_peak is None) != (now.default_peak is None):
        replaced.add("learning_rate")
    if options.keys() & {"average", "average_last"}:
        replaced.add("average")
    for name in replaced:
        values.pop(name, None)


def add_implied(values: Sections) -> None:
    """Set what the given keys imply: which weights are averaged, and null for defaults that they replace."""
    data, training = values.get("data", {}), values.get("training", {})
    for name, default in (
        ("validation_share", "validation_split"),
        ("test_share", "test_split"),
        ("max_length_coverage", "max_length"),
    ):
        if data.get(name) is not None:
            data.setdefault(default, None)
    if training.get("average_last") is not None:
        training.setdefault("average", "last")
