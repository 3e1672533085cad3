"""What two texts differ in is named with numbers, and nothing where random halves differ as much."""

import random
import re

import pytest

from hf_vaswani.cleaning import compare as module
from hf_vaswani.cleaning.compare import LineSample, compare
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs


@pytest.fixture(scope="module")
def lines():
    pairs = iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en"))
    found = list(dict.fromkeys(source for source, _ in pairs))[:3000]
    random.Random(1).shuffle(found)
    return found


def texts(one, other, kind=None):
    return [each.text for each in compare(one, other) if kind in (None, each.kind)]


def test_random_halves_of_a_text_do_not_differ(lines):
    assert compare(lines[:1500], lines[1500:]) == [] == compare(lines[:2800], lines[2800:])


def test_few_lines_say_nothing(lines):
    assert compare(lines[:1500], ["SOMETHING ELSE"] * 1000) == [] == compare([], lines)


def test_two_spellings_are_shares_of_each_text(lines):
    one = [line.replace("ü", "û") if number % 4 else line for number, line in enumerate(lines[:2000])]
    counts = [sum(letter in word for line in one for word in line.split()) for letter in "üû"]
    [difference] = [each for each in compare(one, lines[2000:]) if each.is_of_two]
    share = counts[1] / sum(counts)
    assert "û and ü (" in difference.text and difference.kind == "spelling"
    expected = f"the training text has {share:.0%} and {1 - share:.0%} of these, the test text 0% and 100%"
    assert difference.text.endswith(expected)


def test_letters_that_a_text_lacks_are_named(lines):
    [text] = texts(lines[:2000], [line.replace("ß", "ss") for line in lines[2000:]], "spelling")
    assert text.startswith("the training text has far more ß (") and text.endswith("of the words against 0%)")


def test_tokenized_lowercased_and_short_lines_are_shares_and_medians(lines):
    other = [re.sub(r"([.,?!])", r" \1", line.lower()) for line in lines[2000:]]
    assert any(text.startswith("0% of the lines of the training text have a space before a mark, 100%")
               for text in texts(lines[:2000], other, "punctuation"))  # fmt: skip
    assert "0% of the lines of the training text have no capital letter, 100% of the test text" in texts(
        lines[:2000], other, "case"
    )
    doubled = [f"{one} {other}" for one, other in zip(lines[2000:2500], lines[2500:])]
    [text] = texts(lines[:2000], doubled, "length")
    medians = [sorted(len(re.findall(r"\w+(?:-\w+)*", line)) for line in own) for own in (lines[:2000], doubled)]
    one, two = ((own[len(own) // 2] + own[(len(own) - 1) // 2]) / 2 for own in medians)
    assert text == f"a line of the training text has {one:g} words (median), one of the test text {two:g}"


def test_words_that_the_training_text_never_has(lines):
    other = [f"zwölf Boxkämpfer {line}" for line in lines[2000:]]
    [unknown] = [text for text in texts(lines[:2000], other, "words") if "never" in text]
    known = {word.lower() for line in lines[:2000] for word in re.findall(r"\w+(?:-\w+)*", line)}
    words = [word.lower() for line in other for word in re.findall(r"\w+(?:-\w+)*", line) if word[0].isalpha()]
    share = sum(word not in known for word in words) / len(words)
    assert unknown.startswith(f"{share:.0%} of the words of the test text never occur in the training text")
    [rare] = [text for text in texts(lines[:2000], other, "words") if "far rarer" in text]
    assert "boxkämpfer" in rare


@pytest.mark.parametrize(("each", "is_named"), [(2, False), (1, True)])
def test_a_few_more_new_words_than_a_part_of_the_training_text_has_are_no_difference(lines, each, is_named):
    # 16 and 21 % of the words are new, and 12 % of those of a part of the training text.
    other = [f"{line} Zork" if number % each == 0 else line for number, line in enumerate(lines[300:900])]
    assert any("never occur in" in text for text in texts(lines[:300], other)) is is_named


def test_a_sample_of_lines_is_bounded_and_from_all_parts(monkeypatch):
    monkeypatch.setattr(module, "MOST_LINES", 10)
    sample = LineSample()
    for number in range(1000):
        sample.add(str(number))
    found = list(map(int, sample.lines))
    assert 10 <= len(found) < 20 and found == list(range(0, 1000, sample.step))
