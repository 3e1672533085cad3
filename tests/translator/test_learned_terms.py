"""Terms of models that have learned to use them: they stand in the sources, and only there."""

import pytest
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.text.markers import KEEP_TOKENS, TERM_TOKENS

from ..conftest import tiny_model

LINES = ["der kleine hund läuft", "ein hund und eine katze", "a small dog runs <fast>", "the hound , a cat"] * 3
SEARCH = {"num_beams": 2, "max_new_tokens": 12}
TERMS = {"hund": ["hound", "dog"]}
TEXT = "der hund läuft"


@pytest.fixture(scope="module")
def tokenizer():
    settings = TokenizerArguments(vocab_size=120, min_frequency=1)
    return train_tokenizer(list(zip(LINES, LINES)), settings, (list(TERM_TOKENS), []))


@pytest.fixture
def translator(tokenizer):
    model = tiny_model(vocab_size=len(tokenizer))
    return pipeline("translation", model=model, tokenizer=tokenizer, engine="torch", **SEARCH)


@pytest.fixture
def read(translator, monkeypatch):
    """What the model has read, as texts."""
    sources, forward = [], translator._forward

    def spy(inputs, **options):
        for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"]):
            tokens = translator.tokenizer.convert_ids_to_tokens(ids[mask.bool()].tolist()[:-1])
            sources.append("".join(tokens).replace("▁", " ").strip())
        return forward(inputs, **options)

    monkeypatch.setattr(translator, "_forward", spy)
    return sources


def test_the_model_reads_the_first_term_in_its_source_also_when_it_searches_again(translator, read):
    [result] = translator(TEXT, terms=TERMS)
    assert set(read) == {"der<term> hound</term> läuft"} and len(read) == 2
    assert {"hound", "dog"} & set(result["translation_text"].split())


def test_texts_without_terms_are_read_as_they_are(translator, read):
    translator(["eine katze", TEXT], terms=[TERMS, None])
    assert sorted(read) == ["der hund läuft", "eine katze"]


def test_what_looks_like_an_annotation_is_text(translator, read):
    text = "<term> hund </term> katze"
    ids = translator.tokenizer(text)["input_ids"]
    assert not set(ids) & set(translator.tokenizer.convert_tokens_to_ids(list(TERM_TOKENS)))
    translator(text, terms=TERMS, on_unmet="accept")
    [source] = read
    assert source.count("<term> hound</term>") == 1 and "hund" not in source
    assert translator(f"{TEXT} \ufddd", terms=TERMS, on_unmet="accept") == translator(
        f"{TEXT} \ufffd", terms=TERMS, on_unmet="accept"
    )


def test_accept_searches_for_nothing_again_and_warns_of_nothing(translator, read, caplog):
    [result] = translator(TEXT, terms=TERMS, on_unmet="accept", return_warnings=True)
    assert len(read) == 1 and "lacks" not in result.get("warning", "")


def test_accept_needs_a_model_that_has_learned_terms(tokenizer):
    plain = train_tokenizer(list(zip(LINES, LINES)), TokenizerArguments(vocab_size=120, min_frequency=1))
    translator = pipeline("translation", model=tiny_model(vocab_size=len(tokenizer)), tokenizer=plain)
    with pytest.raises(ValueError, match="was not trained with augmentation.terms"):
        translator(TEXT, terms=TERMS, on_unmet="accept")


def test_alignments_show_only_what_the_text_has(translator):
    plain, found = (
        translator(TEXT, terms=terms, on_unmet=on_unmet, return_alignments=True)[0]
        for terms, on_unmet in ((None, "warn"), (TERMS, "accept"))
    )
    assert found["source_tokens"] == plain["source_tokens"]
    assert {target for _, target in found["alignment"]} == set(range(len(found["target_tokens"])))
    assert all(0 <= source < len(found["source_tokens"]) for source, _ in found["alignment"])


def test_a_source_that_has_room_only_without_its_terms_is_read_without(translator, read):
    length = len(translator.tokenizer(TEXT)["input_ids"])
    translator(TEXT, terms=TERMS, max_source_length=length, on_unmet="accept")
    assert read == [TEXT]


def test_each_sentence_and_each_prefix(translator, read):
    translator("hund katze\nkatze", terms=TERMS, split_sentences=True, on_unmet="accept")
    assert sorted(read) == ["<term> hound</term> katze", "katze"]
    [result] = translator([TEXT], prefixes=["a cat"], terms=TERMS, on_unmet="accept")
    assert result["translation_text"].startswith("a cat") and "<term>" in read[-1]


@pytest.mark.parametrize("engine", ["ctranslate2", "onnx"])
def test_other_engines_read_them_too(tokenizer, engine):
    pytest.importorskip("ctranslate2" if engine == "ctranslate2" else "onnxruntime")
    model, options = tiny_model(vocab_size=len(tokenizer)), {"terms": TERMS, "on_unmet": "accept", **SEARCH}
    own, other = (pipeline("translation", model=model, tokenizer=tokenizer, engine=name) for name in ("torch", engine))
    assert other(TEXT, **options) == own(TEXT, **options)
    assert other.selection.used == {engine}


def test_an_exported_model_reads_them_and_has_those_that_it_lacks(tokenizer, tmp_path):
    pytest.importorskip("ctranslate2")
    tiny_model(vocab_size=len(tokenizer)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "exported"), "--to", "ctranslate2"]) == 0
    original, exported = (
        pipeline("translation", model=str(tmp_path / name), **SEARCH) for name in ("model", "exported")
    )
    assert exported(TEXT, terms=TERMS, on_unmet="accept") == original(TEXT, terms=TERMS, on_unmet="accept")
    [result] = exported(TEXT, terms=TERMS, on_unmet="error")
    assert {"hound", "dog"} & set(result["translation_text"].split())


def test_terms_and_what_is_kept_go_together():
    settings = TokenizerArguments(vocab_size=120, min_frequency=1)
    markers = ([*KEEP_TOKENS, *TERM_TOKENS], [*KEEP_TOKENS])
    both = train_tokenizer(list(zip(LINES, LINES)), settings, markers)
    translator = pipeline("translation", model=tiny_model(vocab_size=len(both)), tokenizer=both, **SEARCH)
    text = "der hund {name} läuft"
    [result] = translator(text, terms=TERMS, keep="placeholder", return_alignments=True)
    assert "{name}" in result["translation_text"] and {"hound", "dog"} & set(result["translation_text"].split())
    [plain] = translator(text, keep="placeholder", return_alignments=True)
    assert result["source_tokens"] == plain["source_tokens"]
    assert "{name}" in translator(text, terms=TERMS, keep="placeholder", on_unmet="accept")[0]["translation_text"]
