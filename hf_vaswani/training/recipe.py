"""The recipe of a training: a YAML file with a section for each part of the work, any key of it also an option.

Every key is a field below, with its meaning in its metadata; the command's help is made from these.
"""

import dataclasses
import difflib
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from ..configuration_vaswani import VaswaniConfig
from ..data.arguments import TokenizerArguments, key, tokenizer_faults
from ..errors import InputError
from ..presets import preset_fields


@dataclass
class DataArguments:
    """Where the parallel text comes from."""

    dataset: Literal["embedded"] | None = key(None, "'embedded': the German–English corpus made by this package")
    source_language: str | None = key(None, "code of the source language, for the model card: de")
    target_language: str | None = key(None, "code of the target language")
    train_source: str | None = key(None, "file of training sentences, one a line")
    train_target: str | None = key(None, "file of their translations, line by line")
    validation_source: str | None = key(None, "file of validation sentences")
    validation_target: str | None = key(None, "file of their translations")
    test_source: str | None = key(None, "file of test sentences, optional")
    test_target: str | None = key(None, "file of their translations")
    max_length: int = key(256, "training pairs with more tokens on a side are left out")


@dataclass
class TrainingArguments:
    """Optimisation (section 5.3 of the paper), length of training, checkpoints."""

    output_dir: str | None = key(None, "folder of checkpoints, log and final model")
    seed: int = key(1, "of initialisation, order and dropout")
    max_updates: int = key(100_000, "optimiser steps")
    max_minutes: float | None = key(None, "stop after so many minutes of training, and finish as usual")
    max_tokens: int = key(4096, "tokens of padded source, and of padded target, in a forward pass on a device")
    max_sentences: int | None = key(None, "most pairs in a forward pass")
    accumulation: int = key(1, "forward passes an update, on each device")
    schedule: Literal["paper", "inverse_sqrt", "linear", "cosine", "constant"] = key(
        "paper", "of the learning rate; 'paper' is equation 3"
    )
    learning_rate: float = key(1.0, "highest rate; for schedule 'paper', a factor on equation 3")
    warmup_updates: int = key(4000, "updates of linear warm-up")
    adam_betas: list[float] = key([0.9, 0.98], "decay of Adam's running means")
    adam_eps: float = key(1e-9, "Adam's epsilon")
    weight_decay: float = key(0.0, "decoupled weight decay (AdamW)")
    max_grad_norm: float | None = key(None, "clip the gradient to this norm")
    mixed_precision: Literal["no", "fp16", "bf16"] | None = key(None, "default: what accelerate launch says")
    cpu_threads: int | None = key(None, "threads of each process on a CPU; default: the cores, shared fairly")
    gradient_checkpointing: bool = key(False, "recompute activations in the backward pass to save memory")
    log_every: int = key(50, "updates between lines of the log")
    validate_every: int = key(500, "updates between validations")
    validate_sentences: int = key(200, "validation sentences translated for BLEU, greedily; 0 for none")
    save_every: int = key(500, "updates between checkpoints")
    keep_last: int = key(5, "checkpoints kept")
    average_last: int = key(5, "the final model is the mean of so many last checkpoints (section 6.1)")
    overwrite: bool = key(False, "delete an earlier training in output_dir and start anew")


@dataclass
class GenerationArguments:
    """How the trained model translates, stored in its `generation_config.json` (section 6.1)."""

    num_beams: int = key(4, "hypotheses followed at once; 1 is greedy search")
    length_penalty: float = key(0.6, "exponent of the hypothesis' length that divides its log-probability")


@dataclass
class Recipe:
    """All of a training. `model` holds any field of [`VaswaniConfig`]."""

    data: DataArguments = field(default_factory=DataArguments)
    tokenizer: TokenizerArguments = field(default_factory=TokenizerArguments)
    model: dict[str, Any] = field(default_factory=dict)
    training: TrainingArguments = field(default_factory=TrainingArguments)
    generation: GenerationArguments = field(default_factory=GenerationArguments)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values, as in the YAML file."""
        return dataclasses.asdict(self)


SECTIONS = {
    "data": DataArguments,
    "tokenizer": TokenizerArguments,
    "training": TrainingArguments,
    "generation": GenerationArguments,
}
# Set from the tokenizer, or by the package, not by hand.
SET_ELSEWHERE = {
    "vocab_size", "decoder_vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
    "format_version",
}  # fmt: skip
AT_LEAST_ONE = {
    "max_length": "data",
    "max_updates": "training",
    "max_tokens": "training",
    "max_sentences": "training",
    "accumulation": "training",
    "warmup_updates": "training",
    "cpu_threads": "training",
    "log_every": "training",
    "validate_every": "training",
    "save_every": "training",
    "keep_last": "training",
    "average_last": "training",
    "num_beams": "generation",
}


def load_recipe(path: str | Path, options: list[str] | None = None) -> Recipe:
    """Read a recipe and lay the command line's options over it.

    Args:
        path: a YAML file.
        options: `["--training.max_updates", "100", "--d_model=64"]`; the section may be left out.

    Raises:
        InputError: all faults at once: unknown keys, with the nearest right one, and values of the wrong kind.
    """
    values, faults = _read_yaml(Path(path))
    given = _parse_options(options or [], faults)
    if any(name in ("preset", "model.preset") and text != "null" for name, text in given):
        values["model"] = {}  # a preset is a whole architecture: the file's own would undo it
    for name, text in given:
        section = _section_of(name, faults)
        if section:
            key_name = name.rpartition(".")[2]
            values.setdefault(section, {})[key_name] = _option_value(text, recipe_keys()[section][key_name])
    typed = _typed(values, faults)
    typed["model"] = _expand_preset(typed["model"], faults)
    faults += _contradictions(typed)
    if faults:
        raise InputError.of(faults)
    return Recipe(model=typed["model"], **{name: cls(**typed[name]) for name, cls in SECTIONS.items()})


def section_from_options(section: str, options: dict[str, str]) -> Any:
    """The arguments of one section from texts of the command line, for commands that need no more of a recipe.

    Raises:
        InputError: all values of the wrong kind at once.
    """
    kinds, faults = recipe_keys()[section], []
    values = {name: _option_value(text, kinds[name]) for name, text in options.items()}
    typed = _typed({section: values}, faults)
    if faults:
        raise InputError.of(faults)
    return SECTIONS[section](**typed[section])


def _expand_preset(model: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    """The fields of the preset that `model.preset` names, under those that the recipe sets itself."""
    fields = {name: value for name, value in model.items() if name != "preset"}
    if model.get("preset") is None:
        return fields
    try:
        named = preset_fields(model["preset"])
    except InputError as error:
        faults.append(f"model.preset: {error}")
        return fields
    return {**{name: value for name, value in named.items() if name not in SET_ELSEWHERE}, **fields}


def model_keys() -> dict[str, Any]:
    """Fields of VaswaniConfig that a recipe may set, with their types, and the preset to start from."""
    from transformers import PreTrainedConfig

    inherited = {f.name for f in dataclasses.fields(PreTrainedConfig)}
    fields = [field for field in dataclasses.fields(VaswaniConfig) if field.name not in inherited | SET_ELSEWHERE]
    return {"preset": str | None, **{field.name: field.type for field in fields}}


def recipe_keys() -> dict[str, dict[str, Any]]:
    """Section → key → type, for the whole recipe."""
    keys = {name: typing.get_type_hints(cls) for name, cls in SECTIONS.items()}
    return {**keys, "model": model_keys()}


def describe_keys() -> str:
    """All keys with defaults and meanings, for the command's help."""
    lines = ["recipe keys, each also an option (--max_updates 1000 or --training.max_updates 1000):"]
    for section, cls in SECTIONS.items():
        lines.append(f"\n{section}: {cls.__doc__}")
        for item in dataclasses.fields(cls):
            default = item.default if item.default is not dataclasses.MISSING else item.default_factory()
            lines.append(f"  {item.name:22} {item.metadata['help']} (default: {default})")
    defaults = {f.name: f.default for f in dataclasses.fields(VaswaniConfig)} | {"preset": "none; see README.md"}
    lines.append("\nmodel: the architecture; see VaswaniConfig for the meaning of each key.")
    lines += [f"  {name:33} (default: {defaults[name]})" for name in model_keys()]
    return "\n".join(lines)


def _read_yaml(path: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    if not path.is_file():
        raise InputError(f"{path} does not exist. Give the path of a recipe, a YAML file.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a YAML file: {' '.join(str(error).split())}") from None
    keys, faults, values = recipe_keys(), [], {}
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold the sections {', '.join(keys)}, each with its keys.")
    for section, entries in content.items():
        if section not in keys:
            faults.append(f"{path}: unknown section '{section}'{_nearest(section, keys)}")
        elif not isinstance(entries or {}, dict):
            faults.append(f"{path}: section '{section}' must hold keys and values, not {entries!r}")
        else:
            unknown = [name for name in entries or {} if name not in keys[section]]
            faults += [
                f"{path}: unknown key '{section}.{name}'{_nearest(name, _all_names(section))}" for name in unknown
            ]
            values[section] = {n: v for n, v in (entries or {}).items() if n in keys[section]}
    return values, faults


def _parse_options(options: list[str], faults: list[str]) -> list[tuple[str, str]]:
    """`--a.b value`, `--b=value` and `--flag` → names and texts."""
    parsed, rest = [], list(options)
    while rest:
        option = rest.pop(0)
        if not option.startswith("--"):
            faults.append(f"'{option}' is no option: options are written --key value")
            continue
        name, has_value, value = option[2:].partition("=")
        if not has_value:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        parsed.append((name.replace("-", "_"), value))
    return parsed


def _option_value(text: str, kind: Any) -> Any:
    """An option's text as the value that YAML reads in it; where text is wanted, it stays as it was typed."""
    if text == "null":
        return None
    if kind is str or str in typing.get_args(kind):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _section_of(name: str, faults: list[str]) -> str | None:
    section, _, bare = name.rpartition(".")
    keys = recipe_keys()
    if section in keys and bare in keys[section]:
        return section
    homes = [s for s in keys if bare in keys[s]] if not section else []
    if len(homes) == 1:
        return homes[0]
    faults.append(f"--{name}: unknown key{_nearest(name, _all_names())}")
    return None


def _all_names(section: str | None = None) -> list[str]:
    """Names to suggest: those of a section first written bare, then all with their section."""
    keys = recipe_keys()
    return [
        *keys.get(section, []),
        *(n for s in keys for n in keys[s]),
        *(f"{s}.{n}" for s in keys for n in keys[s]),
    ]


def _nearest(name: str, names: typing.Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else "; see --help for all keys"


def _typed(values: dict[str, dict[str, Any]], faults: list[str]) -> dict[str, dict[str, Any]]:
    typed: dict[str, dict[str, Any]] = {}
    for section, types_ in recipe_keys().items():
        typed[section] = {}
        for name, value in values.get(section, {}).items():
            try:
                typed[section][name] = coerce(value, types_[name])
            except (TypeError, ValueError):
                quote = (
                    "; put it in quotes" if isinstance(value, bool) and str in typing.get_args(types_[name]) else ""
                )
                faults.append(f"{section}.{name} must be {_describe(types_[name])}, got {value!r}{quote}")
    return typed


def coerce(value: Any, kind: Any) -> Any:
    """`value` as `kind`; YAML reads 1e-9 as text and 1 where a float is meant.

    Raises:
        TypeError, ValueError: where it is not of that kind.
    """
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        for choice in sorted(choices, key=lambda c: c is str):
            try:
                return coerce(value, choice)
            except (TypeError, ValueError):
                continue
        raise TypeError
    if origin is Literal:
        # YAML reads a bare no as False.
        value = "no" if value is False and "no" in choices else value
        if value not in choices:
            raise ValueError
        return value
    if origin is list:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return [coerce(item, choices[0]) for item in value]
    if kind is float and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is str and not isinstance(value, (dict, list, bool)) and value is not None:
        return str(value)
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise TypeError


def _describe(kind: Any) -> str:
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, choices))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(choice) for choice in choices)
    if origin is list:
        return f"a list of {_describe(choices[0])}"
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    return names.get(kind, str(kind))


def _contradictions(typed: dict[str, dict[str, Any]]) -> list[str]:
    """What is wrong between keys, or with a value that has the right type."""
    faults = []
    data, training = DataArguments(**typed["data"]), TrainingArguments(**typed["training"])
    if not training.output_dir:
        faults.append("training.output_dir is missing: the folder of checkpoints and final model")
    files = {f: getattr(data, f) for f in DataArguments.__dataclass_fields__ if f.endswith(("_source", "_target"))}
    if data.dataset and any(files.values()):
        given = ", ".join(f"data.{name}" for name, value in files.items() if value)
        faults.append(f"data.dataset='{data.dataset}' and {given} are both given; choose one")
    if not data.dataset:
        for split in ("train", "validation", "test"):
            sides = [f"{split}_source", f"{split}_target"]
            missing = [name for name in sides if not files[name]]
            if missing and (split != "test" or len(missing) == 1):
                faults += [
                    f"data.{name} is missing: the path of a text file (or data.dataset: embedded)" for name in missing
                ]
    tokenizer, generation = TokenizerArguments(**typed["tokenizer"]), GenerationArguments(**typed["generation"])
    sections = {"data": data, "training": training, "generation": generation}
    for name, section in AT_LEAST_ONE.items():
        value = getattr(sections[section], name)
        if value is not None and value < 1:
            faults.append(f"{section}.{name} must be at least 1, got {value}")
    faults += tokenizer_faults(tokenizer)
    for name in ("learning_rate", "adam_eps", "max_minutes", "max_grad_norm"):
        value = getattr(training, name)
        if value is not None and not 0 < value < math.inf:
            faults.append(f"training.{name} must be above 0, got {value}")
    for name, limit in {"weight_decay": math.inf, "validate_sentences": math.inf, "seed": 2**32}.items():
        if not 0 <= getattr(training, name) < limit:
            faults.append(f"training.{name} must be in [0, {limit}), got {getattr(training, name)}")
    if len(training.adam_betas) != 2 or not all(0 <= beta < 1 for beta in training.adam_betas):
        faults.append(f"training.adam_betas must be two numbers in [0, 1), got {training.adam_betas}")
    if training.average_last > training.keep_last:
        faults.append(
            f"training.average_last={training.average_last} needs as many checkpoints, "
            f"but training.keep_last={training.keep_last}"
        )
    if not tokenizer.joint and typed["model"].setdefault("share_encoder_decoder_embeddings", False):
        faults.append("tokenizer.joint=False contradicts model.share_encoder_decoder_embeddings=True: choose one")
        return faults
    try:
        config = VaswaniConfig(**typed["model"])
        if config.position_type == "learned" and data.max_length > config.max_position_embeddings:
            faults.append(
                f"data.max_length={data.max_length} is beyond model.max_position_embeddings="
                f"{config.max_position_embeddings}, where learned positions end; lower the one or raise the other"
            )
    except Exception as error:  # whatever the strict dataclass raises is a fault of the recipe
        faults.append(f"model: {' '.join(str(error).split())}")
    return faults
