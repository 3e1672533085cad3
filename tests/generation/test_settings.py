import json

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from hf_vaswani.generation.settings import WHOLE_NUMBERS, setting_errors

from ..conftest import tiny_model

FILE = "generation_config.json"


@pytest.mark.parametrize("text", ["", "{", "null", "[1]", '"greedy"', "3"])
def test_from_pretrained_rejects_a_malformed_generation_config(saved_model, text):
    (saved_model / FILE).write_text(text)
    with pytest.raises(ValueError, match=rf"{FILE} cannot be read: it"):
        AutoModelForSeq2SeqLM.from_pretrained(saved_model)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_beams": "4"}, 'num_beams must be a whole number from 1 to 1,000, got "4"'),
        ({"num_beams": 2.5}, "num_beams must be a whole number from 1 to 1,000, got 2.5"),
        ({"num_beams": True}, "num_beams must be a whole number from 1 to 1,000, got true"),
        ({"num_beams": 10**5}, "num_beams must be a whole number from 1 to 1,000, got 100000"),
        ({"max_length_offset": 10**18}, "max_length_offset must be a whole number from 0 to 10,000"),
        ({"max_length": 10**20}, "max_length must be a whole number from 1 to 2,147,483,647"),
        ({"max_new_tokens": "9"}, 'max_new_tokens must be a whole number of at least 1, got "9"'),
        ({"length_penalty": 1e300}, "length_penalty must be a number from -10 to 10, got 1e[+]300"),
        ({"length_penalty_type": "own"}, 'length_penalty_type must be one of "length", "gnmt", got "own"'),
        ({"early_stopping": "yes"}, 'early_stopping must be one of true, false, "never", got "yes"'),
        ({"temperature": "hot"}, 'temperature must be a number, got "hot"'),
        ({"do_sample": "no"}, 'do_sample must be true or false, got "no"'),
        ({"eos_token_id": 40}, "eos_token_id must be token ids below 40, got 40"),
        ({"bad_words_ids": [3]}, r"bad_words_ids must be lists of token ids, got \[3\]"),
        ({"num_return_sequences": 3}, "Greedy methods .* do not support"),
    ],
)
def test_from_pretrained_rejects_unusable_generation_settings(saved_model, settings, message):
    before = json.loads((saved_model / FILE).read_text())
    (saved_model / FILE).write_text(json.dumps({**before, **settings}))
    with pytest.raises(ValueError, match=rf"{FILE}: {message}"):
        AutoModelForSeq2SeqLM.from_pretrained(saved_model)


def test_all_invalid_settings_are_reported_together_and_unknown_ones_ignored():
    assert setting_errors({"num_beams": 0, "top_k": -1, "my_own": object(), "max_length": None}) == [
        "num_beams must be a whole number from 1 to 1,000, got 0",
        "top_k must be a whole number of at least 0, got -1",
    ]
    limits = {name: least for name, (least, _) in WHOLE_NUMBERS.items()}
    assert setting_errors({**limits, "num_beams": 1000, "early_stopping": "never", "length_penalty": 1}) == []


def test_model_without_a_generation_config_still_loads_with_a_warning(saved_model, caplog):
    AutoModelForSeq2SeqLM.from_pretrained(saved_model)
    assert FILE not in caplog.text
    (saved_model / FILE).unlink()
    assert AutoModelForSeq2SeqLM.from_pretrained(saved_model).generation_config.decoder_start_token_id == 1
    assert f"{saved_model} has no {FILE}" in caplog.text


def test_generation_config_passed_by_the_caller_replaces_a_damaged_file(saved_model):
    own = AutoModelForSeq2SeqLM.from_pretrained(saved_model).generation_config
    own.num_beams = 3
    (saved_model / FILE).write_text("{")
    assert AutoModelForSeq2SeqLM.from_pretrained(saved_model, generation_config=own).generation_config.num_beams == 3


def test_excessive_num_beams_is_rejected_before_the_search():
    with pytest.raises(ValueError, match="num_beams must be at most 1,000, got 1001"):
        tiny_model().generate(torch.tensor([[5, 6, 2]]), num_beams=1001, max_new_tokens=3)


@pytest.mark.parametrize("beams", [1, 4])
def test_nan_scores_raise_a_clear_error(beams):
    model = tiny_model()
    model.model.decoder.layers[1].fc1.weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match="scores are NaN: its weights"):
        model.generate(torch.tensor([[5, 6, 2]]), num_beams=beams, max_new_tokens=5)
