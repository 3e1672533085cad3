"""Translations over a third language: what two models, or one multilingual model twice, make of each sentence."""

import pytest
import torch
from transformers import pipeline

from hf_vaswani.data.tokenizers.tokenizer import with_marks
from hf_vaswani.text.glossary import Glossary
from hf_vaswani.translator.chain import pivot_language

from ..conftest import tiny_model, tiny_tokenizer
from ..families import family, only_words

TERMS = {"w1": "w30", "w5": ["w31 w32", "w33"]}
TEXTS = ["w1 w2 w3", "w4\nw5 w1 w7", "", "w9 w8 w1 w1"]
CONFIDENCE = {"intercept": 0.1, "token_probability": 0.5, "length_ratio": 0.0, "similarity": 0.0, "samples": 0}


def save(folder, seed, source, target, **changes):
    """A model with other weights than `tiny_model`, which writes four words that its tokenizer has."""
    model = tiny_model(source_language=source, target_language=target, **changes)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.generation_config.update(max_new_tokens=4, suppress_tokens=[0, 1, 2, 3])
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def folders(tmp_path):
    """Models from es to en and from en to de."""
    return save(tmp_path / "es_en", 11, "es", "en"), save(tmp_path / "en_de", 6, "en", "de")


@pytest.fixture
def steps(folders):
    return [pipeline("translation", model=folder, engine="torch") for folder in folders]


@pytest.fixture
def chain(folders):
    return pipeline("translation", model=folders[0], second_model=folders[1], engine="torch")


def text_of(translator, text, **options):
    return translator(text, **options)[0]["translation_text"]


def lacks(source, translation, terms):
    return [each for each in Glossary.of(terms).demands(source) if each.count_in(translation) < each.count]


def test_each_sentence_is_translated_by_both_models_by_itself(steps, chain):
    first, second = steps
    for text, found in zip(TEXTS, chain(TEXTS)):
        pivots = [text_of(first, line) for line in text.split("\n")]
        assert found["pivot_text"] == "\n".join(pivots)
        assert found["translation_text"] == "\n".join(text_of(second, pivot) for pivot in pivots)
    assert len({found["pivot_text"] for found in chain(TEXTS)}) == len(TEXTS)


def test_each_sentence_begins_with_the_tag_of_the_text(folders):
    tokenizer = with_marks(tiny_tokenizer(), ["<law>"])
    tokenizer.save_pretrained(folders[0])
    tiny_model(vocab_size=len(tokenizer), source_language="es", target_language="en").save_pretrained(folders[0])
    first = pipeline("translation", model=folders[0], engine="torch")
    chain = pipeline("translation", model=folders[0], second_model=folders[1], engine="torch")
    lines = ["w4 w9", "w5 w1 w7"]
    [found] = chain(["<law> " + "\n".join(lines)])
    assert found["pivot_text"] == "\n".join(text_of(first, f"<law> {line}") for line in lines)
    assert found["pivot_text"].split("\n")[1] != text_of(first, lines[1])


def test_text_is_translated_whole_if_it_is_not_to_be_split(steps, chain):
    first, second = steps
    [found] = chain("w4\nw5 w1", split_sentences=False)
    assert found["pivot_text"] == text_of(first, "w4\nw5 w1", split_sentences=False)
    assert found["translation_text"] == text_of(second, found["pivot_text"])


def test_a_multilingual_model_translates_into_the_third_language_and_out_of_it(tmp_path):
    model, tokenizer = family("NLLB", tmp_path)
    model.generation_config.update(max_new_tokens=6)
    given = {"model": model, "tokenizer": tokenizer}
    german, french, english = "deu_Latn", "fra_Latn", "eng_Latn"
    first = pipeline("translation", **given, src_lang=german, tgt_lang=french)
    second = pipeline("translation", **given, src_lang=french, tgt_lang=english)
    pivot = text_of(first, "ein hund läuft")
    wanted = {"translation_text": text_of(second, pivot), "pivot_text": pivot}
    assert pipeline("translation", **given, src_lang=german, tgt_lang=english, via=french)("ein hund läuft") == [
        wanted
    ]
    plain = pipeline("translation", **given, src_lang=german, tgt_lang=english)
    assert plain("ein hund läuft", via=french) == [wanted]
    assert "pivot_text" not in plain("ein hund läuft")[0]


def test_a_multilingual_model_must_be_told_the_third_language(tmp_path, folders):
    model, tokenizer = family("NLLB", tmp_path)
    given = {"model": model, "tokenizer": tokenizer, "src_lang": "deu_Latn", "second_model": folders[1]}
    with pytest.raises(ValueError, match="^via is missing: a multilingual model must be told the third language"):
        pipeline("translation", **given)("ein hund")


def test_a_multilingual_model_and_one_of_a_single_pair_may_spell_the_third_language_differently(tmp_path, folders):
    model, tokenizer = family("NLLB", tmp_path)
    model.generation_config.update(max_new_tokens=6)
    given = {"model": model, "tokenizer": tokenizer, "src_lang": "deu_Latn"}
    pivot = text_of(pipeline("translation", **given, tgt_lang="eng_Latn"), "ein hund")
    wanted = text_of(pipeline("translation", model=folders[1]), pivot)
    [found] = pipeline("translation", **given, via="eng_Latn", second_model=folders[1])("ein hund")
    assert found == {"translation_text": wanted, "pivot_text": pivot}
    with pytest.raises(ValueError, match="^via='english' is not a language of this tokenizer"):
        pipeline("translation", **given, tgt_lang="fra_Latn", via="english")("ein hund")


def test_t5_has_the_prefix_of_each_step(tmp_path):
    tasks = {f"translation_{pair}": {"prefix": f"{pair} "} for pair in ("de_to_en", "en_to_fr")}
    model, tokenizer = family("T5", tmp_path, task_specific_params=tasks)
    model.generation_config.update(max_new_tokens=6, **only_words("T5", tokenizer))
    given = {"model": model, "tokenizer": tokenizer}
    pivot = text_of(pipeline("translation_de_to_en", **given), "ein hund")
    wanted = text_of(pipeline("translation_en_to_fr", **given), pivot)
    [found] = pipeline("translation_de_to_fr", via="en", **given)("ein hund")
    assert found == {"translation_text": wanted, "pivot_text": pivot}


def test_score_is_the_sum_and_confidence_the_product_of_both(tmp_path):
    folders = [
        save(tmp_path / f"{seed}", seed, *pair, confidence=CONFIDENCE)
        for seed, pair in ((11, ("es", "en")), (6, ("en", "de")))
    ]
    first, second = (pipeline("translation", model=folder, engine="torch") for folder in folders)
    chain = pipeline("translation", model=folders[0], second_model=folders[1], engine="torch")
    [one] = first("w1 w2 w3", return_confidence=True)
    [two] = second(one["translation_text"], return_confidence=True)
    [found] = chain("w1 w2 w3", return_confidence=True)
    assert found["score"] == pytest.approx(one["score"] + two["score"], abs=1e-5)
    assert found["confidence"] == pytest.approx(one["confidence"] * two["confidence"], abs=1e-5)


def test_score_of_a_text_is_its_log_probability_per_token(steps, chain):
    lines = ["w4 w2", "w5 w1 w7"]
    parts = []
    for line in lines:
        [one] = steps[0](line, return_scores=True)
        [two] = steps[1](one["translation_text"], return_scores=True)
        parts.append((one["score"], two["score"]))
    # Each translation has four tokens, so that a text's score is the mean of its lines'.
    [found] = chain("\n".join(lines), return_scores=True)
    lengths = [len(tiny_tokenizer()(text)["input_ids"]) for text in found["translation_text"].split("\n")]
    assert len(set(lengths)) == 1
    assert found["score"] == pytest.approx(sum(map(sum, parts)) / 2, abs=1e-5)


def test_n_best_are_translations_of_one_text_in_the_third_language(steps, chain):
    found = chain("w1 w2 w3", n_best=3, num_beams=3)
    pivot = text_of(steps[0], "w1 w2 w3", num_beams=3)
    assert {each["pivot_text"] for each in found} == {pivot}
    assert [each["translation_text"] for each in found] == [
        each["translation_text"] for each in steps[1](pivot, n_best=3, num_beams=3)
    ]


def test_samples_are_drawn_by_the_second_model(steps, chain):
    torch.manual_seed(0)
    found = chain("w1 w2 w3", do_sample=True, num_beams=1, num_return_sequences=4)
    assert {each["pivot_text"] for each in found} == {text_of(steps[0], "w1 w2 w3")}
    assert len({each["translation_text"] for each in found}) > 1


def test_translations_have_the_terms_of_their_sources(chain):
    plain, found = chain(TEXTS), chain(TEXTS, terms=TERMS)
    assert any(lacks(text, each["translation_text"], TERMS) for text, each in zip(TEXTS, plain))
    assert not any(lacks(text, each["translation_text"], TERMS) for text, each in zip(TEXTS, found))


def test_a_text_that_is_nothing_but_a_term_becomes_its_translation(chain):
    assert text_of(chain, "w2 w3", terms={"w2 w3": ["w31 w32", "w33"]}) == "w31 w32"
    assert text_of(chain, "w4\nw1", terms=TERMS).split("\n")[1] == "w30"


def test_each_text_may_have_terms_of_its_own(chain):
    found = chain(["w1 w2", "w1 w2"], terms=[{"w1": "w30"}, None])
    assert "w30" in found[0]["translation_text"].split()
    assert found[1] == chain("w1 w2")[0]


def test_what_is_kept_in_the_source_is_kept_though_only_the_source_tells_what_it_is(chain):
    # In the third language, nothing is before it any more.
    assert "w2" in text_of(chain, "w1 w2 w3", keep=[r"(?<=w1 )w2"]).split()
    found = text_of(chain, "w4 {a. B} w5 https://a.b/c", keep=["placeholder", "url"])
    assert found.count("{a. B}") == found.count("https://a.b/c") == 1


def test_prefixes_are_of_the_final_translations(chain):
    found = chain(["w1 w2", "w3\nw4"], prefixes=["w8 w9", ""])
    assert found[0]["translation_text"].startswith("w8 w9")
    assert found[1] == chain("w3\nw4")[0]


def test_progress_counts_each_text_once(chain):
    done = []
    chain(TEXTS, progress=done.append)
    assert sum(done) == len(TEXTS) and len(done) > 1


def test_errors_are_raised_or_returned_in_place_of_a_text(chain):
    texts = ["w1", "w1 w2 w3 w4 w5 w6", "w2"]
    with pytest.raises(ValueError, match=r"^inputs\[1\]: 7 tokens, more than the limit of 5\.$"):
        chain(texts, max_source_length=5)
    results = chain(texts, max_source_length=5, on_error="return")
    assert [isinstance(result, Exception) for result in results] == [False, True, False]
    assert results[2] == chain("w2")[0]


def test_warnings_say_which_step_they_are_of(folders, caplog):
    chain = pipeline("translation", model=folders[0], second_model=folders[1], engine="torch")
    [found] = chain("w1 nowhere", return_warnings=True)
    assert found["warning"].startswith("the source has characters or words that the model's vocabulary lacks: nowhere")
    chain.second.model.config.length_ratio = 100.0
    [found] = chain("w1 w2", return_warnings=True)
    assert found["warning"] == "far shorter than usual"
    chain.model.config.length_ratio = 100.0
    [found] = chain("w1 w2", return_warnings=True)
    assert found["warning"] == "pivot text: far shorter than usual; far shorter than usual"
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        assert "warning" not in chain(["w1", "w1 w2 w3 w4 w5"])[0]
    assert "translations may be wrong; the first, of inputs[0]: pivot text: far" in caplog.text


def test_text_read_piece_by_piece_is_translated_as_a_list_is(chain):
    assert [result for [result] in chain(iter(TEXTS))] == chain(TEXTS)


@pytest.mark.parametrize("options, message", [
    ({"via": "es", "src_lang": "es"}, "^via='es' is the source language, too"),
    ({"via": "de", "tgt_lang": "de"}, "^via='de' is the target language, too"),
    ({"via": "fr"}, "^Nothing translates any language to fr: the first model translates es to en"),
    ({"src_lang": "fr"}, "^Nothing translates fr to en: the first model translates es to en"),
    ({"tgt_lang": "fr"}, "^Nothing translates en to fr: the second model translates en to de"),
    ({"return_alignments": True}, "^return_alignments: over a third language"),
    ({"second_model": "x"}, "^second_model: chosen once for all calls"),
    ({"return_confidence": True}, "no calibrated confidence"),
])  # fmt: skip
def test_what_is_not_possible_is_one_error(chain, options, message):
    with pytest.raises(ValueError, match=message):
        chain("w1", **options)


def test_models_that_do_not_fit_are_an_error_when_they_are_opened(folders, tmp_path):
    with pytest.raises(
        ValueError, match="^Nothing translates en to any language: the second model translates es to en"
    ):
        pipeline("translation", model=folders[0], second_model=folders[0])
    with pytest.raises(
        ValueError, match="^via='en': this model translates only es to en. Pass the model .* second_model"
    ):
        pipeline("translation", model=folders[0], via="en")
    with pytest.raises(ValueError, match="missing does not exist"):
        pipeline("translation", model=folders[0], second_model=str(tmp_path / "missing"))


def test_third_language_is_known_from_the_first_model_or_from_the_call():
    one, other = [("es", "en")], [("en", "de")]
    assert pivot_language(("es", None, "de"), one, other, False) == "en"
    assert pivot_language(("es", "en-US", "de"), one, other, False) == "en-US"
    assert pivot_language((None, None, None), [], [], False) is None
    assert pivot_language(("fr", None, "de"), [("es", "en"), ("fr", "en")], other, False) == "en"
    assert pivot_language(("es", None, "de"), [*one, ("es", "fr")], other, False) == "en"
    with pytest.raises(ValueError, match="^The models translate over en or fr: choose one of them with via"):
        pivot_language(("es", None, "de"), [*one, ("es", "fr")], [*other, ("fr", "de")], False)
    assert pivot_language(("es", "en", "de"), [*one, *other], [*one, *other], True) == "en"
    with pytest.raises(
        ValueError, match="^Nothing translates de to en: the first model translates es to en or en to de"
    ):
        pivot_language(("de", "en", "es"), [*one, *other], [*one, *other], True)
