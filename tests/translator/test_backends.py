"""An engine of one's own: one record and its code, without a change of any file of the package."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, pipeline

from hf_vaswani.backends import BACKENDS, ONNX
from hf_vaswani.cli import main
from hf_vaswani.core.configuration_vaswani import VaswaniConfig
from hf_vaswani.engines.engine_model import EngineModel
from hf_vaswani.generation.output_scores import decoder_start
from hf_vaswani.registration import register_backend
from hf_vaswani.translator.backends.torch_backend import TorchBackend

TEXTS = ["w1 w2 w3", "w4", "w5 w6. w7"]


class ToyConfig(VaswaniConfig):
    model_type = "vaswani_toy"


class ToyModel(EngineModel):
    """A model whose engine is PyTorch again."""

    config_class = ToyConfig
    engine_key, engine_name = "toy", "Toy Engine"

    def __init__(self, config, folder):
        super().__init__(config)
        self.stored, self.inner = config, AutoModelForSeq2SeqLM.from_pretrained(folder)

    def generate(self, *args, **kwargs):
        return self.inner.generate(*args, **kwargs)

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)

    def get_encoder(self, *args, **kwargs):
        return self.inner.get_encoder()

    def get_decoder(self, *args, **kwargs):
        return self.inner.get_decoder()


def open_conversion(folder, config, generation_config, device):
    model = ToyModel(config, folder)
    assert decoder_start(model.inner) == config.decoder_start_token_id
    model.generation_config = generation_config
    return model


def convert(model, folder, quantization):
    model.save_pretrained(folder)


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A registered engine, known until the end of the test."""
    module = ModuleType("toy_engine")
    vars(module).update(
        Toy=TorchBackend, ToyModel=ToyModel, ToyConfig=ToyConfig, open_conversion=open_conversion, convert=convert,
        unsupported_features=lambda model: ["large words"] if model.config.vocab_size > 1000 else [],
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "toy_engine", module)
    monkeypatch.setattr("hf_vaswani.translator.backends.conversions.version", lambda library: "1.0")
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path / "cache"))
    record = replace(
        ONNX, name="toy", title="Toy Engine", libraries=("json",), backend="toy_engine:Toy",
        model="toy_engine:ToyModel", config="toy_engine:ToyConfig", model_type="vaswani_toy",
        open="toy_engine:open_conversion",
        convert="toy_engine:convert", unsupported_features="toy_engine:unsupported_features", files=("toy.bin",),
        weights=("toy.bin",),
    )  # fmt: skip
    register_backend(record)
    yield record
    del BACKENDS["toy"]


def test_engine_translates_in_the_pipeline_and_is_converted_once(toy, saved_model, tmp_path):
    expected = pipeline("translation", model=str(saved_model), engine="torch")(TEXTS, num_beams=2, max_new_tokens=5)
    for _ in range(2):
        translator = pipeline("translation", model=str(saved_model), engine="toy")
        assert translator(TEXTS, num_beams=2, max_new_tokens=5) == expected
        assert translator.selection.used == {"toy"}
    assert len(list((tmp_path / "cache" / "toy").iterdir())) == 1


def test_commands_offer_the_engine(toy, saved_model, tmp_path, capsys):
    (tmp_path / "source").write_text("\n".join(TEXTS))
    outputs = [tmp_path / engine for engine in ("torch", "toy")]
    for output in outputs:
        options = ["--input", str(tmp_path / "source"), "--output", str(output), "--max_new_tokens", "5"]
        assert main(["translate", str(saved_model), *options, "--engine", output.name]) == 0
    assert outputs[0].read_text() == outputs[1].read_text()


def test_what_the_engine_cannot_do_is_an_error_that_names_it(toy, saved_model, monkeypatch):
    with pytest.raises(ValueError, match="^Toy Engine cannot compute this: alignments need the attention"):
        pipeline("translation", model=str(saved_model), engine="toy")("w1", return_alignments=True)
    monkeypatch.setattr("hf_vaswani.backends.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r'^Toy Engine is not installed. Install it with: pip install "hf-vaswani\[toy\]'
    ):
        pipeline("translation", model=str(saved_model), engine="toy")
    with pytest.raises(ValueError, match="^engine must be one of auto, torch, ctranslate2, onnx, toy, got 'other'"):
        pipeline("translation", model=str(saved_model), engine="other")


def test_weights_of_the_engine_are_recognized_in_a_folder(toy, tmp_path):
    assert not toy.is_folder(tmp_path)
    (tmp_path / "toy.bin").touch()
    assert toy.is_folder(tmp_path)


def test_scores_of_given_pairs_are_the_models(toy, saved_model, tmp_path, capsys):
    (tmp_path / "source").write_text("w1 w2\n")
    (tmp_path / "target").write_text("w3 w4\n")
    files = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    scores = []
    for engine in ("torch", "toy"):
        assert main(["score", str(saved_model), *files, "--engine", engine]) == 0
        scores.append(float(capsys.readouterr().out.split()[0]))
    assert scores[0] == pytest.approx(scores[1], abs=1e-4) and torch.isfinite(torch.tensor(scores[0]))
