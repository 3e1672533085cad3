"""Tokenizers as transformers.js reads them: the same token ids from rules that it follows to the letter.

It isolates what the `tokenizers` library would merge with what stands beside it, joins runs of punctuation and digits
that are not ASCII's, and knows no `split_special_tokens`. Each such rule is written as a regular expression that both
read alike.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..core.pipeline_inputs import vocabularies

# The parts that transformers.js has, and follows as the library does.
KNOWN = {
    "normalizer": ("Sequence", "Replace", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend"),
    "pre_tokenizer": ("Sequence", "Metaspace", "Split", "Punctuation", "Digits", "WhitespaceSplit"),
    "model": ("BPE", "WordPiece", "WordLevel"),
    "post_processor": ("TemplateProcessing",),
    "decoder": ("Sequence", "Metaspace", "ByteFallback", "Fuse", "Replace", "Strip"),
}
REASONS = {"Unigram": ", of which it reads unknown characters in a row as one"}
NESTED = ("normalizers", "pretokenizers", "decoders")
# ASCII's own and Unicode's.
PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"
SPECIAL = ("pad_token", "bos_token", "eos_token", "unk_token")


def inexpressible(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The features of a tokenizer that transformers.js has not."""
    if not tokenizer.is_fast:
        return [f"a {type(tokenizer).__name__}, which has no tokenizer.json"]
    source, target = vocabularies(tokenizer)
    features = ["a tokenizer with separate vocabularies"] if source != target else []
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    for part, known in KNOWN.items():
        unknown = (kind for kind in _types(rules[part]) if kind not in known)
        features += [f"the tokenizer's {part.replace('_', '-')} {kind}{REASONS.get(kind, '')}" for kind in unknown]
    return features


def _types(rule: dict[str, Any] | None) -> list[str]:
    """The types of a rule and of those that it is made of."""
    return [part["type"] for part in _parts(rule)]


def _parts(rule: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """A rule and those that it is made of."""
    if rule is None:
        return
    yield rule
    for name in NESTED:
        for part in rule.get(name) or ():
            yield from _parts(part)


def tokenizer_rules(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """What transformers.js reads as `tokenizer.json`; the `tokenizers` library reads the same from it."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"truncation": None, "padding": None}
    for rule in _parts(rules["normalizer"]):
        if rule.get("pattern") == {"Regex": r"\z"}:
            # By itself, JavaScript finds it within characters beyond U+FFFF, too.
            rule["pattern"] = {"Regex": r"(?<=[\s\S])\z"}
    if rules["pre_tokenizer"]:
        rules["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": list(_plain_splits(rules["pre_tokenizer"]))}
    if getattr(tokenizer, "split_special_tokens", False):
        # Those named here would be found inside a text. Their ids are the model's.
        rules["added_tokens"] = [token for token in rules["added_tokens"] if not token["special"]]
    return rules


def tokenizer_settings(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """What it reads as `tokenizer_config.json`."""
    named = {name: str(getattr(tokenizer, name)) for name in SPECIAL if getattr(tokenizer, name) is not None}
    return {
        "tokenizer_class": "PreTrainedTokenizer",
        **named,
        # To be left out of what is decoded.
        "additional_special_tokens": list(tokenizer.all_special_tokens),
        "clean_up_tokenization_spaces": False,
        "model_max_length": tokenizer.model_max_length,
    }


def _plain_splits(rule: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A pre-tokenizer as one or several that split alike everywhere."""
    kind = rule["type"]
    if kind == "Sequence":
        for part in rule["pretokenizers"]:
            yield from _plain_splits(part)
    elif kind == "Metaspace" and rule["split"]:
        yield {**rule, "split": False}
        yield _isolated(MERGED["MergedWithNext"](_escaped(rule["replacement"])))
    elif kind == "Punctuation":
        yield _isolated(BEHAVIORS.get(rule["behavior"], str)(PUNCTUATION), rule["behavior"])
    elif kind == "Digits":
        yield _isolated(r"\p{N}" if rule["individual_digits"] else r"\p{N}+")
    elif kind == "Split" and not rule["invert"]:
        pattern = rule["pattern"].get("Regex") or _escaped(rule["pattern"]["String"])
        yield _isolated(BEHAVIORS.get(rule["behavior"], str)(pattern), rule["behavior"])
    else:
        yield rule


# A pattern → one whose matches are the pieces that it splits a text into.
MERGED: dict[str, Callable[[str], str]] = {
    "MergedWithNext": lambda pattern: rf"(?:{pattern})?(?:(?!{pattern})[\s\S])+|(?:{pattern})",
    "MergedWithPrevious": lambda pattern: rf"(?:(?!{pattern})[\s\S])+(?:{pattern})?|(?:{pattern})",
}
BEHAVIORS = {**MERGED, "Contiguous": lambda pattern: f"(?:{pattern})+"}


def _isolated(pattern: str, behavior: str = "Isolated") -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Removed" if behavior == "Removed" else "Isolated",
        "invert": False,
    }


def _escaped(text: str) -> str:
    """A regular expression for a text."""
    return "".join(rf"\{character}" if character in r".*+?^${}()|[]\/" else character for character in text)


__all__ = ["inexpressible", "tokenizer_rules", "tokenizer_settings"]
