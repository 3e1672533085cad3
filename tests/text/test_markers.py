"""Tokens that no text can spell."""

import pytest
from transformers import AutoTokenizer

from hf_vaswani.core.tokenization_vaswani import VaswaniTokenizer
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.bpe_dropout import BpeDropout
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.text.markers import (
    KEEP_TOKENS,
    KEEPS,
    TERM_TOKENS,
    has_keep_tokens,
    has_term_tokens,
    with_markers,
    with_terms,
)
from hf_vaswani.text.vocabularies import vocabularies

LINES = ["Ein Hund läuft (schnell), und eine Katze schläft.", "A dog runs (fast), and a cat sleeps - here."] * 3
MARKERS = [*KEEP_TOKENS, *TERM_TOKENS], [*KEEP_TOKENS]
KINDS = [
    {},
    {"joint": False},
    {"type": "unigram", "byte_fallback": True},
    {"type": "wordpiece"},
    {"type": "word"},
    {"whitespace": "keep"},
    {"pre_tokenizer": "whitespace", "word_boundary": "after"},
]


def learned(**arguments) -> VaswaniTokenizer:
    arguments = {"vocab_size": 120, "min_frequency": 1, **arguments}
    if arguments.get("type") == "unigram":
        arguments |= {"vocab_size": 400}
        del arguments["min_frequency"]
    return train_tokenizer(list(zip(LINES, LINES)), TokenizerArguments(**arguments), MARKERS)


@pytest.mark.parametrize("arguments", KINDS, ids=str)
def test_markers_survive_encoding_and_decoding_with_the_spaces_beside_them(arguments):
    marked = with_markers(learned(**arguments))
    for text in (f"Ein {KEEPS[0]} läuft", f"{KEEPS[9]} und {KEEPS[2]}", f"A dog {KEEPS[1]}"):
        ids = marked("Ein", text_target=text)["labels"]
        assert marked.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("arguments", KINDS, ids=str)
def test_names_of_tokens_in_a_text_are_text(arguments):
    tokenizer = learned(**arguments)
    text = " ".join([*KEEP_TOKENS, *TERM_TOKENS, "x<keep_1><term>"])
    for reader in (tokenizer, with_markers(tokenizer)):
        for ids, vocabulary in zip(reader(text, text_target=text).values(), vocabularies(tokenizer)):
            numbers = {vocabulary[token] for token in (*KEEP_TOKENS, *TERM_TOKENS) if token in vocabulary}
            assert not numbers & set(ids)


def test_term_tokens_are_on_the_source_side_only():
    source, target = vocabularies(learned(joint=False))
    assert set(TERM_TOKENS) <= source.keys() and not set(TERM_TOKENS) & target.keys()
    assert set(KEEP_TOKENS) <= source.keys() & target.keys()
    assert max(len(source), len(target)) <= 120


def test_terms_have_the_tokens_of_running_text():
    marked = with_markers(learned())
    text = "Ein Hund läuft"
    start, end = (marked.get_vocab()[marker] for marker in "\ufddc\ufddd")
    words = [marked(word, add_special_tokens=False)["input_ids"] for word in text.split()]
    for place, span in enumerate([(0, 3), (4, 8), (9, 14)]):
        expected = [list(ids) for ids in words]
        expected[place] = [start, *marked("dog", add_special_tokens=False)["input_ids"], end]
        annotated = with_terms(text, [(*span, "dog")])
        assert marked(annotated, add_special_tokens=False)["input_ids"] == sum(expected, [])


@pytest.mark.parametrize("joint", [True, False])
def test_saved_tokenizer_has_the_same_markers(tmp_path, joint):
    tokenizer = learned(joint=joint)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=True)
    assert has_keep_tokens(loaded) and has_term_tokens(loaded)
    text = with_terms(f"Ein Hund {KEEPS[4]}", [(4, 8, "dog")])
    for one, other in ((tokenizer, loaded), (with_markers(tokenizer), with_markers(loaded))):
        assert dict(one(text, text_target="A dog")) == dict(other(text, text_target="A dog"))


def test_bpe_dropout_leaves_markers_whole():
    import numpy as np

    marked = with_markers(learned())
    text = f"Ein {KEEPS[0]} läuft, {KEEPS[1]}."
    [ids] = BpeDropout(marked.backends["source"], 0.9).encode([text], np.random.default_rng(0))
    assert marked.decode(ids, skip_special_tokens=True) == text
    [ids] = BpeDropout(marked.backends["source"], 0.0).encode([text], np.random.default_rng(0))
    assert ids == marked(text)["input_ids"]


def test_tokenizer_without_markers_has_none():
    tokenizer = train_tokenizer(list(zip(LINES, LINES)), TokenizerArguments(vocab_size=120, min_frequency=1))
    assert not has_keep_tokens(tokenizer) and not has_term_tokens(tokenizer)
