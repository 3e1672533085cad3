"""Rewrites tokenizers for transformers.js, so that they give the same token ids there.

transformers.js isolates matches that the `tokenizers` library would merge with their neighbors, joins runs of
non-ASCII punctuation and digits, and does not know `split_special_tokens`. Such rules are rewritten, with regular
expressions that both interpret in the same way. A tokenizer that does not normalize invisible characters itself gets
the normalizer that the translation pipeline uses for it.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..text.normalization import WHITESPACE, outer_normalizer
from ..text.vocabularies import vocabularies

# The components that transformers.js has, and that behave as in the library.
KNOWN = {
    "normalizer": ("Sequence", "Replace", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend"),
    "pre_tokenizer": ("Sequence", "Metaspace", "Split", "Punctuation", "Digits", "WhitespaceSplit"),
    "model": ("BPE", "WordPiece", "WordLevel"),
    "post_processor": ("TemplateProcessing",),
    "decoder": ("Sequence", "Metaspace", "ByteFallback", "Fuse", "Replace", "Strip"),
}
REASONS = {"Unigram": ", in which it merges consecutive unknown characters into one"}
# A part of a tokenizer.json.
Rule = dict[str, Any]
NESTED = ("normalizers", "pretokenizers", "decoders")
# Unicode's punctuation and ASCII's.
PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"
SPECIAL = ("pad_token", "bos_token", "eos_token", "unk_token")


def unsupported_rules(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """List the features of a tokenizer that transformers.js does not support."""
    if not tokenizer.is_fast:
        return [f"a {type(tokenizer).__name__}, which has no tokenizer.json"]
    source, target = vocabularies(tokenizer)
    features = ["a tokenizer with separate vocabularies"] if source != target else []
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    for part, known in KNOWN.items():
        unknown = (rule["type"] for rule in _nested_rules(rules[part]) if rule["type"] not in known)
        features += [f"the tokenizer's {part.replace('_', '-')} {kind}{REASONS.get(kind, '')}" for kind in unknown]
    return features


def _nested_rules(rule: Rule | None) -> Iterator[Rule]:
    """Yield a rule and all rules nested in it."""
    if rule is not None:
        yield rule
        for part in itertools.chain.from_iterable(rule.get(name) or () for name in NESTED):
            yield from _nested_rules(part)


def tokenizer_rules(tokenizer: PreTrainedTokenizerBase) -> Rule:
    """The contents of `tokenizer.json` for transformers.js; the `tokenizers` library interprets it in the same way."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"truncation": None, "padding": None}
    if WHITESPACE not in tokenizer.init_kwargs:
        outer = outer_normalizer(tokenizer, rules["model"]["vocab"])
        parts = [json.loads(part.__getstate__()) for part in (outer, tokenizer.backend_tokenizer.normalizer) if part]
        rules["normalizer"] = {"type": "Sequence", "normalizers": parts}
    for rule in _nested_rules(rules["normalizer"]):
        if rule.get("pattern") == {"Regex": r"\z"}:
            # On its own, the pattern also matches inside characters beyond U+FFFF in JavaScript.
            rule["pattern"] = {"Regex": r"(?<=[\s\S])\z"}
    if rules["pre_tokenizer"]:
        rules["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": list(_plain_splits(rules["pre_tokenizer"]))}
    if getattr(tokenizer, "split_special_tokens", False):
        # Special tokens listed here would be recognized inside a text. Their ids are in the model's vocabulary anyway.
        rules["added_tokens"] = [token for token in rules["added_tokens"] if not token["special"]]
    return rules


def tokenizer_settings(tokenizer: PreTrainedTokenizerBase) -> Rule:
    """The contents of `tokenizer_config.json` for transformers.js."""
    named = {name: str(getattr(tokenizer, name)) for name in SPECIAL if getattr(tokenizer, name) is not None}
    return {
        "tokenizer_class": "PreTrainedTokenizer",
        **named,
        # So that they are left out of decoded text.
        "additional_special_tokens": list(tokenizer.all_special_tokens),
        "clean_up_tokenization_spaces": False,
        "model_max_length": tokenizer.model_max_length,
    }


def _plain_splits(rule: Rule) -> Iterator[Rule]:
    """Rewrite a pre-tokenizer as one or more that split in the same way in both libraries."""
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


# Functions that turn a pattern into one whose matches are the pieces that the pattern splits a text into.
MERGED: dict[str, Callable[[str], str]] = {
    "MergedWithNext": lambda pattern: rf"(?:{pattern})?(?:(?!{pattern})[\s\S])+|(?:{pattern})",
    "MergedWithPrevious": lambda pattern: rf"(?:(?!{pattern})[\s\S])+(?:{pattern})?|(?:{pattern})",
}
BEHAVIORS = {**MERGED, "Contiguous": lambda pattern: f"(?:{pattern})+"}


def _isolated(pattern: str, behavior: str = "Isolated") -> Rule:
    behavior = "Removed" if behavior == "Removed" else "Isolated"
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _escaped(text: str) -> str:
    """A regular expression that matches a text literally."""
    return "".join(rf"\{character}" if character in r".*+?^${}()|[]\/" else character for character in text)
