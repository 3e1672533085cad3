"""Which models the page accepts, and when they are loaded."""

import json

import pytest
from transformers import BertConfig

from hf_vaswani.app import models
from hf_vaswani.app.models import (
    Languages,
    LoadedModel,
    ModelCache,
    chosen_models,
    has_unknown_type,
    language_choices,
    make_title,
)
from hf_vaswani.errors import InputError

from ..conftest import tiny_model, word_tokenizer
from ..families import family


def errors_of(*names) -> list[str]:
    with pytest.raises(InputError) as error:
        chosen_models([str(name) for name in names])
    return str(error.value).splitlines()


def test_all_unusable_models_are_reported_together(tmp_path, model_folder):
    BertConfig().save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").write_bytes(b"")
    (tmp_path / "bert" / "tokenizer.json").write_text("{}")
    (tmp_path / "file.txt").write_text("text")
    (tmp_path / "empty").mkdir()
    errors = errors_of(model_folder, tmp_path / "bert", tmp_path / "file.txt", tmp_path / "empty", tmp_path / "absent")
    assert len(errors) == 4
    assert "is not an encoder-decoder. Choose one that translates." in errors[0]
    assert errors[1].startswith(f"{tmp_path}/file.txt cannot be loaded: ")
    assert "has no config.json" in errors[2]
    assert errors[3].startswith(f"{tmp_path}/absent does not exist")


def test_default_is_the_quickstart_model_or_an_error_that_says_how_to_train_it(tmp_path, monkeypatch, model_folder):
    monkeypatch.chdir(tmp_path)
    [error] = errors_of()
    assert "outputs/quickstart does not exist" in error and error.endswith("bash scripts/quickstart.sh")
    (tmp_path / "outputs").mkdir()
    model_folder.rename(tmp_path / "outputs" / "quickstart")
    assert chosen_models([]) == ["outputs/quickstart"]


def test_unknown_model_type_needs_trust_remote_code(model_folder):
    config = json.loads((model_folder / "config.json").read_text())
    (model_folder / "config.json").write_text(json.dumps({**config, "model_type": "mystery"}))
    assert "'mystery' is unknown to transformers" in errors_of(model_folder)[0]
    assert chosen_models([str(model_folder)], trust_remote_code=True) == [str(model_folder)]


def test_type_of_an_adapter_is_that_of_its_base(tmp_path, model_folder):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": str(model_folder), "peft_type": "LORA"})
    )
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"")
    assert not has_unknown_type(str(tmp_path / "adapter"))
    config = json.loads((model_folder / "config.json").read_text())
    (model_folder / "config.json").write_text(json.dumps({**config, "model_type": "mystery"}))
    assert has_unknown_type(str(tmp_path / "adapter"))


def test_models_are_loaded_on_first_use_and_the_last_two_are_kept(monkeypatch, model_folder):
    loads = []

    def load(name, **options):
        loads.append((name, options["trust_remote_code"]))
        return original(str(model_folder))

    original = models.load
    monkeypatch.setattr(models, "load", load)
    shelf = ModelCache(["a", "b", "c"])
    assert loads == []
    assert shelf.open("a") is shelf.open("a")
    first, second = shelf.open("a"), shelf.open("b")
    assert (shelf.open("a"), shelf.open("b")) == (first, second)
    shelf.open("c")
    assert shelf.open("b") is second
    assert loads == [("a", False), ("b", False), ("c", False)]
    shelf.open("a")
    assert len(loads) == 4
    with pytest.raises(InputError, match="There is no model '/etc/passwd' here. Choose one of: a, b, c."):
        shelf.open("/etc/passwd")


class ManyLanguages:
    """What the page needs from a multilingual tokenizer."""

    lang_code_to_id = {"de": 1, "en": 2, "ar": 3}
    SPECIAL_TOKENS_ATTRIBUTES = all_special_tokens = []
    src_lang = "de"

    def _build_translation_inputs(self): ...


def test_languages_of_a_multilingual_model_must_be_chosen(loaded):
    choices = language_choices(loaded.model, ManyLanguages())
    assert choices == (["ar", "de", "en"], ["ar", "de", "en"], "de")
    assert language_choices(loaded.model, loaded.tokenizer) == ([], [], None)
    loaded.choices = choices
    for languages in (Languages(), Languages("de"), Languages(None, "en")):
        with pytest.raises(InputError, match="Choose the source and the target language."):
            loaded.pipeline(languages)


def test_languages_are_ignored_by_a_model_without_a_choice(loaded):
    assert loaded.pipeline(Languages("xx", "yy")) is loaded.pipeline()


CODE = """
from transformers import MarianConfig, MarianMTModel

class MysteryConfig(MarianConfig):
    model_type = "mystery"

class Mystery(MarianMTModel):
    config: MysteryConfig
    config_class = MysteryConfig
"""


def test_model_code_runs_only_when_trusted(monkeypatch, tmp_path):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "model"
    model, tokenizer = family("Marian", tmp_path)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "mystery.py").write_text(CODE)
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "mystery.MysteryConfig", "AutoModelForSeq2SeqLM": "mystery.Mystery"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "mystery", "auto_map": classes}))
    with pytest.raises(InputError, match="'mystery' is unknown to transformers"):
        ModelCache([str(folder)]).open(str(folder))
    assert type(ModelCache([str(folder)], trust_remote_code=True).open(str(folder)).model).__name__ == "Mystery"


def test_title_names_the_languages_of_a_model_for_one_pair():
    one = LoadedModel("m", tiny_model(source_language="de", target_language="en"), word_tokenizer(["a"]))
    unknown = LoadedModel("m", tiny_model(), word_tokenizer(["a"]))
    assert [make_title(one), make_title(unknown)] == ["Translation: de → en", "Translation"]
