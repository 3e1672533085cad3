"""What stands out comes in the order of its weight, each with what to do about it."""

import argparse
import re
import shlex

from hf_vaswani.cleaning.compare import Difference, of_each_kind
from hf_vaswani.cleaning.flaws import left_out, mixed, repaired, spelled_in_two_ways, unlike_test, weightiest
from hf_vaswani.cleaning.repairs import NAMES, SHOWN
from hf_vaswani.cleaning.rules import REASONS
from hf_vaswani.commands.clean import add_clean_options


def test_the_weightiest_come_first_and_those_of_few_pairs_not_at_all():
    flaws = left_out(1000, 500, {"copy": 9, "score": 91, "duplicate": 300, "near_duplicate": 100})
    flaws += repaired(1000, {"tags": 500, "entities": 40}) + mixed("target", 120, 30, 500, ["la casa"], False)
    found = weightiest(flaws)
    assert [flaw.title for flaw in found] == [
        "Repetitions", "Words of the source's language in the target", "HTML tags", "Probably not a translation",
    ]  # fmt: skip
    assert found[0].text == "400 of 1,000 pairs (40%) repeat an earlier pair." and found[0].weight == 0.4
    assert found[1].weight == 120 / 500 and "120 of the 500 pairs that were kept (24%)" in found[1].text
    options = ("--keep_reasons duplicate", "--max_mixed 0.2", "--no_repairs tags", "--min_score")
    assert all(option in flaw.remedy for option, flaw in zip(options, found))


def test_options_that_are_named_exist_and_can_be_pasted():
    names = [name for name in REASONS if name != "score"]
    flaws = left_out(1000, 10, dict.fromkeys(REASONS, 50)) + repaired(1000, dict.fromkeys(SHOWN, 100))
    flaws += spelled_in_two_ways(
        "source",
        [f"{word}{mark}" for word in "abcdefghijklmno" for mark in ("xa\u0302", "xa\u0303")],
        [],
        "my test/a file.gn",
    )
    assert "`--like_source 'my test/a file.gn'`" in flaws[-1].remedy
    parser = argparse.ArgumentParser()
    add_clean_options(parser)
    for option in re.findall("`(.+?)`", " ".join(flaw.remedy for flaw in flaws if "`--min" not in flaw.remedy)):
        given = vars(parser.parse_args(["out", *shlex.split(option)]))
        assert set(given["keep_reasons"]) <= set(names) and set(given["no_repairs"]) <= set(NAMES)
    assert "--swap_sides" in next(flaw.remedy for flaw in flaws if "each other's language" in flaw.title)


def test_differences_are_one_flaw_for_each_kind_without_two_spellings():
    differences = {
        "source": [Difference("words", "many new words", 0.9)],
        "target": [Difference("words", "few new words", 0.2), Difference("spelling", "ã and â", 0.8, True)],
    }
    [flaw] = unlike_test(differences)
    assert flaw.text == "Source: many new words; target: few new words."


def test_one_difference_of_each_kind_is_shown_and_of_spellings_one_that_can_be_made_one():
    differences = [
        Difference("words", "new words", 0.9), Difference("spelling", "more f", 0.8), Difference("words", "rare", 0.7),
        Difference("spelling", "ã and â", 0.6, True), Difference("length", "longer", 0.5),
        Difference("case", "A", 0.01),
    ]  # fmt: skip
    assert of_each_kind(differences, 3) == ["new words", "ã and â", "longer"]
    assert of_each_kind(differences, 1) == ["new words"]
