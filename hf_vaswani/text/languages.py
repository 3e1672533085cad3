"""The languages that a model and its tokenizer know, and whether they include a call's languages."""

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from .inputs import check_text

if TYPE_CHECKING:  # importing it takes seconds
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

TRANSLATION_TASK = re.compile(r"translation_(?P<source>\w+)_to_(?P<target>\w+)")
# A language's code, with or without its script or region: pt, pt-BR, zh_Hans.
LANGUAGE = re.compile("([a-z]{2,3})([-_][a-z0-9]{2,8})*", re.IGNORECASE)
# What a text begins with to name its target language itself.
GROUP_MARK = re.compile(r">>(\S+?)<<\s*")
LEADING_MARKS = re.compile(r">>\S+?<<\s*(<[\w-]+>\s*)?")
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


def own_languages(config: "PreTrainedConfig", tokenizer: "PreTrainedTokenizerBase | None" = None) -> LanguagePair:
    """Source and target language of a model, each `None` if it is not known, or if there are several.

    Vaswani and FSMT models have them in their config, Marian models in their tokenizer.
    """
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


def check_pair(requested: LanguagePair, pairs: list[LanguagePair], remedy: str = "") -> None:
    """Refuse languages that a model does not translate.

    Args:
        requested: source and target language, `None` if not given.
        pairs: the pairs that the model translates; empty if it accepts any.
        remedy: what to do, at the end of the message.

    Raises:
        ValueError: a language is not a text, or the model does not translate them; the message names the languages
            requested and those it has.
    """
    for name, code in zip(("src_lang", "tgt_lang"), requested):
        if code is not None:
            check_text(name, code)
    if not pairs or any(fits_pair(requested, pair) for pair in pairs):
        return
    given = [f"{name}={code!r}" for name, code in zip(("src_lang", "tgt_lang"), requested) if code is not None]
    remedy = remedy or "Use its own languages, or none."
    raise ValueError(f"{' and '.join(given)}: this model translates {pairs_in_words(pairs)}. {remedy}")


def pairs_in_words(pairs: list[LanguagePair]) -> str:
    """Language pairs as in `de to en or fr to en`."""
    return " or ".join(f"{source or 'any language'} to {target or 'any language'}" for source, target in pairs)


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
        raise ValueError(f"tgt_lang={language!r} is unknown: this model translates into {_examples(codes)}.")
    return f">>{code}<< "


def mark_target(texts: Iterable[str], prefix: str) -> list[str]:
    """Put a prefix before each text, unless it is a [`group_prefix`] and the text begins with one itself."""
    is_mark = GROUP_MARK.match(prefix) is not None
    return [text if is_mark and GROUP_MARK.match(text) else prefix + text for text in texts]


def without_mark(text: str) -> str:
    """A text without the marks that it begins with: of its target language, and tags."""
    mark = LEADING_MARKS.match(text)
    return text[mark.end() :] if mark else text


def unmarked_warning(
    tokenizer: "PreTrainedTokenizerBase", texts: Iterable[str], language: str | None = None
) -> str | None:
    """A warning if a model for several target languages is given texts, but not the language to translate into."""
    codes = group_languages(tokenizer)
    if language or len(codes) < 2 or all(GROUP_MARK.match(text) for text in texts):
        return None
    return (
        f"This model translates into several languages: {_examples(codes)}. Choose one with tgt_lang, or begin each "
        f"text with its mark, such as >>{codes[0]}<<."
    )


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
            f"{len(codes)} languages, such as {_examples(codes, 8)}."
        )


def _examples(codes: Collection[str], most: int = 20) -> str:
    return ", ".join(sorted(codes)[:: -(-len(codes) // most) or 1])


def language_codes(tokenizer: "PreTrainedTokenizerBase") -> set[str]:
    """Codes of the languages that a multilingual tokenizer knows, in its own spelling."""
    codes = getattr(tokenizer, "lang_code_to_id", None)
    if codes:
        return set(codes)
    # NLLB has them only among its special tokens.
    roles = {str(getattr(tokenizer, name)) for name in tokenizer.SPECIAL_TOKENS_ATTRIBUTES}
    return set(tokenizer.all_special_tokens) - roles
