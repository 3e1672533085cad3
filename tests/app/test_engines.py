"""What computes the page's translations."""

import pytest

from hf_vaswani.app import server
from hf_vaswani.app.models import ModelCache
from hf_vaswani.cli import main


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_chosen_engine_translates(engine, model_folder):
    loaded = ModelCache([str(model_folder)], engine=engine).open(str(model_folder))
    loaded.pipeline()("w1 w2")
    assert loaded.selection.used == {engine}


def test_engine_option_reaches_the_page(model_folder, monkeypatch):
    given = []
    monkeypatch.setattr(server, "launch", lambda *arguments: given.append(arguments))
    assert main(["app", str(model_folder), "--engine", "torch"]) == 0
    assert main(["app", str(model_folder)]) == 0
    assert [arguments[-1] for arguments in given] == ["torch", "auto"]


def test_unknown_engine_is_refused_before_a_model_is_loaded():
    with pytest.raises(ValueError, match="engine must be one of auto, torch, ctranslate2, onnx, got 'tensorrt'"):
        ModelCache(["missing"], engine="tensorrt")
