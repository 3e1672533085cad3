"""The same trainings through transformers' Trainer as through the loop, and what only the Trainer can get wrong."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, TrainerCallback

from hf_vaswani.cli import main
from hf_vaswani.data.batches import TokenBudgetBatches
from hf_vaswani.data.encoding import encode_pairs
from hf_vaswani.data.tokenizer import train_tokenizer
from hf_vaswani.errors import InputError
from hf_vaswani.training import run_trainer
from hf_vaswani.training.prepare import load_splits
from hf_vaswani.training.recipe import load_recipe
from hf_vaswani.training.run import seeded_model, train
from hf_vaswani.training.run_trainer import train_with_trainer
from hf_vaswani.training.schedule import learning_rate
from hf_vaswani.training.trainer import VaswaniTrainer, trainer_arguments

PROJECT = Path(__file__).parents[2]
RECIPE = """
tokenizer: {vocab_size: 60}
model:
  {d_model: 16, encoder_layers: 1, decoder_layers: 1, encoder_attention_heads: 2, decoder_attention_heads: 2,
   encoder_ffn_dim: 32, decoder_ffn_dim: 32, dropout: 0.1}
training:
  {max_updates: 12, max_tokens: 48, schedule: inverse_sqrt, learning_rate: 0.003, warmup_updates: 5, log_every: 1,
   validate_every: 6, validate_sentences: 2, save_every: 4, average_last: 2, cpu_threads: 1}
generation: {num_beams: 2}
"""
BATCHES_AN_EPOCH = 7


@pytest.fixture(autouse=True)
def fresh_accelerate():
    """Accelerate's state, mixed precision above all, is one for the whole process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def recipe(tmp_path, write_lines):
    """A recipe file for a small corpus of word reversal, and the options that name its files."""
    generator = random.Random(0)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    options = []
    for split, size in (("train", 60), ("validation", 8), ("test", 2)):
        lines = [" ".join(generator.choices("abcdefgh", k=generator.randint(2, 6))) for _ in range(size)]
        options += [f"--{split}_source={write_lines(f'{split}.x', lines)}"]
        options += [f"--{split}_target={write_lines(f'{split}.y', [line[::-1] for line in lines])}"]

    def load(*more, output="out"):
        return load_recipe(path, [*options, f"--output_dir={tmp_path / output}", *more])

    load.command = [str(path), *options]
    return load


def trainer_of(recipe, output_dir, **changes) -> VaswaniTrainer:
    splits = load_splits(recipe.data)
    tokenizer = train_tokenizer(splits["train"], recipe.tokenizer.vocab_size)
    pairs = encode_pairs(splits["train"], tokenizer)
    lengths = pairs.source_lengths, pairs.target_lengths
    batches = TokenBudgetBatches(*lengths, recipe.training.max_tokens, seed=recipe.training.seed)
    validation = encode_pairs(splits["validation"], tokenizer)
    args = trainer_arguments(recipe.training, output_dir, **changes)
    model = seeded_model(recipe, tokenizer)
    return VaswaniTrainer(model, args, recipe.training, pairs, batches, tokenizer, validation, splits["validation"])


def records(folder: Path) -> list[dict]:
    """The log without what a clock says."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    clock = {"target_tokens_per_second", "minutes"}
    return [{name: value for name, value in line.items() if name not in clock} for line in lines]


def checkpoint_weights(folder: Path, update: int) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / f"update-{update:08d}" / "model.safetensors")


def assert_same_training(folder: Path, expected: Path, updates: int = 12):
    """Losses, rates, validations and weights within 1e-5."""
    assert len(records(expected)) == updates + updates // 6
    for record, expected_record in zip(records(folder), records(expected), strict=True):
        assert record == pytest.approx(expected_record, rel=1e-5)
    weights = checkpoint_weights(folder, updates)
    for name, value in checkpoint_weights(expected, updates).items():
        torch.testing.assert_close(weights.pop(name), value, rtol=1e-5, atol=1e-7)
    assert not weights


def assert_same_weights(folder: Path, expected: Path):
    weights = load_file(folder / "model.safetensors")
    for name, value in load_file(expected / "model.safetensors").items():
        assert torch.equal(weights.pop(name), value)
    assert not weights


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--dropout=0"],
        ["--accumulation=4", "--dropout=0"],
        ["--accumulation=4", "--schedule=paper", "--max_sentences=5"],
        ["--accumulation=2", "--max_grad_norm=0.5", "--weight_decay=0.01", "--encoder_layerdrop=0.5"],
        ["--gradient_checkpointing", "--mixed_precision=bf16", "--schedule=cosine", "--joint=false"],
    ],
    ids=" ".join,
)
def test_updates_are_those_of_the_loop(recipe, options):
    loop = train(recipe(*options, output="loop"))
    trainer = train_with_trainer(recipe(*options, output="trainer"))
    assert_same_training(trainer.folder, loop.folder)
    assert trainer.update == loop.update
    assert trainer.test == loop.test
    assert_same_weights(trainer.folder, loop.folder)
    for name in ("config.json", "generation_config.json", "test_translations.txt"):
        assert (trainer.folder / name).read_text() == (loop.folder / name).read_text()


def test_twelve_updates_are_more_than_an_epoch_whose_batches_are_no_multiple_of_the_accumulation(recipe, tmp_path):
    trainer = trainer_of(recipe("--accumulation=4"), tmp_path / "out")
    assert len(trainer.get_train_dataloader()) == BATCHES_AN_EPOCH
    assert trainer.sampler.updates(4) == 2


def test_training_stopped_in_an_epoch_and_resumed_equals_an_uninterrupted_one(recipe):
    options = ["--accumulation=2", "--average_last=3"]
    whole = train_with_trainer(recipe(*options, output="whole")).folder
    train_with_trainer(recipe(*options, "--max_updates=5", output="parts"))  # an epoch is four updates
    parts = train_with_trainer(recipe(*options, output="parts")).folder
    assert records(parts) == records(whole)
    assert_same_weights(parts, whole)


def test_resume_from_checkpoint_equals_an_uninterrupted_training(recipe, tmp_path):
    whole = trainer_of(recipe("--save_every=5"), tmp_path / "trainer")
    whole.train()
    shutil.rmtree(tmp_path / "trainer" / "checkpoint-12")
    shutil.rmtree(tmp_path / "trainer" / "checkpoint-10")
    resumed = trainer_of(recipe("--save_every=5"), tmp_path / "trainer")
    resumed.train(resume_from_checkpoint=True)
    for value, expected in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(value, expected)

    def losses(trainer):
        return [record["loss"] for record in trainer.state.log_history if "loss" in record]

    assert losses(resumed) == losses(whole)
    assert len(losses(whole)) == 12


def test_its_checkpoints_are_whole_models_and_so_many_as_the_recipe_keeps(recipe, tmp_path):
    trainer = trainer_of(recipe("--save_every=3", "--keep_last=2", "--average_last=2"), tmp_path / "trainer")
    trainer.train()
    folders = sorted(path.name for path in (tmp_path / "trainer").iterdir())
    assert folders == ["checkpoint-12", "checkpoint-9"]
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "trainer" / "checkpoint-12")
    assert AutoTokenizer.from_pretrained(tmp_path / "trainer" / "checkpoint-12")("a b").input_ids
    assert model.config.use_cache
    for value, expected in zip(model.parameters(), trainer.model.parameters(), strict=True):
        assert torch.equal(value, expected)


def test_loop_goes_on_from_the_trainers_checkpoint(recipe):
    whole = train(recipe(output="whole")).folder
    train_with_trainer(recipe("--max_updates=4", output="parts"))
    assert_same_training(train(recipe(output="parts")).folder, whole)


def test_checkpoint_of_the_loop_is_refused_and_untouched(recipe):
    folder = train(recipe("--max_updates=4")).folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"update-00000004 was written by scripts/train\.py"):
        train_with_trainer(recipe())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_checkpoint_of_another_number_of_processes_is_refused(recipe):
    folder = train_with_trainer(recipe("--max_updates=4")).folder
    path = folder / "checkpoints" / "update-00000004" / "progress.json"
    # Two processes would have come into the next epoch: 4 batches each an epoch of 7.
    path.write_text(json.dumps({"update": 4, "epoch": 1, "batch": 0, "seconds": 1.0}))
    with pytest.raises(InputError, match="update-00000004 was written by another number of processes than 1"):
        train_with_trainer(recipe())


@pytest.mark.parametrize("damaged", ["model.safetensors", "optimizer.pt", "scheduler.pt"])
def test_damaged_checkpoint_is_a_clear_error(recipe, damaged):
    folder = train_with_trainer(recipe("--max_updates=4")).folder
    (folder / "checkpoints" / "update-00000004" / damaged).unlink()
    with pytest.raises(InputError, match=r"update-00000004 is damaged .* Delete it"):
        train_with_trainer(recipe())


def test_finished_training_trains_nothing_more_and_overwriting_starts_anew(recipe):
    folder = train_with_trainer(recipe()).folder
    card = folder / "README.md"
    card.write_text("my own words")
    log = (folder / "log.jsonl").read_text()
    assert train_with_trainer(recipe()).update == 12
    assert card.read_text() == "my own words"
    assert (folder / "log.jsonl").read_text() == log
    assert train_with_trainer(recipe("--overwrite=true", "--max_updates=6")).update == 6
    assert len(records(folder)) == 7
    # Not trained once more by the loop, which finishes the folder.
    assert [path.name for path in folder.glob("checkpoints/*/trainer_state.json")] == ["trainer_state.json"] * 2
    assert card.read_text() != "my own words"


def test_changed_intervals_hold_from_where_a_training_goes_on(recipe):
    train_with_trainer(recipe("--max_updates=4"))
    folder = train_with_trainer(recipe("--log_every=4", "--validate_every=5", "--save_every=6")).folder
    assert [record["update"] for record in records(folder)] == [1, 2, 3, 4, 5, 8, 10, 12]
    # As with the loop: the checkpoint of update 4 is no multiple of 6, and was thus the last of an earlier run.
    assert [path.name for path in sorted((folder / "checkpoints").iterdir())] == ["update-00000006", "update-00000012"]


def test_wall_clock_limit_ends_the_training_as_usual(recipe):
    results = train_with_trainer(recipe("--max_updates=100000", "--max_minutes=0.01"))
    assert 1 <= results.update < 100_000
    assert results.minutes >= 0.01
    assert (results.folder / "model.safetensors").exists()


class LosesUpdates(TrainerCallback):
    """Says after updates 3 and 4 what Accelerate says where a gradient in fp16 has overflown."""

    def on_optimizer_step(self, args, state, control, optimizer, **kwargs):
        optimizer._is_overflow = state.global_step in (2, 3)


def test_rate_keeps_to_the_schedule_where_fp16_loses_an_update(recipe, tmp_path):
    trainer = trainer_of(recipe(), tmp_path / "out")
    trainer.add_callback(LosesUpdates)
    trainer.train()
    rates = [record["learning_rate"] for record in trainer.state.log_history if "learning_rate" in record]
    expected = [
        learning_rate("inverse_sqrt", update, peak=0.003, warmup=5, max_updates=12, d_model=16)
        for update in range(1, 13)
    ]
    assert rates == expected


def test_validation_loss_is_per_target_token_and_plain(recipe, tmp_path):
    trainer = trainer_of(recipe("--validate_sentences=0"), tmp_path / "out")
    total = tokens = 0
    for row in trainer.validation.dataset:
        labels = torch.tensor([row["labels"]])
        logits = trainer.model.eval()(torch.tensor([row["input_ids"]]), labels=labels).logits
        total -= logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).sum().item()
        tokens += labels.numel()
    metrics = trainer.evaluate()
    assert metrics["eval_loss"] == pytest.approx(total / tokens, rel=1e-5)
    assert metrics["eval_perplexity"] == pytest.approx(np.exp(total / tokens), rel=1e-5)
    assert "eval_bleu" not in metrics


def run_in_two_processes(script, recipe, *options):
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        + [str(PROJECT / "scripts" / script), *recipe.command, *options],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr


def test_two_processes_equal_two_of_the_loop(recipe, tmp_path):
    for script, output in (("train.py", "loop"), ("train_trainer.py", "trainer")):
        run_in_two_processes(script, recipe, "--accumulation=2", f"--output_dir={tmp_path / output}")
    assert_same_training(tmp_path / "trainer", tmp_path / "loop")


def test_smoothing_of_the_trainer_is_refused(recipe, tmp_path):
    with pytest.raises(ValueError, match="set label_smoothing in the model's config"):
        trainer_of(recipe(), tmp_path / "out", label_smoothing_factor=0.1)


def test_keys_that_only_the_loop_serves_are_refused_by_name_before_any_work(recipe, monkeypatch, tmp_path):
    monkeypatch.setitem(run_trainer.LOOP_ONLY, "training.seed", 1)
    monkeypatch.setitem(run_trainer.LOOP_ONLY, "data.max_length", 256)
    monkeypatch.setitem(run_trainer.LOOP_ONLY, "training.accumulation", 1)
    with pytest.raises(InputError) as error:
        train_with_trainer(recipe("--seed=5", "--max_length=64", "--train_source=absent.de"))
    lines = str(error.value).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["training.seed=5", "data.max_length=64"]
    assert not (tmp_path / "out").exists()


def test_keys_that_only_the_loop_serves_are_keys_with_their_defaults(recipe):
    sections = recipe().to_dict()
    for name in run_trainer.LOOP_ONLY:
        section, _, key = name.partition(".")
        assert key in sections[section], name


def test_script_says_all_faults_of_the_input_and_leaves_with_status_2(recipe, tmp_path, capsys):
    (tmp_path / "test.x").write_bytes(b"\xe4\n")
    options = ["--train_source=absent.de", f"--output_dir={tmp_path / 'out'}"]
    assert main(["train", "--trainer", *recipe.command, *options]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert all(line.startswith("error: ") for line in errors)
    assert "absent.de does not exist" in errors[0]
    assert "test.x, line 1: byte 0xe4" in errors[1]
    assert not (tmp_path / "out").exists()
