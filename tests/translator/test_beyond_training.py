"""Texts beyond what a model was trained on are split into sentences by default."""

import pytest
from transformers import TextIteratorStreamer, pipeline

from ..conftest import tiny_model
from ..families import family, only_words

OPTIONS = {"max_new_tokens": 3, "suppress_tokens": [0, 1, 2, 3]}  # a random model writes words up to the length limit
SENTENCES = ["w1 w2 .", "w3 !", "w4 w5 w6 ?"]  # 4, 3 and 5 tokens with the end token; 10 tokens together
TEXT = f"{SENTENCES[0]}  {SENTENCES[1]}\n\n{SENTENCES[2]}"


@pytest.fixture
def make(tokenizer):
    def make(**fields):
        return pipeline("translation", model=tiny_model(**fields), tokenizer=tokenizer, **OPTIONS)

    return make


def alone(translator, texts):
    """The translation of each text as a whole."""
    return [result["translation_text"] for result in translator(texts, split_sentences=False)]


@pytest.mark.parametrize(
    "known", [{}, {"multi_sentence_share": 0.0, "longest_training_source": 50}, {"multi_sentence_share": 0.9}]
)
def test_each_sentence_is_translated_unless_training_lines_had_several(make, known):
    translator = make(**known)
    one, two, three = alone(translator, SENTENCES)
    assert translator([TEXT])[0]["translation_text"] == f"{one}  {two}\n\n{three}"
    assert list(translator(iter([TEXT])))[0][0]["translation_text"] == f"{one}  {two}\n\n{three}"
    assert alone(translator, [TEXT]) != [f"{one}  {two}\n\n{three}"]


@pytest.mark.parametrize("text", [SENTENCES[0], TEXT], ids=["one sentence", "several"])
def test_whitespace_around_a_text_is_dropped(make, text):
    translator = make()
    expected = translator(text)
    for around in ("  {}", "{} ", "\n\n{}\n", "\t{}\r\n"):
        assert translator(around.format(text)) == expected


def test_six_hundred_sentences_in_one_line_are_all_translated(make):
    translator = make()
    [one] = alone(translator, ["w7 w8 ."])
    assert translator(" ".join(["w7 w8 ."] * 600))[0]["translation_text"] == " ".join([one] * 600)


def test_model_trained_on_several_sentences_gets_pieces_as_long_as_its_longest_source(make):
    share = {"multi_sentence_share": 0.1}
    translator = make(longest_training_source=10, **share)
    assert translator([TEXT]) == translator([TEXT], split_sentences=False)
    shorter = make(longest_training_source=6, **share)
    line = " ".join(SENTENCES)
    first, last = alone(shorter, [" ".join(SENTENCES[:2]), SENTENCES[2]])
    assert shorter(line)[0]["translation_text"] == f"{first} {last}"
    # A single sentence stays whole, however long it is.
    long = " ".join(["w1"] * 30)
    assert shorter(long) == shorter(long, split_sentences=False)


def test_single_sentence_is_translated_as_it_is(make):
    translator = make()
    for text in ("w1 w2 .", " w1 w2 .\n", "w1 . . .", "w1"):
        assert translator(text) == translator(text, split_sentences=False)


def test_text_stays_whole_with_a_prefix_or_a_streamer(make, tokenizer):
    translator = make()
    assert translator([TEXT], prefixes=["w9"]) == translator([TEXT], prefixes=["w9"], split_sentences=False)
    prefixed = translator([TEXT, TEXT], prefixes=["", "w9"])
    assert [result["translation_text"] for result in prefixed] == [
        translator(TEXT)[0]["translation_text"],
        translator([TEXT], prefixes=["w9"])[0]["translation_text"],
    ]
    streamer = TextIteratorStreamer(tokenizer, skip_special_tokens=True)
    [result] = translator(TEXT, streamer=streamer)
    assert "".join(streamer).split() == result["translation_text"].split()
    assert [result] == translator(TEXT, split_sentences=False)


def test_default_can_be_set_when_the_pipeline_is_made(tokenizer):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, split_sentences=False, **OPTIONS)
    assert translator(TEXT) == translator(TEXT, split_sentences=False) != translator(TEXT, split_sentences=True)


def test_scores_alignments_and_tokens_are_joined(make):
    translator = make()
    options = {"num_beams": 2, "n_best": 2}
    parts = [translator(text, return_alignments=True, **options) for text in SENTENCES]
    whole = translator(TEXT, return_alignments=True, **options)
    for rank in (0, 1):
        assert whole[rank]["target_tokens"] == sum((part[rank]["target_tokens"] for part in parts), [])
        # All have three tokens: the mean of log-probabilities is the mean of scores.
        assert whole[rank]["score"] == pytest.approx(sum(part[rank]["score"] for part in parts) / 3)
    ids = [translator(text, return_tensors=True)[0]["translation_token_ids"].tolist() for text in SENTENCES]
    assert translator(TEXT, return_tensors=True)[0]["translation_token_ids"].tolist() == sum(ids, [])


def test_text_with_a_sentence_beyond_the_limit_is_named(make):
    translator = make(position_type="learned", max_position_embeddings=8)
    assert translator(TEXT)[0]["translation_text"].count("\n\n") == 1
    long = f"w1 . {' '.join(['w2'] * 9)} ."
    with pytest.raises(ValueError, match=r"inputs\[1\] has 11 tokens.*split_sentences=True"):
        translator(["w1", long])
    good, error = translator(["w1", long], on_error="return")
    assert good == translator("w1")[0] and "11 tokens" in str(error)


def test_other_families_get_the_whole_text_and_one_warning(tmp_path, caplog):
    model, tokenizer = family("Marian", tmp_path, max_position_embeddings=256)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, max_new_tokens=3)
    translator.model.generation_config.suppress_tokens = only_words("Marian", tokenizer)["suppress_tokens"]
    short, long = "Ein Hund. " * 4, "Ein Hund. " * 20
    few, many = (len(tokenizer(text)["input_ids"]) for text in (short, long))
    assert few <= 128 < many
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        translator(short)
        translator(long, split_sentences=False)
        assert "sentences" not in caplog.text
        results = [translator([short, long]) for _ in range(3)]
    assert (
        caplog.text.count(f"inputs[1] has 20 sentences and {many} tokens") == caplog.text.count("sentences and") == 1
    )
    assert results[0] == translator([short, long], split_sentences=False)
