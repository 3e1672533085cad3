"""Pairs held out of the training text: which they are, and that they stay separate."""

import pytest

from hf_vaswani.data.filters import FilterSettings, HeldOut
from hf_vaswani.data.prepared import prepare_text
from hf_vaswani.data.sources.text_source import TextSource
from hf_vaswani.errors import InputError

PARTS = ("train", "validation", "test")
PAIRS = [(f"Satz {i % 900}", f"sentence {i % 900}") for i in range(1000)]
TENTHS = HeldOut(validation=0.1, test=0.2, seed=5)


def parts(held_out: HeldOut, pairs=PAIRS) -> dict[str, list]:
    return {part: list(held_out.select(pairs, part)) for part in PARTS}


def test_each_pair_is_in_one_part_and_duplicates_stay_together():
    found = parts(TENTHS)
    assert sorted(pair for part in found.values() for pair in part) == sorted(PAIRS)
    assert not set(found["train"]) & set(found["validation"]) and not set(found["train"]) & set(found["test"])
    assert not set(found["validation"]) & set(found["test"])


def test_parts_have_the_requested_shares():
    sizes = [len(part) for part in parts(TENTHS, [(str(i), "a") for i in range(10_000)]).values()]
    # Four standard deviations of the binomial distribution.
    assert sizes == pytest.approx([7_000, 1_000, 2_000], abs=185)


def test_held_out_pairs_depend_on_the_seed():
    assert parts(TENTHS) == parts(HeldOut(validation=0.1, test=0.2, seed=5))
    other = parts(HeldOut(validation=0.1, test=0.2, seed=6))
    assert other["validation"] != parts(TENTHS)["validation"]


def test_pairs_stay_in_their_part_when_text_is_added_or_reordered():
    more = [("neu", "new"), *PAIRS[::-1], ("mehr", "more")]
    before, after = parts(TENTHS), parts(TENTHS, more)
    for part in PARTS:
        assert set(before[part]) <= set(after[part])


def test_adding_a_test_share_does_not_change_the_validation_set():
    assert parts(HeldOut(validation=0.1, seed=5))["validation"] == parts(TENTHS)["validation"]


def test_nothing_is_held_out_by_default():
    assert list(HeldOut().select(PAIRS, "train")) == PAIRS
    assert not HeldOut() and HeldOut(test=0.1)


@pytest.fixture
def source(write_lines):
    def make(name: str, pairs) -> TextSource:
        sides = [write_lines(f"{name}.{side}", [pair[side] for pair in pairs]) for side in (0, 1)]
        return TextSource(source=(sides[0],), target=(sides[1],))

    return make


def test_prepared_parts_of_several_sources_are_filtered_and_cached_separately(source, tmp_path):
    sources = [source("a", [*PAIRS, ("", "empty")]), source("b", PAIRS[:300])]
    settings = FilterSettings(drop_duplicates=True)

    def read(part, held_out=TENTHS):
        return list(prepare_text(sources, ("de", "en"), settings, tmp_path / "cache", held_out, part))

    found = {part: read(part) for part in PARTS[1:]}
    # The second source only repeats the first: without duplicates, nothing of it is left to train on.
    with pytest.raises(InputError, match=r"b\.0.* has no usable pairs"):
        read("train")
    sources.pop()
    found["train"] = read("train")
    assert {part: set(pairs) for part, pairs in found.items()} == {
        part: set(pairs) for part, pairs in parts(TENTHS).items()
    }
    assert all(len(pairs) == len(set(pairs)) for pairs in found.values())
    assert read("train", HeldOut(validation=0.1, seed=6)) != found["train"]
    assert len(read("train", None)) == 900


def test_empty_part_is_a_clear_error(source, tmp_path):
    few = [source("few", [("a", "b"), ("c", "d")])]
    with pytest.raises(
        InputError, match=r"A test share of 0.001 holds out no usable pairs from .*few.*Raise data.test_share"
    ):
        prepare_text(few, ("de", "en"), FilterSettings(), tmp_path, HeldOut(test=0.001), "test")
    with pytest.raises(InputError, match="all pairs are held out, leaving none to train on"):
        prepare_text(few, ("de", "en"), FilterSettings(), tmp_path, HeldOut(validation=0.9999), "train")
