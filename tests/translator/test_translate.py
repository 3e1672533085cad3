import pytest
import torch
from sacrebleu.metrics import BLEU
from safetensors.torch import load_file, save_file

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.score import bleu
from hf_vaswani.models.load import load
from hf_vaswani.translator.pipeline import translate

from ..conftest import tiny_model

TEXTS = ["w1 w2 w3 w4", "w5", "", "w6 w7", "w8 w9 w10"]


@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_translations_come_in_the_order_of_the_texts(tokenizer, batch_size):
    model = tiny_model()
    options = {"max_new_tokens": 8, "suppress_tokens": [0, 1, 2, 3]}  # only words
    expected = []
    for text in TEXTS:
        output = model.generate(**tokenizer(text, return_tensors="pt"), **options)
        expected.append(tokenizer.decode(output[0], skip_special_tokens=True) if text else "")
    assert len(set(expected)) == len(TEXTS)
    assert translate(model, tokenizer, TEXTS, batch_size, **options) == expected


def test_no_texts_give_no_translations(tokenizer):
    assert translate(tiny_model(), tokenizer, []) == []


def test_model_in_training_mode_stays_in_training_mode(tokenizer):
    model = tiny_model().train()
    translate(model, tokenizer, ["w1"], max_new_tokens=2)
    assert model.training


def test_text_beyond_the_positions_is_truncated_with_a_warning(tokenizer, caplog):
    model = tiny_model(position_type="learned", max_position_embeddings=4)
    options = {"max_new_tokens": 3, "suppress_tokens": [0, 1, 2, 3]}
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        long, short = translate(model, tokenizer, ["w1 w2 w3 w4 w5", "w1 w2 w3"], **options)
    assert long == short
    assert "Cut 1 text to 4 tokens" in caplog.text


def test_bleu_matches_sacrebleu_and_has_its_signature():
    hypotheses = ["the cat sat on the mat .", "a dog runs fast"]
    references = ["the cat is on the mat .", "a dog runs very fast"]
    score = bleu(hypotheses, references)
    assert score.value == BLEU().corpus_score(hypotheses, [references]).score
    assert "tok:13a" in score.signature
    assert str(score).startswith(f"BLEU {score.value:.2f} (nrefs:1|")
    assert bleu(references, references).value == pytest.approx(100)


def test_saved_model_loads_with_its_tokenizer(saved_model):
    model, tokenizer = load(str(saved_model))
    assert torch.equal(model.lm_head.weight.cpu(), tiny_model().lm_head.weight)
    assert tokenizer("w1")["input_ids"] == [5, 2]


@pytest.mark.parametrize(("missing", "message"), [("model.safetensors", "no weights"), ("config.json", "config.json")])
def test_folder_with_a_missing_file_raises_a_clear_error(saved_model, missing, message):
    (saved_model / missing).unlink()
    with pytest.raises(InputError, match=message):
        load(str(saved_model))


def test_damaged_weights_raise_a_clear_error(saved_model):
    weights = saved_model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read: it is truncated"):
        load(str(saved_model))


def test_model_that_lacks_weights_raises_a_clear_error(saved_model):
    weights = load_file(saved_model / "model.safetensors")
    del weights["model.encoder.layers.0.fc1.weight"]
    save_file(weights, saved_model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="lacks weights that its configuration expects: .*layers.0.fc1.weight"):
        load(str(saved_model))


def test_tokenizer_of_another_model_raises_a_clear_error(saved_model):
    tiny_model(vocab_size=20).save_pretrained(saved_model)
    with pytest.raises(InputError, match="the tokenizer has 40 tokens, but the model has embeddings for 20"):
        load(str(saved_model))


def test_unknown_model_raises_a_clear_error():
    with pytest.raises(InputError, match="no/such-model is not a local folder, and cannot be loaded"):
        load("no/such-model")


def test_checkpoint_is_refused_with_the_command_that_makes_it_a_model(saved_model):
    (saved_model / "config.json").unlink()
    with pytest.raises(InputError, match=f"hf-vaswani average {saved_model} --output FOLDER"):
        load(str(saved_model))
