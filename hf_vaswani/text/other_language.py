"""Whether a single text is in another language than it should be, by its script and its most frequent words."""

import re
from collections.abc import Sequence

from .language_evidence import SCRIPTS, WORDS, count_scripts, language_of, script_of

# Japanese is written in three scripts, of which only Chinese uses the last one, too.
JAPANESE = ("HIRAGANA", "KATAKANA", "CJK")
LONG = 500  # characters of a text that are looked at


def other_language(text: str, language: str) -> str | None:
    """The language that a single text seems to be in, if that is certainly not the one that it should be in.

    Returns:
        Its code, or "another language"; `None` if the text may be in its own, or if that is not known here.
    """
    code = language_of(language)
    own_script, text = script_of(code), text[:LONG]
    letters = count_scripts(text)
    if not letters or not (own_script or code in WORDS):
        return None
    scripts = JAPANESE if code == "ja" else (own_script or "LATIN",)
    words = re.findall(r"\w+", text.casefold())
    # Names are often written in Latin letters.
    least = letters.total() / (10 if own_script else 2)
    if sum(letters[script] for script in scripts) < least:
        found = "HIRAGANA" if letters["HIRAGANA"] else letters.most_common(1)[0][0]
        if found in SCRIPTS:
            return SCRIPTS[found].split()[0]
        return None if own_script and len(words) < 3 else _most_frequent(words, "") or "another language"
    if code == "zh" and letters["HIRAGANA"] > letters.total() / 10:
        return "ja"
    return None if own_script else _most_frequent(words, code)


def _most_frequent(words: Sequence[str], own: str) -> str | None:
    """The language whose frequent words a text has, if it has none of its own language's, or `None`."""
    count = len(words)
    known, others = WORDS.get(own, frozenset()), [frequent for code, frequent in WORDS.items() if code != own]
    if any(word in known for word in set(words).difference(*others)):
        return None
    words = [word for word in words if word not in known]
    counts = {code: sum(map(frequent.__contains__, words)) for code, frequent in WORDS.items()}
    found = max(counts, key=counts.__getitem__)
    return found if counts[found] >= max(2, count / 5) else None
