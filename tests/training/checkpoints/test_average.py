import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.ledger import read_provenance
from hf_vaswani.training.checkpoints import average as average_module
from hf_vaswani.training.checkpoints.average import Member, average
from hf_vaswani.training.train import train

from ...conftest import tiny_model


@pytest.fixture
def run_folder(recipe):
    return train(recipe("--max_steps=9", "--save_steps=3", "--eval_steps=2", "--keep_best=3")).folder


def parameters(folder) -> dict[str, torch.Tensor]:
    return dict(AutoModelForSeq2SeqLM.from_pretrained(folder).named_parameters())


def assert_mean(folder, paths):
    parts = [load_file(path) for path in paths]
    for name, value in parameters(folder).items():
        expected = sum(part[name].double() for part in parts) / len(parts)
        torch.testing.assert_close(value.detach().double(), expected, atol=1e-7, rtol=0)


def test_mean_of_the_last_checkpoints_is_a_model_with_its_tokenizer(run_folder, tmp_path, capsys):
    assert main(["average", str(run_folder), "--last", "2", "--output", str(tmp_path / "mean")]) == 0
    checkpoints = [run_folder / "checkpoints" / f"update-{update:08d}" for update in (6, 9)]
    printed = capsys.readouterr().out
    assert all(str(path) in printed for path in checkpoints)
    assert_mean(tmp_path / "mean", [path / "model.safetensors" for path in checkpoints])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "mean")
    assert tokenizer("a b c").input_ids == AutoTokenizer.from_pretrained(run_folder)("a b c").input_ids
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "mean").generation_config.num_beams == 2


def test_mean_of_the_best_weights(run_folder, tmp_path):
    paths = average([run_folder], tmp_path / "mean", best=2)
    assert [path.parent.name for path in paths] == ["best", "best"]
    assert_mean(tmp_path / "mean", [path / "model.safetensors" for path in paths])


@pytest.mark.slow
def test_mean_of_named_checkpoints_and_finished_models(run_folder, tmp_path):
    checkpoint = run_folder / "checkpoints" / "update-00000003"
    average([checkpoint, run_folder], tmp_path / "mean")
    final = parameters(run_folder)
    for name, value in parameters(tmp_path / "mean").items():
        expected = (load_file(checkpoint / "model.safetensors")[name].double() + final[name].double()) / 2
        torch.testing.assert_close(value.detach().double(), expected.detach(), atol=1e-7, rtol=0)


def test_run_without_checkpoints_stands_for_its_model(run_folder, tmp_path):
    shutil.rmtree(run_folder / "checkpoints")
    (run_folder / "checkpoints").mkdir()
    average([run_folder], tmp_path / "mean")
    final = parameters(run_folder)
    assert all(torch.equal(value, final[name]) for name, value in parameters(tmp_path / "mean").items())
    with pytest.raises(InputError, match="too few checkpoints: 2 needed, 0 found"):
        average([run_folder], tmp_path / "other", last=2)


@pytest.mark.parametrize("missing", ["absent", "empty"])
def test_folders_without_weights_are_rejected_together(tmp_path, missing):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as error:
        average([tmp_path / missing, tmp_path / "other"], tmp_path / "mean")
    assert len(str(error.value).splitlines()) == 2
    assert not (tmp_path / "mean").exists()


def test_averaging_more_checkpoints_than_exist_is_a_clear_error(run_folder, tmp_path):
    with pytest.raises(InputError, match="has too few checkpoints: 4 needed, 3 found"):
        average([run_folder], tmp_path / "mean", last=4)


def test_models_of_different_shapes_are_rejected_and_leave_nothing_behind(tmp_path):
    for name, size in (("a", 16), ("b", 32)):
        tiny_model(d_model=size).save_pretrained(tmp_path / name)
    with pytest.raises(InputError, match=r"b has different weights than .*a: .* is \(.*\) and \(.*\)"):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_models_with_other_numbers_of_heads_or_activations_are_rejected(tmp_path):
    changes = {"heads": {"encoder_attention_heads": 4}, "gelu": {"activation_function": "gelu"}}
    for name, change in {"a": {}, **changes}.items():
        tiny_model(**change).save_pretrained(tmp_path / name)
    for name, change in changes.items():
        with pytest.raises(InputError, match=rf"{name} and .*a differ: {next(iter(change))} is "):
            average([tmp_path / "a", tmp_path / name], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_models_of_another_type_or_with_missing_weights_are_rejected(tmp_path):
    for name in ("whole", "incomplete", "foreign"):
        tiny_model().save_pretrained(tmp_path / name)
    config = json.loads((tmp_path / "foreign" / "config.json").read_text())
    (tmp_path / "foreign" / "config.json").write_text(json.dumps({**config, "model_type": "marian"}))
    weights = load_file(tmp_path / "incomplete" / "model.safetensors")
    weights.popitem()
    save_file(weights, tmp_path / "incomplete" / "model.safetensors", {"format": "pt"})
    for name, message in (("foreign", "is a 'marian' model"), ("incomplete", "lacks weights")):
        with pytest.raises(InputError, match=f"{name} {message}"):
            average([tmp_path / "whole", tmp_path / name], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize("file", ["architecture/config.json", "architecture", "tokenizer/tokenizer.json"])
def test_damaged_or_missing_file_of_a_run_is_reported_with_its_name(recipe, tmp_path, file):
    run_folder = train(recipe("--max_steps=3")).folder
    path = run_folder / file
    shutil.rmtree(path) if path.is_dir() else path.write_text("{")
    with pytest.raises(InputError, match=rf"{file.partition('/')[0]}.* (is missing|cannot be (read|loaded))"):
        average([run_folder], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_checkpoint_is_recognized_by_its_bare_name_in_the_working_directory(run_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(run_folder / "checkpoints")
    average([Path("update-00000009")], tmp_path / "mean")
    assert (tmp_path / "mean" / "tokenizer.json").exists()


def test_model_in_a_folder_named_checkpoints_is_a_model(tmp_path):
    tiny_model().save_pretrained(tmp_path / "checkpoints" / "update-00000001")
    average([tmp_path / "checkpoints" / "update-00000001"], tmp_path / "mean")
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    assert torch.equal(mean["model.shared.weight"], tiny_model().model.shared.weight)


def test_damaged_checkpoint_is_rejected(run_folder, tmp_path):
    weights = run_folder / "checkpoints" / "update-00000009" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(InputError, match="update-00000009 is damaged"):
        average([run_folder], tmp_path / "mean")


@pytest.mark.slow
def test_models_with_different_tokenizers_are_rejected(recipe, run_folder, tmp_path):
    other = train(recipe("--max_steps=3", "--vocab_size=20", "--type=unigram", output="other")).folder
    with pytest.raises(InputError, match="The tokenizer in .* differs from the one in"):
        average([run_folder, other], tmp_path / "mean")


@pytest.mark.slow
def test_models_of_two_seeds_or_two_directions_are_not_averaged(tmp_path):
    """Models of one start may be: here, a model and a copy of it with noise as large as the weights."""
    torch.manual_seed(1)
    model = tiny_model(source_language="de", target_language="en")
    model.save_pretrained(tmp_path / "first")
    scale = model.model.shared.weight.std()
    for parameter in model.parameters():
        parameter.data += scale * torch.randn_like(parameter)
    model.save_pretrained(tmp_path / "tuned")
    for parameter in model.parameters():
        parameter.data = scale * torch.randn_like(parameter)
    model.save_pretrained(tmp_path / "unrelated")
    tiny_model(source_language="en", target_language="de").save_pretrained(tmp_path / "back")
    tiny_model().save_pretrained(tmp_path / "unnamed")
    average([tmp_path / name for name in ("first", "tuned", "unnamed")], tmp_path / "mean")
    for name, message in (("unrelated", "unrelated .*--ensemble"), ("back", "source_language is 'en' and 'de'")):
        with pytest.raises(InputError, match=message):
            average([tmp_path / "first", tmp_path / name], tmp_path / "other")


def test_models_that_name_their_directions_in_another_order_are_averaged(tmp_path):
    pairs = [["de", "en"], ["en", "de"]]
    for name, directions in (("one", pairs), ("other", pairs[::-1]), ("third", pairs[:1])):
        model = tiny_model(language_pairs=directions)
        model.save_pretrained(tmp_path / name)
    average([tmp_path / "one", tmp_path / "other"], tmp_path / "mean")
    with pytest.raises(InputError, match="language_pairs is"):
        average([tmp_path / "one", tmp_path / "third"], tmp_path / "mean_of_others")


@pytest.mark.slow
def test_mean_says_what_it_was_made_from_and_is_recognized(run_folder, tmp_path, capsys):
    command = ["average", str(run_folder), "--output", str(tmp_path / "mean")]
    assert main([*command, "--last", "2"]) == 0
    made = read_provenance(tmp_path / "mean")
    assert (made.command, made.settings) == ("average", {"last": 2}) and made.seconds > 0
    assert [(source.role, source.name, source.made.command) for source in made.inputs] == [("model", "out", "train")]
    assert str(tmp_path) not in (tmp_path / "mean" / "provenance.json").read_text()
    before = (tmp_path / "mean" / "model.safetensors").stat().st_mtime_ns
    capsys.readouterr()
    assert main([*command, "--last", "2"]) == 0
    assert f"{tmp_path / 'mean'} is finished. Nothing to do." in capsys.readouterr().err
    for options, difference in ((["--last", "3"], "last was 2 and is now 3"), (["--best", "2"], "last was 2 and is")):
        assert main([*command, *options]) == 2
        assert f"was made in another way: {difference}" in capsys.readouterr().err
    shutil.rmtree(run_folder / "checkpoints" / "update-00000009")
    assert main([*command, "--last", "2"]) == 2
    assert "was made in another way: model out has changed. Choose another folder" in capsys.readouterr().err
    assert (tmp_path / "mean" / "model.safetensors").stat().st_mtime_ns == before


def test_newer_checkpoints_replace_one_that_a_running_training_deletes(run_folder, tmp_path, monkeypatch):
    read = Member.read

    def read_while_training(member):
        shutil.rmtree(run_folder / "checkpoints" / "update-00000003", ignore_errors=True)
        return read(member)

    monkeypatch.setattr(Member, "read", read_while_training)
    paths = average([run_folder], tmp_path / "mean")
    assert [path.name for path in paths] == ["update-00000006", "update-00000009"]
    assert_mean(tmp_path / "mean", [path / "model.safetensors" for path in paths])


def test_checkpoints_that_are_deleted_faster_than_they_are_read_are_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(average_module, "find_members", lambda source, *_: [Member(tmp_path / "gone", source, source)])
    monkeypatch.setattr(average_module, "_check_meanings", lambda members: None)
    with pytest.raises(InputError, match=f"{tmp_path}: the run deletes its checkpoints while they are read. Wait"):
        average([tmp_path], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
