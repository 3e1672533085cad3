"""Two spellings that a text uses side by side are found, and become one."""

from hf_vaswani.cleaning.spelling import changes_to, preferred, respelled, two_spellings

# Twelve words in two spellings, and others in one.
STEMS = ["te", "re", "ko", "pe", "mba", "ro", "ke", "pu", "ti", "so", "vy", "ka"]
TEXT = [f"{stem}tã {stem}tã {stem}tâ {stem}'e {stem}'e {stem}’e naïve élan" for stem in STEMS]


def test_letters_and_apostrophes_that_stand_for_each_other_are_found():
    found = {(each.rare, each.usual): each for each in two_spellings(TEXT)}
    assert set(found) == {("â", "ã"), ("’", "'")}
    letters = found["â", "ã"]
    assert letters.counts == (12, 24) and letters.words == 12
    assert ("katâ", "katã") in letters.examples


def test_letters_with_and_without_a_mark_are_other_words():
    assert two_spellings(f"{stem}l {stem}ĺ {stem}l" for stem in STEMS) == []


def test_a_text_is_spelled_like_another_one():
    changes = preferred(two_spellings(TEXT), ["tetâ rembi’u tetâ"])
    assert changes == {"ã": "â", "'": "’"}
    assert respelled("Tetã ÃBC 'so' te'e, élan", changes) == "Tetâ ÂBC 'so' te’e, élan"
    assert preferred(two_spellings(TEXT), ["nothing of that"]) == {}


def test_marks_without_a_composed_letter_are_changed_too():
    spellings = two_spellings(f"{stem}g\u0303a {stem}g\u0303a {stem}ĝa" for stem in STEMS)
    changes = preferred(spellings, ["ag\u0303a"])
    assert respelled("Ĝaĝa", changes) == "G\u0303ag\u0303a"


def test_a_spelling_that_only_the_sample_has_is_found():
    stems = [f"k{vowel}{end}" for vowel in "aeiou" for end in ("ra", "ta", "na")]
    # A tilde against a circumflex, and apostrophes in words that have the same letters only after that.
    texts = [f"{stem}\u0303 {stem}\u0303t'a" for stem in stems for _ in range(3)]
    like = [f"{stem}\u0302 {stem}\u0302t\u2019a" for stem in stems]
    assert changes_to(texts, like) == {"'": "\u2019", "ã": "â"}


def test_letters_that_the_sample_tells_apart_stay():
    words = [f"k{end}" for end in "bcdfghjklmnp"]
    texts = [f"{word}{vowel}" for word in words for vowel in "áà"]
    assert changes_to(texts, texts) == {}
    assert changes_to(texts, [f"{word}á" for word in words]) == {"à": "á"}
