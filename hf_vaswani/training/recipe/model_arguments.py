"""The recipe section `model`: a key for each field of the config that describes the architecture."""

import dataclasses
import inspect
import re
from typing import Any

from pydantic import create_model
from transformers import PreTrainedConfig

from ...configuration.keys import Key, Section
from ...core.configuration_vaswani import CHOICES, RANGES, VaswaniConfig
from ...presets import PRESETS, TABLE_3

# Fields that are set from the tokenizer or by the package.
DERIVED_FIELDS = {
    "vocab_size", "decoder_vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
    "source_language", "target_language", "language_pairs", "longest_training_source", "multi_sentence_share",
    "length_ratio", "alignment_heads", "confidence", "format_version"
}  # fmt: skip
# Fields that a recipe may set in a model that it starts from: they do not affect the shape or meaning of any weight.
FREE_FIELDS = {
    "dropout", "attention_dropout", "activation_dropout", "embedding_dropout", "encoder_word_dropout",
    "decoder_word_dropout", "encoder_layerdrop", "decoder_layerdrop", "label_smoothing"
}  # fmt: skip
ENTRY = re.compile(r" {4}(?P<names>\w+(?:, \w+)*) \(.*?\): (?P<text>.*)")
# Not matched after "et al." or "section 3.": a new sentence begins with a capital letter.
SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")


def field_descriptions(config: type) -> dict[str, str]:
    """Field → the first sentence of its description in the config's docstring (section Args), and its default."""
    _, _, section = inspect.cleandoc(config.__doc__ or "").partition("\nArgs:\n")
    entries: list[tuple[list[str], list[str]]] = []
    for line in section.splitlines():
        if entry := ENTRY.fullmatch(line):
            entries.append((entry["names"].split(", "), [entry["text"]]))
        elif line.startswith(" " * 8):
            entries[-1][1].append(line.strip())
        else:
            break
    return {name: _short(" ".join(lines)) for names, lines in entries for name in names}


def _short(description: str) -> str:
    first, *rest = SENTENCE_END.split(description.replace("`", ""))
    return " ".join([first, *(sentence for sentence in rest if sentence.startswith("Default"))]).rstrip(".")


def _preset_help() -> str:
    names = [name for name in PRESETS if name not in TABLE_3]
    row = next(iter(TABLE_3))
    return f"a named architecture, modified by the other keys: {', '.join(names)}, or a row of Table 3, such as {row}"


def _keys() -> dict[str, tuple[Any, Any]]:
    """The name of each key → its type and declaration."""
    inherited = {field.name for field in dataclasses.fields(PreTrainedConfig)} | DERIVED_FIELDS
    help, keys = field_descriptions(VaswaniConfig), {"preset": (str | None, Key(None, _preset_help()))}
    for field in dataclasses.fields(VaswaniConfig):
        if field.name not in inherited:
            choices = dict.fromkeys(CHOICES[field.name]) if field.name in CHOICES else None
            least, most = RANGES.get(field.name, (None, None))
            declaration = Key(field.default, help[field.name], ge=least, le=most, choices=choices)
            keys[field.name] = (_type(field.type), declaration)
    return keys


def _type(annotation: object) -> Any:
    """A field's type in a recipe, in which `float` includes whole numbers."""
    return {float | int: float, float | int | None: float | None}.get(annotation, annotation)


ModelArguments = create_model(
    "ModelArguments", __base__=Section, __doc__="The architecture; the defaults are the paper's base model.", **_keys()
)
ModelArguments.section = "model"
