"""What the loop does in an optimizer step, and what it does when a step goes wrong."""

import json
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate.tracking import TensorBoardTracker
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, FSMTTokenizer

from hf_vaswani.errors import InputError, TrainingError
from hf_vaswani.evaluation import curves
from hf_vaswani.training import loop as loop_module
from hf_vaswani.training import run as run_module
from hf_vaswani.training.optimization import step_batches as passes
from hf_vaswani.training.optimization.step_loss import training_loss
from hf_vaswani.training.reporting import log
from hf_vaswani.training.run import TrainingRun
from hf_vaswani.training.train import train

from ..families import family
from .helpers import losses, records, same_weights


@pytest.fixture
def spoil(monkeypatch):
    """Makes the gradients of chosen batches infinite."""

    def spoil_batches(numbers):
        calls = iter(range(1, 10_000))
        original = loop_module.training_loss

        def spoiled_loss(*arguments):
            loss = original(*arguments)
            return loss * float("inf") if next(calls) in numbers else loss

        monkeypatch.setattr(loop_module, "training_loss", spoiled_loss)

    return spoil_batches


def test_batch_with_nonfinite_gradients_is_skipped_and_training_continues(recipe, spoil, capsys):
    spoil({3, 7})
    folder = train(recipe()).folder
    assert [record["update"] for record in records(folder) if "loss" in record] == list(range(1, 13))
    assert np.isfinite(losses(folder)).all()
    assert capsys.readouterr().out.count("loss or gradient not finite; batch skipped") == 2
    assert all(torch.isfinite(value).all() for value in load_file(folder / "model.safetensors").values())


def test_too_many_skipped_batches_end_the_run_with_the_step_and_last_good_checkpoint(recipe, spoil, monkeypatch):
    spoil(range(6, 1000))
    monkeypatch.setattr(run_module, "MOST_SKIPPED", 4)
    with pytest.raises(TrainingError) as error:
        train(recipe())
    assert "Step 6: loss or gradient not finite in 4 batches in a row" in str(error.value)
    assert "update-00000004" in str(error.value)


def test_fp16_overflow_skips_the_step_and_lowers_the_loss_scale(recipe, monkeypatch, capsys):
    scales = []
    original = loop_module.optimizer_step

    def step(run, batches):
        scaler = run.accelerator.scaler
        if run.progress.step == 2 and not run.progress.skipped:
            # A scale so large that the scaled gradients overflow.
            scaler.load_state_dict({**scaler.state_dict(), "scale": 2.0**60})
        before = [value.detach().clone() for value in run.raw_model.parameters()]
        scale = scaler.get_scale()
        loss, should_stop = original(run, batches)
        changed = any(not torch.equal(a, b) for a, b in zip(before, run.raw_model.parameters()))
        scales.append((scale, scaler.get_scale(), changed, loss is None))
        return loss, should_stop

    monkeypatch.setattr(loop_module, "optimizer_step", step)
    monkeypatch.setattr(run_module, "MOST_SKIPPED", 100)
    folder = train(recipe("--mixed_precision=fp16")).folder
    skipped = [entry for entry in scales if entry[3]]
    assert skipped[0][0] == 2.0**60
    assert all(after == before / 2 and not changed for before, after, changed, _ in skipped)
    assert all(changed for _, _, changed, is_skipped in scales if not is_skipped)
    assert len(losses(folder)) == 12
    assert json.loads((folder / "checkpoints" / "update-00000012" / "progress.json").read_text())["skipped"] == len(
        skipped
    )
    assert "batch skipped" in capsys.readouterr().out


@pytest.mark.slow
def test_runs_in_one_process_can_differ_in_precision(recipe):
    plain = train(recipe("--max_steps=2", output="plain")).folder
    half = train(recipe("--max_steps=2", "--mixed_precision=bf16", output="half")).folder
    assert losses(plain) != losses(half)
    np.testing.assert_allclose(losses(plain), losses(half), rtol=0.02)


def test_bf16_is_used_for_matrix_products_and_everything_else_stays_in_fp32(recipe, monkeypatch):
    seen, original = defaultdict(set), loop_module.training_loss

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if args and torch.is_tensor(args[0]):
                seen[function.overloadpacket.__name__].add(args[0].dtype)
            return function(*args, **kwargs or {})

    def watched(*arguments):
        with Watch():
            return original(*arguments)

    monkeypatch.setattr(loop_module, "training_loss", watched)
    folder = train(recipe("--max_steps=2", "--mixed_precision=bf16", "--r_drop=1")).folder
    # Attention and the loss compute the only softmaxes.
    assert seen["_softmax"] == seen["native_layer_norm"] == seen["scatter_add_"] == {torch.float32}
    assert not {name for name in seen if "scaled_dot" in name or "log_soft" in name}
    assert seen["bmm"] | seen["mm"] | seen["addmm"] == {torch.bfloat16}
    [last] = (folder / "checkpoints").iterdir()
    state = torch.load(last / "optimizer.pt", weights_only=True)["state"]
    assert {value.dtype for values in state.values() for value in values.values()} == {torch.float32}
    weights = [*load_file(last / "model.safetensors").values(), *load_file(folder / "model.safetensors").values()]
    assert {value.dtype for value in weights} == {torch.float32}


def test_logits_in_bf16_are_not_copied_to_fp32(recipe, monkeypatch):
    dtypes = set()

    def recorded_loss(model, batch, *arguments):
        dtypes.add(model(**batch).logits.dtype)
        return training_loss(model, batch, *arguments)

    monkeypatch.setattr(loop_module, "training_loss", recorded_loss)
    train(recipe("--max_steps=1", "--mixed_precision=bf16"))
    assert dtypes == {torch.bfloat16}


@pytest.mark.slow
def test_gradient_checkpointing_does_not_change_losses_or_weights(recipe):
    off = train(recipe("--dropout=0.2", output="off")).folder
    on = train(recipe("--dropout=0.2", "--gradient_checkpointing", output="on")).folder
    np.testing.assert_allclose(losses(on), losses(off), rtol=1e-5)
    expected = load_file(off / "checkpoints" / "update-00000012" / "model.safetensors")
    for name, value in load_file(on / "checkpoints" / "update-00000012" / "model.safetensors").items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-5)


def test_splitting_a_batch_into_forward_passes_does_not_change_training(recipe, monkeypatch):
    sizes = []

    def recorded_loss(model, batch, *arguments):
        sizes.append(max(batch["labels"].numel(), batch["input_ids"].numel()))
        return training_loss(model, batch, *arguments)

    monkeypatch.setattr(loop_module, "training_loss", recorded_loss)
    whole = train(recipe("--dropout=0", output="whole")).folder
    whole_passes = len(sizes)
    monkeypatch.setattr(passes, "CPU_PASS_TOKENS", 40)
    cut = train(recipe("--dropout=0", output="cut")).folder
    assert max(sizes[:whole_passes]) > 40 >= max(sizes[whole_passes:])
    np.testing.assert_allclose(losses(cut), losses(whole), rtol=1e-5)
    expected = load_file(whole / "checkpoints" / "update-00000012" / "model.safetensors")
    for name, value in load_file(cut / "checkpoints" / "update-00000012" / "model.safetensors").items():
        if not name.endswith("k_proj.bias"):  # its gradient is 0 except for rounding errors, which Adam amplifies
            torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-4)


def test_moving_average_is_validated_and_becomes_the_final_model(recipe):
    folder = train(recipe("--ema_decay=0.5", "--average_last=1", "--keep_best=1")).folder
    last = folder / "checkpoints" / "update-00000012"
    average, weights = load_file(last / "ema.safetensors"), load_file(last / "model.safetensors")
    final = dict(AutoModelForSeq2SeqLM.from_pretrained(folder).named_parameters())
    [best] = (folder / "best").iterdir()
    assert best.name == "update-00000012"
    for name, value in load_file(best / "model.safetensors").items():
        assert torch.equal(value, average[name])
        assert torch.equal(final[name].detach(), average[name])
    assert any(not torch.equal(average[name], weights[name]) for name in weights)


def test_best_weights_can_be_averaged_instead_of_the_last(recipe):
    results = train(recipe("--eval_steps=3", "--keep_best=2", "--average=best", "--metric_for_best_model=loss"))
    best = {r["update"]: r["validation_loss"] for r in records(results.folder) if "validation_loss" in r}
    assert results.averaged == sorted(best, key=best.get)[:2]
    assert len(list((results.folder / "best").iterdir())) == 2
    parts = [load_file(results.folder / "best" / f"update-{u:08d}" / "model.safetensors") for u in results.averaged]
    for name, value in AutoModelForSeq2SeqLM.from_pretrained(results.folder).named_parameters():
        expected = (parts[0][name].double() + parts[1][name].double()) / 2
        torch.testing.assert_close(value.detach().double(), expected, atol=1e-7, rtol=0)


def test_last_checkpoints_replace_the_best_weights_if_there_was_no_validation(recipe, capsys):
    results = train(recipe("--eval_steps=100", "--keep_best=2", "--average=best"))
    assert results.averaged == [8, 12]
    assert "There were no validations" in capsys.readouterr().out


@pytest.mark.slow
def test_run_stops_when_validation_no_longer_improves_and_stays_stopped(recipe):
    options = (
        "--learning_rate=1e-12",
        "--eval_steps=2",
        "--early_stopping_patience=3",
        "--metric_for_best_model=bleu",
    )
    assert train(recipe(*options)).steps == 8
    assert train(recipe(*options)).steps == 8
    assert train(recipe(*options, "--early_stopping_patience=4")).steps == 10


def test_frozen_parameters_do_not_change(recipe):
    folder = train(recipe("--freeze=[model.encoder.layers]", "--save_steps=1", "--save_total_limit=12")).folder
    first, last = (load_file(folder / "checkpoints" / f"update-{u:08d}" / "model.safetensors") for u in (1, 12))
    for name in first:
        assert torch.equal(first[name], last[name]) == name.startswith("model.encoder.layers")


def test_freeze_patterns_are_checked_before_anything_is_written(recipe, tmp_path):
    with pytest.raises(InputError, match="'nothing' matches no parameter"):
        train(recipe("--freeze=[nothing]"))
    with pytest.raises(InputError, match="(?s)matches no parameter.*absent.de|absent.de.*matches no parameter"):
        train(recipe("--freeze=[nothing]", "--validation_source=absent.de"))
    assert not (tmp_path / "out").exists()


def test_fine_tuning_starts_with_the_weights_and_tokenizer_of_its_model(recipe):
    first = train(recipe(output="first")).folder
    options = (f"--start_from={first}", "--dropout=0.3", "--learning_rate=1e-9", "--max_steps=2")
    second = train(recipe(*options, output="second")).folder
    model = AutoModelForSeq2SeqLM.from_pretrained(second)
    assert model.config.dropout == 0.3
    expected = load_file(first / "model.safetensors")
    for name, value in load_file(second / "model.safetensors").items():
        torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=0)
    assert (second / "tokenizer.json").read_text() == (first / "tokenizer.json").read_text()


@pytest.mark.slow
def test_model_saved_for_beam_search_can_be_fine_tuned_for_greedy_search(recipe):
    first = train(recipe("--early_stopping=true", output="first")).folder
    search = json.loads((first / "generation_config.json").read_text())
    assert (search["num_beams"], search["length_penalty"], search["early_stopping"]) == (2, 0.6, True)
    folder = train(recipe(f"--start_from={first}", "--num_beams=1", "--max_steps=1", output="second")).folder
    search = json.loads((folder / "generation_config.json").read_text())
    assert search["num_beams"] == 1 and not {"length_penalty", "early_stopping"} & {
        name for name, value in search.items() if value is not None
    }


def test_search_of_a_finished_run_can_be_changed(recipe):
    folder = train(recipe("--early_stopping=true")).folder
    train(recipe("--early_stopping=false"))
    assert json.loads((folder / "generation_config.json").read_text())["early_stopping"] is False


@pytest.mark.slow
def test_model_with_contradictory_search_settings_is_rejected_before_deleting_anything(recipe):
    first = train(recipe(output="first")).folder
    path = first / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_sample": False, "temperature": 0.5}))
    earlier = train(recipe(output="second")).folder
    with pytest.raises(InputError, match="training.start_from=.*temperature"):
        train(recipe(f"--start_from={first}", "--overwrite=true", output="second"))
    assert (earlier / "model.safetensors").exists()


@pytest.mark.slow
def test_fine_tuning_another_systems_model_keeps_its_tokenizer(recipe, tmp_path):
    model, tokenizer = family("Marian", tmp_path)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "marian")
    options = (f"--start_from={tmp_path / 'marian'}", "--average_last=1", "--max_length=40")
    train(recipe(*options, "--max_steps=2"))
    folder = train(recipe(*options, "--max_steps=4")).folder
    assert json.loads((folder / "results.json").read_text())["tokenizer"] == {
        "type": "MarianTokenizer", "joint": True, "source_tokens": len(tokenizer), "target_tokens": len(tokenizer),
    }  # fmt: skip
    assert (
        f"- Tokenizer: MarianTokenizer, one vocabulary of {len(tokenizer)} for both"
        in (folder / "README.md").read_text()
    )
    assert type(AutoTokenizer.from_pretrained(folder)) is type(tokenizer)
    with pytest.raises(InputError, match="MarianTokenizer is not built on the tokenizers library"):
        train(recipe(*options, "--bpe_dropout=0.1", output="dropout"))


@pytest.mark.slow
def test_fine_tuning_with_a_different_dropout_keeps_the_search_settings(recipe):
    first = train(recipe("--max_steps=1", output="first")).folder
    path = first / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "bad_words_ids": [[5]], "max_length": 21}))
    for rate in ("0.1", "0.2"):
        options = (f"--start_from={first}", f"--dropout={rate}", "--max_steps=1", "--overwrite=true")
        folder = train(recipe(*options)).folder
        search = json.loads((folder / "generation_config.json").read_text())
        assert search["bad_words_ids"] == [[5]]
        # The recipe sets the length limit.
        assert search.get("max_length") is None and search["max_length_offset"] == 50


def test_impossible_rates_for_fine_tuning_are_rejected_before_training(recipe, tmp_path):
    first = train(recipe("--max_steps=1", output="first")).folder
    with pytest.raises(InputError, match=r"dropout must be in \[0, 1\), got 1.0; label_smoothing must be in"):
        train(recipe(f"--start_from={first}", "--label_smoothing=10", "--dropout=1"))
    assert not (tmp_path / "out").exists()


def test_tokenizer_that_encodes_targets_as_sources_is_rejected(recipe, tmp_path):
    pytest.importorskip("sacremoses")
    for name, tokens in (("src", "a</w> b</w>"), ("tgt", "c</w> d</w>")):
        vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *tokens.split()])}
        (tmp_path / f"{name}.json").write_text(json.dumps(vocabulary))
    (tmp_path / "codes").write_text("a b 1\n")
    files = {"src_vocab_file": "src.json", "tgt_vocab_file": "tgt.json", "merges_file": "codes"}
    tokenizer = FSMTTokenizer(langs=["de", "en"], **{name: str(tmp_path / file) for name, file in files.items()})
    tokenizer.save_pretrained(tmp_path / "fsmt")
    with pytest.raises(InputError, match="tokenizer.path: .*FSMTTokenizer encodes targets with the source's"):
        train(recipe(f"--tokenizer.path={tmp_path / 'fsmt'}"))


@pytest.mark.slow
def test_recipe_that_contradicts_the_model_it_starts_from_is_rejected(recipe, tmp_path):
    first = train(recipe("--max_steps=1", output="first")).folder
    with pytest.raises(InputError) as error:
        train(recipe(f"--start_from={first}", "--d_model=64", "--encoder_layers=3"))
    assert [line.split()[0] for line in str(error.value).splitlines()] == [
        "model.d_model=64",
        "model.encoder_layers=3",
    ]
    with pytest.raises(InputError, match="absent"):
        train(recipe(f"--start_from={tmp_path / 'absent'}"))
    with pytest.raises(
        InputError, match="is a checkpoint, which has only weights. Make a model from it with: hf-vaswani average"
    ):
        train(recipe(f"--start_from={first / 'checkpoints' / 'update-00000001'}"))
    weights = load_file(first / "model.safetensors")
    weights.popitem()
    save_file(weights, first / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="lacks weights that its configuration expects"):
        train(recipe(f"--start_from={first}"))
    assert not (tmp_path / "out").exists()


@pytest.mark.draws_figures
@pytest.mark.slow
def test_run_draws_curves_and_reports_to_trackers(recipe):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = train(recipe("--report_to=tensorboard")).folder
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    [events] = folder.glob("hf_vaswani/events*")
    accumulator = event_accumulator.EventAccumulator(str(events)).Reload()
    assert [event.value for event in accumulator.Scalars("loss")] == pytest.approx(losses(folder))
    assert [event.step for event in accumulator.Scalars("validation_bleu")] == [6, 12]


@pytest.mark.slow
def test_tracker_that_cannot_be_opened_is_a_clear_error_and_does_not_affect_the_next_run(recipe, monkeypatch):
    pytest.importorskip("tensorboard")

    def fail_to_log_in(self, values):
        raise RuntimeError("nobody is logged in")

    with monkeypatch.context() as patch:
        patch.setattr(TensorBoardTracker, "store_init_configuration", fail_to_log_in)
        with pytest.raises(InputError, match="training.report_to=tensorboard: cannot be opened: nobody is logged in"):
            train(recipe("--report_to=tensorboard", "--max_steps=1"))
    assert train(recipe("--report_to=tensorboard", "--max_steps=1")).steps == 1


@pytest.mark.parametrize("seconds, expected", [(60, [12]), (0, [6, 12])])
@pytest.mark.slow
def test_curves_are_drawn_at_the_end_and_at_validations_far_enough_apart(recipe, monkeypatch, seconds, expected):
    drawn, original = [], curves.draw_curves

    def draw(logs, figure):
        drawn.append(json.loads(logs[0].read_text().splitlines()[-1])["update"])
        original(logs, figure)

    monkeypatch.setattr(curves, "draw_curves", draw)
    monkeypatch.setattr(log, "SECONDS_BETWEEN_FIGURES", seconds)
    train(recipe())
    assert drawn == expected


def test_unknown_and_missing_trackers_are_rejected_along_with_other_errors(recipe, tmp_path):
    with pytest.raises(InputError) as error:
        train(recipe("--report_to=tensorbord,aim", "--train_source=absent.de"))
    assert [line.partition(" ")[0] for line in str(error.value).splitlines()] == [
        "data.train:",
        *["training.report_to:"] * 2,
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_bpe_dropout_is_reproducible_and_does_not_change_the_saved_tokenizer(recipe):
    plain = train(recipe(output="plain")).folder
    folder = train(recipe("--bpe_dropout=0.5", output="dropout")).folder
    assert losses(folder)[0] != losses(plain)[0]
    assert (folder / "tokenizer.json").read_text() == (plain / "tokenizer.json").read_text()
    again = train(recipe("--bpe_dropout=0.5", output="again")).folder
    assert same_weights(folder, again)


@pytest.mark.slow
def test_compiled_model_trains_with_the_same_losses(recipe):
    plain = train(recipe("--dropout=0", "--max_steps=10", output="plain")).folder
    compiled = train(recipe("--dropout=0", "--max_steps=10", "--torch_compile", output="compiled")).folder
    np.testing.assert_allclose(losses(compiled), losses(plain), rtol=1e-4)


@pytest.mark.parametrize("replaced", [False, True])
def test_output_folder_that_is_removed_while_training_is_an_error(recipe, monkeypatch, replaced):
    arguments, original = recipe(), TrainingRun.end_step
    folder = Path(arguments.training.output_dir)

    def end_step(run, *results):
        if run.progress.step == 5:
            shutil.rmtree(folder)
            if replaced:
                folder.mkdir()
        return original(run, *results)

    monkeypatch.setattr(TrainingRun, "end_step", end_step)
    with pytest.raises(TrainingError, match="moved or removed"):
        train(arguments)
