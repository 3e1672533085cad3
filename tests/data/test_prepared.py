import random

import numpy as np
import pytest

from hf_vaswani.data import filters, prepared
from hf_vaswani.data.filters import FilterSettings
from hf_vaswani.data.prepared import prepare_text, tokenize, usable
from hf_vaswani.data.sources.text_source import TextSource
from hf_vaswani.errors import InputError

LANGUAGES = ("de", "en")


@pytest.fixture
def source(write_lines):
    """Writes a source with words that the tiny tokenizer knows."""

    def make(name: str, lines: list[tuple[str, str]]) -> TextSource:
        sides = [write_lines(f"{name}.{side}", [pair[side] for pair in lines]) for side in (0, 1)]
        return TextSource(source=(sides[0],), target=(sides[1],))

    return make


LINES = [("w1 w2", "w3"), ("", "w4"), ("w5", "w6 w7 w8"), ("w1 w2", "w3")]


def test_text_is_filtered_and_counted_and_keeps_its_source_number(source, tmp_path):
    sources = [source("a", LINES), source("b", [("w9", "w9")])]
    text = prepare_text(sources, LANGUAGES, FilterSettings(drop_duplicates=True), tmp_path / "cache")
    assert list(text) == [("w1 w2", "w3"), ("w5", "w6 w7 w8"), ("w9", "w9")]
    assert text.dataset["origin"][:] == [0, 0, 1]
    assert text.counts == {"pairs": 5, "empty": 1, "control_characters": 0, "copies": 1, "duplicates": 1}
    assert list(text) == list(text)


def test_pairs_that_are_also_in_the_text_are_counted(source, tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "WRITE_BATCH", 1)
    text = prepare_text([source("a", LINES), source("b", [("w9", "w9")])], LANGUAGES, FilterSettings(), tmp_path)
    # Twice the same pair, one with another target, one with another source, one that was left out.
    pairs = [("w9", "w9"), ("w9", "w9"), ("w1 w2", "w3"), ("w5", "w3"), ("w2", "w3"), ("", "w4")]
    assert text.overlap(pairs) == 3
    assert text.overlap([]) == 0


def test_prepared_text_is_cached_by_content_and_settings(source, tmp_path, monkeypatch):
    reads = []
    original = filters.iterate_pairs
    monkeypatch.setattr(filters, "iterate_pairs", lambda *args: reads.append(1) or original(*args))
    settings, cache = FilterSettings(), tmp_path / "cache"
    first = prepare_text([source("a", LINES)], LANGUAGES, settings, cache)
    moved = prepare_text([source("moved", LINES)], LANGUAGES, settings, cache)
    assert len(reads) == 1 and list(moved) == list(first) and moved.digest == first.digest
    prepare_text([source("a", LINES[:3])], LANGUAGES, settings, cache)
    prepare_text([source("a", LINES)], LANGUAGES, FilterSettings(drop_duplicates=True), cache)
    assert len(reads) == 3
    # Length limits are applied later.
    prepare_text([source("a", LINES)], LANGUAGES, FilterSettings(max_length=3), cache)
    assert len(reads) == 3


@pytest.mark.parametrize("file", ["summary.json", "text.arrow", "ids*.arrow"])
@pytest.mark.parametrize("share", [0, 0.5])
def test_damaged_cache_is_rebuilt(source, tokenizer, tmp_path, caplog, file, share):
    def prepare():
        text = prepare_text([source("a", LINES)], LANGUAGES, FilterSettings(), tmp_path / "cache")
        return list(text), tokenize(text, tokenizer, tmp_path / "cache").dataset[:]

    expected = prepare()
    [path] = (tmp_path / "cache").glob(f"*/{file}")
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert prepare() == expected
    assert "is damaged or incomplete; making it again" in caplog.text
    assert not list((tmp_path / "cache").glob("*.part"))


@pytest.mark.parametrize("file", ["text.arrow", "ids*.arrow"])
def test_flipped_bit_in_the_cache_is_detected(source, tokenizer, tmp_path, caplog, file):
    def prepare():
        text = prepare_text([source("a", LINES)], LANGUAGES, FilterSettings(), tmp_path / "cache")
        return list(text), tokenize(text, tokenizer, tmp_path / "cache").dataset[:]

    expected = prepare()
    [path] = (tmp_path / "cache").glob(f"*/{file}")
    content = bytearray(path.read_bytes())
    place = content.index(b"w5") if file == "text.arrow" else len(content) // 2
    content[place] ^= 1
    path.write_bytes(content)
    assert prepare() == expected
    assert [record.name for record in caplog.records] == ["hf_vaswani.data.cache"]


def test_source_without_usable_pairs_is_an_error_with_counts(source, tmp_path):
    with pytest.raises(InputError, match=r"b\.0.* has no usable pairs: 2 pairs read, 2 left out"):
        prepare_text(
            [source("a", LINES), source("b", [("w1", " "), ("", "w2")])], LANGUAGES, FilterSettings(), tmp_path
        )


@pytest.mark.parametrize("processes", [1, 2])
def test_tokens_and_lengths_match_the_tokenizer_for_any_number_of_processes(source, tokenizer, tmp_path, processes):
    generator = random.Random(0)
    lines = [
        tuple(" ".join(generator.choices([f"w{i}" for i in range(36)], k=generator.randint(1, 9))) for _ in range(2))
        for _ in range(2500)
    ]
    text = prepare_text([source("a", lines)], LANGUAGES, FilterSettings(), tmp_path / "cache")
    pairs = tokenize(text, tokenizer, tmp_path / "cache", processes)
    expected = [[4 + int(word[1:]) for word in side.split()] + [2] for line in lines for side in line]
    found = [ids for row in pairs.dataset for ids in (row["input_ids"], row["labels"])]
    assert found == expected
    assert pairs.source_lengths.tolist() == [len(ids) for ids in expected[::2]]
    assert pairs.target_lengths.tolist() == [len(ids) for ids in expected[1::2]]
    assert pairs.dataset.features["input_ids"].feature.dtype == "int32"


def test_text_is_tokenized_once_per_tokenizer(source, tokenizer, tmp_path, monkeypatch):
    calls = []
    original = prepared.encode_to_file
    monkeypatch.setattr(prepared, "encode_to_file", lambda *args: calls.append(1) or original(*args))
    text = prepare_text([source("a", LINES)], LANGUAGES, FilterSettings(), tmp_path / "cache")
    for _ in range(2):
        tokenize(text, tokenizer, tmp_path / "cache")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    other = type(tokenizer).from_pretrained(tmp_path / "tokenizer")
    tokenize(text, other, tmp_path / "cache")
    assert len(calls) == 1
    other.split_special_tokens = True
    other.init_kwargs["split_special_tokens"] = True
    tokenize(text, other, tmp_path / "cache")
    assert len(calls) == 2


def test_long_and_uneven_pairs_are_dropped_from_tokens_and_text(source, tokenizer, tmp_path):
    lines = [("w1", "w2"), ("w1 w2 w3 w4", "w1"), ("w5", "w6 w7 w8 w9 w10 w11")]
    text = prepare_text([source("a", lines)], LANGUAGES, FilterSettings(), tmp_path / "cache")
    settings = FilterSettings(max_length=6, max_length_ratio=2)
    pairs, kept, counts = usable(text, tokenize(text, tokenizer, tmp_path / "cache"), settings)
    assert kept["source"][:] == ["w1"] and pairs.source_lengths.tolist() == [2]
    assert pairs.dataset[0] == {"input_ids": [5, 2], "labels": [6, 2]}
    assert (counts["too_long"], counts["length_ratio"], counts["pairs"]) == (1, 1, 3)
    with pytest.raises(InputError, match="has no usable pairs: 3 pairs read, 3 left out"):
        usable(text, tokenize(text, tokenizer, tmp_path / "cache"), FilterSettings(max_length=1))
    assert np.array_equal(pairs.origins, [0])
