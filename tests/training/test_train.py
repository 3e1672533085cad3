"""Training runs of a few seconds, with the function that all commands use."""

import json
import random
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from tokenizers import processors
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast, pipeline

from hf_vaswani import VaswaniConfig
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS, TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.errors import InputError, TrainingError
from hf_vaswani.training.optimization.step_batches import StepDataset, process_share, steps_loader
from hf_vaswani.training.train import train

from ..conftest import word_tokenizer
from .helpers import losses, records, run_training, same_weights, start_training


def test_training_writes_a_folder_that_loads_and_translates(recipe):
    results = train(recipe())
    assert results.steps == 12
    assert results.tests["test"].bleu_signature.startswith("nrefs:1|case:mixed")
    folder = results.folder
    translator = pipeline("translation", model=str(folder))
    translations = translator((folder.parent / "test.x").read_text().splitlines())
    written = (folder / "test_translations.txt").read_text().splitlines()
    assert [t["translation_text"] for t in translations] == written
    assert json.loads((folder / "results.json").read_text())["test_bleu"] == results.tests["test"].bleu
    assert json.loads((folder / "generation_config.json").read_text())["num_beams"] == 2
    assert "pipeline_tag: translation" in (folder / "README.md").read_text()
    assert not list(folder.glob("*.bin"))


@pytest.mark.slow
def test_a_run_learns_a_shortlist_from_its_training_text_and_removes_that_of_an_earlier_run(recipe):
    folder = train(recipe("--shortlist=true", "--max_steps=4")).folder
    rows = dict(line.split("\t") for line in (folder / "vmap.txt").read_text().splitlines())
    assert set("abcdefgh") <= set("".join(rows[""].split()))
    train(recipe("--max_steps=4"))
    assert not (folder / "vmap.txt").exists()


def test_log_contains_loss_learning_rate_and_speed_of_steps_and_the_validations(recipe):
    folder = train(recipe()).folder
    updates = [record for record in records(folder) if "loss" in record]
    assert [record["update"] for record in updates] == list(range(1, 13))
    assert updates[4]["learning_rate"] == 0.003
    assert all(record["target_tokens_per_second"] > 0 for record in updates)
    validations = [record for record in records(folder) if "validation_loss" in record]
    assert [record["update"] for record in validations] == [6, 12]
    assert set(validations[0]) >= {"validation_loss", "validation_perplexity", "validation_bleu"}
    assert validations[0]["validation_sentences"] == 8


@pytest.mark.slow
def test_final_weights_are_the_mean_of_the_last_checkpoints(recipe):
    folder = train(recipe()).folder
    parts = [load_file(folder / "checkpoints" / f"update-{u:08d}" / "model.safetensors") for u in (8, 12)]
    final = dict(AutoModelForSeq2SeqLM.from_pretrained(folder).named_parameters())
    assert final.keys() == parts[0].keys()
    for name, value in final.items():
        expected = sum(part[name].double() for part in parts) / 2
        torch.testing.assert_close(value.detach().double(), expected, atol=1e-7, rtol=0)


# With a smaller one, Adam amplifies the rounding errors of gradients that are zero in theory: those of key biases.
EPSILON = "--adam_epsilon=1e-3"


def assert_weights_are_close(folder: Path, expected: Path):
    parts = [load_file(path / "checkpoints" / "update-00000012" / "model.safetensors") for path in (folder, expected)]
    for name, value in parts[0].items():
        torch.testing.assert_close(value, parts[1][name], atol=1e-5, rtol=1e-5)


def test_accumulating_four_batches_equals_one_batch_four_times_as_large(recipe):
    one = train(recipe("--max_tokens=100000", "--dropout=0", EPSILON, output="one")).folder
    # 60 pairs in batches of 15 sentences: four forward passes cover the corpus.
    four = train(
        recipe(
            "--max_tokens=100000",
            "--max_sentences=15",
            "--gradient_accumulation_steps=4",
            "--dropout=0",
            EPSILON,
            output="four",
        )
    ).folder
    np.testing.assert_allclose(losses(four), losses(one), atol=1e-5)
    assert_weights_are_close(four, one)


@pytest.mark.slow
def test_two_processes_equal_one(recipe, tmp_path):
    one = train(recipe("--gradient_accumulation_steps=2", "--dropout=0", EPSILON, output="one")).folder
    run_training(recipe, "--dropout=0", EPSILON, f"--output_dir={tmp_path / 'two'}", processes=2)
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(one), atol=1e-5)
    assert_weights_are_close(tmp_path / "two", one)


@pytest.mark.slow
def test_two_machines_equal_one_process(recipe, tmp_path):
    one = train(recipe("--gradient_accumulation_steps=2", "--dropout=0", EPSILON, output="one")).folder
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rendezvous = ["--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}"]
    options = ["--dropout=0", EPSILON, f"--output_dir={tmp_path / 'two'}"]
    machines = [start_training(recipe, *options, launcher=[*rendezvous, f"--node_rank={rank}"]) for rank in range(2)]
    for machine in machines:
        output, _ = machine.communicate(timeout=300)
        assert machine.returncode == 0, output
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(one), atol=1e-5)
    assert_weights_are_close(tmp_path / "two", one)
    run_training(recipe, "--dropout=0", EPSILON, f"--output_dir={tmp_path / 'here'}", processes=2)
    assert same_weights(tmp_path / "two", tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--share_encoder_decoder_embeddings=false", "--joint=false", "--optim=muon"])
def test_sharded_run_equals_one_process_and_resumes(recipe, tmp_path, option):
    options = ["--dropout=0", EPSILON, "--max_grad_norm=1", "--ema_decay=0.9", option]
    one = train(recipe("--gradient_accumulation_steps=2", *options, output="one")).folder
    two, script = tmp_path / "two", "tests/training/fsdp_training.py"
    for updates in (6, 12):
        run_training(recipe, *options, f"--output_dir={two}", f"--max_steps={updates}", processes=2, script=script)
    np.testing.assert_allclose(losses(two), losses(one), atol=1e-5)
    for file in ("model.safetensors", "checkpoints/update-00000012/ema.safetensors"):
        expected = load_file(one / file)
        for name, value in load_file(two / file).items():
            torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-5)
    assert json.loads((two / "config.json").read_text())["architectures"] == ["VaswaniForConditionalGeneration"]


@pytest.mark.slow
def test_sharded_run_in_mixed_precision_keeps_its_best_weights_in_fp32(recipe, tmp_path):
    options = ["--mixed_precision=bf16", "--keep_best=1"]
    two, script = tmp_path / "two", "tests/training/fsdp_training.py"
    run_training(recipe, *options, f"--output_dir={two}", processes=2, script=script)
    [best] = (two / "best").glob("*/*.safetensors")
    for values in load_file(best).values():
        # Layer norm weights start at 1, and Adam has changed all of them since.
        assert not torch.equal(values.bfloat16().float(), values)


@pytest.mark.slow
def test_two_processes_that_drop_different_layers_train_together(recipe, tmp_path):
    run_training(recipe, "--encoder_layerdrop=0.5", f"--output_dir={tmp_path / 'two'}", processes=2)
    assert (tmp_path / "two" / "model.safetensors").exists()


def test_text_without_a_usable_pair_is_reported_by_one_process():
    corpus = SimpleNamespace(parts=lambda epoch, first: [])
    for rank in range(2):
        with pytest.raises(TrainingError, match="Epoch 0 of the training data has no usable pairs") as error:
            next(iter(steps_loader(StepDataset(corpus, None, (0, 0, 0), rank, 2), workers=0)))
        assert error.value.is_repeated is (rank == 1)


def test_processes_share_batches_evenly_and_count_each_once():
    group = [np.array([i]) for i in range(5)]
    shares = [process_share(group, rank, 2) for rank in range(2)]
    assert [[int(b[0]) for b in share] for share, _ in shares] == [[0, 2, 4], [1, 3, 4]]
    assert [is_filled_up for _, is_filled_up in shares] == [False, True]


def test_time_limit_ends_the_run_as_usual(recipe):
    results = train(recipe("--max_steps=100000", "--max_minutes=0.02"))
    assert 1 <= results.steps < 100_000
    assert (results.folder / "model.safetensors").exists()
    assert results.minutes >= 0.02


@pytest.mark.slow
def test_model_with_separate_vocabularies_trains_and_loads(recipe):
    folder = train(recipe("--joint=false", "--vocab_size=30")).folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert type(tokenizer).__name__ == "VaswaniTokenizer"
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert model.config.decoder_vocab_size == tokenizer.target_vocab_size
    assert pipeline("translation", model=str(folder))("a b")[0]["translation_text"] is not None


def test_existing_tokenizer_is_used_as_is(recipe, tmp_path):
    tokenizer = train_tokenizer([("a b c d", "e f g h")], TokenizerArguments(type="word", min_frequency=1))
    tokenizer.save_pretrained(tmp_path / "made")
    folder = train(recipe(f"--tokenizer.path={tmp_path / 'made'}", "--max_steps=4")).folder
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == tokenizer.get_vocab()


def test_existing_tokenizer_with_two_vocabularies_gets_two_embedding_matrices(recipe, tmp_path):
    arguments = TokenizerArguments(type="word", min_frequency=1, joint=False)
    train_tokenizer([("a b c d", "e f g h")], arguments).save_pretrained(tmp_path / "made")
    option = f"--tokenizer.path={tmp_path / 'made'}"
    folder = train(recipe(option, "--max_steps=2")).folder
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    source, target = (stack.embed_tokens.weight for stack in (model.model.encoder, model.model.decoder))
    assert source.shape == target.shape and not torch.equal(source, target)
    with pytest.raises(
        InputError, match="has a separate vocabulary for each side, which contradicts model.share_encoder"
    ):
        train(recipe(option, "--share_encoder_decoder_embeddings=true", output="shared"))


def test_missing_tokenizer_or_model_is_reported_along_with_errors_of_the_texts(recipe, tmp_path):
    for option in ("tokenizer.path", "start_from"):
        with pytest.raises(InputError) as error:
            train(recipe(f"--{option}={tmp_path / 'absent'}", "--train_source=absent.de"))
        assert [line.split(":")[0].split(".")[-1] for line in str(error.value).splitlines()] == [
            "train",
            option.split(".")[-1],
        ]


def test_tokenizer_that_does_not_end_texts_with_eos_is_rejected(recipe, tmp_path):
    backend = word_tokenizer(list("abcdefgh"))
    backend.post_processor = processors.Sequence([])
    PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL_TOKENS).save_pretrained(tmp_path / "endless")
    with pytest.raises(InputError, match="does not end a text with '</s>'"):
        train(recipe(f"--tokenizer.path={tmp_path / 'endless'}"))


def test_decoder_starts_with_padding_if_the_tokenizer_has_no_bos_token(recipe, tmp_path):
    tokenizer = train_tokenizer([("a b c d", "e f g h")], TokenizerArguments(type="word", min_frequency=1))
    tokenizer.bos_token = None
    tokenizer.save_pretrained(tmp_path / "made")
    folder = train(recipe(f"--tokenizer.path={tmp_path / 'made'}", "--max_steps=2")).folder
    config = AutoModelForSeq2SeqLM.from_pretrained(folder).config
    assert (config.bos_token_id, config.decoder_start_token_id) == (None, tokenizer.pad_token_id)


def test_model_with_learned_positions_translates_texts_longer_than_its_positions(recipe, tmp_path):
    for name in ("validation.x", "validation.y", "test.x", "test.y"):
        path = tmp_path / name
        path.write_text("a b c d e f g h " * 5 + "\n" + path.read_text())
    options = ("--position_type=learned", "--max_position_embeddings=16", "--max_length=16")
    results = train(recipe(*options))
    assert len((results.folder / "test_translations.txt").read_text().splitlines()) == 9


def test_folder_of_another_recipe_is_rejected_and_untouched(recipe):
    folder = train(recipe()).folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(InputError) as error:
        train(recipe("--d_model=64", "--seed=9"))
    assert "model.d_model was 32 and is now 64" in str(error.value)
    assert "training.seed was 1 and is now 9" in str(error.value)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_folder_without_checkpoints_and_model_accepts_a_different_recipe(recipe, tmp_path):
    folder = train(recipe("--max_steps=3")).folder
    for checkpoint in (folder / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)
    with pytest.raises(InputError, match="contains a finished model, but no checkpoints"):
        train(recipe("--seed=5"))
    (folder / "model.safetensors").unlink()
    assert train(recipe("--seed=5")).steps == 12


@pytest.mark.parametrize("options", [["--max_length=1"], ["--max_tokens=3"]])
def test_overwrite_deletes_nothing_if_the_new_run_cannot_begin(recipe, options):
    folder = train(recipe()).folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(InputError):
        train(recipe("--overwrite=true", *options))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_changed_text_is_rejected_and_moved_text_is_accepted(recipe, tmp_path):
    train(recipe("--max_steps=5"))
    moved = tmp_path / "moved.x"
    shutil.copy(tmp_path / "train.x", moved)
    assert train(recipe(f"--train_source={moved}", "--max_steps=6")).steps == 6
    moved.write_text("z" + moved.read_text()[1:])
    with pytest.raises(InputError, match="the train text has changed"):
        train(recipe(f"--train_source={moved}"))


def test_damaged_checkpoint_is_skipped_for_the_previous_one(recipe, capsys):
    whole = train(recipe(output="whole")).folder
    folder = train(recipe("--max_steps=9")).folder
    weights = folder / "checkpoints" / "update-00000009" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    train(recipe())
    printed = capsys.readouterr().out
    assert "update-00000009 is damaged (model.safetensors changed after being written)" in printed
    assert f"Resuming from {folder / 'checkpoints' / 'update-00000008'}" in printed
    assert losses(folder) == losses(whole)
    assert same_weights(folder, whole)


def test_run_whose_checkpoints_are_all_damaged_is_left_unchanged(recipe):
    folder = train(recipe("--max_steps=5")).folder
    for weights in folder.glob("checkpoints/*/model.safetensors"):
        weights.unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(
        InputError, match="no intact checkpoint to resume from. Restore one from a copy, or start over"
    ):
        train(recipe())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_run_resumes_after_a_half_written_log_line(recipe):
    folder = train(recipe("--max_steps=5")).folder
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"update": 5, "lo')
    assert len(losses(train(recipe()).folder)) == 12


@pytest.mark.slow
def test_edited_card_is_kept_when_nothing_is_trained(recipe):
    card = train(recipe()).folder / "README.md"
    card.write_text("my own words")
    train(recipe())
    assert card.read_text() == "my own words"


def test_checkpoint_in_place_of_the_runs_folder_is_rejected(recipe, tmp_path):
    folder = train(recipe("--max_steps=4")).folder
    with pytest.raises(InputError, match=f"contains no run.* is a checkpoint: .*--output_dir {folder}$"):
        train(recipe(output="out/checkpoints/update-00000004"))


def test_folder_without_a_run_is_rejected_and_untouched(recipe, tmp_path):
    precious = tmp_path / "out" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    for options in ([], ["--overwrite=true"]):
        with pytest.raises(InputError, match="not empty and contains no run"):
            train(recipe(*options))
    assert precious.read_text() == "mine"


def test_output_folder_may_be_a_link_to_a_folder_that_does_not_exist_yet(recipe, tmp_path):
    (tmp_path / "out").symlink_to("elsewhere")
    train(recipe("--max_steps=1"))
    assert (tmp_path / "out").is_symlink() and (tmp_path / "elsewhere" / "model.safetensors").exists()


def test_what_is_missing_in_a_run_to_resume_is_named(recipe):
    folder = train(recipe("--max_steps=1")).folder
    shutil.rmtree(folder / "tokenizer")
    with pytest.raises(InputError, match=r"out/tokenizer is missing or empty\. Restore it, or set --overwrite true"):
        train(recipe())
    (folder / "training_recipe.yaml").unlink()
    with pytest.raises(InputError, match=r"it has no training_recipe\.yaml\. Restore that"):
        train(recipe())


def test_overwrite_starts_over_and_leaves_other_files_alone(recipe):
    precious = train(recipe()).folder / "thesis.txt"
    precious.write_text("mine")
    results = train(recipe("--d_model=64", "--overwrite=true"))
    assert results.steps == 12
    assert len(losses(results.folder)) == 12
    assert precious.read_text() == "mine"
    assert AutoModelForSeq2SeqLM.from_pretrained(results.folder).config.d_model == 64


def test_processes_that_do_not_know_of_each_other_are_rejected(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="2 processes that do not know of each other.*ACCELERATE_USE_CPU"):
        train(recipe())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "why"),
    [("FSDP", "Accelerate does not use FSDP on a CPU"), ("DEEPSPEED", "not supported"), ("MEGATRON_LM", "not")],
)
def test_unsupported_kinds_of_distributed_training_are_rejected(recipe, monkeypatch, kind, why):
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    with pytest.raises(InputError, match=f"ACCELERATE_USE_{kind}: .*{why}"):
        train(recipe())


def test_run_with_fewer_processes_than_requested_is_rejected(recipe, monkeypatch):
    monkeypatch.setattr("hf_vaswani.runtime.launcher.requested_processes", lambda: 2)
    with pytest.raises(InputError, match="was set to start 2 processes but started 1: .*torchrun --nproc_per_node 2"):
        train(recipe())
    monkeypatch.setattr("hf_vaswani.runtime.launcher.requested_processes", lambda: 1)
    assert train(recipe("--max_steps=1")).steps == 1


def test_errors_of_all_files_are_reported_before_anything_is_written(recipe, tmp_path):
    (tmp_path / "test.x").write_bytes(b"\xe4\n")
    with pytest.raises(InputError) as error:
        train(recipe("--train_source=absent.de"))
    assert "absent.de does not exist" in str(error.value)
    assert "test.x, line 1: byte 0xe4" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_task_is_learned_with_a_random_seed(recipe, write_lines, task):
    generator = random.Random()
    step = 1 if task == "copy" else -1
    lines = [generator.choices("abcdefghij", k=generator.randint(2, 8)) for _ in range(6200)]
    options = []
    for split, part in (("train", lines[:6000]), ("validation", lines[6000:6100]), ("test", lines[6100:])):
        options += [f"--{split}_source={write_lines('r.' + split, [' '.join(line) for line in part])}"]
        options += [f"--{split}_target={write_lines('s.' + split, [' '.join(line[::step]) for line in part])}"]
    results = train(
        recipe(*options, f"--seed={generator.randrange(2**32)}", "--max_steps=1500", "--max_tokens=1024",
               "--d_model=64", "--warmup_steps=200", "--eval_steps=500", "--save_steps=100", "--dropout=0",
               # With label smoothing of 0.1, even a perfect model has a perplexity of 1.1.
               "--label_smoothing=0", "--logging_steps=100", "--greedy", "--num_beams=2")
    )  # fmt: skip
    assert np.exp(results.validation_loss) <= 1.02
    # Greedy search shows what was learned, and beam search must not lose any of it: where a model is sure of each
    # token, the second of two hypotheses is often one that ends too early.
    assert min(results.tests["test"].greedy_bleu, results.tests["test"].bleu) >= 98
    assert results.minutes < 2


@pytest.mark.slow
def test_languages_of_the_recipe_are_stored_in_the_model_and_kept_by_fine_tuning(recipe):
    folder = train(recipe("--source_language=de", "--target_language=english", "--max_steps=4")).folder
    config = VaswaniConfig.from_pretrained(folder)
    # `de` is a language code; `english` might be the name of a column.
    assert (config.source_language, config.target_language) == ("de", None)
    again = train(recipe(f"--start_from={folder}", "--target_language=en", "--max_steps=4", output="again")).folder
    config = VaswaniConfig.from_pretrained(again)
    assert (config.source_language, config.target_language) == ("de", "en")
    assert ModelCard.load(again / "README.md").data.language == ["de", "en"]
    assert "from de to en" in (again / "README.md").read_text()


@pytest.mark.slow
def test_keys_of_a_new_tokenizer_beside_an_existing_one_cause_a_warning(recipe, capsys):
    first = train(recipe("--max_steps=2")).folder
    capsys.readouterr()
    # The recipe file sets vocab_size.
    train(recipe(f"--start_from={first}", "--max_steps=2", output="second"))
    warning = f"warning: ignored, since the tokenizer of training.start_from={first} is used as is: "
    assert f"{warning}tokenizer.vocab_size" in capsys.readouterr().out.splitlines()


def test_run_beyond_its_last_step_reports_that_there_is_nothing_to_train(recipe, capsys):
    train(recipe("--max_steps=4"))
    train(recipe("--max_steps=2"))
    assert "Nothing to train: 4 steps are already done, more than max_steps=2" in capsys.readouterr().out


@pytest.mark.slow
def test_scores_of_a_finished_run_are_not_lost_if_its_test_set_is_no_longer_named(recipe):
    folder = train(recipe("--max_steps=2")).folder
    before = (folder / "results.json").read_bytes()
    untested = ("--max_steps=4", "--test_source=null", "--test_target=null")
    with pytest.raises(InputError, match="scores of test sets that the recipe no longer names: test. They would"):
        train(recipe(*untested))
    assert (folder / "results.json").read_bytes() == before
    (folder / "results.json").unlink()
    assert train(recipe(*untested)).tests == {}


def test_run_that_ends_with_nonfinite_weights_is_an_error(recipe):
    with pytest.raises(TrainingError, match="ended with NaN or infinite weights, .* raise training.adam"):
        train(recipe("--adam_epsilon=1e-300", "--max_steps=1", "--average_last=1"))


def test_pairs_that_should_not_be_are_told_before_training(recipe, tmp_path, capsys):
    train_x, train_y = ((tmp_path / f"train.{side}").read_text().splitlines() for side in "xy")
    (tmp_path / "test.x").write_text("\n".join([*train_x[:3], "a new one"]) + "\n")
    (tmp_path / "test.y").write_text("\n".join([*train_y[:3], "another"]) + "\n")
    train(recipe("--max_steps=1"))
    said = capsys.readouterr().out
    assert "warning: 3 of 4 pairs of the test set are also in the training text" in said
    assert "warning: 1 of 8 pairs of the validation set are also" in said  # by chance
    assert said.index("3 of 4 pairs") < said.index("The final model is")


@pytest.mark.slow
def test_wrong_encoding_and_a_warm_up_beyond_the_end_are_told_before_training(recipe, tmp_path, capsys):
    train(recipe("--max_steps=5", "--warmup_steps=5"))
    said = capsys.readouterr().out
    assert "encoding" not in said and "peak" not in said
    path = tmp_path / "train.x"
    path.write_text("\n".join(["f Ã¼ g", *path.read_text().splitlines()[1:]]) + "\n")
    train(recipe("--max_steps=4", "--warmup_steps=5", output="other"))
    said = capsys.readouterr().out
    assert "warning: 1 of 120 training sentences looked at seem to be UTF-8 that was read in another" in said
    assert "such as 'f Ã¼ g'" in said
    assert "warning: the learning rate does not reach its peak: training.warmup_steps=5, but the run ends" in said


def test_a_copy_task_is_told(recipe, tmp_path, capsys):
    same = [f"--{split}_target={tmp_path / split}.x" for split in ("train", "validation", "test")]
    train(recipe("--max_steps=1", *same))
    assert "source and target are the same text, so the model learns to copy" in capsys.readouterr().out


@pytest.mark.slow
def test_starting_from_a_model_of_other_languages_is_told(recipe, caplog):
    languages = ("--source_language=de", "--target_language=en")
    folder = train(recipe("--max_steps=1", *languages)).folder
    start = (f"--start_from={folder}", "--max_steps=1")
    train(recipe(*start, *languages, output="same"))
    assert "not the languages of this run" not in caplog.text
    train(recipe(*start, "--source_language=fr", "--target_language=en", output="other"))
    assert f"training.start_from={folder} translates de to en, not the languages of this run" in caplog.text
