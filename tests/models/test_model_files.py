"""Damaged model folders: every command ends with the same single clear error, which names the file."""

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, PreTrainedTokenizerFast, pipeline

from hf_vaswani import TranslationPipeline
from hf_vaswani.cli import main
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.errors import InputError
from hf_vaswani.generation.model_checks import damaged_weights
from hf_vaswani.interop import import_checkpoint
from hf_vaswani.models.load import load
from hf_vaswani.training.checkpoints.average import average
from hf_vaswani.training.setup.tokenizer_and_model import read_model, tokenizer_of

from ..conftest import tiny_model, word_tokenizer
from ..families import family

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
FC1 = "model.decoder.layers.0.fc1.weight"


class Harmful:
    def __reduce__(self):
        return os.system, ("touch harm",)


def write(name: str, text: str):
    return lambda folder: (folder / name).write_text(text)


def change(name: str, **values):
    def damage(folder: Path) -> None:
        settings = json.loads((folder / name).read_text())
        settings = {key: value for key, value in {**settings, **values}.items() if value is not ...}
        (folder / name).write_text(json.dumps(settings))

    return damage


def change_weights(work):
    def damage(folder: Path) -> None:
        weights = load_file(folder / WEIGHTS)
        work(weights)
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})

    return damage


def cut(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-10])


def pickled(contents: object):
    def damage(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        torch.save(contents, folder / "pytorch_model.bin")

    return damage


def sharded(damage):
    def shard(folder: Path) -> None:
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        (folder / WEIGHTS).unlink()
        model.save_pretrained(folder, max_shard_size="5KB")
        damage(folder)

    return shard


def set_value(name: str, value: float):
    def work(weights: dict[str, torch.Tensor]) -> None:
        weights[name].view(-1)[-1] = value

    return change_weights(work)


def tokenizer_of_size(words: int):
    def damage(folder: Path) -> None:
        backend = word_tokenizer([f"w{i}" for i in range(words)])
        PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL_TOKENS).save_pretrained(folder)

    return damage


DAMAGES = {
    "config null": (write("config.json", "null"), "config.json cannot be read: it contains null"),
    "config list": (write("config.json", "[1]"), r"config.json cannot be read: it contains \[1\], not"),
    "config cut": (write("config.json", "{"), "config.json cannot be read: it is not JSON"),
    "config without kind": (change("config.json", model_type=...), "config.json has no model_type"),
    "config of type 3": (change("config.json", model_type=3), "config.json has the model_type 3"),
    "config wrong type": (change("config.json", d_model="16"), "config.json: .*'d_model' expected int, got str"),
    "config absurd": (change("config.json", encoder_layers=10**9), "encoder_layers must be at most 1,000, got 10000"),
    "config larger": (change("config.json", d_model=32), r"k_proj.bias has shape \(16,\).* expects \(32,\)"),
    "config fewer layers": (change("config.json", encoder_layers=1), "weights that do not belong to this model"),
    "generation cut": (write("generation_config.json", "{"), "generation_config.json cannot be read: it is not JSON"),
    "generation list": (write("generation_config.json", "[1]"), "generation_config.json .*instead of settings"),
    "generation empty": (write("generation_config.json", "{}"), "generation_config.json has no decoder_start_token"),
    "beams as text": (change("generation_config.json", num_beams="4"), 'generation_config.json: num_beams .*got "4"'),
    "endless": (change("generation_config.json", max_length_offset=10**18), "max_length_offset must be .*to 10,000"),
    "start token": (change("generation_config.json", decoder_start_token_id=40), "must be token ids below 40, got 40"),
    "weights cut": (cut, "model.safetensors cannot be read: it is truncated"),
    "weights empty": (write(WEIGHTS, ""), "model.safetensors cannot be read: it is truncated"),
    "weights pointer": (write(WEIGHTS, "version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer"),
    "weights gone": (lambda folder: (folder / WEIGHTS).unlink(), "has no weights"),
    "weights missing": (change_weights(lambda w: w.pop(FC1)), f"lacks weights that .*: {FC1}"),
    "weights unknown": (change_weights(lambda w: w.update(x=torch.ones(1))), "do not belong to this model: x"),
    "weights of another shape": (
        change_weights(lambda w: w.update({FC1: w[FC1][:-1].clone()})),
        rf"{FC1} has shape \(31, 16\), but its configuration expects \(32, 16\)",
    ),
    "one weight NaN": (set_value(FC1, float("nan")), f"values that are NaN or infinite: {FC1}"),
    "one embedding infinite": (set_value("model.shared.weight", float("inf")), "NaN or infinite: model.shared"),
    "pickle with code": (pickled({"a": Harmful()}), "its pickle contains posix.system"),
    "pickle cut": (
        lambda folder: (pickled({})(folder), write("pytorch_model.bin", "x")(folder)),
        "its pickle is damaged",
    ),
    "shard gone": (
        sharded(lambda folder: (folder / "model-00002-of-00010.safetensors").unlink()),
        "No such file or directory: .*model-00002-of-00010.safetensors",
    ),
    "index gone": (sharded(lambda folder: (folder / INDEX).unlink()), "no file named model.safetensors"),
    "tokenizer empty": (write("tokenizer.json", ""), "tokenizer.json cannot be read: it is not JSON"),
    "tokenizer no tokenizer": (write("tokenizer.json", "{}"), "tokenizer.json cannot be read: it is not a tokenizer"),
    "tokenizer gone": (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer_config.json, but no vocabul"),
    "no limit": (change("tokenizer_config.json", model_max_length="many"), "model_max_length is .*, not a number"),
    "no padding": (change("tokenizer_config.json", pad_token=...), "no pad_token"),
    "tokenizer larger": (tokenizer_of_size(40), "tokenizer has 44 tokens, but the model has embeddings for 40"),
}
TOKENIZER_DAMAGES = [name for name in DAMAGES if "tokenizer" in name or name in ("no limit", "no padding")]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_with_its_file_and_nothing_changes(saved_model, tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    damage, message = DAMAGES[name]
    damage(saved_model)
    before = contents(saved_model)
    ways = {"load": lambda: load(str(saved_model))}
    if name not in TOKENIZER_DAMAGES:
        ways["start_from"] = lambda: read_model(str(saved_model))
        ways["average"] = lambda: average([saved_model], tmp_path / "mean")
    for way, work in ways.items():
        with pytest.raises(InputError, match=message) as error:
            work()
        assert str(saved_model) in str(error.value), way
    assert contents(saved_model) == before
    assert not (tmp_path / "harm").exists() and not (tmp_path / "mean").exists()


@pytest.mark.parametrize("name", ["config cut", "one weight NaN", "beams as text"])
def test_every_command_rejects_a_damaged_model_with_one_error(saved_model, tmp_path, write_lines, capsys, name):
    DAMAGES[name][0](saved_model)
    text, output = write_lines("text", ["w1 w2"]), tmp_path / "output"
    for command in (
        ["translate", saved_model, "--input", text],
        ["score", saved_model, "--source", text, "--target", text],
        ["evaluate", saved_model, "--source", text, "--reference", text],
        ["attention", saved_model, "--text", "w1", "--output", f"{output}.png"],
        ["export", saved_model, output],
        ["average", saved_model, saved_model, "--output", output],
    ):
        assert main([str(argument) for argument in command]) == 2, command
        printed = capsys.readouterr()
        assert not printed.out and not output.exists()
        assert {line[:7] for line in printed.err.splitlines()} == {"error: "}, command


@pytest.mark.parametrize("name", ["config null", "config list", "config of type 3", "beams as text"])
def test_reading_the_tokenizer_of_a_start_model_reports_the_damaged_file(saved_model, name):
    damage, message = DAMAGES[name]
    damage(saved_model)
    with pytest.raises(InputError, match=message):
        tokenizer_of(str(saved_model))


def test_start_model_without_a_tokenizer_asks_for_one(saved_model):
    for file in saved_model.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(InputError, match="has no tokenizer. Specify one with tokenizer.path"):
        tokenizer_of(str(saved_model))


@pytest.mark.parametrize(
    ("kind", "message"),
    [("bert", "'bert' is not an encoder-decoder"), ("unheard_of", "'unheard_of' is unknown to transformers")],
)
def test_model_of_an_unsupported_type_is_rejected_by_name(saved_model, kind, message):
    change("config.json", model_type=kind)(saved_model)
    with pytest.raises(InputError, match=message):
        load(str(saved_model))


@pytest.fixture
def marian(tmp_path):
    """A folder of transformers' MarianMT."""
    pytest.importorskip("sentencepiece")
    model, tokenizer = family("Marian", tmp_path)
    folder = tmp_path / "marian"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "config null",
        "weights cut",
        "weights missing",
        "one weight NaN",
        "pickle with code",
        "beams as text",
        "no limit",
    ],
)
def test_foreign_models_are_checked_just_as_strictly(marian, tmp_path, name):
    damage, message = DAMAGES[name]
    damage(marian)
    for work in (lambda: load(str(marian)), lambda: import_checkpoint(marian, tmp_path / "imported")):
        with pytest.raises(InputError, match=message):
            work()
    assert not (tmp_path / "imported").exists()


def test_foreign_models_may_have_extra_embeddings_and_unused_weights(marian):
    model = AutoModelForSeq2SeqLM.from_pretrained(marian)
    model.resize_token_embeddings(100)
    model.save_pretrained(marian)
    change_weights(lambda weights: weights.update(old=torch.ones(1)))(marian)
    assert load(str(marian))[0].config.vocab_size == 100


def test_import_keeps_embeddings_without_a_token(marian, tmp_path):
    model = AutoModelForSeq2SeqLM.from_pretrained(marian)
    model.resize_token_embeddings(100)
    model.save_pretrained(marian)
    import_checkpoint(marian, tmp_path / "imported")
    assert load(str(tmp_path / "imported"))[0].config.vocab_size == 100


def test_foreign_model_with_more_layers_than_its_config_is_rejected(marian):
    change("config.json", encoder_layers=1)(marian)
    with pytest.raises(InputError, match=r"do not belong to this model: model\.encoder\.layers\.1"):
        load(str(marian))


@pytest.mark.parametrize(("value", "is_damage"), [(float("-inf"), False), (float("inf"), True), (float("nan"), True)])
def test_bias_on_the_logits_may_rule_out_a_token(value, is_damage):
    model = tiny_model(output_bias=True)
    model.lm_head.bias.data[0] = value
    assert damaged_weights(model.named_parameters()) == ["lm_head.bias"] * is_damage


@pytest.mark.parametrize("rows", [35, 64, 1000])
def test_more_embeddings_than_tokens_are_not_damage(saved_model, rows):
    tokenizer_of_size(30)(saved_model)
    tiny_model(vocab_size=rows).save_pretrained(saved_model)
    assert load(str(saved_model))[0].config.vocab_size == rows


def test_sampling_draws_only_ids_that_have_a_token(tokenizer):
    torch.manual_seed(0)
    translator = TranslationPipeline(tiny_model(vocab_size=400), tokenizer=tokenizer)
    options = {"do_sample": True, "num_beams": 1, "top_k": 0, "n_best": 8, "max_new_tokens": 8, "return_tensors": True}
    results = translator(["w1 w2"], suppress_tokens=[5], **options)[0]
    drawn = {i for result in results for i in result["translation_token_ids"].tolist()}
    assert len(drawn) > 10 and max(drawn) < len(tokenizer) and 5 not in drawn


def test_pipeline_rejects_damaged_weights_and_the_tokenizer_of_another_model(tokenizer, marian):
    model = tiny_model(vocab_size=39)
    with pytest.raises(
        ValueError, match=r"embeddings for 39. If you added .*resize_token_embeddings\(len\(tokenizer\)\)"
    ):
        TranslationPipeline(model, tokenizer=tokenizer)
    model = tiny_model()
    model.model.decoder.layers[0].fc1.weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match=f"values in 1 of the model's weights, for example in {FC1}"):
        TranslationPipeline(model, tokenizer=tokenizer)
    set_value(FC1, float("nan"))(marian)
    with pytest.raises(ValueError, match=FC1):
        pipeline("translation", model=str(marian))


def test_decoder_without_an_encoder_is_rejected(saved_model):
    change("config.json", is_encoder_decoder=False)(saved_model)
    with pytest.raises(InputError, match="is_encoder_decoder must be true"):
        load(str(saved_model))
