"""Renewing the code that a saved model carries."""

import json
import textwrap

import pytest
from transformers import AutoTokenizer

from hf_vaswani.cli import main
from hf_vaswani.core.modeling_base import remote_code_files

from ..core.test_loading import WITHOUT_PACKAGE, run_python

OLD = '"""What an earlier version did. The file travels with each checkpoint as remote code."""\nraise ImportError\n'


def test_old_code_is_replaced_and_nothing_else(saved_model, capsys):
    before = {path.name: path.read_bytes() for path in saved_model.iterdir() if path.suffix != ".py"}
    for name in ("modeling_vaswani.py", "generation_gone.py"):
        (saved_model / name).write_text(OLD)
    (saved_model / "handler.py").write_text("mine = True\n")
    main(["card", str(saved_model), "--code"])
    assert "is now this version's" in capsys.readouterr().out
    code = {path.name: path.read_bytes() for path in saved_model.glob("*.py")}
    assert code.pop("handler.py") == b"mine = True\n"
    assert code == {path.name: path.read_bytes() for path in remote_code_files()}
    assert before == {path.name: path.read_bytes() for path in saved_model.iterdir() if path.suffix != ".py"}


@pytest.mark.slow
def test_renewed_model_translates_without_the_package(saved_model):
    (saved_model / "modeling_vaswani.py").write_text(OLD)
    main(["card", str(saved_model), "--code"])
    code = """
        from transformers import pipeline
        translator = pipeline("translation", model=".", trust_remote_code=True)
        print(len(translator(["w1 w2", "w3"])))
    """
    assert run_python(WITHOUT_PACKAGE + textwrap.dedent(code), saved_model).strip() == "2"


def test_special_tokens_can_be_added_to_the_tokenizer_of_an_earlier_version_once_it_is_renewed(saved_model):
    file = saved_model / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "tokenizer_class": "TokenizersBackend", "split_special_tokens": True}))
    main(["card", str(saved_model), "--code"])
    tokenizer = AutoTokenizer.from_pretrained(saved_model)
    tokenizer.add_special_tokens({"extra_special_tokens": ["<2en>"]})
    assert tokenizer.tokenize("w1 <2en> w2") == ["w1", "<2en>", "w2"]


@pytest.mark.parametrize("files", [{}, {"config.json": '{"model_type": "marian"}'}])
def test_folder_of_another_model_is_rejected(tmp_path, files, capsys):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert main(["card", str(tmp_path), "--code"]) == 2
    assert "contains no Vaswani model" in capsys.readouterr().err
