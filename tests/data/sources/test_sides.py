"""Swapped sides and mixed-up files are detected from their text; correct ones give no warning."""

import random
from pathlib import Path

import pytest

from hf_vaswani.data.sources.sides import language_warning, shifted_lines, swapped_sides
from hf_vaswani.text.language_evidence import language_evidence

TEXTS = Path(__file__).parents[4] / "shared" / "data"
NOT_KNOWN = (None, None)


def pairs_of(stem: str, source: str, target: str) -> list[tuple[str, str]]:
    sides = [(TEXTS / f"{stem}.{language}") for language in (source, target)]
    if not all(side.exists() for side in sides):
        pytest.skip(f"{stem} is not here")
    return list(zip(*(side.read_text(encoding="utf-8").splitlines() for side in sides)))


def swapped(pairs):
    return [pair[::-1] for pair in pairs]


@pytest.mark.parametrize(
    ("train", "other", "languages"),
    [
        ("multi30k/train", "multi30k/valid", ("de", "en")),
        ("multi30k/train", "multi30k/valid", ("fr", "de")),
        ("tatoeba_en_ar/train", "tatoeba_en_ar/valid", ("ar", "en")),
        ("tatoeba_en_de/train", "newstest2014_en_de/newstest2013", ("de", "en")),
    ],
)
def test_real_text_gives_a_warning_only_when_its_sides_are_swapped(train, other, languages):
    train, other = pairs_of(train, *languages), pairs_of(other, *languages)
    assert swapped_sides(train, {"test": other[:50]}, languages) == []
    assert shifted_lines("training", train) is shifted_lines("test", other) is None
    assert swapped_sides(train, {"test": swapped(other[:50])}, languages) == [
        "warning: in the test text, or in the training text, source and target seem to be swapped."
    ]
    assert swapped_sides(train, {"test": [(target, target) for _, target in other]}, languages) == [
        "warning: the test text's source looks like the training text's target, not like its source. Is it the "
        "right file?"
    ]
    assert swapped_sides(swapped(train), {"test": swapped(other)}, languages) == [
        f"warning: the training text's target looks like {languages[0]}, the source language, but its source does "
        "not. Are the sides swapped?"
    ]


def test_text_in_a_single_language_gives_no_warning():
    generator = random.Random(0)
    lines = [" ".join(generator.choices("abcdefgh", k=generator.randint(2, 6))) for _ in range(80)]
    pairs = [(line, line[::-1]) for line in lines]
    assert swapped_sides(pairs[:50], {"validation": pairs[50:], "test": swapped(pairs)}, NOT_KNOWN) == []
    english = [("the dog is in the house and", "the cat and the dog is") for _ in range(50)]
    assert swapped_sides(english, {"validation": english}, ("en", "en")) == []


def test_text_in_the_other_language_of_a_model_gives_a_warning():
    german, english = ["Der Hund ist in der Stadt und schläft."] * 20, ["The dog is in the town."] * 20
    assert language_warning("x", english, "de", "en") == (
        "warning: x looks like en, not like de. Are source and target swapped?"
    )
    for texts, languages in ((german, ("de", "en")), (english[:1], ("de", "en")), (english, (None, None))):
        assert language_warning("x", texts, *languages) is None


def test_few_texts_give_a_warning_if_each_is_certainly_in_the_other_language():
    english = ["The dog is in the town.", "She has a house and a dog."]
    assert language_warning("x", english, "de", "en").startswith("warning: x looks like en, not like de.")
    assert language_warning("x", [*english, "Dogs."], "de", "en") is None


def test_few_pairs_give_no_warning():
    pairs = [("der Hund", "the dog")] * 19
    assert swapped_sides(pairs, {"validation": swapped(pairs)}, NOT_KNOWN) == []
    assert len(swapped_sides(pairs * 2, {"validation": swapped(pairs * 2)}, NOT_KNOWN)) == 1


def test_evidence_is_letters_of_a_script_or_frequent_words():
    assert language_evidence("ar-EG", ["كتاب abc"]) == pytest.approx(4 / 7)
    assert language_evidence("de", ["Der Hund ist da"]) == 0.5
    assert language_evidence("xx", ["abc"]) is None


def test_line_lost_in_the_middle_gives_a_warning_even_if_one_is_added_at_the_end():
    generator = random.Random(0)
    sources = ["x" * generator.randint(10, 90) for _ in range(400)]
    targets = ["y" * (len(source) + generator.randint(-5, 5)) for source in sources]
    assert shifted_lines("training", list(zip(sources, targets))) is None
    lost = list(zip(sources, targets[:250] + targets[251:] + ["yyy"]))
    added = list(zip(sources, [*targets[:250], "yyy", *targets[250:-1]]))
    for pairs in (lost, added):
        warning = shifted_lines("training", pairs)
        assert warning.startswith("warning: at the end of the last quarter of the training text, source and target")
    assert shifted_lines("test", [("x" * 9, "y" * 9)] * 400) is None
