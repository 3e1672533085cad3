"""The contract of the translation pipeline of transformers 4, on models of several classes built here."""

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    NllbTokenizer,
    T5Config,
    T5ForConditionalGeneration,
    pipeline,
)

from hf_vaswani import TranslationPipeline

from .conftest import tiny_model

SMALL = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "max_position_embeddings": 400,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}


def other_model(name):
    torch.manual_seed(0)
    if name == "Marian":
        return MarianMTModel(MarianConfig(**SMALL))
    if name == "Bart":
        return BartForConditionalGeneration(BartConfig(**SMALL))
    if name == "M2M100":
        return M2M100ForConditionalGeneration(M2M100Config(**SMALL))
    return T5ForConditionalGeneration(
        T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, pad_token_id=0,
                 eos_token_id=2, decoder_start_token_id=0)
    )  # fmt: skip


@pytest.fixture
def translator(tokenizer):
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer)


def test_one_text_gives_a_list_with_one_dict(translator):
    result = translator("w1 w2")
    assert isinstance(translator, TranslationPipeline)
    assert [list(entry) for entry in result] == [["translation_text"]]
    assert isinstance(result[0]["translation_text"], str)


def test_texts_give_a_flat_list_of_dicts(translator):
    result = translator(["w1 w2", "w3"])
    assert [list(entry) for entry in result] == [["translation_text"]] * 2
    assert result[0] == translator("w1 w2")[0]
    assert translator([]) == []


def test_several_hypotheses_give_a_list_for_each_text(translator):
    options = {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 4}
    assert len(translator("w1", **options)) == 2
    assert [len(hypotheses) for hypotheses in translator(["w1", "w2 w3"], **options)] == [2, 2]


@pytest.mark.parametrize("batch_size", [2, 3])
def test_batches_change_no_translation(translator, batch_size):
    texts = ["w1 w2 w3", "w4", "w5 w6"]
    options = {"max_new_tokens": 20}
    assert translator(texts, batch_size=batch_size, **options) == translator(texts, **options)


def test_generator_streams_results(translator):
    results = translator(text for text in ["w1", "w2"])
    assert [len(result) for result in results] == [1, 1]


def test_return_tensors_gives_token_ids(translator):
    [entry] = translator("w1 w2", return_tensors=True, max_new_tokens=3)
    assert list(entry) == ["translation_token_ids"]
    assert entry["translation_token_ids"][0] == 1


def test_generation_arguments_are_taken_when_made_and_when_called(tokenizer):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, max_new_tokens=3)
    assert len(translator("w1", return_tensors=True)[0]["translation_token_ids"]) <= 4
    longer = translator("w1", return_tensors=True, max_new_tokens=6, min_new_tokens=6)
    assert len(longer[0]["translation_token_ids"]) == 7


def test_task_names_with_languages_are_the_translation_task(tokenizer):
    translator = pipeline("translation_de_to_en", model=tiny_model(), tokenizer=tokenizer)
    assert isinstance(translator, TranslationPipeline)
    assert translator.task == "translation_de_to_en"
    assert translator._preprocess_params == {"src_lang": "de", "tgt_lang": "en"}


def test_unknown_tasks_are_still_unknown(saved_model):
    with pytest.raises(KeyError, match="translate"):
        pipeline("translate", model=str(saved_model))


def test_something_other_than_text_is_a_clear_error(translator):
    with pytest.raises(ValueError, match="str or a list of str, got int: 5"):
        translator(5)


def test_short_limit_for_a_long_input_is_a_warning(translator, caplog):
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        translator("w1 w2 w3 w4", max_new_tokens=4)
    assert "translation ends at 4" in caplog.text


@pytest.mark.parametrize("name", ["Marian", "Bart", "T5", "M2M100"])
def test_other_models_of_transformers_translate_as_with_generate(name, tokenizer):
    model = other_model(name).eval()
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    inputs = tokenizer("w1 w2", return_tensors="pt")
    expected = model.generate(**inputs, max_new_tokens=256)
    got = translator("w1 w2", return_tensors=True)[0]["translation_token_ids"]
    assert got.tolist() == expected[0].tolist()


def test_saved_marian_folder_loads_by_its_path(tmp_path, tokenizer):
    other_model("Marian").save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    translator = pipeline("translation", model=str(tmp_path))
    translator.save_pretrained(tmp_path / "again")
    assert "custom_pipelines" not in (tmp_path / "again" / "config.json").read_text()


def test_t5_prefix_and_parameters_come_from_the_name_of_the_task(tokenizer):
    model = other_model("T5").eval()
    model.config.task_specific_params = {"translation_en_to_fr": {"prefix": "w7 ", "max_length": 6, "num_beams": 2}}
    translator = pipeline("translation_en_to_fr", model=model, tokenizer=tokenizer)
    expected = model.generate(**tokenizer("w7 w1", return_tensors="pt"), max_length=6, num_beams=2)
    got = translator("w1", return_tensors=True)[0]["translation_token_ids"]
    assert got.tolist() == expected[0].tolist()


def test_multilingual_tokenizer_chooses_the_target_language():
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b"])}
    tokenizer = NllbTokenizer(vocab=vocabulary, merges=[], src_lang="eng_Latn", tgt_lang="fra_Latn")
    torch.manual_seed(0)
    config = M2M100Config(**{**SMALL, "vocab_size": len(tokenizer), "pad_token_id": 1, "bos_token_id": 0})
    translator = pipeline("translation", model=M2M100ForConditionalGeneration(config), tokenizer=tokenizer)
    for language in ("fra_Latn", "deu_Latn"):
        options = {"src_lang": "eng_Latn", "tgt_lang": language, "return_tensors": True, "max_new_tokens": 4}
        [one] = translator("ab", **options)
        assert one["translation_token_ids"][1] == tokenizer.convert_tokens_to_ids(language)
        batch = translator(["ab", "b a"], batch_size=2, **options)
        assert [entry["translation_token_ids"][1] for entry in batch] == [one["translation_token_ids"][1]] * 2


def test_model_that_cannot_generate_is_a_clear_error(tokenizer):
    with pytest.raises(ValueError, match="VaswaniModel cannot generate text"):
        pipeline("translation", model=tiny_model().model, tokenizer=tokenizer)
