"""The options of a translation, each declared once: type, default, bounds and meaning.

The pipeline's keywords and their documentation, the options of the commands, and `BatchTranslator` come from here.
What is not here goes to `generate()`: `num_beams`, `max_new_tokens`, … Importing this module does not import torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Union

from ..text.inputs import check_number, check_switch

if TYPE_CHECKING:
    from ..text.glossary import Glossary
    from ..text.keep_patterns import Keep

# Terms that translations must have.
Terms = Union[Mapping[str, str | Sequence[str]], "Glossary", None]
TRUNCATIONS = ("longest_first", "only_first", "do_not_truncate")  # "only_second" would cut nothing


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse anything but one of some names."""
    if value not in choices:
        *first, last = (f'"{choice}"' for choice in choices)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}, got {value!r}.")


def check_truncation(name: str, value: object) -> None:
    """Refuse anything but true, false, or a rule of tokenizers."""
    if value not in (*TRUNCATIONS, True, False, None):
        raise ValueError(f"{name} must be True, False or one of {', '.join(TRUNCATIONS)}, got {value!r}.")


@dataclass(frozen=True, eq=False)
class Meaning:
    """What an option means, and what it may be.

    Attributes:
        help: its meaning, in a few words.
        details: the rest of it, as sentences.
        default: its default, in words.
        check: raises a `ValueError` for a value that is not possible, given the option's name and the value.
        least, most: the bounds of a number in a command.
        choices: the names to choose from, if it is a name.
        command: its name in commands; by default, its own.
    """

    help: str
    details: str = ""
    default: str = ""
    check: Callable[[str, Any], None] | None = None
    least: int = 1
    most: int | None = None
    choices: Sequence[str] = ()
    command: str = ""

    def __str__(self) -> str:
        default = f" (default: {self.default})" if self.default else ""
        return f"{self.help}{default}. {self.details}".strip()


def option(help: str, details: str = "", *, value: object = None, **traits: object) -> Any:
    """Declare an option, with its default value and the traits of its [`Meaning`]."""
    return field(default=value, metadata={"meaning": Meaning(help, details, **traits)})


def number(help: str, details: str = "", *, least: int = 1, **traits: object) -> Any:
    """Declare an option that is a whole number."""
    return option(help, details, check=partial(check_number, least=least), least=least, **traits)


def switch(help: str, details: str = "", **traits: object) -> Any:
    """Declare an option that is on, off, or neither."""
    return option(help, details, check=check_switch, **traits)


def choice(help: str, details: str = "", *, value: str, choices: Sequence[str], **traits: object) -> Any:
    """Declare an option that is one of some names."""
    check = partial(check_choice, choices=choices)
    return option(help, details, value=value, choices=choices, check=check, default=value, **traits)


@dataclass(frozen=True, eq=False)
class TranslationOptions:
    """Options of a translation that are the same for all of its texts.

    Raises:
        ValueError: one of them has a value that is not possible.
    """

    src_lang: str | None = option(
        "code of the source language, for multilingual models; a model of one pair rejects others",
        command="source_language",
    )
    tgt_lang: str | None = option(
        "code of the target language, for multilingual models; a model of one pair rejects others",
        command="target_language",
    )
    via: str | None = option(
        "code of a third language to translate over, where no model has the pair: a multilingual model translates "
        "into it and then out of it, or a second model does the latter",
        "Each sentence is translated by itself. The text in the third language is returned as `pivot_text`; the "
        "`score` is the sum of both steps', the `confidence` their product.",
    )
    zero_shot: bool | None = switch(
        "also translate between languages of a model on whose pair it was not trained",
        "By default, that is an error. Such translations are worse, and may be in another language.",
        command="zero_shot",
    )
    batch_tokens: int | None = number(
        "source tokens per batch, padding included", default="chosen by the model's size", most=1_000_000_000
    )
    batch_size: int | None = number(
        "maximum sentences per batch", default="chosen by the model's size", most=1_000_000_000
    )
    max_source_length: int | None = number(
        "longer sentences are not translated, or only in pieces with --split_sentences",
        "The limit is in tokens; a model's fixed number of positions still applies. Without any limit, "
        "it is 4096, so that attention does not fill the memory. For T5, the tokenizer's 512 is advice: texts are "
        "split or cut there on request, and refused beyond 4096.",
        default="the model's limit",
        most=1_000_000,
    )
    split_sentences: bool | None = switch(
        "split lines beyond the length limit between sentences, and longer sentences between words; with "
        "--no-split_sentences, lines stay whole",
        "By default, a Vaswani model translates each sentence and each line of a text by itself if at least 90% of "
        "the sources that it was trained on had only one sentence, or if they are unknown; other Vaswani models get "
        "pieces that are no longer than the longest of these sources. Translations are joined with the spaces and "
        "line breaks of the text. Models of other families get the whole text. With `False`, texts are always kept "
        "whole. With `True`, each line is translated separately, and each piece holds as many sentences as the limit "
        "allows, or a single sentence if neither model nor tokenizer has a limit. Where a text is split, "
        "`max_new_tokens`, `stop_sequence` and the like apply to each piece.",
        default="models of this package translate each sentence of a line by itself, unless they were trained on "
        "lines with several sentences",
    )
    return_warnings: bool | None = switch(
        "give each translation that may be wrong a `warning`",
        "It is far shorter or longer than usual for its source, repeats itself, or lacks a term or what is to be "
        "kept; or its source looks like another language, is in capitals, or has characters that the vocabulary "
        "lacks. By default, a message counts those of the first kind instead; with `False`, there is no message.",
    )
    return_scores: bool | None = switch(
        "scores of translations",
        "The `score` is what beam search ranks by: the natural log-probability divided by the length penalty, which "
        "by default is the number of tokens, end token included, to the power of `length_penalty`. The score of an "
        "empty text is 0.",
        command="scores",
    )
    return_alignments: bool | None = switch(
        "alignments of source and translation tokens",
        "The `alignment` has pairs (source index, target index) into `source_tokens` and `target_tokens`, which are "
        "returned too.",
        command="alignments",
    )
    truncation: bool | str | None = option(
        "cut texts beyond the limit, as in the tokenizer, with a warning", check=check_truncation
    )
    on_error: str = choice(
        "what happens if a text cannot be translated",
        '`"return"` returns the error (too long, out of memory) in place of its hypotheses, so that no other text is '
        "lost.",
        value="raise",
        choices=("raise", "return"),
    )
    on_missing_term: str = choice(
        "a translation that lacks a term or what is to be kept, since the length limit leaves no room for it, gets a "
        "warning, or is an error of its line; a model that has learned to use terms may be left to inflect them: "
        "accept",
        "With `accept`, nothing is searched for again for terms.",
        value="warn",
        choices=("warn", "error", "accept"),
    )
    num_workers: int | None = number(
        "processes that translate in parallel on a CPU; translations stay the same",
        "There are as many as torch has threads (`torch.set_num_threads`, `OMP_NUM_THREADS`), if there is enough to "
        "translate. With 0 or 1, only this process. Samples from the same seed stay the same, too. Used only on a "
        "CPU, on Linux; not if arguments or hooks of your own must see all batches.",
        least=0,
        most=4096,
        default="one per core",
    )
    n_best: int | None = option(
        "the N best translations",
        "They are returned best first, with scores. At most `num_beams`, unless `do_sample=True` with `num_beams=1`.",
        most=1000,
        default="1",
    )
    return_confidence: bool | None = switch(
        "estimates of quality from 0 to 1, and scores; see calibrate",
        "The `confidence` is the sentence chrF / 100 to be expected of a translation. `hf-vaswani calibrate` enables "
        "it. Unless it says otherwise, samples of the model are drawn, which takes as long again or more.",
        command="confidence",
    )
    terms: Terms = option(
        "terms of the source, and what the translation must use for each",
        'A text or a list of texts to choose from: `{"Hund": "hound"}`. A list has the terms of each text. Terms are '
        "whole words; the case of those with capitals must be the same. A model that has learned to use terms reads "
        "them in its sources. Translations that lack a term are searched for again in PyTorch, with a beam of at "
        "least 4.",
    )
    keep: "Keep | None" = option(
        "what stays as it is in translations: regular expressions, or url, email, number (with its unit), placeholder "
        "({name}, %1$s), code (in backticks), emoji",
        "A model trained with `augmentation.placeholders` translates placeholders in place of it; others search as "
        "for terms. `on_missing_term` applies to it, too.",
    )
    return_tensors: bool | None = option(
        "return `translation_token_ids` instead of text",
        "Where a text is split, each piece has its own, with start and end tokens.",
    )
    clean_up_tokenization_spaces: bool = option("as in `tokenizer.decode`", value=False)
    progress: Callable[[int], None] | None = option(
        "called after each batch with the number of texts finished since the last call"
    )

    def __post_init__(self):
        for name, meaning in MEANINGS.items():
            if meaning.check:
                meaning.check(name, getattr(self, name))


# By the option's name; and the types of those that are numbers, switches and texts.
MEANINGS: dict[str, Meaning] = {own.name: own.metadata["meaning"] for own in fields(TranslationOptions)}
TYPES = {
    own.name: str(own.type).removesuffix(" | None")
    for own in fields(TranslationOptions)
    if own.type in (int | None, bool | None, str | None)
}


def described() -> list[str]:
    """A line for each option, as for a docstring."""
    types = {name: f" (`{kind}`)" for name, kind in TYPES.items()}
    lines = [f"{name}{types.get(name, '')}: {meaning}" for name, meaning in MEANINGS.items()]
    commands = (("--no-split_sentences", "`split_sentences=False`"), ("--split_sentences", "`split_sentences=True`"))
    return [reduce(lambda line, names: line.replace(*names), commands, line) for line in lines]


__all__ = ["MEANINGS", "TYPES", "Meaning", "Terms", "TranslationOptions", "described"]
