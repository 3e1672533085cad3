"""What a text says of its language: its script, or frequent words of languages that share the Latin script.

None of this is proof, but it needs neither a model nor a library.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache

# Languages by script, keyed by the first word of the letters' Unicode names.
SCRIPTS = {
    "ARABIC": "ar fa ur ps", "CYRILLIC": "ru uk bg be mk", "GREEK": "el", "HEBREW": "he yi", "THAI": "th",
    "DEVANAGARI": "hi mr ne", "BENGALI": "bn", "TAMIL": "ta", "TELUGU": "te", "GEORGIAN": "ka", "ARMENIAN": "hy",
    "HANGUL": "ko", "CJK": "zh", "HIRAGANA": "ja",
}  # fmt: skip
# Frequent words, which distinguish languages that share a script.
WORDS = {code: frozenset(words.split()) for code, words in {
    "de": "der die das und ist nicht ein eine ich zu den mit von auf im in dem des einen einem einer er sie wir "
    "ihr du es sich auch so an am um bei aus nach für als wie was wer wo war hat haben habe wird werden "
    "kann sind noch nur aber oder wenn dass man mein meine sein seine ihre vor durch über",
    "en": "the and of is a to in that it you was on i he she we they are be been am do does did have has had "
    "not no for with at by from as an or but if so what who where when how this these there their his her "
    "my your our will would can could all me him them were which than",
    "fr": "le la les des et est un une je vous que pas du en de il elle nous ils elles tu ne se ce cette ces "
    "qui dans sur pour par avec au aux son sa ses mon ma mes plus mais ou où si sont était a ont être "
    "fait comme tout très leur on y",
    "es": "el la los de que y en un una es no se por las del a al lo le les su sus con para como más pero o si "
    "yo tú él ella nosotros ellos mi mis está están son era fue ha he han hay muy ya esta este esto me te "
    "nos cuando todo porque ni sin sobre",
    "pt": "o a os de que e em um uma não é do da as dos das no na nos nas ao por para com como mais mas ou se "
    "eu ele ela nós eles meu minha seu sua está estão são era foi tem há muito já este esta isso me te "
    "quando tudo porque",
    "it": "il la di che e un una è non per sono i del lo gli le dei della delle a al alla con da in su come più "
    "ma o se io lui lei noi loro mio mia suo sua era ha hanno c'è molto già questo questa mi ti ci si "
    "quando tutto perché",
    "nl": "de het een en van is dat ik niet in op te zijn je hij zij ze we wij jullie mijn haar hun aan met "
    "voor door bij naar uit om als maar of die dit deze er ook nog was waren heeft hebben had kan wordt "
    "worden wat wie waar hoe geen al dan",
}.items()}  # fmt: skip
# Japanese is written in three scripts, of which only Chinese uses the last one, too.
JAPANESE = ("HIRAGANA", "KATAKANA", "CJK")
LONG = 500  # characters of a text that are looked at


def language_evidence(language: str, texts: Sequence[str]) -> float | None:
    """The share of letters that are in a language's script, or of words that are among its frequent ones.

    Returns:
        A share from 0 to 1, or `None` for a language that is not known here.
    """
    code = language_of(language)
    if script := script_of(code):
        letters = count_scripts("".join(texts))
        return letters[script] / max(letters.total(), 1)
    if code not in WORDS:
        return None
    words = [word for text in texts for word in text.casefold().split()]
    return sum(word in WORDS[code] for word in words) / max(len(words), 1)


def language_of(language: str) -> str:
    """The first part of a language code, such as pt in pt-BR."""
    return re.split("[-_]", language.lower())[0]


def script_of(code: str) -> str | None:
    """The script of a language, if it is one of those above."""
    return next((name for name, codes in SCRIPTS.items() if code in codes.split()), None)


def count_scripts(text: str) -> Counter[str]:
    """How many letters of each script a text has, by the first word of their Unicode names."""
    scripts: Counter[str] = Counter()
    for letter, count in Counter(text).items():
        if letter.isalpha():
            scripts[_script_of(letter)] += count
    return scripts


@cache
def _script_of(letter: str) -> str:
    return unicodedata.name(letter, "").split(" ")[0]


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
