"""The options of a translation, each declared once: its type, default, bounds and meaning.

The pipeline's keywords and their documentation, the options of the commands, and `BatchTranslator` come from here.
What is not here goes to `generate()`: `num_beams`, `max_new_tokens`, …
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from ..generation.settings import check_number, check_switch

if TYPE_CHECKING:
    from ..text.glossary import Glossary
    from ..text.keep import Keep

# Terms that translations must have.
Terms = Union[Mapping[str, str | Sequence[str]], "Glossary", None]
TRUNCATIONS = ("longest_first", "only_first", "do_not_truncate")  # "only_second" would cut nothing


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse anything but one of some names."""
    if value not in choices:
        *first, last = (f'"{choice}"' for choice in choices)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}, got {value!r}.")


def check_truncation(name: str, value: Any) -> None:
    if value not in (*TRUNCATIONS, True, False, None):
        raise ValueError(f"{name} must be True, False or one of {', '.join(TRUNCATIONS)}, got {value!r}.")


def option(help: str, default: Any = None, check: Callable[[str, Any], None] | None = None) -> Any:
    """Declare an option.

    Args:
        help: what it means, and what its default does.
        check: raises a `ValueError` for a value that is not possible.
    """
    return field(default=default, metadata={"help": help, "check": check})


@dataclass(frozen=True)
class TranslationOptions:
    """Options of a translation that are the same for all of its texts.

    Raises:
        ValueError: one of them has a value that is not possible.
    """

    src_lang: str | None = option("the source language, for multilingual models; a model of one pair refuses others")
    tgt_lang: str | None = option("the target language, for multilingual models; a model of one pair refuses others")
    batch_tokens: int | None = option(
        "maximum number of source tokens in a batch, padding included; by default as many as the sizes of the model "
        "and the beam leave room for, such as 1536 for a small model on a CPU",
        check=check_number,
    )
    batch_size: int | None = option("maximum number of texts in a batch", check=check_number)
    max_source_length: int | None = option(
        "the limit in tokens, in place of the tokenizer's; the limit of a model with a fixed number of positions still "
        "applies. Without any limit, it is 4096, so that attention does not fill the memory. For T5, the tokenizer's "
        "512 is advice: texts are split or cut there on request, and refused beyond 4096",
        check=check_number,
    )
    split_sentences: bool | None = option(
        "by default, a Vaswani model translates each sentence and each line of a text by itself if at least 90% of the "
        "sources that it was trained on had only one sentence, or if they are unknown; other Vaswani models get pieces "
        "that are no longer than the longest of these sources. Translations are joined with the spaces and line breaks "
        "of the text. Models of other families get the whole text. With `False`, texts are always kept whole. With "
        "`True`, texts beyond the limit are translated in pieces, split at sentence ends where possible, and each line "
        "separately. Each piece holds as many sentences as the limit allows, or a single sentence if neither model nor "
        "tokenizer has a limit. Where a text is split, `max_new_tokens`, `stop_sequence` and the like apply to each "
        "piece",
        check=check_switch,
    )
    return_warnings: bool | None = option(
        "give each translation that may be wrong a `warning`: it is far shorter or longer than usual for its source, "
        "repeats itself, or lacks a term or what is to be kept; or its source looks like another language, is in "
        "capitals, or has characters that the vocabulary lacks. By default, a message counts those of the first kind "
        "instead; with `False`, there is none",
        check=check_switch,
    )
    return_scores: bool | None = option(
        "return each translation's `score`, by which beam search ranks: its natural log-probability divided by the "
        "length penalty, which by default is the number of tokens, end token included, to the power of "
        "`length_penalty`. The score of an empty text is 0",
        check=check_switch,
    )
    return_alignments: bool | None = option(
        "return each translation's `alignment`, pairs (source index, target index) into `source_tokens` and "
        "`target_tokens`, which are returned too",
        check=check_switch,
    )
    truncation: bool | str | None = option(
        "cut texts beyond the limit, as in the tokenizer, with a warning", check=check_truncation
    )
    on_error: str = option(
        '`"return"` returns the error of a text (too long, out of memory) in place of its hypotheses, so that no other '
        'text is lost; `"raise"` raises it',
        "raise",
        partial(check_choice, choices=("raise", "return")),
    )
    on_missing_term: str = option(
        "what to do about a translation that lacks a term even so, because the length limit leaves no room: "
        '`"warn"`, as of one that may be wrong, or `"error"`, as of a text that cannot be translated. `"accept"` '
        "leaves it to a model that has learned to use terms how it does: nothing is searched for again for them, and "
        "terms may be inflected",
        "warn",
        partial(check_choice, choices=("warn", "error", "accept")),
    )
    num_workers: int | None = option(
        "number of processes that translate batches in parallel, each on one core; by default as many as torch has "
        "threads (`torch.set_num_threads`, `OMP_NUM_THREADS`), if there is enough to translate. With 0 or 1, only this "
        "process. Translations stay the same, and so do samples from the same seed. Used only on a CPU, on Linux; not "
        "if arguments or hooks of your own must see all batches",
        check=partial(check_number, least=0),
    )
    n_best: int | None = option(
        "number of translations to return for each text, best first, with scores. At most `num_beams`, unless "
        "`do_sample=True` with `num_beams=1`"
    )
    return_confidence: bool | None = option(
        "return each translation's score and its `confidence`, from 0 to 1: the sentence chrF / 100 to be expected of "
        "it. `hf-vaswani calibrate` makes a model able to tell it, by samples of the model unless it says otherwise, "
        "which take as long again or more",
        check=check_switch,
    )
    terms: Terms = option(
        "terms of the source and what must stand for each in the translation, a text or a list of texts to choose "
        'from: `{"Hund": "hound"}`. A list has the terms of each text. Terms are whole words; the case of those with '
        "capitals must be the same. A model that has learned to use terms reads them in its sources. Translations that "
        "lack a term are searched for again in PyTorch, with a beam of at least 4"
    )
    keep: "Keep | None" = option(
        "what is to stay as it is in translations: a regular expression, or one of `url`, `email`, `number` (with its "
        "unit), `placeholder` (`{name}`, `%1$s`), `code` (in backticks) and `emoji`; or a list of them. A model "
        "trained with `augmentation.placeholders` translates placeholders in place of it; others search as for terms. "
        "`on_missing_term` applies to it, too"
    )
    return_tensors: bool | None = option(
        "return `translation_token_ids` instead of text; where a text is split, those of each piece, with their start "
        "and end tokens"
    )
    clean_up_tokenization_spaces: bool = option("as in `tokenizer.decode`", False)
    progress: Callable[[int], None] | None = option(
        "called after each batch with the number of texts finished since the last call"
    )

    def __post_init__(self):
        for declared in fields(self):
            if check := declared.metadata["check"]:
                check(declared.name, getattr(self, declared.name))


OPTIONS = {declared.name: declared for declared in fields(TranslationOptions)}


def help_of(name: str) -> str:
    """What an option means."""
    return OPTIONS[name].metadata["help"]


__all__ = ["OPTIONS", "Terms", "TranslationOptions", "help_of"]
