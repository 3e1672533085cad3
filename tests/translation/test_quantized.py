import shutil

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, TorchAoConfig, pipeline

from hf_vaswani.cli import main

quantization = pytest.importorskip("torchao.quantization")

TEXTS = ["w1 w2 w3 w4", "w5", "w6 w7"]
SEARCH = {"num_beams": 2, "max_new_tokens": 6}


@pytest.fixture
def quantized(saved_model, tmp_path):
    """The folder of a model with weights of 8 bits."""
    config = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model, quantization_config=config)
    model.save_pretrained(tmp_path / "quantized")
    for path in saved_model.glob("tokenizer*"):
        shutil.copy(path, tmp_path / "quantized")
    return tmp_path / "quantized"


def test_command_and_pipeline_translate_a_quantized_model_as_transformers_does(quantized, write_lines, tmp_path):
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(quantized), AutoTokenizer.from_pretrained(quantized)
    assert type(model.model.decoder.layers[0].fc1.weight).__name__ == "Int8Tensor"
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    expected = tokenizer.batch_decode(model.generate(**inputs, **SEARCH), skip_special_tokens=True)
    output = tmp_path / "output"
    options = ["--input", write_lines("input", TEXTS), "--num_beams", "2", "--max_new_tokens", "6"]
    assert main(["translate", str(quantized), *options, "--output", str(output)]) == 0
    assert output.read_text().splitlines() == expected
    translations = pipeline("translation", model=str(quantized))(TEXTS, **SEARCH)
    assert [translation["translation_text"] for translation in translations] == expected


def test_pairs_are_scored_with_a_quantized_model(quantized, write_lines, capsys):
    lines = write_lines("lines", TEXTS)
    assert main(["score", str(quantized), "--source", lines, "--target", lines]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_no_other_model_is_made_of_quantized_weights(quantized, tmp_path, capsys):
    assert main(["average", str(quantized), str(quantized), "--output", str(tmp_path / "mean")]) == 2
    assert "has quantized weights" in capsys.readouterr().err
    assert main(["export", str(quantized), str(tmp_path / "marian")]) == 2
    assert "quantized weights" in capsys.readouterr().err
