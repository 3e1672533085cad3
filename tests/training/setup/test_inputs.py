"""What a run is made from: recorded with digests, and compared when the run is resumed or was finished."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PegasusConfig

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.ledger import read_provenance
from hf_vaswani.training.train import train

from ...families import family


def change_weights(folder) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.encoder.layers.0.fc1.bias"] += torch.ones(1)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def first(recipe):
    return train(recipe("--max_steps=2", output="first")).folder


@pytest.mark.parametrize("steps", [2, 4])
@pytest.mark.slow
def test_changed_starting_model_is_told_when_a_run_is_resumed_or_was_finished(recipe, first, steps):
    options = (f"--start_from={first}", "--save_steps=1", "--lr_scheduler_type=constant")
    train(recipe(*options, "--max_steps=2"))
    change_weights(first)
    with pytest.raises(InputError, match=r"another recipe \(the content of training.start_from has changed\)"):
        train(recipe(*options, f"--max_steps={steps}"))


def test_changed_tokenizer_is_told(recipe, first):
    options = (f"--tokenizer.path={first}", "--max_steps=2")
    train(recipe(*options))
    settings = json.loads((first / "tokenizer_config.json").read_text())
    (first / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": 7}))
    with pytest.raises(InputError, match=r"the content of tokenizer.path has changed"):
        train(recipe(*options))


def test_finished_run_changes_nothing_when_it_is_started_again(recipe, first):
    folder = train(recipe(f"--start_from={first}", "--max_steps=2")).folder
    before = (folder / "model.safetensors").read_bytes(), read_provenance(folder)
    train(recipe(f"--start_from={first}", "--max_steps=2"))
    after = (folder / "model.safetensors").read_bytes(), read_provenance(folder)
    assert after == before


@pytest.mark.slow
def test_first_run_on_text_alone_can_be_verified_from_the_card_of_the_last(recipe, first, tmp_path, capsys):
    last = train(recipe(f"--start_from={first}", "--max_steps=2", output="last")).folder
    card = tmp_path / "README.md"
    card.write_bytes((last / "README.md").read_bytes())
    assert "trains the first steps of first again, from this card" in card.read_text()
    text = [option for option in recipe.command[1:] if not option.startswith("--test")]
    assert main(["verify", str(card), *text]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Replaying first, steps 1 to 2" in lines and lines[-1] == "identical bit for bit"


def test_card_of_an_earlier_version_with_stages_is_one_clear_error(first, tmp_path, capsys):
    card = tmp_path / "README.md"
    text = (first / "README.md").read_text()
    card.write_text(text.replace("```yaml\n", "```yaml\nstages: {a: {train: {}}}\n", 1))
    capsys.readouterr()
    assert main(["verify", str(card)]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert "is the card of a run in stages, which this version cannot replay" in error


def test_model_of_an_unknown_architecture_is_refused_with_what_fine_tunes_it(recipe, tmp_path):
    PegasusConfig().save_pretrained(tmp_path / "other")
    with pytest.raises(InputError, match=r"^training.start_from: .* of type '\w+'. .* Seq2SeqTrainer fine-tunes it"):
        train(recipe(f"--start_from={tmp_path / 'other'}"))


def test_other_architecture_cannot_be_distilled_but_fine_tuned(recipe, tmp_path):
    for part in family("T5", tmp_path):
        part.save_pretrained(tmp_path / "other")
    other = tmp_path / "other"
    with pytest.raises(InputError, match=r"^training.distill_from: .* and training.start_from fine-tunes it as it is"):
        train(recipe(f"--distill_from={other}", f"--tokenizer.path={other}"))


@pytest.mark.parametrize("name", ["M2M100", "NLLB", "mBART", "mBART-50"])
def test_tokenizer_of_a_multilingual_model_is_refused(recipe, tmp_path, name):
    tokenizer = family(name, tmp_path)[1]
    tokenizer.save_pretrained(tmp_path / "other")
    with pytest.raises(
        InputError, match=f"^tokenizer.path: .*{type(tokenizer).__name__} marks each text with its lang"
    ):
        train(recipe(f"--tokenizer.path={tmp_path / 'other'}"))
