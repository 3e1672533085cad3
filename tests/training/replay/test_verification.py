"""Verifying a run from its folder or its card: equal runs match bit for bit, and differences are reported."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import typing
from pathlib import Path

import psutil
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from hf_vaswani.cli import main
from hf_vaswani.configuration.keys import traits, types_of
from hf_vaswani.errors import InputError, TrainingInterrupted
from hf_vaswani.records.trail import Environment, RunTrace, read_trail
from hf_vaswani.runtime.signals import StopSignals
from hf_vaswani.training.optimization.weights import tensors_digest
from hf_vaswani.training.recipe.recipe import Recipe, load_recipe, recipe_keys
from hf_vaswani.training.recorder import deciding_keys
from hf_vaswani.training.replay import replay
from hf_vaswani.training.replay.recorded_run import read_run, replayed_recipe
from hf_vaswani.training.replay.verification import Outcome, compare_recipes, verify
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from ..helpers import PROJECT, files_in, run_training
from ..test_adapters import base
from .test_recorder import interrupt_after

__all__ = ["base"]
FAST = ("--max_steps=14", "--save_steps=6", "--eval_steps=100", "--eval_sentences=0")
LIKE_FIRST = "the last such step that is recorded and was made like the first."


def outcomes(result) -> dict[str, Outcome]:
    return {finding.part: finding.outcome for finding in result.findings}


def details(result) -> dict[str, str]:
    return {finding.part: finding.detail for finding in result.findings if finding.outcome == Outcome.DIFFERENT}


def change_trail(folder, change) -> None:
    """Edit the values of a stored trail."""
    file = folder / "trail.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def flip_bit(file: Path, line: int) -> None:
    """Flip one bit of the first letter of a line."""
    lines = file.read_bytes().split(b"\n")
    lines[line] = bytes([lines[line][0] ^ 1]) + lines[line][1:]
    file.write_bytes(b"\n".join(lines))


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (
            train,
            ["--dropout=0.2", "--ema_decay=0.9", "--r_drop=1", "--gradient_accumulation_steps=2"],
        ),
        pytest.param(
            train, ["--bpe_dropout=0.2", "--max_grad_norm=0.5", "--lr_scheduler_type=cosine"], marks=pytest.mark.slow
        ),
        pytest.param(train, ["--streaming=true", "--max_length=60", "--mixed_precision=bf16"], marks=pytest.mark.slow),
        (train_with_trainer, ["--freeze=[model.decoder]", "--weight_decay=0.01", "--max_grad_norm=0.5"]),
        pytest.param(
            train,
            ["--drop_duplicates=true", "--drop_copies=true", "--encoder_layerdrop=0.5", "--joint=false"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value.__name__,
)
def test_verifying_a_finished_run_matches_bit_for_bit_and_changes_no_file(recipe, function, options):
    folder = function(recipe(*FAST, *options)).folder
    before = files_in(folder)
    result = verify(str(folder))
    assert result.verdict == "identical bit for bit"
    streamed = {"training text": Outcome.NOT_COMPARED} if "--streaming=true" in options else {}
    assert {part: outcome for part, outcome in outcomes(result).items() if outcome != Outcome.EQUAL} == streamed
    parts = ["steps 1 to 10", "steps 13 to 14, from update-00000012"]
    parts += [f"checkpoint update-{step:08d}" for step in (6, 12, 14)]
    assert list(outcomes(result))[-len(parts) :] == parts
    assert files_in(folder) == before


@pytest.mark.slow
def test_run_with_held_out_pairs_matches_bit_for_bit(recipe, tmp_path, write_lines):
    lines = [f"{a} {b}" for a in "abcdefgh" for b in "abcdefgh"]
    file = write_lines("pairs.tsv", [f"{line}\t{line[::-1]}" for line in lines])
    options = [f"--train={file}", "--validation_share=0.1", "--test_share=0.1", f"--output_dir={tmp_path / 'out'}"]
    folder = train(load_recipe(recipe.command[0], [*FAST, *options])).folder
    assert verify(str(folder)).verdict == "identical bit for bit"


@pytest.mark.slow
@pytest.mark.parametrize("function", [train, train_with_trainer], ids=["loop", "Trainer"])
def test_adapter_run_matches_bit_for_bit_unless_its_base_model_changed(recipe, base, function):
    folder = function(recipe(*FAST, f"--start_from={base}", "--r=4", "--lora_dropout=0.1", "--dropout=0.2")).folder
    assert verify(str(folder)).verdict == "identical bit for bit"
    weights = load_file(base / "model.safetensors")
    weights["model.encoder.layers.0.fc1.bias"][0] += 1e-3
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    result = verify(str(folder))
    assert details(result).keys() == {"initial weights", "steps 1 to 10", "steps 13 to 14, from update-00000012"}
    base.rename(base.with_name("elsewhere"))
    with pytest.raises(InputError) as raised:
        verify(str(folder))
    assert str(raised.value).splitlines()[-1] == ("Specify where these are here: --training.start_from FOLDER")
    result = verify(str(folder), ["--start_from", str(base.with_name("elsewhere"))])
    assert outcomes(result)["recipe"] == Outcome.EQUAL


@pytest.fixture
def finished(recipe):
    """The folder of a finished run."""
    return train(recipe(*FAST, "--dropout=0.2")).folder


@pytest.mark.slow
def test_run_of_a_version_that_kept_all_whitespace_matches_bit_for_bit(recipe, tmp_path):
    for side in "xy":
        lines = (tmp_path / f"train.{side}").read_text().splitlines()
        (tmp_path / f"train.{side}").write_text("".join(f" {line.replace(' ', '  ')}\n" for line in lines))
    folder = train(recipe(*FAST, "--whitespace=keep")).folder
    change_trail(folder, lambda trail: trail["recipe"]["tokenizer"].pop("whitespace"))
    file = folder / "training_recipe.yaml"
    stored = yaml.safe_load(file.read_text())
    del stored["tokenizer"]["whitespace"]
    file.write_text(yaml.safe_dump(stored))
    assert verify(str(folder), steps=3, checkpoint="none").verdict == "identical bit for bit"


@pytest.mark.slow
def test_unfinished_run_is_replayed_up_to_its_last_step(recipe, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 8)
        with pytest.raises(TrainingInterrupted):
            train(recipe(*FAST))
    result = verify(str(tmp_path / "out"))
    assert result.verdict == "identical bit for bit"
    assert "steps 1 to 8" in outcomes(result)


def test_changed_letter_in_the_training_text_is_found_with_the_first_differing_step(finished, tmp_path):
    flip_bit(tmp_path / "train.x", 37)
    result = verify(str(finished), checkpoint="none")
    assert result.outcome == Outcome.DIFFERENT
    # 60 pairs make 30 ranges of two.
    assert "it first differs in pairs 37 to 38" in details(result)["training text"]
    assert outcomes(result)["validation text"] == Outcome.EQUAL
    step = int(re.search(r"first differ at step (\d+): ", details(result)["steps 1 to 10"]).group(1))
    assert 1 <= step <= 10
    recorded = {record.step: record.loss for record in read_trail(finished).steps}
    assert f"loss {float.fromhex(recorded[step]):.9g} in the run" in details(result)["steps 1 to 10"]


@pytest.mark.slow
def test_changed_text_with_an_unchanged_tokenizer_is_reported_as_different_token_ids(recipe, finished, tmp_path):
    options = [*FAST, "--dropout=0.2", f"--tokenizer.path={finished / 'tokenizer'}"]
    folder = train(recipe(*options, output="given")).folder
    flip_bit(tmp_path / "train.x", 11)
    result = verify(str(folder), checkpoint="none")
    assert details(result).keys() == {"training text", "steps 1 to 10"}
    assert "different token ids in its batches" in details(result)["steps 1 to 10"]


@pytest.mark.slow
def test_changed_letter_in_the_validation_text_is_found(finished, tmp_path):
    flip_bit(tmp_path / "validation.y", 3)
    assert details(verify(str(finished), checkpoint="none")).keys() == {"validation text"}


@pytest.mark.slow
def test_changed_recipe_key_is_named_with_the_steps_that_it_affects(finished):
    file = finished / "training_recipe.yaml"
    recipe = yaml.safe_load(file.read_text())
    recipe["training"]["adam_beta2"] = 0.9
    file.write_text(yaml.safe_dump(recipe))
    result = verify(str(finished), checkpoint="none")
    assert details(result)["recipe"] == f"training.adam_beta2 was 0.98 in the run, but is 0.9 in {file} or an option"
    # Adam's first step depends on it only in the last bits, so at least its loss is the same.
    assert not re.search(r"step 1: .*loss [\d.]+ in the run", details(result)["steps 1 to 10"])
    assert details(result).keys() == {"recipe", "steps 1 to 10"}


@pytest.mark.slow
def test_checkpoint_with_a_changed_weight_is_named_and_not_replayed_from(finished):
    file = finished / "checkpoints" / "update-00000012" / "model.safetensors"
    weights = load_file(file)
    weights["model.shared.weight"].view(torch.int32)[5, 3] ^= 1
    save_file(weights, file)
    result = verify(str(finished))
    assert details(result).keys() == {"checkpoint update-00000012"}
    assert outcomes(result)["steps 7 to 12, from update-00000006"] == Outcome.EQUAL


@pytest.mark.slow
def test_steps_and_checkpoint_can_be_chosen(finished):
    result = verify(str(finished), steps=12, checkpoint="6")
    assert list(outcomes(result))[5:7] == ["steps 1 to 12", "steps 7 to 12, from update-00000006"]
    assert result.verdict == "identical bit for bit"
    with pytest.raises(InputError, match="--from 7: .* Choose from: update-00000006, update-00000012$"):
        verify(str(finished), checkpoint="7")


@pytest.mark.parametrize(
    ("steps", "last", "line"),
    [
        (12, 12, None),
        (
            13,
            12,
            f"--steps 13: replaying up to 12, {LIKE_FIRST} The next recorded one is 14.",
        ),
        (99, 14, f"--steps 99: replaying up to 14, {LIKE_FIRST} No later one is recorded."),
    ],
)
def test_replay_ends_at_the_last_recorded_step_and_says_so(finished, steps, last, line):
    messages = []
    result = verify(str(finished), steps=steps, checkpoint="none", report=messages.append)
    assert f"steps 1 to {last}" in outcomes(result)
    assert messages[:-1] == [f"record: trail.json in {finished}", *([line] if line else [])]


def test_steps_with_a_different_number_of_processes_are_not_replayed(finished):
    def edit(trail):
        trail["environments"].append({**trail["environments"][0], "first_step": 13, "processes": 2})

    change_trail(finished, edit)
    messages = []
    verify(str(finished), steps=14, checkpoint="none", report=messages.append)
    assert messages[1:] == [
        f"--steps 14: replaying up to 12, {LIKE_FIRST} The next recorded one is 14.",
        "Replaying steps 1 to 12",
    ]


@pytest.mark.parametrize(("change", "outcome"), [(1e-7, Outcome.CLOSE), (1e-3, Outcome.DIFFERENT)])
def test_losses_on_a_different_processor_are_compared_within_a_tolerance(finished, change, outcome):
    def edit(trail):
        trail["environments"][0]["processor"] = "Another CPU"
        step = trail["steps"][4]
        step["loss"] = (float.fromhex(step["loss"]) * (1 + change)).hex()
        step["weights"] = "0" * 64

    change_trail(finished, edit)
    result = verify(str(finished), checkpoint="none")
    assert result.outcome == outcome
    assert "different processor: Another CPU then, " in result.verdict
    assert result.verdict.startswith("equal to 1e-5 (" if outcome == Outcome.CLOSE else "different: steps 1 to 10 (")
    # On the same processor, nothing excuses a difference.
    change_trail(finished, lambda trail: trail["environments"][0].update(original_environment(finished)))
    result = verify(str(finished), checkpoint="none")
    assert "they first differ at step 5: loss " in details(result)["steps 1 to 10"]


def original_environment(folder) -> dict:
    return json.loads((folder / "results.json").read_text())["trail"]["environments"][0]


@pytest.mark.parametrize(("step", "outcome"), [(4, Outcome.DIFFERENT), (8, Outcome.CLOSE)])
@pytest.mark.slow
def test_changed_environment_excuses_differences_only_from_its_first_step(finished, step, outcome):
    """As in a run that was stopped after step 5 and resumed on a different machine."""

    def edit(trail):
        here = trail["environments"][0]
        trail["environments"].append({**here, "first_step": 6, "processor": "Another CPU"})
        change_last_bits(trail, step)

    change_trail(finished, edit)
    result = verify(str(finished), checkpoint="none")
    assert result.outcome == outcome
    assert "different processor: Another CPU then, " in result.verdict


@pytest.mark.parametrize(("threads", "outcome"), [(2, Outcome.DIFFERENT), (3, Outcome.CLOSE)])
@pytest.mark.slow
def test_number_of_threads_excuses_differences_only_if_this_machine_has_fewer(recipe, monkeypatch, threads, outcome):
    folder = train(recipe(*FAST, "--cpu_threads=1")).folder
    monkeypatch.setattr(replay, "share_of_cores", lambda processes: 2)

    def edit(trail):
        here = trail["environments"][0]
        trail["environments"].append({**here, "first_step": 6, "threads": threads})
        change_last_bits(trail, 8)

    change_trail(folder, edit)
    result = verify(str(folder), checkpoint="none")
    assert result.outcome == outcome
    assert ("different number of threads: 3 then, 2 here" in result.verdict) == (threads == 3)


def change_last_bits(trail: dict, step: int) -> None:
    """Change a recorded step as a different order of summation would."""
    record = trail["steps"][step - 1]
    record.update(loss=(float.fromhex(record["loss"]) * (1 + 1e-7)).hex(), weights="0" * 64)


@pytest.mark.slow
def test_checkpoint_weights_on_a_different_processor_are_compared_within_a_tolerance(finished):
    """The recorded weights are close to those of the replay, as those of a different machine would be."""
    checkpoint = finished / "checkpoints" / "update-00000014" / "model.safetensors"
    weights = load_file(checkpoint)
    weights = {name: value * (1 + 2**-20) for name, value in weights.items()}
    save_file(weights, checkpoint)

    def edit(trail):
        trail["environments"][0]["processor"] = "Another CPU"
        trail["steps"][-1]["weights"] = tensors_digest(weights)

    change_trail(finished, edit)
    result = verify(str(finished))
    [detail] = [str(f) for f in result.findings if f.outcome == Outcome.CLOSE]
    assert re.fullmatch(r"steps 13 to 14, from .*: losses differ by up to 0.0e\+00, weights by up to 9.5e-07", detail)


def test_stop_signal_is_passed_on_to_the_processes_of_a_replay(tmp_path, monkeypatch):
    """The fake launcher records SIGTERM; without the signal it would exit after a few seconds."""
    launcher = tmp_path / "launcher"
    launcher.write_text(
        "#!/bin/sh\n"
        f"trap 'touch {tmp_path}/stopped; exit 1' TERM\n"
        "kill -TERM $PPID\n"
        "for i in $(seq 50); do sleep 0.1; done\n"
    )
    launcher.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(launcher))
    # Without a handler, the signal would end the tests.
    with StopSignals(), pytest.raises(TrainingInterrupted, match=r"^Stopped by SIGTERM\.$") as raised:
        replay.launch(Recipe(), RunTrace(texts={}, environments=[Environment(processes=2)]), [replay.Part(1, 1)])
    assert raised.value.signal == signal.SIGTERM
    assert (tmp_path / "stopped").exists()


@pytest.mark.slow
def test_stopped_replay_with_two_processes_leaves_no_process_and_no_folder(recipe, tmp_path):
    run_training(recipe, *FAST, f"--output_dir={tmp_path / 'out'}", processes=2)
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "hf_vaswani", "verify", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(tmp_path / "temporary")},
    )
    command = psutil.Process(process.pid)
    while len(children := command.children(recursive=True)) < 3:
        assert process.poll() is None, "it ended before it was stopped"
        time.sleep(0.1)
    process.terminate()
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert list((tmp_path / "temporary").glob("hf-vaswani-*")) == []


@pytest.mark.slow
def test_run_with_two_processes_is_replayed_with_two(recipe, tmp_path, capfd):
    run_training(recipe, *FAST, "--dropout=0.2", f"--output_dir={tmp_path / 'out'}", processes=2)
    assert read_trail(tmp_path / "out").environments[0].processes == 2
    assert main(["verify", str(tmp_path / "out")]) == 0
    output = capfd.readouterr().out
    assert ", with 2 processes\n" in output
    assert output.endswith("\nidentical bit for bit\n")


@pytest.mark.slow
def test_run_resumed_with_more_processes_is_replayed_up_to_that_point(recipe, tmp_path, monkeypatch):
    train(recipe(*FAST, "--max_steps=8"))
    run_training(recipe, *FAST, f"--output_dir={tmp_path / 'out'}", processes=2)
    trail = read_trail(tmp_path / "out")
    assert [(entry.first_step, entry.processes) for entry in trail.environments] == [(1, 1), (9, 2)]
    result = verify(str(tmp_path / "out"))
    assert {"steps 1 to 8", "steps 13 to 14, from update-00000012"} <= outcomes(result).keys()
    assert result.verdict == "identical bit for bit"


def test_run_can_be_verified_from_its_card_and_text_alone(finished, tmp_path, capsys, monkeypatch):
    card = tmp_path / "README.md"
    shutil.copy(finished / "README.md", card)
    (tmp_path / "text").mkdir()
    for name in ("train.x", "train.y", "validation.x", "validation.y"):
        (tmp_path / name).rename(tmp_path / "text" / f"moved_{name}")
    shutil.rmtree(finished)
    monkeypatch.chdir(tmp_path)
    assert main(["verify", str(card)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[2].partition(":")[0] for line in errors[:-1]] == ["data.train"] * 2 + [
        "data.validation"
    ] * 2
    assert errors[-1] == (
        "error: Specify where these are here: --train_source FILE --train_target FILE --validation_source FILE "
        "--validation_target FILE"
    )
    options = [
        f"--{split}_{side}={tmp_path / 'text' / f'moved_{split}.{ending}'}"
        for split in ("train", "validation")
        for side, ending in (("source", "x"), ("target", "y"))
    ]
    assert main(["verify", str(card), *options, "--steps", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["steps 1 to 5: losses and weights are identical bit for bit", "identical bit for bit"]
    flip_bit(tmp_path / "text" / "moved_train.y", 0)
    assert main(["verify", str(tmp_path), *options]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("different: training text, ")


def test_replay_of_a_card_neither_writes_nor_uploads_where_the_card_says(finished, tmp_path, monkeypatch):
    card, elsewhere = finished / "README.md", str(tmp_path / "elsewhere")
    values = {str: elsewhere, list: ["tensorboard"], bool: True, int: 1}
    writing = {
        section: {
            name: next(values[kind] for kind in values if kind in map(origin_of, types_of(key)))
            for name, key in keys.items()
            if traits(key).private and name != "hub_strategy"
        }
        for section, keys in recipe_keys().items()
    }
    assert {"cache_dir", "num_proc"} <= writing["data"].keys()
    assert {"output_dir", "report_to", "push_to_hub", "hub_model_id", "overwrite"} <= writing["training"].keys()
    before, text, after = re.split(r"```yaml\n(.*?)\n```", card.read_text(), flags=re.DOTALL)
    recipe = yaml.safe_load(text)
    for section, keys in writing.items():
        recipe.setdefault(section, {}).update(keys)
    (tmp_path / "stranger.md").write_text(f"{before}```yaml\n{yaml.safe_dump(recipe)}\n```{after}")
    monkeypatch.chdir(tmp_path)
    there = sorted(tmp_path.rglob("*"))
    assert verify("stranger.md", steps=1).verdict == "identical bit for bit"
    assert sorted(tmp_path.rglob("*")) == there


def origin_of(kind):
    return typing.get_origin(kind) or kind


def test_bad_input_is_rejected_before_any_work(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(replay, "build", lambda checked: pytest.fail("work has begun"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "card.md").write_text("# A card\n")
    assert errors_of(tmp_path / "none", capsys) == [
        f"error: {tmp_path / 'none'} does not exist. Specify the folder of a run, its card, or its model's id on the "
        "Hub."
    ]
    assert "is not the folder of a run" in errors_of(tmp_path / "empty", capsys)[0]
    [error] = errors_of(tmp_path / "card.md", capsys)
    assert "not the card of a run: it contains no recipe.yaml and no trail.json. If the model was exported" in error
    (tmp_path / "train.x").unlink()
    errors = errors_of(finished, capsys, "--from=3", "--lerning_rate=3")
    assert len(errors) == 2
    assert errors[0].startswith("error: --lerning_rate: unknown key")
    assert errors[1].startswith("error: --from 3: ")
    errors = errors_of(finished, capsys)
    assert len(errors) == 2
    assert "train.x" in errors[0]
    assert errors[1] == "error: Specify where these are here: --train_source FILE"
    for name in ("trail.json", "results.json"):
        (finished / name).unlink()
    assert "contains no readable trail (trail.json)" in errors_of(finished, capsys)[0]


def test_only_text_that_is_not_found_is_requested(finished, tmp_path, capsys):
    (tmp_path / "short.x").write_text("a\n")
    error = errors_of(finished, capsys, f"--train_source={tmp_path / 'short.x'}")[-1]
    assert error.startswith("error: data.train: ") and "short.x has 1 line" in error


@pytest.mark.slow
def test_failed_replay_has_a_different_exit_status_from_a_mismatch(finished, capsys):
    state = finished / "checkpoints" / "update-00000012" / "optimizer.pt"
    state.write_bytes(state.read_bytes()[:100])
    [error] = errors_of(finished, capsys)
    assert error.startswith("error: ")
    assert "update-00000012" in error


def errors_of(where, capsys, *options: str) -> list[str]:
    assert main(["verify", str(where), *options]) == 2
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("problem", ["missing", "damaged"])
@pytest.mark.slow
def test_trail_is_read_from_the_results_without_a_readable_file_and_the_first_line_says_so(finished, problem):
    trail = finished / "trail.json"
    trail.unlink() if problem == "missing" else trail.write_text(trail.read_text()[:-100])
    messages = []
    result = verify(str(finished), checkpoint="none", report=messages.append)
    record = f"the copy in results.json, since trail.json is {problem}"
    assert messages[0] == f"record: {record}"
    assert result.verdict == "identical bit for bit"


def test_trail_without_steps_is_rejected(finished):
    trail = read_trail(finished)
    (finished / "trail.json").write_text(trail.model_copy(update={"steps": []}).to_json())
    with pytest.raises(InputError, match="has no recorded steps to replay"):
        verify(str(finished))


def test_keys_of_the_model_are_compared_with_its_defaults():
    def is_equal(recorded: dict, now: dict) -> bool:
        return compare_recipes({"model": recorded}, {"model": now}, "recipe.yaml").outcome == Outcome.EQUAL

    assert is_equal({"dropout": 0.1}, {}) and is_equal({}, {"dropout": 0.1})
    assert not is_equal({"dropout": 0.0}, {}) and not is_equal({}, {"dropout": 0.2})
    assert is_equal({}, {"dropout": 0.0})  # earlier versions recorded no 0
    recipe = load_recipe("quickstart", ["--dropout=0"]).to_dict()
    assert deciding_keys(recipe)["model"]["dropout"] == 0


@pytest.mark.parametrize(
    "name", ["multi30k_tiny_de_en", "multi30k_tiny_en_fr", "system_a_tatoeba_de_en", "system_d_tatoeba_en_fr"]
)
def test_cards_of_earlier_versions_have_the_recipe_of_their_trail(name, tmp_path):
    run = read_run(str(PROJECT / "model_cards" / f"{name}.md"))
    keys = deciding_keys(replayed_recipe(run, [], tmp_path).to_dict())
    assert compare_recipes(run.trail.recipe, keys, run.file).outcome == Outcome.EQUAL


def test_card_of_a_run_in_stages_is_rejected():
    with pytest.raises(InputError, match="multi30k_best_en_de.md is the card of a run in stages, which this version"):
        verify(str(PROJECT / "model_cards" / "multi30k_best_en_de.md"))


@pytest.mark.slow
def test_text_with_another_vocabulary_size_is_named_and_nothing_is_replayed_from_a_checkpoint(finished, tmp_path):
    text = (tmp_path / "train.x").read_text().splitlines()
    (tmp_path / "train.x").write_text("\n".join(line.replace("a", "q").replace("b", "z") for line in text) + "\n")
    (tmp_path / "train.y").write_text("\n".join("k" for _ in text) + "\n")
    result = verify(str(finished), checkpoint="6")
    assert result.outcome == Outcome.DIFFERENT
    assert {"training text", "tokenizer"} <= details(result).keys()
    assert "weights of other shapes" in details(result)["steps 7 to 12, from update-00000006"]


def test_options_without_effect_on_a_replay_are_errors(recipe):
    folder = train(recipe(*FAST)).folder
    for option in ("--output_dir=x", "--training.overwrite=true", "--cpu_threads=2"):
        with pytest.raises(InputError, match="--(output_dir|overwrite|cpu_threads): no effect on a replay"):
            verify(folder, [option])
