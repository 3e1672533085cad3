"""What is doubtful about a source: its language, its characters, capitals, and wrong encodings."""

import pytest
from transformers import pipeline

from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.text.markers import KEEP_TOKENS
from hf_vaswani.text.source_warnings import keep_warning, source_warnings

from ..conftest import tiny_model

LINES = ["the dog runs and the cat sleeps", "der hund läuft und die katze schläft", "THE DOG"]
LACKS = "the source has characters or words that the model's vocabulary lacks: "


def trained(lines=LINES, **arguments):
    return train_tokenizer([(line, line) for line in lines], TokenizerArguments(vocab_size=80, **arguments))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("der hund läuft", []),
        ("the dog and the cat", ["the source looks like en, not like de"]),
        ("der 猫 und die 猫猫 und Ω hund Щ", [f"{LACKS}猫, 猫猫, Ω and 1 more"]),
        ("THE DOG", ["the source is in capitals, which the model knows less well"]),
        ("DOG", []),
        ("", []),
        ("x" * 100 + "猫", [f"{LACKS}{'x' * 40}…"]),
    ],
)
def test_warnings_of_a_text(text, expected):
    found = source_warnings(["der hund", text], trained(), "de")
    assert [warnings for warnings in found[0]] == [] and [w for w in found[1] if "Latin-1" not in w] == expected


def test_text_in_a_wrong_encoding():
    [[warning, *_]] = source_warnings(["der hund lÃ¤uft"], trained(), "de")
    assert warning == "the source looks like UTF-8 that was read as Latin-1"


def test_capitals_are_no_matter_to_a_tokenizer_without_case():
    assert source_warnings(["THE DOG"], trained(lowercase=True)) == [[]]


def test_languages_are_not_looked_at_where_the_source_language_is_unknown():
    assert source_warnings(["the dog and the cat"], trained()) == [[]]


def test_pipeline_returns_them_with_each_text(tokenizer):
    translator = pipeline("translation", model=tiny_model(source_language="de"), tokenizer=tokenizer)
    texts = ["w1", "w2 猫", "the dog and the cat"]
    found = translator(texts, return_warnings=True, max_new_tokens=3)
    assert [result.get("warning", "").removesuffix("; is empty") for result in found] == [
        "",
        f"{LACKS}猫",
        f"the source looks like en, not like de; {LACKS}the, dog, and and 1 more",
    ]
    assert not any("warning" in result for result in translator(texts, return_warnings=False, max_new_tokens=3))
    ids = translator(texts, return_warnings=True, max_new_tokens=3, n_best=2, num_beams=2)
    assert all(one["warning"].startswith(f"{LACKS}猫") for one in ids[1])


def test_model_without_placeholders_may_lose_what_is_to_be_kept():
    tokenizer = trained(["the dog a.b@example.com"])
    assert "has not learned to keep placeholders" in keep_warning(tokenizer, ["email", "emoji", "x+"])
    assert keep_warning(tokenizer, []) is None
    markers = list(KEEP_TOKENS), list(KEEP_TOKENS)
    learned = train_tokenizer([(line, line) for line in LINES], TokenizerArguments(vocab_size=80), markers)
    assert keep_warning(learned, ["email", "emoji"]) is None
