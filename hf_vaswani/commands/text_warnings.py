"""Warnings about the text that commands read: what makes translations or scores different from what one expects.

Imported when a command runs, since it needs transformers.
"""

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.sources.sides import SAMPLE, language_warning
from ..data.sources.tables import READERS, file_format
from ..data.sources.text_files import iterate_lines
from ..evaluation.score_settings import default_tokenizer, lowercases_targets, tokenizer_warning
from ..evaluation.unreachable import form_warning, unreachable, unreachable_warning
from ..files import is_same_file
from ..text.glossary import Glossary
from ..text.inputs import mojibake_warning
from ..text.keep_patterns import Keep, keep_patterns, without_kept
from ..text.language_marks import check_target
from ..text.languages import LanguagePair, own_languages
from ..text.normalization import clean, normalized
from ..text.source_warnings import have_unknown
from .options import option_names, with_option_names

Models = list[tuple[PreTrainedModel, PreTrainedTokenizerBase]]


def first_lines(path: str | None) -> list[str]:
    """A sample of a file; empty for a stream, which can be read only once."""
    return list(islice(iterate_lines(path, lambda *_: None), SAMPLE)) if path and Path(path).is_file() else []


def source_warnings(
    name: str,
    texts: Sequence[str],
    requested: LanguagePair,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> list[str]:
    """Warnings about sources.

    Args:
        name: what the texts are called.
        texts: all of them, or a sample.
        requested: the languages that are chosen, `None` where none is.
    """
    warnings = (
        language_warning(name, texts, *own_languages(model.config, tokenizer, requested)),
        mojibake_warning(name, texts),
        _unknown_warning(name, texts, tokenizer),
    )
    return [warning for warning in warnings if warning]


def file_warnings(
    path: str | None,
    requested: LanguagePair,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    glossary: Glossary | None = None,
    keep: Keep = (),
) -> list[str]:
    """Warnings about the first lines of a file of sources; arguments as in [`text_warnings`]."""
    return text_warnings(str(path), first_lines(path), requested, model, tokenizer, glossary, keep)


def text_warnings(
    name: str,
    texts: Sequence[str],
    requested: LanguagePair,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    glossary: Glossary | None = None,
    keep: Keep = (),
) -> list[str]:
    """Warnings about the first ones of some sources, but not about what is to be kept in them; if a target language
    must be chosen for them, and if none of the terms of a glossary occurs in them."""
    texts, patterns = texts[:SAMPLE], keep_patterns(keep)
    translated = [without_kept(text, patterns) for text in texts] if patterns else texts
    warnings = source_warnings(name, translated, requested, model, tokenizer)
    target = own_languages(model.config, tokenizer, requested)[1]
    with option_names():
        unmarked = check_target(model, tokenizer, texts, target)
    if unmarked:
        warnings.append(f"warning: {with_option_names(unmarked)}")
    if glossary and texts and (unused := glossary.unused_warning(texts, name)):
        warnings.append(f"warning: {unused}")
    return warnings


def _unknown_warning(name: str, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> str | None:
    texts = [normalized(clean(text), tokenizer) for text in texts]
    if not (count := sum(have_unknown(texts, tokenizer))):
        return None
    return (
        f"warning: {count:,} of {len(texts):,} lines of {name} have characters or words that the model's vocabulary "
        "lacks. It cannot translate them."
    )


def score_arguments(options: argparse.Namespace, models: Models) -> dict[str, dict[str, Any]]:
    """The settings of each metric, as [`hf_vaswani.evaluation.score.scores`] takes them."""
    writes_no_capitals = any(lowercases_targets(tokenizer) for _, tokenizer in models)
    return {
        "bleu": {
            "tokenize": options.tokenize or default_tokenizer(_target_language(options, models)),
            "lowercase": writes_no_capitals if options.lowercase is None else options.lowercase,
            "force": options.force,
        },
        # `--lowercase` means BLEU, as in the command sacrebleu.
        "chrf": {
            "lowercase": writes_no_capitals and options.lowercase is not False,
            "word_order": options.chrf_word_order,
        },
    }


def score_warnings(
    options: argparse.Namespace, models: Models, arguments: dict[str, dict[str, Any]], texts: dict[str, list[str]]
) -> list[str]:
    """Warnings about what distorts scores.

    Args:
        arguments: from [`score_arguments`].
        texts: the lines of each file.
    """
    warnings, first = [], texts[options.reference[0]]
    requested = options.source_language, options.target_language
    warnings += [
        f"warning: {path} is also a reference, so the scores are meaningless"
        for path in (options.source, *options.hypotheses)
        if path and any(is_same_file(path, reference) for reference in options.reference)
    ]
    warnings += [
        f"warning: {path} is read line by line, with all of its columns"
        for path in texts
        if file_format(path) in READERS
    ]
    if arguments["chrf"]["lowercase"]:
        warnings.append("note: a model writes no capitals, so scores are of lowercased text; see --no-lowercase")
    if "bleu" in options.metrics:
        language = _target_language(options, models)
        warnings.append(tokenizer_warning(arguments["bleu"]["tokenize"], language, first))
    for model, tokenizer in models:
        source, target = own_languages(model.config, tokenizer, requested)
        warnings += source_warnings(options.source, texts[options.source], requested, model, tokenizer)
        warnings += [language_warning(path, texts[path], target, source) for path in options.reference]
        for path in options.reference:
            if found := unreachable(tokenizer, texts[path], arguments["chrf"]["lowercase"]):
                warnings.append(unreachable_warning(path, found, len(texts[path])))
    warnings += [mojibake_warning(path, lines) for path, lines in texts.items()]
    warnings += [form_warning(path, texts[path], first) for path in options.hypotheses]
    return [warning for warning in dict.fromkeys(warnings) if warning]


def _target_language(options: argparse.Namespace, models: Models) -> str | None:
    """The target language, as given or as the first model has it."""
    requested = options.source_language, options.target_language
    own = (own_languages(model.config, tokenizer, requested)[1] for model, tokenizer in models)
    return options.target_language or next(own, None)
