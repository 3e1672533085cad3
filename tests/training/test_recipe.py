from pathlib import Path

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe import describe_keys, load_recipe, recipe_keys

RECIPE = """
data: {dataset: embedded}
model: {d_model: 64, layer_norm_eps: 1e-6}
training: {output_dir: out, adam_eps: 1e-9, mixed_precision: no}
"""
RECIPES = sorted((Path(__file__).parents[2] / "scripts" / "recipes").glob("*.yaml"))


@pytest.fixture
def recipe(tmp_path):
    def write(content: str = RECIPE) -> Path:
        path = tmp_path / "recipe.yaml"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def faults(path, options=()) -> str:
    with pytest.raises(InputError) as error:
        load_recipe(path, list(options))
    return str(error.value)


def test_file_goes_before_defaults_and_options_before_the_file(recipe):
    options = ["--max_updates", "7", "--training.seed=3", "--d-model", "128", "--overwrite", "--dropout", "0"]
    loaded = load_recipe(recipe(), options)
    assert (loaded.training.max_updates, loaded.training.seed, loaded.training.overwrite) == (7, 3, True)
    assert loaded.model == {"d_model": 128, "layer_norm_eps": 1e-6, "dropout": 0.0}
    assert loaded.training.adam_eps == 1e-9
    assert loaded.training.mixed_precision == "no"
    assert loaded.generation.num_beams == 4


def test_unknown_key_is_an_error_with_the_nearest_right_one(recipe):
    path = recipe("data: {datset: embedded}\ntraining: {output_dir: o, warmup: 3}\nmodle: {}")
    message = faults(path, ["--max_update", "3", "--learning.rate", "1"])
    for expected in (
        "unknown key 'data.datset'; did you mean 'dataset'?",
        "unknown key 'training.warmup'; did you mean 'warmup_updates'?",
        "unknown section 'modle'; did you mean 'model'?",
        "--max_update: unknown key; did you mean 'max_updates'?",
        "--learning.rate: unknown key; did you mean",
    ):
        assert expected in message


def test_values_of_the_wrong_kind_are_all_named(recipe):
    message = faults(
        recipe(),
        [
            "--average_last",
            "9",
            "--max_updates",
            "many",
            "--schedule",
            "noam",
            "--adam_betas",
            "0.9",
            "--d_model",
            "x",
        ],
    )
    assert "training.max_updates must be a whole number, got 'many'" in message
    assert "training.schedule must be one of 'paper'" in message
    assert "training.adam_betas must be a list of a number" in message
    assert "model.d_model must be a whole number, got 'x'" in message
    assert "training.average_last=9 needs as many checkpoints" in message


def test_heads_that_do_not_divide_d_model_are_an_error(recipe):
    assert "encoder_attention_heads=8 does not divide d_model=100" in faults(recipe(), ["--d_model", "100"])


def test_training_pairs_beyond_learned_positions_are_an_error(recipe):
    message = faults(recipe(), ["--position_type", "learned", "--max_position_embeddings", "80"])
    assert "data.max_length=256 is beyond model.max_position_embeddings=80" in message


def test_contradictions_are_all_named(recipe):
    message = faults(recipe("training: {average_last: 9, learning_rate: 0}"), ["--train_source", "a"])
    for expected in (
        "training.output_dir is missing",
        "data.train_target is missing",
        "data.validation_source is missing",
        "training.learning_rate must be above 0",
        "training.average_last=9 needs as many checkpoints",
    ):
        assert expected in message
    both = faults(recipe(), ["--train_source", "a"])
    assert "data.dataset='embedded' and data.train_source are both given" in both


def test_text_options_stay_as_they_were_typed(recipe):
    options = ["--output_dir", "runs #2", "--source_language", "no", "--target_language=on", "--train_source", "007"]
    options += ["--dataset", "null", "--train_target", "b", "--validation_source", "1.10", "--validation_target", "d"]
    loaded = load_recipe(recipe(), options)
    assert loaded.training.output_dir == "runs #2"
    assert (loaded.data.source_language, loaded.data.target_language) == ("no", "on")
    assert (loaded.data.train_source, loaded.data.validation_source, loaded.data.dataset) == ("007", "1.10", None)


def test_lists_of_text_can_be_options(recipe):
    assert load_recipe(recipe(), ["--freeze=[model.encoder]"]).training.freeze == ["model.encoder"]


def test_language_that_yaml_takes_for_a_truth_value_says_what_to_do(recipe):
    path = recipe(RECIPE.replace("{dataset: embedded}", "{dataset: embedded, source_language: no}"))
    assert "data.source_language must be text or null, got False; put it in quotes" in faults(path)


def test_keys_that_are_no_text_are_unknown_keys(recipe):
    assert "unknown key 'training.1'" in faults(recipe("training: {1: 2}"))


@pytest.mark.parametrize(
    "option", ["weight_decay=-0.1", "seed=-1", "seed=99999999999", "validate_sentences=-1", "max_minutes=.nan"]
)
def test_numbers_out_of_range_are_errors(recipe, option):
    assert f"training.{option.partition('=')[0]} must be" in faults(recipe(), [f"--{option}"])


def test_separate_vocabularies_with_shared_embeddings_are_an_error(recipe):
    message = faults(recipe(), ["--joint=false", "--share_encoder_decoder_embeddings=true"])
    assert "tokenizer.joint=False contradicts" in message


def test_faults_of_the_tokenizer_are_named_with_the_others(recipe):
    options = ["--type", "word", "--bpe_dropout", "0.1", "--byte_fallback", "true", "--max_updates", "0"]
    message = faults(recipe(), options)
    assert "tokenizer.bpe_dropout=0.1 leaves out merges" in message
    assert "tokenizer.byte_fallback=True is for the types bpe and unigram" in message
    assert "training.max_updates must be at least 1" in message


def test_missing_or_broken_recipe_file_is_one_clear_error(recipe, tmp_path):
    assert "does not exist" in faults(tmp_path / "absent.yaml")
    assert "is not a YAML file" in faults(recipe("a: [1"))
    assert "must hold the sections" in faults(recipe("- 1"))


def test_separate_vocabularies_have_separate_embeddings(recipe):
    assert load_recipe(recipe(), ["--joint", "false"]).model["share_encoder_decoder_embeddings"] is False


def test_help_describes_every_key():
    text = describe_keys()
    assert all(f"  {name} " in text for keys in recipe_keys().values() for name in keys)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_that_come_with_the_project_are_valid(path):
    files = [f"--{split}_{side}=x" for split in ("train", "validation") for side in ("source", "target")]
    recipe_text = path.read_text(encoding="utf-8")
    loaded = load_recipe(path, [] if "dataset:" in recipe_text else files)
    assert loaded.training.output_dir == f"outputs/{path.stem}"


def test_preset_sets_the_model_under_what_the_recipe_says(recipe):
    options = ["--preset=system_c", "--d_model=64", "--joint=false", "--max_length=80"]
    model = load_recipe(recipe(), options).model
    assert (model["norm_position"], model["position_type"], model["d_model"]) == ("pre", "learned", 64)
    assert "preset" not in model
    assert "vocab_size" not in model


def test_preset_on_the_command_line_replaces_the_files_architecture(recipe):
    path = recipe()
    assert load_recipe(path).model["d_model"] != 1024
    model = load_recipe(path, ["--preset=big", "--encoder_layers=2"]).model
    assert (model["d_model"], model["encoder_layers"], model["decoder_ffn_dim"]) == (1024, 2, 4096)
    assert "layer_norm_eps" not in model


def test_unknown_preset_is_an_error_with_those_that_there_are(recipe):
    assert "model.preset: There is no preset 'bsae'. There are: base, big" in faults(recipe(), ["--preset=bsae"])


def test_option_of_two_sections_names_both():
    with pytest.raises(InputError) as error:
        load_recipe(RECIPES[0], ["--license=mit"])
    assert "--license stands in several sections; say which: --data.license, --training.license" in str(error.value)
