"""The languages that a model and its tokenizer know, and whether they include a call's languages."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from .inputs import check_text

if TYPE_CHECKING:  # importing it takes seconds
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

TRANSLATION_TASK = re.compile(r"translation_(?P<source>\w+)_to_(?P<target>\w+)")
# A language's code, with or without its script or region: pt, pt-BR, zh_Hans.
LANGUAGE = re.compile("([a-z]{2,3})([-_][a-z0-9]{2,8})*", re.IGNORECASE)
USE_OWN = "Use its own languages, or none."
MOST_NAMED = 20  # language pairs in a message
# Column names that look like such codes.
COLUMNS = ("src", "tgt", "trg")
LanguagePair = tuple[str | None, str | None]


class Languages(NamedTuple):
    """Codes of the languages chosen for a translation; None where none is chosen."""

    source: str | None = None
    target: str | None = None

    def arguments(self) -> dict[str, str]:
        """Those that are chosen, as arguments of the pipeline."""
        return {name: code for name, code in (("src_lang", self.source), ("tgt_lang", self.target)) if code}


NO_LANGUAGES = Languages()


def language_code(name: object) -> str | None:
    """The name itself if it is a language code, else `None`."""
    return name if isinstance(name, str) and LANGUAGE.fullmatch(name) and name.lower() not in COLUMNS else None


def is_same_language(code: str, other: str) -> bool:
    """Whether two codes agree as far as both go: `pt` and `pt-BR` do, `pt-PT` and `pt-BR` do not."""
    parts = (re.split("[-_]", name.lower()) for name in (code, other))
    return all(part == other_part for part, other_part in zip(*parts))


def translation_tasks(config: "PreTrainedConfig") -> dict[str, LanguagePair]:
    """The tasks `translation_XX_to_YY` for which T5's config has prefixes, with their languages."""
    tasks = task_parameters(config)
    return {name: match.group("source", "target") for name in tasks if (match := TRANSLATION_TASK.fullmatch(name))}


def task_parameters(config: "PreTrainedConfig") -> dict[str, Any]:
    """The parameters of tasks in a config, by task; none if a stranger's config has something else there."""
    tasks = getattr(config, "task_specific_params", None)
    return tasks if isinstance(tasks, dict) else {}


def own_languages(
    config: "PreTrainedConfig",
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    requested: LanguagePair = NO_LANGUAGES,
) -> LanguagePair:
    """Source and target language of a model, each `None` if it is not known, or if there are several.

    Vaswani and FSMT models have them in their config, Marian models in their tokenizer.

    Args:
        requested: the languages chosen for a translation, `None` where none is chosen. They replace the model's; of a
            model for several language pairs, one may leave no choice of the other.
    """
    if any(requested):
        pairs = getattr(config, "language_pairs", None) or [own_languages(config, tokenizer)]
        agreed = zip(*[pair for pair in pairs if fits_pair(requested, pair)])
        sides = [codes.pop() if len(codes := set(side)) == 1 else None for side in agreed] or [None, None]
        return tuple(own or code for own, code in zip(sides, requested))
    pair = getattr(config, "source_language", None), getattr(config, "target_language", None)
    if pairs := getattr(config, "language_pairs", None):
        sides = (set(side) for side in zip(*pairs))
        return tuple(codes.pop() if len(codes) == 1 else None for codes in sides)
    if pair == (None, None) and config.model_type == "fsmt" and len(config.langs) == 2:
        pair = tuple(map(language_code, config.langs))
    if pair == (None, None) and hasattr(tokenizer, "source_lang") and hasattr(tokenizer, "supported_language_codes"):
        # Marian also has groups of languages: gem, ROMANCE. A text then names its target language itself: >>fr<<.
        source, target = tokenizer.source_lang, None if tokenizer.supported_language_codes else tokenizer.target_lang
        pair = tuple(name if name and re.fullmatch("[a-z]{2}", name) else None for name in (source, target))
    return pair


def language_pairs(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> list[LanguagePair]:
    """The language pairs that a model translates; empty if they are not known, or left to the tokenizer."""
    if tasks := translation_tasks(model.config):
        return list(tasks.values())
    if pairs := getattr(model.config, "language_pairs", None):
        return [(source, target) for source, target in pairs]
    pair = own_languages(model.config, tokenizer)
    return [] if pair == (None, None) else [pair]


def fits_pair(requested: LanguagePair, pair: LanguagePair) -> bool:
    """Whether a language pair matches the requested one, as far as both are known."""
    return all(code is None or own is None or is_same_language(code, own) for code, own in zip(requested, pair))


def untrained_pairs(pairs: list[LanguagePair]) -> list[LanguagePair]:
    """The pairs that a model for several can be asked for (zero-shot): from any of its languages, into any target."""
    targets = dict.fromkeys(target for _, target in pairs)
    codes = dict.fromkeys(code for pair in pairs for code in pair)
    every = [(source, target) for source in codes for target in targets if source != target]
    return [pair for pair in every if pair not in pairs] if len(pairs) > 1 else []


def check_pair(requested: LanguagePair, pairs: list[LanguagePair], remedy: str = "", zero_shot: bool = False) -> None:
    """Refuse languages that a model does not translate.

    Args:
        requested: source and target language, `None` if not given.
        pairs: the pairs that the model translates; empty if it accepts any.
        remedy: what to do, at the end of the message.
        zero_shot: also accept those that the model was not trained on, if it knows both languages.

    Raises:
        ValueError: a language is not a text, or the model does not translate them; the message names the languages
            requested and those it has.
    """
    for name, code in zip(("src_lang", "tgt_lang"), requested):
        if code is not None:
            check_text(name, code)
    if not pairs or any(fits_pair(requested, pair) for pair in pairs):
        return
    is_possible = not remedy and any(fits_pair(requested, pair) for pair in untrained_pairs(pairs))
    if is_possible and zero_shot:
        return
    given = [f"{name}={code!r}" for name, code in zip(("src_lang", "tgt_lang"), requested) if code is not None]
    if is_possible:
        remedy = "Choose one of these pairs, or try this one, on which it was not trained, with zero_shot."
    raise ValueError(f"{' and '.join(given)}: this model translates {pairs_in_words(pairs)}. {remedy or USE_OWN}")


def choose_languages(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    requested: LanguagePair = NO_LANGUAGES,
    zero_shot: bool = False,
) -> Languages:
    """The languages of a translation, in the model's spelling.

    Those of a model for several language pairs may also be set in its tokenizer, and the target language need not be
    chosen where the source language leaves no choice.

    Raises:
        ValueError: as in [`check_pair`].
    """
    if pairs := getattr(model.config, "language_pairs", None):
        settings = (getattr(tokenizer, name, None) for name in ("src_lang", "tgt_lang"))
        requested = tuple(code or own for code, own in zip(requested, settings))
    remedy = "" if pairs else USE_OWN
    check_pair(requested, language_pairs(model, tokenizer), remedy, zero_shot)
    if not pairs:
        return Languages(*requested)
    source, target = own_languages(model.config, tokenizer, requested)
    if not any(fits_pair((source, target), pair) for pair in pairs):
        from transformers.utils import logging

        logging.get_logger(__name__).warning_once(
            f"This model was not trained to translate {source} to {target} (zero-shot): check its translations."
        )
    return Languages(source, target)


def pairs_in_words(pairs: list[LanguagePair]) -> str:
    """Language pairs as in `de to en or fr to en`."""
    names = [f"{source or 'any language'} to {target or 'any language'}" for source, target in pairs]
    return " or ".join(names[:MOST_NAMED]) + (f" or {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")


def group_languages(tokenizer: "PreTrainedTokenizerBase") -> list[str]:
    """The target languages of a Marian model for several, which reads the one to use in its text: `>>fra<< `."""
    return [code.strip("<>") for code in getattr(tokenizer, "supported_language_codes", None) or []]


def group_prefix(tokenizer: "PreTrainedTokenizerBase", language: str | None) -> str:
    """What each text begins with for such a model, such as `>>fra<< `; "" for others, and without a language.

    Raises:
        ValueError: the language is unknown; the message names those that are known.
    """
    codes, code = group_languages(tokenizer), (language or "").strip("<>")
    # A model for one language may have marks for its scripts, as for Chinese.
    own = getattr(tokenizer, "target_lang", None)
    if not codes or not code or (code not in codes and len(code) == 2 and code == own):
        return ""
    if code not in codes and len(alike := [each for each in codes if is_same_language(each, code)]) == 1:
        [code] = alike
    if code not in codes:
        raise ValueError(f"tgt_lang={language!r} is unknown: this model translates into {examples(codes)}.")
    return f">>{code}<< "


def is_multilingual(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a tokenizer marks each text with its language, as M2M100's, NLLB's and mBART's do."""
    return hasattr(tokenizer, "_build_translation_inputs")


def check_languages(
    tokenizer: "PreTrainedTokenizerBase", src_lang: str | None, tgt_lang: str | None, has_own_target: bool
) -> None:
    """Refuse languages that are unknown to a multilingual tokenizer, or missing although it needs them.

    Args:
        has_own_target: whether `forced_bos_token_id`, for example in the model's generation config, sets the target
            language; then no languages need to be given.

    Raises:
        ValueError: a language is unknown or missing; the message names each, and some of those that are known.
    """
    group_prefix(tokenizer, tgt_lang)
    if not is_multilingual(tokenizer):
        return
    codes = language_codes(tokenizer)
    errors = []
    for name, code in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
        if code is None:
            if not has_own_target:
                errors.append(f"{name} is missing")
        elif codes and not ({code, f"__{code}__"} & codes or code in tokenizer.get_added_vocab()):
            errors.append(f"{name}={code!r} is not a language of this tokenizer")
    if errors:
        raise ValueError(
            f"{' and '.join(errors)}. A multilingual model needs both src_lang and tgt_lang; this one knows "
            f"{len(codes)} languages, such as {examples(codes, 8)}."
        )


def has_own_target(tokenizer: "PreTrainedTokenizerBase", first_token: int | None, start: int | None) -> bool:
    """Whether a model translates into a language of its own unless it is given one.

    Args:
        first_token: what its outputs are forced to begin with: `forced_bos_token_id`.
        start: what its decoder starts from: in mBART, the target language.
    """
    if first_token is not None or start is None or not is_multilingual(tokenizer):
        return first_token is not None
    return start in {language_id(tokenizer, code) for code in language_codes(tokenizer)}


def target_argument(tokenizer: "PreTrainedTokenizerBase", start: int | None) -> str:
    """The argument of `generate()` that chooses the target language of a multilingual model.

    Args:
        start: what its decoder starts from by default: in mBART, a language.
    """
    return "decoder_start_token_id" if has_own_target(tokenizer, None, start) else "forced_bos_token_id"


def language_id(tokenizer: "PreTrainedTokenizerBase", code: str) -> int:
    """The id of a multilingual tokenizer's token for a language; M2M100's tokens are not plain codes."""
    ids = getattr(tokenizer, "lang_code_to_id", None) or {}
    return ids.get(code, tokenizer.convert_tokens_to_ids(code))


def examples(codes: Collection[str], most: int = 20) -> str:
    """Some of many codes, from all parts of the alphabet, for a message."""
    return ", ".join(sorted(codes)[:: -(-len(codes) // most) or 1])


def language_codes(tokenizer: "PreTrainedTokenizerBase") -> set[str]:
    """Codes of the languages that a multilingual tokenizer knows, in its own spelling."""
    codes = set(getattr(tokenizer, "lang_code_to_id", None) or ())
    # NLLB has them only among its special tokens, and mBART those that were added. M2M100 has __de__ there, for de.
    roles = {str(getattr(tokenizer, name)) for name in tokenizer.SPECIAL_TOKENS_ATTRIBUTES}
    return codes | {token for token in tokenizer.all_special_tokens if token.strip("_") not in codes} - roles
