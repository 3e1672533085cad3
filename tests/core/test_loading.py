"""Loading anywhere: through the Auto classes with the package, as remote code without it."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, pipeline

import hf_vaswani
from hf_vaswani import (
    TranslationPipeline,
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniModel,
    VaswaniTokenizer,
)
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS

from ..conftest import tiny_model, word_tokenizer

PROJECT = Path(hf_vaswani.__file__).parents[1]
# Leaves an interpreter with transformers but without this package.
WITHOUT_PACKAGE = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "hf_vaswani":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
try:
    import hf_vaswani
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the package can be imported")
"""


def run_python(code: str, folder: Path, **environment) -> str:
    """Run code in a fresh interpreter in the given folder and return what it prints."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(folder / "modules"), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def test_auto_classes_load_a_saved_model(saved_model):
    assert type(AutoConfig.from_pretrained(saved_model)) is VaswaniConfig
    assert type(AutoModel.from_pretrained(saved_model)) is VaswaniModel
    assert type(AutoModelForSeq2SeqLM.from_pretrained(saved_model)) is VaswaniForConditionalGeneration
    assert AutoTokenizer.from_pretrained(saved_model)("w1")["input_ids"] == [5, 2]


def test_folder_of_another_kind_of_model_or_of_a_training_checkpoint_is_refused(tmp_path):
    MarianConfig().save_pretrained(tmp_path / "marian")
    tiny_model().save_pretrained(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "config.json").unlink()
    for name, message in (("marian", "This is a marian model, not a vaswani"), ("checkpoint", "There is no config")):
        with pytest.raises(ValueError, match=message):
            VaswaniForConditionalGeneration.from_pretrained(tmp_path / name)


@pytest.mark.parametrize("options", [{}, {"trust_remote_code": True}])
def test_pipeline_loads_a_saved_model_with_the_package_installed(saved_model, options):
    translator = pipeline("translation", model=str(saved_model), **options)
    assert type(translator) is TranslationPipeline
    assert type(translator.model) is VaswaniForConditionalGeneration


def test_bare_model_loads_cleanly_from_a_full_checkpoint(tmp_path):
    tiny_model(share_encoder_decoder_embeddings=False, tie_word_embeddings=False).save_pretrained(tmp_path)
    _, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["unexpected_keys"]
    assert not report["missing_keys"]


def test_checkpoint_folder_without_weights_raises_a_clear_error(saved_model):
    (saved_model / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        AutoModelForSeq2SeqLM.from_pretrained(saved_model)


def two_vocabulary_folder(folder: Path) -> Path:
    model = tiny_model(share_encoder_decoder_embeddings=False, vocab_size=7, decoder_vocab_size=8)
    model.save_pretrained(folder)
    VaswaniTokenizer.from_backends(
        word_tokenizer(["w1", "w2", "w3"]), word_tokenizer(["v1", "v2", "v3", "v4"]), **SPECIAL_TOKENS
    ).save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("vocabularies", ["separate", "joint"])
def test_checkpoint_loads_as_remote_code_without_the_package(saved_model, tmp_path, vocabularies):
    folder = saved_model if vocabularies == "joint" else two_vocabulary_folder(tmp_path / "two")
    here = pipeline("translation", model=str(folder))
    expected = here(["w1 w2", "w3"], num_beams=3)
    source = torch.tensor([[5, 6, 2]])
    logits = here.model(input_ids=source, decoder_input_ids=source).logits.sum().item()
    printed = run_python(
        WITHOUT_PACKAGE
        + f"""
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
remote = dict(trust_remote_code=True)
folder = {str(folder)!r}
for auto in (AutoConfig, AutoModel, AutoModelForSeq2SeqLM):
    assert type(auto.from_pretrained(folder, **remote)).__module__.startswith("transformers_modules.")
tokenizer = AutoTokenizer.from_pretrained(folder, **remote)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, **remote)
source = torch.tensor([[5, 6, 2]])
assert abs(model(input_ids=source, decoder_input_ids=source).logits.sum().item() - {logits}) < 1e-3
translator = pipeline("translation", model=folder, **remote)
assert translator(["w1 w2", "w3"], num_beams=3) == {expected}
assert pipeline("translation_de_to_en", model=folder, **remote)(["w1 w2", "w3"], num_beams=3) == {expected}
model.save_pretrained("again")
tokenizer.save_pretrained("again")
assert pipeline("translation", model="again", **remote)(["w1 w2", "w3"], num_beams=3) == {expected}
model.config.save_pretrained("from_config")
import shutil
shutil.copytree("again", "new", ignore=shutil.ignore_patterns("*.safetensors"))
new = AutoModelForSeq2SeqLM.from_config(AutoConfig.from_pretrained("new", **remote), **remote)
assert new.num_parameters() == model.num_parameters()
print("loaded")
""",
        tmp_path,
    )
    assert printed.strip().endswith("loaded")


def test_import_prints_nothing(tmp_path):
    assert run_python("import hf_vaswani", tmp_path, PYTHONPATH=str(PROJECT)) == ""


@pytest.mark.slow
def test_import_adds_little_time(tmp_path):
    code = """
import time
start = time.perf_counter()
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, GenerationMixin, pipeline
from transformers import PreTrainedModel, PreTrainedTokenizerFast
before = time.perf_counter()
import hf_vaswani
after = time.perf_counter()
print((after - before) / (before - start))
"""
    assert float(run_python(code, tmp_path, PYTHONPATH=str(PROJECT))) < 0.25


def test_registering_twice_changes_nothing(saved_model):
    from hf_vaswani.registration import register

    register()
    assert type(pipeline("translation", model=str(saved_model))) is TranslationPipeline


@pytest.mark.parametrize("tied", [True, False])
def test_state_dict_needs_only_one_of_tied_weights(tied):
    model, other = tiny_model(tie_word_embeddings=tied), tiny_model(tie_word_embeddings=tied)
    for weight in other.parameters():
        weight.data += 1
    saved = {name: weight for name, weight in other.state_dict().items() if name != "lm_head.weight"}
    report = model.load_state_dict(saved, strict=False)
    assert report.missing_keys == ([] if tied else ["lm_head.weight"]) and not report.unexpected_keys
    assert torch.equal(model.lm_head.weight, other.lm_head.weight) == tied


def test_pipeline_names_the_damaged_file_of_a_folder(saved_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved_model, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match="model.safetensors cannot be read: it is truncated or damaged"):
        pipeline("translation", model=str(folder))
