"""LoRA adapters from the recipe's `peft` section: what is trained and saved, and that resuming changes nothing."""

import json
import os
import shutil
import signal
import sys
import time

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import (
    AutoModelForSeq2SeqLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    TorchAoConfig,
    pipeline,
)

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from hf_vaswani.cli import main
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.errors import InputError, TrainingInterrupted
from hf_vaswani.models.load import load
from hf_vaswani.training import run as run_module
from hf_vaswani.training.optimization.weights import weights
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.setup.adapter import with_adapter
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from ..conftest import slow_but, tiny_model, word_tokenizer
from .helpers import files_in, losses, records, run_training, start_training

pytest.importorskip("peft")
both_loops = pytest.mark.parametrize("train", [train, train_with_trainer], ids=["loop", "Trainer"])
WEIGHTS, ADAPTER_WEIGHTS = "model.safetensors", "adapter_model.safetensors"
SIZES = {
    "vocab_size": 12, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip
TEXTS = ["a b c d", "e f", "g h a a b"]


@pytest.fixture
def base(tmp_path):
    """The folder of a model to fine-tune."""
    model = tiny_model(**SIZES)
    model.generation_config.num_beams = 2
    model.save_pretrained(tmp_path / "base")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(list("abcdefgh")),
        model_input_names=["input_ids", "attention_mask"],
        **SPECIAL_TOKENS,
    )
    tokenizer.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def lora(recipe, base):
    """Loads a recipe that trains an adapter on `base`."""

    def load(*options, output="out"):
        return recipe(f"--start_from={base}", "--r=4", "--learning_rate=0.03", *options, output=output)

    return load


def translations(model) -> list[str]:
    return [entry["translation_text"] for entry in pipeline("translation", model=str(model))(TEXTS)]


def translated_by_command(model, write_lines, tmp_path) -> list[str]:
    output = tmp_path / "translated"
    assert main(["translate", str(model), "--input", write_lines("input", TEXTS), "--output", str(output)]) == 0
    return output.read_text().splitlines()


def assert_same_run(folder, expected):
    """Checkpoints, optimizer states, adapter and losses are equal, bit for bit."""
    assert losses(folder) == losses(expected)
    names = sorted(path.name for path in (expected / "checkpoints").iterdir())
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == names
    files = [ADAPTER_WEIGHTS, f"checkpoints/{names[-1]}/model.safetensors", f"checkpoints/{names[-1]}/ema.safetensors"]
    for file in files:
        values, others = load_file(folder / file), load_file(expected / file)
        assert values.keys() == others.keys() and values
        assert all(torch.equal(values[name], others[name]) for name in values)
    moments = [
        torch.load(path / "checkpoints" / names[-1] / "optimizer.pt", weights_only=True)["state"]
        for path in (folder, expected)
    ]
    assert all(
        torch.equal(moments[0][i][name], value) for i, state in moments[1].items() for name, value in state.items()
    )


def test_adapter_of_the_base_model_has_under_two_percent_of_its_parameters():
    config = VaswaniConfig(vocab_size=32_000)
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(config)
    total = sum(parameter.numel() for parameter in model.parameters())
    arguments = base_model_recipe()
    trained = weights(with_adapter(model, arguments).get_base_model())
    # Each of 18 attention layers has 4 matrices of 512 × 512, each of 12 feed-forward layers 2 of 512 × 2048.
    expected = 8 * (18 * 4 * (512 + 512) + 12 * 2 * (512 + 2048))
    assert sum(value.numel() for value in trained.values()) == expected
    assert expected / (total + expected) < 0.02
    assert all("lora_" in name for name in trained)


def base_model_recipe():
    options = "--r=8 --start_from=you/model --merge --dataset=built-in --output_dir=out --learning_rate=0.001"
    return load_recipe("quickstart", [*options.split(), "--lr_scheduler_type=constant", "--warmup_steps=0"])


@pytest.mark.slow
@both_loops
def test_adapter_learns_and_leaves_its_base_unchanged(lora, base, train, write_lines, tmp_path):
    before = files_in(base)
    report = train(lora("--max_steps=40", "--logging_steps=5", "--save_steps=20", "--lr_scheduler_type=constant"))
    assert files_in(base) == before
    history = losses(report.folder)
    assert history[-1] < history[0] - 0.3
    assert not (report.folder / WEIGHTS).exists() and not (report.folder / "config.json").exists()
    settings = json.loads((report.folder / "adapter_config.json").read_text())
    assert (settings["base_model_name_or_path"], settings["r"]) == (str(base), 4)
    for file in [*report.folder.glob("checkpoints/*/model.safetensors"), *report.folder.glob("best/*/*.safetensors")]:
        assert all("lora_" in name for name in load_file(file))
    expected = translations(report.folder)
    assert expected != translations(base)
    assert translated_by_command(report.folder, write_lines, tmp_path) == expected
    # Validation uses the adapter, too.
    scores = [record for record in records(report.folder) if "validation_loss" in record]
    assert scores[-1]["validation_loss"] < scores[0]["validation_loss"]


@pytest.mark.slow
@both_loops
def test_stopped_adapter_run_resumes_bit_for_bit(lora, train, monkeypatch):
    options = (
        "--ema_decay=0.9", "--r_drop=1", "--dropout=0.2", "--lora_dropout=0.1", "--label_smoothing=0.1",
        "--max_grad_norm=1", "--save_steps=3", "--modules_to_save=final_layer_norm", "--bias=lora_only",
    )  # fmt: skip
    train(lora(*options, output="whole"))
    end_step = run_module.TrainingRun.end_step

    def end_step_with_signal(self, batches, loss, is_told_to_stop):
        if self.progress.step + 1 == 7:
            os.kill(os.getpid(), signal.SIGTERM)
            is_told_to_stop = True
        return end_step(self, batches, loss, is_told_to_stop)

    monkeypatch.setattr(run_module.TrainingRun, "end_step", end_step_with_signal)
    with pytest.raises(TrainingInterrupted):
        train(lora(*options, output="parts"))
    monkeypatch.undo()
    folder = train(lora(*options, output="parts")).folder
    assert_same_run(folder, folder.parent / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("script", ["scripts/train.py", "scripts/train_trainer.py"])
def test_killed_adapter_run_resumes_bit_for_bit(recipe, base, tmp_path, script):
    options = [f"--start_from={base}", "--r=4", "--learning_rate=0.03", "--ema_decay=0.9", "--save_steps=3"]
    options += ["--max_steps=60", "--lora_dropout=0.1"]
    run_training(recipe, *options, f"--output_dir={tmp_path / 'whole'}", script=script)
    process = start_training(recipe, *options, f"--output_dir={tmp_path / 'parts'}", script=script)
    while not list(tmp_path.glob("parts/checkpoints/update-*[0-9]")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "parts" / ADAPTER_WEIGHTS).exists()
    run_training(recipe, *options, f"--output_dir={tmp_path / 'parts'}", script=script)
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_train_the_same_adapter_as_one(lora, recipe, base, tmp_path):
    options = ["--dropout=0", "--ema_decay=0.9", "--modules_to_save=final_layer_norm", "--max_steps=6"]
    one = train(lora(*options, "--gradient_accumulation_steps=2", output="one")).folder
    # torchrun takes --r for an abbreviation of one of its own options.
    options += [f"--start_from={base}", "--peft.r=4", "--learning_rate=0.03", f"--output_dir={tmp_path / 'two'}"]
    run_training(recipe, *options, processes=2)
    assert losses(tmp_path / "two") == pytest.approx(losses(one), abs=1e-5)
    own, other = (load_file(folder / ADAPTER_WEIGHTS) for folder in (one, tmp_path / "two"))
    assert own.keys() == other.keys() and own
    for name, value in own.items():
        torch.testing.assert_close(other[name], value, atol=1e-5, rtol=0)


@pytest.mark.slow
@both_loops
def test_compiled_adapter_trains_like_an_uncompiled_one(lora, train, write_lines, tmp_path):
    options = ("--max_steps=6", "--dropout=0", "--lr_scheduler_type=constant")
    plain = losses(train(lora(*options, output="plain")).folder)
    report = train(lora(*options, "--torch_compile=true", output="compiled"))
    assert losses(report.folder) == pytest.approx(plain, rel=1e-4)
    assert all("_orig_mod" not in name for name in load_file(report.folder / ADAPTER_WEIGHTS))
    assert translations(report.folder) == translated_by_command(report.folder, write_lines, tmp_path)


def test_both_loops_train_the_same_adapter(lora):
    folders = [train(lora(output="own")).folder, train_with_trainer(lora(output="trainer")).folder]
    own, trainer = (load_file(folder / ADAPTER_WEIGHTS) for folder in folders)
    assert own.keys() == trainer.keys()
    for name, value in own.items():
        torch.testing.assert_close(trainer[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_merged_and_unmerged_adapters_translate_alike(lora):
    kept = train(lora("--max_steps=30", "--lr_scheduler_type=constant", output="run")).folder
    expected, adapter = translations(kept), (kept / "test_translations.txt").read_text()
    # The same run again: it is finished, so nothing is trained.
    folder = train(lora("--max_steps=30", "--lr_scheduler_type=constant", "--merge", output="run")).folder
    assert translations(folder) == expected
    assert (folder / "test_translations.txt").read_text() == adapter
    assert not list(folder.glob("adapter_*"))
    assert type(AutoModelForSeq2SeqLM.from_pretrained(folder).model.encoder.layers[0].fc1) is torch.nn.Linear
    # And back again.
    again = train(lora("--max_steps=30", "--lr_scheduler_type=constant", output="run")).folder
    assert translations(again) == expected and not (again / WEIGHTS).exists()


def test_untrained_adapter_does_not_change_the_output_of_its_base(lora, base):
    source = torch.tensor([[4, 5, 6, 2]])
    model = AutoModelForSeq2SeqLM.from_pretrained(base).eval()
    expected = model(input_ids=source, decoder_input_ids=source).logits
    adapted = with_adapter(model, lora()).eval()
    assert torch.equal(adapted(input_ids=source, decoder_input_ids=source).logits, expected)


def test_adapter_uses_the_search_settings_of_its_recipe(lora, base, write_lines, tmp_path):
    folder = train(lora("--num_beams=3", "--max_length_offset=7", "--max_steps=2")).folder
    assert AutoModelForSeq2SeqLM.from_pretrained(base).generation_config.num_beams == 2
    config = AutoModelForSeq2SeqLM.from_pretrained(folder).generation_config
    assert (config.num_beams, config.max_length_offset) == (3, 7)
    assert translations(folder) == translated_by_command(folder, write_lines, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--use_dora", "--merge"], marks=pytest.mark.slow),
        pytest.param(
            ["--use_rslora", "--gradient_checkpointing=true", "--mixed_precision=bf16"], marks=pytest.mark.slow
        ),
        ["--target_modules=q_proj,embed_tokens", "--average=best", "--weight_decay=0.01"],
        ["--modules_to_save=embed_tokens", "--target_modules=v_proj", "--bias=all"],
    ],
    ids=lambda options: options[0],
)
@pytest.mark.slow
def test_saved_adapter_variants_translate_the_same_after_loading(lora, write_lines, tmp_path, options):
    report = train(lora("--max_steps=8", *options))
    lines = (report.folder / "test_translations.txt").read_text()
    test = tmp_path / "again"
    assert main(["translate", str(report.folder), "--input", str(tmp_path / "test.x"), "--output", str(test)]) == 0
    assert test.read_text() == lines


@pytest.mark.slow
def test_gradient_checkpointing_does_not_change_the_losses_of_an_adapter(lora):
    plain = losses(train(lora("--max_steps=6", output="plain")).folder)
    saved = losses(train(lora("--max_steps=6", "--gradient_checkpointing=true", output="saved")).folder)
    assert saved == pytest.approx(plain, rel=1e-5)


@pytest.mark.slow
def test_imported_marian_model_is_fine_tuned_with_an_adapter(recipe, base, tmp_path, write_lines, capsys):
    torch.manual_seed(0)
    tokens = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0, "bos_token_id": None}
    config = MarianConfig(**SIZES, **tokens, max_position_embeddings=64)
    MarianMTModel(config).save_pretrained(tmp_path / "marian")
    for path in base.glob("tokenizer*.json"):
        shutil.copy(path, tmp_path / "marian")
    options = ["--r=4", "--max_steps=20", "--learning_rate=0.03"]
    assert main(["import", str(tmp_path / "marian"), str(tmp_path / "imported")]) == 0
    report = train(recipe(f"--start_from={tmp_path / 'imported'}", *options))
    history = losses(report.folder)
    assert history[-1] < history[0]
    assert translations(report.folder) == translated_by_command(report.folder, write_lines, tmp_path)
    merged = train(recipe(f"--start_from={tmp_path / 'imported'}", *options, "--merge", output="merged"))
    assert translations(merged.folder) == translations(report.folder)


@pytest.mark.slow
def test_adapter_of_a_relative_base_loads_in_any_working_directory_and_is_not_pushed(
    lora, base, tmp_path, monkeypatch, capsys, hub_here
):
    monkeypatch.chdir(base.parent)
    folder = train(lora("--max_steps=2", f"--start_from={base.name}")).folder
    file = folder / "adapter_config.json"
    assert json.loads(file.read_text())["base_model_name_or_path"] == str(base)
    expected = translations(folder)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert translations(folder) == expected
    # An earlier version wrote the path as it was given, which has the form of an id on the Hub.
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": base.name}))
    assert main(["push", str(folder), "you/lora"]) == 2
    assert "or a model on the Hub" in capsys.readouterr().err
    assert "you/lora" not in hub_here.repositories


@pytest.mark.slow
def test_card_reports_the_adapter_and_its_share_of_the_parameters(lora):
    report = train(lora("--max_steps=2"))
    card = ModelCard.load(report.folder / "README.md")
    # 12 matrices of 32 × 32 in three attention layers, and 4 of 32 × 64 in two feed-forward layers.
    trained = 4 * (12 * 64 + 4 * 96)
    values = load_file(report.folder / ADAPTER_WEIGHTS).values()
    assert sum(value.numel() for value in values) == trained == report.adapter.parameters
    assert f"LoRA adapter of base: {trained:,} trained parameters, {trained / report.parameters:.2%}" in card.text
    assert card.data.library_name == "peft"
    assert "lora_alpha: 8" in card.text
    merged = train(lora("--max_steps=2", "--merge"))
    card = ModelCard.load(merged.folder / "README.md")
    assert card.data.library_name == "transformers"
    assert "merged into the weights" in card.text


@pytest.mark.slow
def test_card_and_push_name_the_base_once_it_is_on_the_hub(lora, hub_here, capsys):
    folder = train(lora("--max_steps=2")).folder
    assert main(["push", str(folder), "you/lora"]) == 2
    assert "which is not on the Hub. Push that model, and write its id into base_model_name_or_path." in (
        capsys.readouterr().err
    )
    config = folder / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": "you/base"}))
    assert main(["card", str(folder), "--name", "you/lora"]) == 0
    card = ModelCard.load(folder / "README.md")
    assert (card.data.base_model, card.data.base_model_relation) == ("you/base", "adapter")
    assert "LoRA adapter of you/base: " in card.text and "trained parameters" in card.text
    assert main(["push", str(folder), "you/lora"]) == 0
    files = hub_here.repositories["you/lora"]["main"]
    assert {"adapter_config.json", ADAPTER_WEIGHTS, "tokenizer.json", "README.md"} <= files.keys()
    assert not [name for name in files if name.startswith(("checkpoints", "training_recipe"))]


@pytest.mark.slow
def test_uploads_at_checkpoints_have_the_adapter_merged_and_do_not_change_the_run(lora, hub_here):
    options = ("--merge", "--max_steps=8", "--average_last=1")
    plain = train(lora(*options, output="plain")).folder
    upload = ("--push_to_hub=true", "--hub_model_id=you/merged", "--hub_strategy=checkpoint")
    folder = train(lora(*options, *upload, output="pushed")).folder
    assert losses(folder) == losses(plain)
    assert (folder / WEIGHTS).read_bytes() == (plain / WEIGHTS).read_bytes()
    *_, (_, unfinished), (_, finished) = hub_here.history.values()
    # The model uploaded at the last checkpoint is already the final one.
    assert unfinished[WEIGHTS] == finished[WEIGHTS]
    assert "adapter_config.json" not in unfinished


@pytest.mark.parametrize("to", slow_but(["marian", "ctranslate2", "onnx", "transformers.js"], "ctranslate2"))
@pytest.mark.slow
def test_adapter_is_exported_only_when_merged(lora, to, tmp_path, capsys):
    options = ("--max_steps=2", "--lr_scheduler_type=constant")
    folder = train(lora(*options)).folder
    assert main(["export", str(folder), str(tmp_path / "exported"), "--to", to]) == 2
    [error] = capsys.readouterr().err.splitlines()[-1:]
    assert "an adapter (merge it: train it with --merge true" in error
    train(lora(*options, "--merge"))
    assert main(["export", str(folder), str(tmp_path / "exported"), "--to", to]) == 0


def test_run_without_an_adapter_does_not_mention_one(recipe):
    folder = train(recipe("--max_steps=1")).folder
    assert "peft" not in (folder / "README.md").read_text().lower()
    assert "adapter" not in json.loads((folder / "results.json").read_text())


@pytest.mark.slow
def test_resuming_on_a_changed_base_is_rejected(lora, base):
    train(lora("--max_steps=4"))
    values = load_file(base / WEIGHTS)
    model = AutoModelForSeq2SeqLM.from_pretrained(base)
    torch.nn.init.zeros_(model.model.encoder.layers[0].fc1.bias.data).add_(1)
    model.save_pretrained(base)
    assert load_file(base / WEIGHTS).keys() == values.keys()
    with pytest.raises(InputError, match="content of training.start_from has changed"):
        train(lora("--max_steps=6"))


@pytest.mark.parametrize("changes", [{}, {"vocab_size": 20}], ids=["other weights", "another vocabulary"])
@pytest.mark.slow
def test_adapter_on_another_base_than_its_own_is_refused_by_commands_and_warned_of(lora, base, changes, caplog):
    folder = train(lora("--max_steps=2")).folder
    assert load(str(folder)) and pipeline("translation", model=str(folder))
    torch.manual_seed(1)
    VaswaniForConditionalGeneration(VaswaniConfig(**{**SIZES, **changes})).save_pretrained(base)
    with pytest.raises(InputError, match=f"{folder} was trained on another base model: {base} has other weights"):
        load(str(folder))
    AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert f"{folder} was trained on another base model" in caplog.text


def test_all_errors_of_an_adapter_are_reported_together(lora, monkeypatch):
    with pytest.raises(InputError) as error:
        train(lora("--target_modules=q_prj,fc1", "--modules_to_save=encoder,fc1", "--use_dora"))
    lines = str(error.value).splitlines()
    known = "q_proj, k_proj, v_proj, out_proj, fc1, fc2"
    assert lines[0].startswith("peft.target_modules: the model has no suitable module 'q_prj'. Choose from ")
    assert all(name in lines[0] for name in known.split(", ")) and lines[0].endswith(", or all-linear alone")
    assert lines[1].startswith("peft.modules_to_save: the model has no suitable module 'encoder'")
    assert lines[2] == "peft.modules_to_save: 'fc1' is also in peft.target_modules: choose one"
    assert lines[3].startswith("peft.use_dora needs peft.merge: true")
    assert len(lines) == 4
    with pytest.raises(InputError, match="'embed_tokens' has a matrix that is tied to others"):
        train(lora("--target_modules=embed_tokens", "--merge"))
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError) as error:
        train(lora("--train_source=absent.de"))
    assert [line.partition(":")[0] for line in str(error.value).splitlines()] == ["data.train", "peft"]
    assert 'pip install "hf-vaswani[peft]"' in str(error.value)


def test_adapter_on_quantized_weights_is_rejected(recipe, base, tmp_path):
    quantization = pytest.importorskip("torchao.quantization")
    config = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    model = AutoModelForSeq2SeqLM.from_pretrained(base, quantization_config=config)
    shutil.copytree(base, tmp_path / "quantized")
    model.save_pretrained(tmp_path / "quantized")
    with pytest.raises(InputError, match="training.start_from: .* has quantized weights.* Use the model that was"):
        train(recipe(f"--start_from={tmp_path / 'quantized'}", "--r=4"))


def test_adapter_without_base_or_rank_is_rejected_along_with_other_errors(recipe, lora):
    with pytest.raises(InputError) as error:
        recipe("--r=4", "--max_tokens=-1")
    lines = str(error.value).splitlines()
    assert lines[-1] == "peft.r=4 needs a model to fine-tune: training.start_from" and len(lines) == 2
    with pytest.raises(InputError, match="peft.r is missing"):
        recipe("--lora_alpha=4")
    with pytest.raises(InputError, match="training.freeze=.* has no effect with peft.r=4"):
        lora("--freeze=model.encoder")
    assert not recipe("--r=null").peft.is_used


@pytest.mark.slow
def test_adapter_cannot_be_fine_tuned_or_averaged(lora, recipe, tmp_path, capsys):
    folder = train(lora("--max_steps=2")).folder
    with pytest.raises(InputError, match="is an adapter. .*--merge"):
        train(recipe(f"--start_from={folder}", output="more"))
    assert main(["average", str(folder), "--output", str(tmp_path / "mean")]) == 2
    assert "contains an adapter, not a model" in capsys.readouterr().err
