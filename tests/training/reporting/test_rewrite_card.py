"""The card of a run: everything in it was measured, and it always describes the model next to it."""

import contextlib
import io
import json

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from sacrebleu import sentence_chrf

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.hub.repository import hub_id
from hf_vaswani.ledger import HAS_LOCKS
from hf_vaswani.records import EVAL_RESULTS
from hf_vaswani.records.run_report import Source
from hf_vaswani.training.checkpoints.artifacts import locked_output
from hf_vaswani.training.reporting import report
from hf_vaswani.training.reporting.report import greatest_lengths
from hf_vaswani.training.schedule import SCHEDULES, Schedule
from hf_vaswani.training.train import train
from hf_vaswani.training.validation import Validator

from ...conftest import largest_file, slow_but
from ..helpers import files_in


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


def test_results_describe_the_training_data_and_the_test_translations(recipe, tmp_path):
    folder = train(recipe("--max_steps=25", "--type=word", "--min_frequency=1")).folder
    results = results_of(folder)
    lines = (tmp_path / "train.x").read_text().splitlines()
    # Each word is a token, each text ends with EOS, and both sides have the same number of tokens.
    tokens = sum(len(line.split()) + 1 for line in lines)
    complete, remainder = divmod(results["seen"]["pairs"], 60)
    assert results["epochs"] == pytest.approx(complete + remainder / 60)
    assert results["epochs"] >= 2
    for side in ("source_tokens", "target_tokens"):
        assert complete * tokens <= results["seen"][side] <= (complete + 1) * tokens
    assert results["pairs"] == {"train": 60, "validation": 8, "test": 8}
    assert results["tokenizer"] == {"type": "WordLevel", "joint": True, "source_tokens": 12, "target_tokens": 12}
    assert results["sources"]["train"] == [{"files": ["train.x", "train.y"], "weight": None}]
    assert results["machines"] and results["processes"] == [1] and results["precision"] == "fp32"
    assert results["architecture"]["encoder_ffn_dim"] == 64
    findings = results["analysis"]
    assert findings["unknown_tokens"] == 0
    sources = (tmp_path / "test.x").read_text().splitlines()
    assert findings["source_tokens"] == sum(len(line.split()) + 1 for line in sources)
    translations = (folder / "test_translations.txt").read_text().splitlines()
    references = (tmp_path / "test.y").read_text().splitlines()
    scores = {s: sentence_chrf(t, [r]).score for s, t, r in zip(sources, translations, references)}
    assert findings["worst"][0]["chrf2"] <= findings["best"][0]["chrf2"]
    for sample in findings["best"] + findings["worst"]:
        assert sample["chrf2"] == pytest.approx(scores[sample["source"]])


def test_code_in_the_card_prints_the_translation_shown_there(recipe):
    folder = train(recipe("--max_steps=25")).folder
    code = (folder / "README.md").read_text().split("```python\n")[1].split("\n```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace('"out"', repr(str(folder))), {})
    assert code.splitlines()[-1] == f"# {printed.getvalue().strip() or '(nothing)'}"


def test_long_sentences_and_unknown_tokens_of_the_test_set_are_counted(recipe, tmp_path):
    with (tmp_path / "test.x").open("a") as file:
        file.write("a b c d e f g h a b c d\nz z a\n")
    with (tmp_path / "test.y").open("a") as file:
        file.write("a\nb\n")
    findings = results_of(train(recipe("--type=word", "--min_frequency=1", "--max_length_offset=1")).folder)[
        "analysis"
    ]
    longest = max(len(line.split()) for line in (tmp_path / "train.x").read_text().splitlines()) + 1
    assert (findings["longest_trained"], findings["beyond_training"]) == (longest, 1)
    assert findings["unknown_tokens"] == 2
    # After 12 steps, a model has not learned to end its translations.
    translations = (tmp_path / "out" / "test_translations.txt").read_text().splitlines()
    sources = (tmp_path / "test.x").read_text().splitlines()
    expected = sum(len(t.split()) >= len(s.split()) + 2 for s, t in zip(sources, translations))
    assert findings["at_limit"] == expected


@pytest.mark.parametrize(("positions", "ends"), [("sinusoidal", [7, 10]), ("learned", [7, 8])])
def test_greatest_lengths_are_those_at_which_generation_stops(positions, ends):
    sizes = {name: 1 for name in ("encoder_layers", "decoder_layers")}
    config = VaswaniConfig(vocab_size=12, d_model=64, position_type=positions, max_position_embeddings=9, **sizes)
    model = VaswaniForConditionalGeneration(config).eval()
    pad, eos = config.pad_token_id, config.eos_token_id
    sources = torch.tensor([[5, 6, eos, pad, pad, pad], [5, 6, 7, 8, 9, eos]])
    search = {"max_length_offset": 4, "num_beams": 1, "suppress_tokens": [pad, eos]}
    found = model.generate(sources, attention_mask=sources != pad, **search)
    # The decoder start token is not part of the translation.
    assert (found[:, 1:] != pad).sum(1).tolist() == ends
    assert greatest_lengths(np.array([3, 6]), 4, config.longest_sequence).tolist() == ends


@pytest.mark.slow
def test_training_data_is_counted_the_same_in_a_resumed_and_an_uninterrupted_run(recipe):
    whole = results_of(train(recipe("--gradient_accumulation_steps=2", output="whole")).folder)
    train(recipe("--gradient_accumulation_steps=2", "--max_steps=5", output="parts"))
    parts = results_of(train(recipe("--gradient_accumulation_steps=2", output="parts")).folder)
    assert parts["seen"] == whole["seen"]
    assert parts["machines"] == whole["machines"] and len(whole["machines"]) == 1


def test_cost_counts_the_tokens_of_steps_with_r_drop_twice(recipe):
    plain = results_of(train(recipe("--max_steps=4", output="plain")).folder)["flops"]
    doubled = results_of(train(recipe("--max_steps=4", "--r_drop=1", output="doubled")).folder)
    assert doubled["flops"] == pytest.approx(2 * plain)


@pytest.mark.slow
def test_edited_card_is_renamed_when_the_model_changes(recipe):
    card = train(recipe("--max_steps=4")).folder / "README.md"
    card.write_text("my own words")
    train(recipe())
    assert "12 steps" in card.read_text()
    assert card.with_name("README.md.old").read_text() == "my own words"


@pytest.mark.parametrize("falls_to_end", [True, False])
def test_command_of_a_run_that_time_ended_keeps_the_learning_rates_of_any_schedule(recipe, monkeypatch, falls_to_end):
    rate = lambda step, course: course.peak / (course.max_steps if falls_to_end else 1)  # noqa: E731
    monkeypatch.setitem(SCHEDULES, "new", Schedule(rate))
    options = ["--lr_scheduler_type=new", "--learning_rate=0.001", "--warmup_steps=0", "--max_steps=9"]
    folder = train(recipe(*options, "--max_minutes=0.000001")).folder
    for _ in ("as written by the run", "written again"):
        card = (folder / "README.md").read_text()
        assert ("so it takes different steps on another machine" in card) == falls_to_end
        assert ("--max_minutes null --max_steps 1`" in card) != falls_to_end
        assert main(["card", str(folder)]) == 0


def test_every_edited_card_is_kept(recipe):
    folder = train(recipe()).folder
    for words in ("first words", "second words"):
        (folder / "README.md").write_text(words)
        assert main(["card", str(folder)]) == 0
    assert {path.read_text() for path in folder.glob("README.md.old*")} == {"first words", "second words"}


def test_card_and_results_replace_links_and_keep_the_files_that_these_lead_to(recipe, tmp_path):
    folder = train(recipe()).folder
    (tmp_path / "mine.md").write_text("my own words")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(tmp_path / "mine.md")
    (folder / "results.json").rename(tmp_path / "results.json")
    (folder / "results.json").symlink_to(tmp_path / "results.json")
    before = (tmp_path / "results.json").read_text()
    assert main(["card", str(folder), "--name", "you/de-en"]) == 0
    assert (folder / "README.md.old").read_text() == (tmp_path / "mine.md").read_text() == "my own words"
    assert not (folder / "README.md").is_symlink() and "library_name" in (folder / "README.md").read_text()
    assert not (folder / "results.json").is_symlink() and "you/de-en" in (folder / "results.json").read_text()
    assert (tmp_path / "results.json").read_text() == before


@pytest.mark.parametrize(
    "name",
    slow_but(
        ["model.safetensors", "results.json", "README.md", "notes.md", "pictures", "pictures.md"],
        "README.md",
        "pictures",
    ),
)
def test_copied_card_replaces_nothing_by_default(recipe, capsys, name):
    folder = train(recipe()).folder
    (folder / "notes.md").write_text("my own words")
    (folder / "pictures.md").mkdir()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["card", str(folder), "--output", str(folder / name)]) == 2
    assert str(folder / name) in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_copied_card_replaces_a_file_with_overwrite(recipe, tmp_path):
    folder, output = train(recipe()).folder, tmp_path / "copy.md"
    output.write_text("an older card")
    assert main(["card", str(folder), "--output", str(output), "--overwrite"]) == 0
    assert ModelCard.load(output).data.model_name == "copy"


@pytest.mark.slow
def test_unedited_card_is_updated_without_a_copy(recipe):
    card = train(recipe("--max_steps=4")).folder / "README.md"
    train(recipe())
    assert "12 steps" in card.read_text()
    # No step is trained here, but the model changes.
    train(recipe("--average_last=1"))
    assert "has the weights after step 12" in card.read_text()
    assert not card.with_name("README.md.old").exists()


@pytest.mark.slow
def test_overwriting_removes_old_results_before_training(recipe, monkeypatch):
    folder = train(recipe()).folder
    (folder / "thesis.txt").write_text("mine")

    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("hf_vaswani.training.train.fit", stop)
    with pytest.raises(KeyboardInterrupt):
        train(recipe("--overwrite=true", "--seed=9"))
    names = {path.name for path in folder.iterdir()}
    assert not {"README.md", "README.md.old", "results.json", "test_translations.txt"} & names
    assert list((folder / "pictures").iterdir()) == []
    assert "thesis.txt" in names


@pytest.mark.slow
def test_overwriting_keeps_an_edited_card_under_a_different_name(recipe):
    card = train(recipe()).folder / "README.md"
    card.write_text("my own words")
    train(recipe("--overwrite=true", "--seed=9"))
    assert card.with_name("README.md.old").read_text() == "my own words"
    assert "hf_vaswani" in card.read_text()


def artifacts_of(folder):
    """The model of a folder and everything that describes it, by file name."""
    names = ["README.md", "results.json", "test_translations.txt", "model.safetensors"]
    return {name: (folder / name).read_bytes() for name in names + results_of(folder)["figures"]}


def unchanged_artifacts(artifacts, folder):
    """The unchanged artifacts, except for those that can be equal in different models, such as short translations."""
    distinct = [name for name in artifacts if "translations" not in name and "decoder" not in name]
    return [name for name in distinct if (folder / name).exists() and (folder / name).read_bytes() == artifacts[name]]


@pytest.mark.draws_figures
@pytest.mark.slow
def test_failure_on_the_test_set_leaves_the_previous_model_and_card(recipe, monkeypatch):
    folder = train(recipe("--max_steps=4", "--attention=1")).folder
    before = artifacts_of(folder)
    curves = (folder / "curves.png").read_bytes()
    original = Validator.translate

    def fail(self, model, texts, **options):
        if "show_progress" in options:  # only for the test set
            raise RuntimeError
        return original(self, model, texts, **options)

    monkeypatch.setattr(Validator, "translate", fail)
    with pytest.raises(RuntimeError):
        train(recipe("--attention=1"))
    assert artifacts_of(folder) == before
    assert len(results_of(folder)["figures"]) == 4
    # The training run itself continued, as its curves show.
    assert (folder / "curves.png").read_bytes() != curves


@pytest.mark.slow
def test_run_killed_after_drawing_its_figures_leaves_the_previous_artifacts(recipe, monkeypatch):
    folder = train(recipe("--max_steps=4", "--attention=1")).folder
    before = artifacts_of(folder)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hf_vaswani.training.export.save_report", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(recipe("--attention=1"))
    assert artifacts_of(folder) == before
    train(recipe("--attention=1"))
    assert artifacts_of(folder).keys() == before.keys() and not unchanged_artifacts(before, folder)
    assert not (folder / ".final.part").exists()


@pytest.mark.parametrize("moment", slow_but(["model.safetensors", "results.json", "README.md"], "results.json"))
def test_run_killed_during_export_leaves_no_artifact_of_a_different_model(recipe, monkeypatch, moment):
    folder = train(recipe("--max_steps=4", "--attention=1")).folder
    old = artifacts_of(folder)
    original = type(folder).replace

    def replace(self, target):
        if self.parent.name == ".final.part" and target.name == moment:
            raise KeyboardInterrupt
        return original(self, target)

    monkeypatch.setattr(type(folder), "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        train(recipe("--attention=1"))
    assert not (folder / "README.md").exists()
    assert unchanged_artifacts(old, folder) in ([], ["model.safetensors"])
    if (folder / "results.json").exists():
        assert results_of(folder)["steps"] == 12
        assert (folder / "model.safetensors").read_bytes() != old["model.safetensors"]
    monkeypatch.undo()
    train(recipe())
    assert "12 steps" in (folder / "README.md").read_text()


@pytest.mark.slow
def test_command_rewrites_the_card(recipe, capsys):
    folder = train(recipe()).folder
    written = (folder / "README.md").read_text()
    (folder / "README.md").write_text("my own words")
    capsys.readouterr()
    assert main(["card", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "README.md")
    assert (folder / "README.md").read_text() == written
    assert (folder / "README.md.old").read_text() == "my own words"
    # The rewritten card counts as unedited.
    (folder / "README.md.old").unlink()
    train(recipe("--max_steps=13"))
    assert not (folder / "README.md.old").exists()


def test_command_copies_the_card_and_its_pictures_elsewhere(recipe, tmp_path):
    folder = train(recipe("--eval_steps=4")).folder
    results = results_of(folder)
    (folder / "attention.png").write_bytes(bytes(150_001))
    (folder / "results.json").write_text(
        json.dumps({**results, "figures": ["pictures/curves.png", "attention.png", "gone.png"]})
    )
    output = tmp_path / "cards" / "reversal.md"
    assert main(["card", str(folder), "--output", str(output)]) == 0
    text = output.read_text()
    assert "](reversal/pictures/curves.png)" in text and "attention.png" not in text and "gone.png" not in text
    copies = [path for path in (tmp_path / "cards" / "reversal").rglob("*") if path.is_file()]
    assert copies == [tmp_path / "cards" / "reversal" / "pictures" / "curves.png"]
    assert ModelCard.load(output).data.model_name == "reversal"


def test_command_gives_the_card_the_hub_name_of_the_model(recipe):
    folder = train(recipe()).folder
    assert main(["card", str(folder), "--name", "my model!!"]) == 2
    assert main(["card", str(folder), "--name", "you/reversal"]) == 0
    card = ModelCard.load(folder / "README.md")
    assert card.data.model_name == "you/reversal"
    assert "\n# you/reversal\n" in card.content and 'model="you/reversal"' in card.content


@pytest.mark.parametrize("name, expected", [("Helsinki-NLP/opus-mt-de-en", True), ("gpt2", True), ("here", False)])
def test_starting_model_is_named_only_if_it_is_on_the_hub(name, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert hub_id(name) == (name if expected else None)
    assert not any(map(hub_id, ["../there", "/a/b", "~/a", "a/b/c", str(tmp_path), None]))


def test_blank_validation_pairs_are_not_counted(recipe, tmp_path):
    for name in ("validation.x", "validation.y"):
        path = tmp_path / name
        path.write_text("\n" + path.read_text())
    assert results_of(train(recipe()).folder)["pairs"]["validation"] == 8


@pytest.mark.slow
def test_command_says_what_is_missing(recipe, tmp_path, capsys):
    assert main(["card", str(tmp_path / "absent")]) == 2
    error = capsys.readouterr().err
    assert "training_recipe.yaml is missing" in error and "results.json is missing" in error
    folder = train(recipe()).folder
    (folder / "results.json").write_text(json.dumps({"steps": 12, "test_bleu": 1.0}))
    before = (folder / "README.md").read_text()
    assert main(["card", str(folder)]) == 2
    assert "results.json is damaged (" in capsys.readouterr().err
    assert (folder / "README.md").read_text() == before


@pytest.mark.slow
def test_results_without_a_value_are_reported_as_damaged(recipe, tmp_path, capsys):
    folder = train(recipe()).folder
    results = results_of(folder)
    del results["flops"]
    (folder / "results.json").write_text(json.dumps(results))
    assert main(["card", str(folder)]) == 2
    assert "results.json is damaged (" in capsys.readouterr().err


@pytest.fixture
def train_interrupted(monkeypatch):
    """Starts a training run that is interrupted when it calls the named function."""

    def interrupt(*arguments):
        raise KeyboardInterrupt

    def run(recipe, function: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(function, interrupt)
            with pytest.raises(KeyboardInterrupt):
                train(recipe)

    return run


@pytest.mark.slow
def test_card_names_the_search_settings_of_its_scores_after_an_interrupted_run(recipe, train_interrupted):
    folder = train(recipe("--num_beams=1", "--max_length_offset=1")).folder
    written = (folder / "README.md").read_text()
    train_interrupted(recipe("--num_beams=4", "--max_length_offset=7"), "hf_vaswani.training.export.score_tests")
    assert yaml.safe_load((folder / "training_recipe.yaml").read_text())["generation"]["num_beams"] == 4
    assert main(["card", str(folder)]) == 0
    assert (folder / "README.md").read_text() == written
    assert "| greedy |" in written and "(source + 1 tokens)" in written


@pytest.mark.skipif(not HAS_LOCKS, reason="needs locks")
def test_command_is_rejected_during_a_training_run(recipe, tmp_path, capsys):
    folder = train(recipe()).folder
    (folder / "README.md").unlink()
    with locked_output(folder):
        assert main(["card", str(folder)]) == 2
        assert main(["card", str(folder), "--output", str(tmp_path / "copy.md")]) == 2
    assert capsys.readouterr().err.count(f"Another command is using {folder}.") == 2
    assert not (folder / "README.md").exists() and not (tmp_path / "copy.md").exists()
    assert main(["card", str(folder)]) == 0


@pytest.mark.slow
def test_card_has_the_recipe_of_its_model_after_a_later_run_was_interrupted(recipe, train_interrupted):
    folder = train(recipe()).folder
    written = (folder / "README.md").read_text()
    later = recipe("--max_steps=14", "--average_last=1", "--data.name=Other")
    train_interrupted(later, "hf_vaswani.training.train.export")
    assert yaml.safe_load((folder / "training_recipe.yaml").read_text())["training"]["max_steps"] == 14
    assert main(["card", str(folder)]) == 0
    assert (folder / "README.md").read_text() == written
    assert "max_steps: 12\n" in written


def test_results_contain_no_local_path(recipe, tmp_path):
    folder = train(recipe()).folder
    assert str(tmp_path) not in (folder / "results.json").read_text()


def test_stream_not_read_to_its_end_has_no_number_of_pairs(recipe, monkeypatch):
    monkeypatch.setattr("hf_vaswani.training.setup.training_batches.STREAM_PART", 100)
    whole = results_of(
        train(recipe("--streaming=true", "--max_length=20", "--num_train_epochs=1", output="whole")).folder
    )
    assert whole["pairs"]["train"] == 60
    folder = train(recipe("--streaming=true", "--max_length=20", "--max_steps=1", output="part")).folder
    assert results_of(folder)["pairs"]["train"] is None
    card = (folder / "README.md").read_text()
    assert "Read before the first epoch or the run ended: 60 training pairs." in card
    assert "trained from scratch with" in card


@pytest.mark.slow
def test_card_is_written_for_a_stream_and_for_bpe_dropout(recipe):
    stream = train(recipe("--streaming=true", "--max_length=20", output="stream")).folder
    assert results_of(stream)["epochs"] is None
    dropout = train(recipe("--bpe_dropout=0.1", output="dropout")).folder
    results = results_of(dropout)
    assert results["epochs"] == results["seen"]["pairs"] / 60
    for folder in (stream, dropout):
        assert ModelCard.load(folder / "README.md").data.eval_results


def test_card_names_each_nonzero_dropout_rate(recipe):
    rates = ("--dropout=0.3", "--embedding_dropout=0.25", "--decoder_word_dropout=0.2", "--encoder_layerdrop=0.1")
    folder = train(recipe(*rates)).folder
    assert (
        "- dropout 0.3; dropout of embeddings 0.25; dropout of target tokens 0.2; LayerDrop in the encoder 0.1; "
        "label smoothing 0.1\n"
    ) in (folder / "README.md").read_text()


def test_license_unknown_to_the_hub_is_rejected(recipe):
    with pytest.raises(InputError, match="training.license='CC BY' is not a Hub license identifier"):
        recipe("--training.license=CC BY")


@pytest.fixture
def finished(recipe):
    """The folder of a finished run, with a picture outside it that must not be touched."""
    folder = train(recipe("--max_steps=2", "--logging_steps=1")).folder
    (folder.parent / "precious.png").write_text("mine")
    return folder


def change_results(folder, **values):
    (folder / "results.json").write_text(json.dumps({**results_of(folder), **values}))


def test_card_uses_no_picture_outside_the_folder_of_the_run(finished, tmp_path):
    (tmp_path / "precious.png").write_text("mine")
    change_results(
        finished, figures=["../precious.png", str(tmp_path / "precious.png"), "pictures/../../precious.png"]
    )
    for options in ([], ["--output", str(tmp_path / "copy.md")]):
        assert main(["card", str(finished), *options]) == 0
    assert "precious" not in (finished / "README.md").read_text()
    assert not list(tmp_path.glob("copy/**/precious.png"))


def test_wrong_type_in_results_or_recipe_is_one_error_naming_file_and_value(finished, capsys):
    original = results_of(finished)
    wrong = {
        "validation_loss": ("low", "validation_loss: Input should be a valid number"),
        "machines": ("one", "machines: Input should be a valid list"),
        "seen": ([], "seen: Input should be a valid dictionary"),
        "architecture": ({**original["architecture"], "d_model": "wide"}, "results.json is damaged"),
        "tests": ({"test": {"bleu": "good"}}, "results.json is damaged"),
        "analysis": ({"by_length": 3}, "results.json is damaged"),
        "recipe": ({"training": {"max_minutes": "long"}}, "training.max_minutes must be a number or null, got 'long'"),
        "name": (1, "name: Input should be a valid string"),
    }
    for key, (value, message) in wrong.items():
        (finished / "results.json").write_text(json.dumps({**original, key: value}))
        assert main(["card", str(finished)]) == 2
        error = capsys.readouterr().err
        assert error.count("error: ") == 1 and str(finished / "results.json") in error and message in error


def test_picture_beside_a_copied_card_is_not_replaced_by_default(finished, tmp_path, capsys):
    picture = tmp_path / "copy" / "pictures" / "curves.png"
    picture.parent.mkdir(parents=True)
    picture.write_text("mine")
    command = ["card", str(finished), "--output", str(tmp_path / "copy.md")]
    assert main(command) == 2
    assert f"{picture} already exists" in capsys.readouterr().err
    assert picture.read_text() == "mine" and not (tmp_path / "copy.md").exists()
    assert main([*command, "--overwrite"]) == 0
    assert picture.read_bytes() == (finished / "pictures" / "curves.png").read_bytes()


def test_copied_card_writes_no_picture_through_a_symlink(finished, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "copy").symlink_to(tmp_path / "elsewhere")
    assert main(["card", str(finished), "--output", str(tmp_path / "cards" / "copy.md"), "--overwrite"]) == 2
    assert "curves.png points outside" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == [] and not (tmp_path / "cards" / "copy.md").exists()


@pytest.mark.draws_figures
def test_copied_card_without_disk_space_names_its_file_and_changes_nothing(finished, tmp_path, capsys):
    output, picture = tmp_path / "copy.md", tmp_path / "copy" / "pictures" / "curves.png"
    picture.parent.mkdir(parents=True)
    for path in (output, picture):
        path.write_text("older")
    before = files_in(tmp_path)
    with largest_file((finished / "pictures" / "curves.png").stat().st_size - 1):
        assert main(["card", str(finished), "--output", str(output), "--overwrite"]) == 2
    assert capsys.readouterr().err == (
        f"error: {picture} cannot be written: File too large. Free up disk space, or choose another file.\n"
    )
    assert files_in(tmp_path) == before


def test_card_without_disk_space_leaves_the_edited_one(finished, capsys):
    (finished / "README.md").write_text("my own words")
    before = files_in(finished)
    with largest_file(1000):
        assert main(["card", str(finished)]) == 2
    assert "File too large" in capsys.readouterr().err
    assert files_in(finished) == before


@pytest.mark.slow
def test_name_given_to_a_card_is_kept_by_later_cards_and_runs(recipe, finished):
    assert main(["card", str(finished), "--name", "you/reversal"]) == 0
    assert main(["card", str(finished)]) == 0
    assert ModelCard.load(finished / "README.md").data.model_name == "you/reversal"
    train(recipe("--max_steps=3"))
    card = ModelCard.load(finished / "README.md")
    assert "3 steps" in card.content and card.data.model_name == "you/reversal"
    # A copy elsewhere is still named after its file.
    assert main(["card", str(finished), "--output", str(finished.parent / "copy.md")]) == 0
    assert ModelCard.load(finished.parent / "copy.md").data.model_name == "copy"
    train(recipe("--max_steps=3", "--overwrite=true"))
    assert ModelCard.load(finished / "README.md").data.model_name == "out"


@pytest.mark.slow
def test_score_on_a_hub_dataset_is_written_for_its_leaderboard_and_goes_with_the_model(recipe, monkeypatch):
    on_hub = Source(dataset="somebody/parallel", on_hub=True, config="de-en", split="test")
    with monkeypatch.context() as patch:
        patch.setattr(report, "describe_source", lambda source: on_hub)
        folder = train(recipe("--max_steps=4")).folder
    [entry] = yaml.safe_load((folder / EVAL_RESULTS).read_text())
    assert entry["dataset"] == {"id": "somebody/parallel", "task_id": "de-en"}
    assert entry["value"] == round(results_of(folder)["test_bleu"], 2)
    (folder / EVAL_RESULTS).unlink()
    assert main(["card", str(folder)]) == 0
    assert yaml.safe_load((folder / EVAL_RESULTS).read_text()) == [entry]
    train(recipe("--max_steps=5"))  # tested on files
    assert not (folder / EVAL_RESULTS).exists()


def test_card_of_results_without_test_sets_is_written(finished):
    change_results(finished, tests={})
    assert main(["card", str(finished)]) == 0
    assert "## Translations" not in (finished / "README.md").read_text()


def test_results_with_a_trail_without_environments_are_damaged(finished, capsys):
    trail = {**results_of(finished)["trail"], "environments": []}
    change_results(finished, trail=trail)
    assert main(["card", str(finished)]) == 2
    assert "trail.environments: List should have at least 1 item" in capsys.readouterr().err
    (finished / "trail.json").write_text(json.dumps(trail))
    assert main(["verify", str(finished)]) == 2
    assert "contains no readable trail" in capsys.readouterr().err
