"""`hf-vaswani train` and `hf-vaswani recipes`, up to the start of training."""

from pathlib import Path

import pytest

from hf_vaswani.cli import _parser, main
from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.bundled_recipes import bundled_recipes, describe
from hf_vaswani.training.recipe.recipe import load_recipe

PROJECT = Path(__file__).parents[2]


def errors_of(capsys, *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    assert exit_info.value.code == 2
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]


def test_missing_recipe_error_shows_an_example_and_the_recipe_names(capsys):
    first, second = errors_of(capsys, "train", "--train_source", "a.de", "--train_target", "a.en", "--seed", "3")
    assert first == (
        "error: the recipe is missing: it comes first, as in: hf-vaswani train multi30k_de_en --train_source a.de "
        "--train_target a.en ..."
    )
    assert "multi30k_de_en, " in second and "quickstart" in second
    assert "train my.yaml --max_steps 3" in errors_of(capsys, "train", "--max_steps", "3", "my.yaml")[0]
    assert errors_of(capsys, "train")[0].endswith("hf-vaswani train multi30k_de_en")


def test_trainer_option_may_come_before_or_after_the_recipe():
    for arguments in (["--trainer", "r.yaml", "--seed", "3"], ["r.yaml", "--seed", "3", "--trainer"]):
        options = _parser().parse_args(["train", *arguments])
        assert (options.trainer, options.recipe, options.options) == (True, "r.yaml", ["--seed", "3"])


def key_errors(*options: str) -> list[str]:
    with pytest.raises(InputError) as error:
        load_recipe("quickstart", list(options))
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("foreign", "own"),
    [
        ("batch_size", "'max_tokens' or 'max_sentences'"),
        ("per_device_train_batch_size", "'max_tokens' or 'max_sentences'"),
        ("lr", "'learning_rate'"),
        ("epochs", "'num_train_epochs'"),
        ("train-steps", "'max_steps'"),
        ("update_freq", "'gradient_accumulation_steps'"),
        ("num_warmup_steps", "'warmup_steps'"),
        ("validate_interval_updates", "'eval_steps'"),
        ("save_interval_updates", "'save_steps'"),
        ("fp16", "'mixed_precision=fp16'"),
        ("bf16", "'mixed_precision=bf16'"),
        ("hidden_size", "'d_model'"),
        ("num_hidden_layers", "'encoder_layers' and 'decoder_layers'"),
        ("num_layers", "'encoder_layers' and 'decoder_layers'"),
        ("num_heads", "'encoder_attention_heads' and 'decoder_attention_heads'"),
        ("src", "'train_source'"),
        ("tgt", "'train_target'"),
        ("src_lang", "'source_language'"),
        ("beam_size", "'num_beams'"),
        ("random_seed", "'seed'"),
        ("tokenizer", "'tokenizer.path'"),
    ],
)
def test_key_names_of_other_toolkits_suggest_ours(foreign, own):
    assert key_errors(f"--{foreign}=1") == [f"--{foreign.replace('-', '_')}: unknown key; here it is {own}"]


def test_key_names_of_other_toolkits_in_a_file_suggest_key_and_section(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("training: {batch_size: 3, beam_size: 4}\ndata: {dataset: built-in}\n")
    with pytest.raises(InputError) as error:
        load_recipe(path)
    for expected in (
        "unknown key 'training.batch_size'; here it is 'max_tokens' or 'max_sentences'",
        "unknown key 'training.beam_size'; here it is 'generation.num_beams'",
    ):
        assert expected in str(error.value)


def test_recipes_are_listed_with_their_first_lines(capsys):
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert listed == {name: describe(path) for name, path in bundled_recipes().items()}
    assert listed["quickstart"].startswith("German to English on the built-in synthetic corpus")
    # A complete line, not the beginning of a sentence.
    assert all(text.endswith((".", ").")) and len(text) < 120 for text in listed.values())


def test_printed_recipe_can_be_edited_and_loaded(tmp_path, monkeypatch, capsys):
    assert main(["recipes", "quickstart"]) == 0
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(capsys.readouterr().out.replace("max_steps: 2500", "max_steps: 7"))
    assert load_recipe("mine.yaml").training.max_steps == 7
    assert load_recipe("quickstart").training.max_steps == 2500


def test_local_file_takes_precedence_over_a_bundled_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("quickstart").mkdir()
    assert load_recipe("quickstart").training.max_steps == 2500
    Path("quickstart").rmdir()
    Path("quickstart").write_text("data: {dataset: built-in}\ntraining: {output_dir: o, max_steps: 3}")
    assert load_recipe("quickstart").training.max_steps == 3


@pytest.mark.parametrize("command", [["recipes"], ["train"]])
def test_unknown_recipe_gets_a_suggestion(command, capsys):
    assert main([*command, "quikstart"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Did you mean 'quickstart'?" in error


def test_recipes_in_scripts_are_the_bundled_ones():
    assert {
        path.stem: path.resolve() for path in (PROJECT / "scripts" / "recipes").glob("*.yaml")
    } == bundled_recipes()
