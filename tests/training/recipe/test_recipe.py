import re
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.bundled_recipes import bundled_recipes
from hf_vaswani.training.recipe.model_arguments import field_descriptions
from hf_vaswani.training.recipe.recipe import load_recipe, recipe_keys
from hf_vaswani.training.recipe.reference import describe_keys
from hf_vaswani.training.setup.tokenizer_and_model import existing_tokenizer, make_model

RECIPE = """
data: {dataset: built-in}
model: {d_model: 64, layer_norm_eps: 1e-6}
training: {output_dir: out, adam_epsilon: 1e-9, mixed_precision: no}
"""
RECIPES = list(bundled_recipes().values())


@pytest.fixture
def recipe(tmp_path):
    def write(content: str = RECIPE) -> Path:
        path = tmp_path / "recipe.yaml"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def errors_of(path, options=()) -> str:
    with pytest.raises(InputError) as error:
        load_recipe(path, list(options))
    return str(error.value)


def test_file_overrides_defaults_and_options_override_the_file(recipe):
    options = ["--max_steps", "7", "--training.seed=3", "--d-model", "128", "--overwrite", "--dropout", "0"]
    loaded = load_recipe(recipe(), options)
    assert (loaded.training.max_steps, loaded.training.seed, loaded.training.overwrite) == (7, 3, True)
    assert loaded.model == {"d_model": 128, "layer_norm_eps": 1e-6, "dropout": 0.0}
    assert loaded.training.adam_epsilon == 1e-9
    assert loaded.training.mixed_precision == "no"
    assert loaded.generation.num_beams == 4


def test_unknown_key_is_an_error_that_suggests_the_closest_one(recipe):
    path = recipe("data: {datset: built-in}\ntraining: {output_dir: o, warmup: 3, bpe_dropout: 0.1}\nmodle: {}")
    message = errors_of(path, ["--max_step", "3", "--learning.rate", "1"])
    for expected in (
        "unknown key 'data.datset'; did you mean 'dataset'?",
        "unknown key 'training.warmup'; did you mean 'warmup_steps'?",
        "unknown key 'training.bpe_dropout'; did you mean 'tokenizer.bpe_dropout'?",
        "unknown section 'modle'; did you mean 'model'?",
        "--max_step: unknown key; did you mean 'max_steps'?",
        "--learning.rate: unknown key; did you mean",
    ):
        assert expected in message


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("arch", "here it is 'preset'"),
        ("evaluation_strategy", "here it is 'eval_steps'"),
        ("save_strategy", "here it is 'save_steps'"),
        ("load_best_model_at_end", "here it is 'average=best'"),
        ("resume_from_checkpoint", "the same command resumes a stopped run from its last checkpoint"),
        ("world_size", "accelerate launch --num_processes N starts several processes"),
        ("no_cuda", "a GPU is used if there is one; CUDA_VISIBLE_DEVICES selects another, or none"),
    ],
)
def test_option_of_another_toolkit_is_an_error_that_says_what_to_use(recipe, option, expected):
    assert f"--{option}: unknown key; {expected}" in errors_of(recipe(), [f"--{option}=1"])


def test_all_values_of_a_wrong_type_are_reported(recipe):
    message = errors_of(
        recipe(),
        [
            "--average_last",
            "9",
            "--max_steps",
            "many",
            "--lr_scheduler_type",
            "noam",
            "--adam_beta1",
            "[0.9]",
            "--d_model",
            "x",
        ],
    )
    assert "training.max_steps must be a whole number or null, got 'many'" in message
    assert "training.lr_scheduler_type must be one of 'paper'" in message
    assert "training.adam_beta1 must be a number" in message
    assert "model.d_model must be a whole number, got 'x'" in message
    assert "training.average_last=9 needs that many checkpoints" in message


def test_heads_that_do_not_divide_d_model_are_an_error(recipe):
    assert "encoder_attention_heads=8 does not divide d_model=100" in errors_of(recipe(), ["--d_model", "100"])


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "linear", "cosine", "constant"])
def test_schedules_other_than_the_papers_need_a_learning_rate(recipe, schedule):
    missing = (
        f"training.learning_rate is missing: the peak of schedule '{schedule}', such as 0.001 (for fine-tuning, "
        "0.0001)"
    )
    in_file = RECIPE.replace("output_dir: out", f"output_dir: out, lr_scheduler_type: {schedule}")
    assert errors_of(recipe(in_file)) == missing
    assert errors_of(recipe(), ["--lr_scheduler_type", schedule]) == missing
    assert load_recipe(recipe(in_file), ["--learning_rate", "0.5"]).training.learning_rate == 0.5
    assert load_recipe(recipe()).training.learning_rate == 1


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_single_step_at_a_learning_rate_of_0_is_an_error(recipe, schedule):
    options = ["--lr_scheduler_type", schedule, "--learning_rate", "0.1", "--warmup_steps", "0", "--max_steps"]
    assert "leaves no steps of training.max_steps=1" in errors_of(recipe(), [*options, "1"])
    assert load_recipe(recipe(), [*options, "2"]).training.max_steps == 2


def test_learning_rate_is_dropped_along_with_its_kind_of_schedule(recipe):
    rate = RECIPE.replace("output_dir: out", "output_dir: out, lr_scheduler_type: linear, learning_rate: 0.003")
    assert load_recipe(recipe(rate), ["--lr_scheduler_type", "cosine"]).training.learning_rate == 0.003
    assert load_recipe(recipe(rate), ["--lr_scheduler_type", "paper"]).training.learning_rate == 1
    factor = RECIPE.replace("output_dir: out", "output_dir: out, learning_rate: 1.0")
    assert "training.learning_rate is missing" in errors_of(recipe(factor), ["--lr_scheduler_type", "linear"])
    assert load_recipe(recipe(factor), ["--lr_scheduler_type", "paper"]).training.learning_rate == 1


def test_max_length_beyond_the_learned_positions_is_an_error(recipe):
    message = errors_of(recipe(), ["--position_type", "learned", "--max_position_embeddings", "80"])
    assert "data.max_length=256 exceeds model.max_position_embeddings=80" in message


def test_all_contradictions_are_reported(recipe):
    message = errors_of(recipe("training: {average_last: 9, learning_rate: 0}"), ["--train_source", "a"])
    for expected in (
        "training.output_dir is missing",
        "data.train_target is missing",
        "data.validation_source is missing",
        "training.learning_rate must be above 0",
        "training.average_last=9 needs that many checkpoints",
    ):
        assert expected in message
    both = errors_of(recipe(), ["--dataset", "built-in", "--train_source", "a", "--train_target", "b"])
    assert "data.dataset='built-in' and data.train_source, data.train_target are both given" in both


def test_text_options_are_kept_as_typed(recipe):
    options = ["--output_dir", "runs #2", "--source_language", "no", "--target_language=on", "--train_source", "007"]
    options += ["--train_target", "b", "--validation_source", "1.10", "--validation_target", "d"]
    loaded = load_recipe(recipe(), options)
    assert loaded.training.output_dir == "runs #2"
    assert (loaded.data.source_language, loaded.data.target_language) == ("no", "on")
    assert (loaded.data.train_source, loaded.data.validation_source, loaded.data.dataset) == ("007", "1.10", None)


def test_lists_of_text_can_be_options(recipe):
    assert load_recipe(recipe(), ["--freeze=[model.encoder]"]).training.freeze == ["model.encoder"]


def test_language_that_yaml_reads_as_a_boolean_is_an_error_with_advice(recipe):
    path = recipe(RECIPE.replace("{dataset: built-in}", "{dataset: built-in, source_language: no}"))
    assert "data.source_language must be text or null, got False; put it in quotes" in errors_of(path)


def test_keys_that_are_not_text_are_unknown_keys(recipe):
    assert "unknown key 'training.1'" in errors_of(recipe("training: {1: 2}"))


@pytest.mark.parametrize(
    "option", ["weight_decay=-0.1", "seed=-1", "seed=99999999999", "eval_sentences=-1", "max_minutes=.nan",
    "max_length_offset=1000000000000000000000", "max_steps=1.0e+30", "length_penalty=.nan", "length_penalty=-11"],
)  # fmt: skip
def test_numbers_out_of_range_are_errors(recipe, option):
    name = option.partition("=")[0]
    assert re.match(rf"(training|generation)\.{name} .*must be", errors_of(recipe(), [f"--{option}"]))


def test_separate_vocabularies_with_shared_embeddings_are_an_error(recipe):
    message = errors_of(recipe(), ["--joint=false", "--share_encoder_decoder_embeddings=true"])
    assert "tokenizer.joint=False contradicts" in message


def test_tokenizer_errors_are_reported_along_with_others(recipe):
    options = ["--type", "word", "--bpe_dropout", "0.1", "--byte_fallback", "true", "--max_steps", "0"]
    message = errors_of(recipe(), options)
    assert "tokenizer.bpe_dropout=0.1 drops merges" in message
    assert "tokenizer.byte_fallback=True is for the types bpe and unigram" in message
    assert "training.max_steps must be at least 1" in message


def test_empty_option_is_an_error(recipe):
    assert errors_of(recipe(), ["--tokenizer.path", "", "--name=", "--d_model", ""]).splitlines() == [
        f"--{name} is empty; use null for no value" for name in ("tokenizer.path", "name", "d_model")
    ]


def test_missing_or_broken_recipe_file_is_one_clear_error(recipe, tmp_path):
    assert "does not exist" in errors_of(tmp_path / "absent.yaml")
    assert f"{tmp_path} is a folder" in errors_of(tmp_path)
    assert "is not a YAML file" in errors_of(recipe("a: [1"))
    assert "must contain the sections" in errors_of(recipe("- 1"))


@pytest.mark.parametrize(
    "content",
    [
        "training: {max_steps: 1}\ntraining: {}", "training: {max_steps: 4, max_steps: 9}",
        "data: {name: !!int abc}", "data: {name: !!int ''}", "data: {name: !!timestamp abc}", "[" * 5000, "1" * 5000,
    ],
    ids=["duplicate section", "duplicate key", "not a number", "no digits", "not a date", "too deep", "too long"],
)  # fmt: skip
def test_ambiguous_or_broken_yaml_is_a_one_line_error(recipe, content):
    message = errors_of(recipe(content))
    assert "is not a YAML file: " in message and "\n" not in message


def test_numbers_are_decimal_and_dates_are_text(recipe):
    loaded = load_recipe(
        recipe(RECIPE.replace("built-in", "built-in, name: 2023-02-30")),
        ["--adam_epsilon=1e-7", "--learning_rate=2.5E-4"],
    )
    assert (loaded.data.name, loaded.training.adam_epsilon, loaded.training.learning_rate) == (
        "2023-02-30",
        1e-7,
        2.5e-4,
    )
    message = errors_of(recipe(), ["--max_steps=0100", "--max_minutes=1:30", "--seed=2024-13-45", "--save_steps=0x10"])
    for expected in (
        "max_steps must be a whole number or null, got '0100'",
        "max_minutes must be",
        "seed must",
        "save_steps",
    ):
        assert expected in message


def test_revision_that_looks_like_a_number_is_kept_as_text(recipe):
    path = recipe("data: {dataset: some/set, dataset_revision: 87e3451}\ntraining: {output_dir: o}")
    assert load_recipe(path).data.dataset_revision == "87e3451"


def test_own_key_overrides_a_merged_one(recipe):
    path = recipe(
        "data: {dataset: built-in}\ngeneration: {<<: {num_beams: 2}, num_beams: 3}\ntraining: {output_dir: o}"
    )
    assert load_recipe(path).generation.num_beams == 3


def test_separate_vocabularies_have_separate_embeddings(recipe):
    assert load_recipe(recipe(), ["--joint", "false"]).model["share_encoder_decoder_embeddings"] is False


def test_help_describes_every_key_with_its_default():
    lines = describe_keys().splitlines()
    shown = {line.split()[0]: line.removeprefix(f"  {line.split()[0]}").strip() for line in lines if line[:3] > "   "}
    for number, line in enumerate(lines):
        if line.startswith("  share_encoder_decoder_embeddings"):  # a name as wide as its column
            shown["share_encoder_decoder_embeddings"] = lines[number + 1].strip()
    assert [name for keys in recipe_keys().values() for name in keys if len(shown.get(name, "")) < 10] == []
    assert shown["max_steps"].endswith("(default: 100000)")
    assert shown["encoder_ffn_dim"] == shown["decoder_ffn_dim"]
    assert shown["decoder_ffn_dim"] == "inner width d_ff of the feed-forward networks (section 3.3) (default: 2048)"
    assert "  d_k " in "\n".join(lines) and "to d_model divided by the number of heads" in "\n".join(lines)
    assert max(map(len, describe_keys(width=80).splitlines())) <= 119


def test_each_field_of_a_config_is_described_by_its_first_sentence_and_its_default():
    class Config:
        """A config.

        Args:
            one, two (`int`, *optional*): a number (Fan et al. 2020) of
                things. It is said at length. Defaults to `three`.
            three (`"a"` or `"b"`): a letter.

        Raises:
            four (`int`): nothing.
        """

    of_two = "a number (Fan et al. 2020) of things. Defaults to three"
    assert field_descriptions(Config) == {"one": of_two, "two": of_two, "three": "a letter"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_bundled_recipes_are_valid(path):
    files = [f"--{split}_{side}=x" for split in ("train", "validation") for side in ("source", "target")]
    recipe_text = path.read_text(encoding="utf-8")
    loaded = load_recipe(path, [] if "dataset:" in recipe_text else files)
    assert loaded.training.output_dir == f"outputs/{path.stem}"


def test_preset_sets_the_model_and_is_overridden_by_model_keys(recipe):
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


def test_unknown_preset_is_an_error_that_lists_the_known_ones(recipe):
    assert "model.preset: There is no preset 'bsae'. Choose from: base, big" in errors_of(recipe(), ["--preset=bsae"])


DATASET_RECIPE = """
data:
  {dataset: some/books, dataset_config: de-en, train_split: "train[1%:]", source_language: de, target_language: en,
   max_length: 50, drop_copies: true, validation_share: 0.1, test_share: 0.2, split_seed: 7}
training: {output_dir: out}
"""
FILES = ["--train_source=a", "--train_target=b"]


def test_files_on_the_command_line_replace_the_dataset_and_leave_the_rest(recipe):
    data = load_recipe(recipe(DATASET_RECIPE), FILES).data
    assert (data.dataset, data.dataset_config, data.train_split) == (None, None, "train")
    assert (data.train_source, data.train_target) == ("a", "b")
    assert (data.source_language, data.target_language, data.max_length, data.drop_copies) == ("de", "en", 50, True)
    assert (data.validation_share, data.test_share, data.split_seed) == (0.1, 0.2, 7)


@pytest.mark.parametrize("options", [FILES, ["--dataset=other/talks"]])
def test_text_on_the_command_line_drops_the_name_and_license_of_the_file(recipe, options):
    named = recipe(DATASET_RECIPE.replace("split_seed: 7", "split_seed: 7, name: Books, license: MIT"))
    data = load_recipe(named, ["--max_length=30"]).data
    assert (data.name, data.license) == ("Books", "MIT")
    data = load_recipe(named, options).data
    assert (data.name, data.license) == (None, None)
    data = load_recipe(named, [*options, "--data.name=Mine"]).data
    assert (data.name, data.license) == ("Mine", None)


def test_files_of_a_split_replace_only_its_share(recipe):
    data = load_recipe(recipe(DATASET_RECIPE), [*FILES, "--validation=v.tsv"]).data
    assert (data.validation, data.validation_share, data.test_share) == ("v.tsv", None, 0.2)


def test_dataset_on_the_command_line_replaces_the_files_dataset_and_its_config(recipe):
    data = load_recipe(recipe(DATASET_RECIPE), ["--dataset=other/talks"]).data
    assert (data.dataset, data.dataset_config, data.train_split) == ("other/talks", None, "train[1%:]")
    files_recipe = "data: {train_source: a, train_target: b, validation: v.tsv}\ntraining: {output_dir: out}"
    data = load_recipe(recipe(files_recipe), ["--dataset=other/talks"]).data
    assert (data.train_source, data.train_target, data.validation, data.validation_split) == (
        None, None, None, "validation",
    )  # fmt: skip


def test_ways_to_choose_a_split_replace_each_other(recipe):
    path = recipe(DATASET_RECIPE)
    assert load_recipe(path).data.validation_split is None
    data = load_recipe(path, ["--validation_split=dev"]).data
    assert (data.validation_split, data.validation_share, data.test_split) == ("dev", None, None)
    files_recipe = recipe("data: {train: a.tsv, validation: v.tsv}\ntraining: {output_dir: out}")
    data = load_recipe(files_recipe, ["--validation_share=0.1"]).data
    assert (data.validation, data.validation_share) == (None, 0.1)


def test_max_length_and_max_length_coverage_replace_each_other(recipe):
    path = recipe(DATASET_RECIPE)
    data = load_recipe(path, ["--max_length_coverage=0.95"]).data
    assert (data.max_length, data.max_length_coverage) == (None, 0.95)
    covering = recipe(DATASET_RECIPE.replace("max_length: 50", "max_length_coverage: 0.9"))
    data = load_recipe(covering, ["--max_length=30"]).data
    assert (data.max_length, data.max_length_coverage) == (30, None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--max_steps=null"], ["nothing ends the run: set training.max_steps"]),
        (["--max_steps=null", "--lr_scheduler_type=linear", "--learning_rate=1"],
         ["missing: schedule 'linear' decays to 0"]),
        (["--lr_scheduler_type=cosine", "--learning_rate=1", "--num_train_epochs=3"],
         ["training.num_train_epochs=3 contradicts schedule 'cosine'"]),
        (["--num_train_epochs=0"], ["training.num_train_epochs must be at least 1, got 0"]),
        (["--validation_share=1.5", "--test_share=0"], [
            "data.validation_share must be above 0 and below 1, got 1.5",
            "data.test_share must be above 0 and below 1, got 0.0",
        ]),
        (["--validation_share=0.5", "--test_share=0.5"], ["data.test_share leave nothing to train on"]),
        (["--validation_share=0.1", "--validation_split=test"], ["also given by data.validation_split='test'"]),
        (["--test_share=0.1", "--dataset=null", "--train=a.tsv", "--validation=b.tsv", "--test=c.tsv"],
         ["data.test_share=0.1 holds out a test set, but one is also given by data.test='c.tsv': choose one"]),
        (["--validation_split=null"], ["data.validation_split is missing"]),
        (["--split_seed=-1"], ["data.split_seed must be in [0, 4294967296), got -1"]),
        (["--max_length=9", "--max_length_coverage=2"], ["at most 1, got 2.0", "set one of data.max_length"]),
        (["--max_length=null"], ["set one of data.max_length"]),
        (["--max_length_coverage=0.9", "--streaming"], ["max_length_coverage needs the lengths of all pairs"]),
        (
            ["--keep_languages=es,gn", "--start_from=nllb", "--streaming", "--max_length=40"],
            ["keep_languages=['es', 'gn'] needs the characters of all pairs"],
        ),
    ],
)  # fmt: skip
def test_mutually_exclusive_choices_are_errors(recipe, options, expected):
    lines = errors_of(recipe(), options).splitlines()
    assert len(lines) == len(expected)
    assert all(part in line for part, line in zip(expected, lines))


def test_epochs_alone_can_end_a_run(recipe):
    training = load_recipe(recipe(), ["--num_train_epochs=30", "--max_steps=null"]).training
    assert (training.num_train_epochs, training.max_steps) == (30, None)


def test_option_in_two_sections_is_an_error_that_names_both():
    with pytest.raises(InputError) as error:
        load_recipe(RECIPES[0], ["--license=mit"])
    assert "--license is in several sections; specify one: --data.license, --training.license" in str(error.value)


def test_missing_validation_text_is_an_error_that_suggests_holding_it_out(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("training: {output_dir: out}")
    with pytest.raises(InputError) as error:
        load_recipe(path, ["--train", "train.tsv"])
    assert all("or data.validation_share: 0.05, to hold out" in line for line in str(error.value).splitlines())
    with pytest.raises(InputError, match=r"data.validation_split is missing: .*, or data.validation_share: 0.05"):
        load_recipe(path, ["--dataset", "a/b", "--validation_split", "null"])
    assert load_recipe(path, ["--train", "train.tsv", "--validation_share", "0.05"]).data.validation_share == 0.05


@pytest.mark.parametrize("named", ["--start_from=model", "--tokenizer.path=model"])
def test_options_of_a_new_tokenizer_are_rejected_beside_an_existing_one(recipe, named):
    key = "training.start_from=model" if "start" in named else "tokenizer.path=model"
    message = f"--type, --vocab_size: the tokenizer of {key} is used as it is; remove these options"
    assert errors_of(recipe(), [named, "--vocab_size=90", "--tokenizer.type=bpe"]).splitlines() == [message]
    assert load_recipe(recipe(), [named, "--bpe_dropout=0.1"]).tokenizer_source == key
    in_the_file = recipe(RECIPE + "tokenizer: {vocab_size: 90}\n")
    assert load_recipe(in_the_file, [named]).tokenizer.vocab_size == 90
    assert load_recipe(in_the_file).tokenizer_source is None


def test_value_of_a_wrong_type_is_not_also_reported_as_missing(recipe):
    lines = errors_of(recipe(), ["--lr_scheduler_type=linear", "--learning_rate=fast"]).splitlines()
    assert lines == ["training.learning_rate must be a number or null, got 'fast'"]


def saved_tokenizer(folder: Path, vocabulary: dict[str, int]) -> str:
    """Saves a tokenizer of words."""
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    end = ("</s>", vocabulary["</s>"])
    words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[end])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    return str(folder)


def test_tokenizer_without_merges_cannot_drop_any(recipe, tmp_path):
    folder = saved_tokenizer(tmp_path / "words", {"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 3})
    loaded = load_recipe(recipe(), ["--tokenizer.path", folder, "--bpe_dropout", "0.1"])
    with pytest.raises(InputError, match=r"^tokenizer.bpe_dropout: BPE-dropout drops merges"):
        existing_tokenizer(loaded)


def test_tokenizer_with_gaps_in_its_ids_is_an_error(recipe, tmp_path):
    folder = saved_tokenizer(tmp_path / "words", {"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 9})
    loaded = load_recipe(recipe(), ["--tokenizer.path", folder])
    with pytest.raises(InputError, match="gaps in its ids"):
        make_model(loaded, existing_tokenizer(loaded))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="the system has no such file")
def test_recipe_that_cannot_be_read_is_one_clear_error():
    assert errors_of("/proc/self/mem") == "/proc/self/mem cannot be read: Input/output error. Choose another file."
