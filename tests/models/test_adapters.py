import json
import sys

import pytest
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.models.load import load

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft", "ignore:.*is_gradient_checkpointing")

TEXTS = ["w1 w2 w3 w4", "w5", "w6 w7"]
SEARCH = {"num_beams": 2, "max_new_tokens": 6}


@pytest.fixture
def make_adapter(saved_model, tmp_path):
    """Creates an adapter of `saved_model` with random weights; returns its folder and its translations of `TEXTS`."""

    def make(config_class=peft.LoraConfig, **settings):
        base = AutoModelForSeq2SeqLM.from_pretrained(saved_model)
        model = peft.get_peft_model(base, config_class(task_type=peft.TaskType.SEQ_2_SEQ_LM, **settings)).eval()
        torch.manual_seed(0)
        for parameter in model.parameters():
            if parameter.requires_grad:
                torch.nn.init.normal_(parameter)
        model.save_pretrained(tmp_path / "adapter")
        tokenizer = AutoTokenizer.from_pretrained(saved_model)
        inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
        return tmp_path / "adapter", tokenizer.batch_decode(
            model.generate(**inputs, **SEARCH), skip_special_tokens=True
        )

    return make


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": "all-linear"},
        {"target_modules": ["embed_tokens"]},
        pytest.param(
            {"target_modules": ["q_proj"], "trainable_token_indices": [5, 6, 7, 8]},
            marks=pytest.mark.skipif(
                transformers.__version__.startswith("5.17."), reason="transformers 5.17 does not load such adapters"
            ),
        ),
    ],
    ids=["all linear layers", "embeddings", "single tokens"],
)
def test_command_and_pipeline_translate_with_an_adapter_as_peft_does(
    make_adapter, saved_model, settings, write_lines, tmp_path
):
    folder, expected = make_adapter(**settings)
    output, base_output = tmp_path / "output", tmp_path / "base_output"
    options = ["--input", write_lines("input", TEXTS), "--num_beams", "2", "--max_new_tokens", "6"]
    assert main(["translate", str(folder), *options, "--output", str(output)]) == 0
    assert main(["translate", str(saved_model), *options, "--output", str(base_output)]) == 0
    assert output.read_text().splitlines() == expected != base_output.read_text().splitlines()
    translations = pipeline("translation", model=str(folder))(TEXTS, **SEARCH)
    assert [translation["translation_text"] for translation in translations] == expected


def test_pairs_are_scored_with_the_adapter(make_adapter, saved_model, write_lines, capsys):
    folder, _ = make_adapter(target_modules="all-linear")
    options = ["--source", write_lines("source", TEXTS), "--target", write_lines("target", TEXTS)]
    outputs = []
    for model in (folder, saved_model):
        assert main(["score", str(model), *options]) == 0
        outputs.append(capsys.readouterr().out.splitlines())
    assert len(outputs[0]) == 3
    assert outputs[0] != outputs[1]


def test_tokenizer_of_the_adapter_overrides_that_of_its_base_model(make_adapter, saved_model):
    folder, _ = make_adapter(target_modules=["q_proj"])
    assert load(str(folder))[1].get_vocab() == AutoTokenizer.from_pretrained(saved_model).get_vocab()
    tokenizer = AutoTokenizer.from_pretrained(saved_model)
    tokenizer.model_max_length = 17
    tokenizer.save_pretrained(folder)
    assert load(str(folder))[1].model_max_length == 17


def change_config(folder, **changes):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_unusable_adapter_raises_a_clear_error(make_adapter, monkeypatch):
    folder, _ = make_adapter(target_modules=["q_proj"])
    change_config(folder, base_model_name_or_path="no/such/folder")
    with pytest.raises(
        InputError, match="is an adapter, but its base model could not be loaded. no/such/folder does no"
    ) as moved:
        load(str(folder))
    assert str(moved.value).endswith("has moved, change base_model_name_or_path in adapter_config.json.")
    (folder / "adapter_model.safetensors").unlink()
    change_config(folder, base_model_name_or_path=None)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError) as error:
        load(str(folder))
    without_base, without_weights, without_peft = str(error.value).splitlines()
    assert without_base.endswith("Set base_model_name_or_path in adapter_config.json.")
    assert without_weights.endswith("is an adapter without weights (adapter_model.safetensors).")
    assert without_peft.endswith('pip install "hf-vaswani[peft]"')
    (folder / "adapter_config.json").write_text("{")
    with pytest.raises(InputError, match="adapter_config.json cannot be read"):
        load(str(folder))


def test_value_of_the_wrong_type_in_an_adapter_config_raises_a_clear_error(make_adapter):
    folder, _ = make_adapter(target_modules=["q_proj"])
    change_config(folder, rank_pattern=0)
    with pytest.raises(InputError, match="a value in adapter_config.json has the wrong type"):
        load(str(folder))


def test_adapter_of_another_model_raises_a_clear_error(make_adapter):
    folder, _ = make_adapter(target_modules=["q_proj"], r=4)
    change_config(folder, target_modules=["q_proj", "fc1"])
    with pytest.raises(InputError, match="Found missing adapter keys"):
        load(str(folder))
    change_config(folder, r=5, target_modules=["q_proj"])
    with pytest.raises(InputError, match="adapter cannot be loaded: .*size mismatch"):
        load(str(folder))


def test_adapter_that_prepends_tokens_to_the_text_is_rejected(make_adapter):
    folder, _ = make_adapter(peft.PromptTuningConfig, num_virtual_tokens=3)
    with pytest.raises(InputError, match="an adapter of type PROMPT_TUNING, which adds tokens before the text"):
        load(str(folder))


def test_unmerged_adapter_is_not_exported(make_adapter, tmp_path, capsys):
    folder, _ = make_adapter(target_modules=["q_proj"])
    assert main(["export", str(folder), str(tmp_path / "exported")]) == 2
    assert (
        "an adapter (merge it: train it with --merge true, or call PEFT's merge_and_unload())"
        in capsys.readouterr().err
    )
