"""Models with quantized weights: loaded from their folder, or quantized by transformers on load."""

import shutil

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, QuantoConfig, TorchAoConfig, pipeline

from hf_vaswani.cli import main

quantization = pytest.importorskip("torchao.quantization")

TEXTS = ["w1 w2 w3 w4", "w5", "w6 w7"]
SEARCH = {"num_beams": 2, "max_new_tokens": 6}
# Each with the type of a quantized weight.
ON_LOAD = {
    "torchao, weights": (lambda: TorchAoConfig(quantization.Int8WeightOnlyConfig()), "Int8Tensor"),
    "torchao, dynamic": (lambda: TorchAoConfig(quantization.Int8DynamicActivationInt8WeightConfig()), "Int8Tensor"),
    "quanto, weights": (lambda: QuantoConfig(weights="int8"), "WeightQBytesTensor"),
}


@pytest.fixture
def quantized(saved_model, tmp_path):
    """The folder of a model with 8-bit weights."""
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


def test_quantized_weights_cannot_be_averaged_or_exported(quantized, tmp_path, capsys):
    assert main(["average", str(quantized), str(quantized), "--output", str(tmp_path / "mean")]) == 2
    assert "has quantized weights" in capsys.readouterr().err
    assert main(["export", str(quantized), str(tmp_path / "marian")]) == 2
    assert "quantized weights" in capsys.readouterr().err


@pytest.mark.parametrize("make_config, kind", ON_LOAD.values(), ids=ON_LOAD.keys())
def test_model_quantized_on_load_has_8_bit_weights_and_nearly_the_same_logits(saved_model, make_config, kind):
    if kind == "WeightQBytesTensor":
        pytest.importorskip("optimum.quanto")
    original = AutoModelForSeq2SeqLM.from_pretrained(saved_model)
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model, quantization_config=make_config())
    layers = [
        name for name, module in model.model.named_modules()
        if isinstance(module, torch.nn.Linear) and type(module.weight).__name__ == kind
    ]  # fmt: skip
    # Two layers per stack: four projections per attention (the decoder has two) and two in the feed-forward network.
    assert len(layers) == 2 * (4 + 2) + 2 * (8 + 2)
    # Embeddings and output projection are one matrix, which stays as it is.
    assert torch.equal(model.get_input_embeddings().weight, original.get_input_embeddings().weight)
    assert model.lm_head.weight is model.get_input_embeddings().weight
    ids = torch.tensor([[5, 9, 12, 7, 2]])
    expected, found = (m(input_ids=ids, decoder_input_ids=ids).logits for m in (original, model))
    difference = (found - expected).norm() / expected.norm()
    assert 0 < difference < 0.03


@pytest.mark.parametrize("make_config, kind", ON_LOAD.values(), ids=ON_LOAD.keys())
def test_pipeline_quantizes_on_load_and_translates_as_generate_does(saved_model, make_config, kind):
    if kind == "WeightQBytesTensor":
        pytest.importorskip("optimum.quanto")
    translator = pipeline("translation", model=str(saved_model), model_kwargs={"quantization_config": make_config()})
    assert type(translator.model.model.encoder.layers[0].fc1.weight).__name__ == kind
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model, quantization_config=make_config())
    tokenizer = AutoTokenizer.from_pretrained(saved_model)
    for text in TEXTS:
        tokens = model.generate(**tokenizer(text, return_tensors="pt"), **SEARCH)
        expected = tokenizer.decode(tokens[0], skip_special_tokens=True)
        assert translator(text, **SEARCH)[0]["translation_text"] == expected
