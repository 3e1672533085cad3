"""The language of a single text, by its script and its most frequent words."""

import pytest

from hf_vaswani.text.language_evidence import WORDS, other_language


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("The dog runs in the park.", "de", "en"),
        ("THE DOG RUNS IN THE PARK.", "de-AT", "en"),
        ("Der Hund läuft durch den Park.", "en", "de"),
        ("Le chien court dans le parc.", "de", "fr"),
        ("Привет", "de", "ru"),
        ("猫", "de", "zh"),
        ("ねこはかわいい", "zh", "ja"),
        ("The dog is here", "ru", "en"),
        ("Hund Katze Maus", "ar", "another language"),
        # Perhaps of its own language.
        ("Was machst du in Berlin?", "de", None),
        ("Was man in es so legt", "de", None),
        ("The Who und The Doors", "de", None),
        ("Hund", "en", None),
        ("猫が好きです", "ja", None),
        ("日本", "ja", None),
        ("Samsung Galaxy", "ru", None),
        ("Он любит the Beatles", "ru", None),
        ("123 !?", "de", None),
        ("", "de", None),
        # Nothing is known of Swedish words.
        ("The dog runs in the park.", "sv", None),
    ],
)
def test_other_language_of_a_text(text, language, expected):
    assert other_language(text, language) == expected


@pytest.mark.parametrize("language", WORDS)
def test_frequent_words_of_a_language_are_its_own(language):
    assert other_language(" ".join(sorted(WORDS[language])), language) is None
