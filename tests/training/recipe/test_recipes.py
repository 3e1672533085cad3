"""The bundled recipes: their settings, and that each runs to the end."""

import json

import pytest
from huggingface_hub import ModelCard
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTokenizer
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.data.tokenizers.tokenizer import side_backends
from hf_vaswani.errors import InputError
from hf_vaswani.presets import TABLE_3
from hf_vaswani.training.recipe.bundled_recipes import bundled_recipes
from hf_vaswani.training.recipe.recipe import Recipe, load_recipe
from hf_vaswani.training.train import train

from ..helpers import source_errors_of, splits_of

RECIPES = bundled_recipes()

# What is known of each system, by recipe. What a system does not state is not listed.
BASE = {
    "encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "position_type": "sinusoidal",
}  # fmt: skip
POST, PRE = {"norm_position": "post"}, {"norm_position": "pre"}
UNTIED = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
ONE_MATRIX = {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True}
DROPOUT_EVERYWHERE = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
DROPOUT_ON_OUTPUTS = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
BIG = {"d_model": 1024, "encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 4096,
       "decoder_ffn_dim": 4096}  # fmt: skip
CONSTANT = {
    "lr_scheduler_type": "constant",
    "learning_rate": 1e-4,
    "warmup_steps": 0,
    "adam_epsilon": 1e-9,
    "average_last": 1,
}
NOAM = {"lr_scheduler_type": "paper", "learning_rate": 1.0, "warmup_steps": 4000}
ADAM_OF_TORCH = {"adam_beta1": 0.9, "adam_beta2": 0.999}
ADAM_OF_PAPER = {"adam_beta1": 0.9, "adam_beta2": 0.98}
PAPER_TRAINING = {**NOAM, **ADAM_OF_PAPER, "adam_epsilon": 1e-9, "max_tokens": 6250, "gradient_accumulation_steps": 4}
ONE_FIGURE = {"tokenize": "13a", "greedy": False, "attention": 1, "attention_layers": "mean"}
PAPER_SEARCH = {"num_beams": 4, "length_penalty": 0.6, "length_penalty_type": "gnmt", "max_length_offset": 50}
WMT = {"dataset": "wmt/wmt14", "source_language": "en", "train_split": "train", "validation_split": "validation"}
BYTE_PAIRS = {"type": "bpe", "joint": True, "vocab_size": 37_000}
WORD_PIECES = {"type": "wordpiece", "joint": True, "vocab_size": 32_000}


def paper(
    direction: tuple[str, str], model: dict, tokenizer: dict, updates: int, checkpoints: int, every: int
) -> dict:
    config, target = direction
    return {
        "data": {**WMT, "dataset_config": config, "target_language": target, "test_split": "test"},
        "tokenizer": tokenizer,
        "model": {**BASE, **POST, **ONE_MATRIX, **DROPOUT_ON_OUTPUTS, "label_smoothing": 0.1, **model},
        "training": {**PAPER_TRAINING, "max_steps": updates, "average_last": checkpoints, "save_steps": every},
        "generation": PAPER_SEARCH,
        "evaluation": ONE_FIGURE,
    }


GERMAN, FRENCH = ("de-en", "de"), ("fr-en", "fr")
KNOWN_SETTINGS = {
    "system_a_opus_books_de_en": {
        "data": {"dataset": "Helsinki-NLP/opus_books", "dataset_config": "de-en", "source_language": "de",
                 "target_language": "en", "validation_share": 0.05, "test_share": 0.05, "max_length": 500},
        "tokenizer": {"type": "word", "pre_tokenizer": "punctuation", "joint": False, "min_frequency": 2,
                      "special_tokens": {"unk": "[UNK]", "pad": "[PAD]", "bos": "[SOS]", "eos": "[EOS]"}},
        "model": {**BASE, **PRE, **UNTIED, **DROPOUT_EVERYWHERE, "label_smoothing": 0.1},
        "training": {**CONSTANT, **ADAM_OF_TORCH, "mixed_precision": "no", "max_sentences": 8,
                     "num_train_epochs": 30, "max_steps": None},
        "generation": {"num_beams": 1},
        "evaluation": ONE_FIGURE,
    },
    "system_b_ted_pt_en": {
        "data": {"dataset": "neulab/ted_hrlr", "dataset_config": "pt_to_en", "source_language": "pt",
                 "dataset_revision": "refs/convert/parquet", "target_language": "en", "max_length": 40},
        "tokenizer": {"joint": False, "vocab_size": 2**13, "target_vocab_size": None},
        "model": {**BASE, "encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "encoder_ffn_dim": 512,
                  "decoder_ffn_dim": 512, **POST, **UNTIED, **DROPOUT_ON_OUTPUTS, "label_smoothing": 0.0},
        "training": {**NOAM, **ADAM_OF_TORCH, "mixed_precision": "no", "max_sentences": 64,
                     "average_last": 1},
        "generation": {"num_beams": 1},
        "evaluation": {"attention_layers": "all"},
    },
    "system_c_ar_en": {
        "data": {"dataset": "Helsinki-NLP/opus-100", "dataset_config": "ar-en", "source_language": "ar",
                 "target_language": "en", "max_length": 80},
        "tokenizer": {"joint": False, "vocab_size": 32_000, "target_vocab_size": 26_000},
        "model": {**BASE, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 4,
                  "decoder_attention_heads": 4, "position_type": "learned", "max_position_embeddings": 80, **PRE,
                  **UNTIED, **DROPOUT_EVERYWHERE, "label_smoothing": 0.1},
        "training": {**CONSTANT, **ADAM_OF_TORCH, "mixed_precision": "fp16"},
        "generation": {"num_beams": 4},
        "evaluation": {"greedy": True},
    },
    "system_d_iwslt_en_fr": {
        "data": {"dataset": "ahazeemi/iwslt14-en-fr", "source_language": "en", "target_language": "fr",
                 "max_length": None, "max_length_coverage": 0.95},
        "tokenizer": {"type": "word", "pre_tokenizer": "rules", "joint": False, "vocab_size": 56_000,
                      "target_vocab_size": 73_000,
                      "special_tokens": {"unk": "<unk>", "pad": "<pad>", "bos": "<bos>", "eos": "<eos>"}},
        "model": {**BASE, **POST, **UNTIED, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.1,
                  "label_smoothing": 0.0},
        "training": {**NOAM, **ADAM_OF_TORCH, "mixed_precision": "no", "average_last": 1},
        "generation": {"num_beams": 1},
    },
    # Wu et al. 2021; an epoch has 54 steps.
    "multi30k_tiny": {
        "data": {"source_language": "en", "target_language": "de"},
        "tokenizer": {"type": "bpe", "joint": True, "vocab_size": 10_000},
        "model": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "encoder_attention_heads": 4,
                  "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, **POST, **ONE_MATRIX,
                  **DROPOUT_ON_OUTPUTS, "dropout": 0.3, "label_smoothing": 0.1, "qkv_init_gain": 0.70710678},
        "training": {"lr_scheduler_type": "inverse_sqrt", "learning_rate": 0.005, "warmup_steps": 2000,
                     "max_steps": 8000,
                     **ADAM_OF_PAPER, "adam_epsilon": 1e-8,
                     "max_tokens": 2048, "gradient_accumulation_steps": 4, "eval_steps": 54,
                     "early_stopping_patience": 10, "save_steps": 54,
                     "average_last": 10},
        "generation": {"num_beams": 5, "length_penalty": 1.0, "length_penalty_type": "length"},
    },
    "paper_base_en_de": paper(GERMAN, {}, BYTE_PAIRS, 100_000, 5, 1500),
    "paper_big_en_de": paper(GERMAN, {**BIG, "dropout": 0.3}, BYTE_PAIRS, 300_000, 20, 600),
    "paper_base_en_fr": paper(FRENCH, {}, WORD_PIECES, 100_000, 5, 1500),
    # Section 6.1: dropout 0.1 instead of 0.3.
    "paper_big_en_fr": paper(FRENCH, {**BIG, "dropout": 0.1}, WORD_PIECES, 300_000, 20, 600),
    "paper_table3": {
        **paper(GERMAN, {}, BYTE_PAIRS, 100_000, 1, 1500),
        # Its figures are those of newstest2013, without averaging (section 6.2).
        "data": {**WMT, "dataset_config": "de-en", "target_language": "de", "test_split": "validation"},
    },
}  # fmt: skip


def settings_of(recipe: Recipe) -> dict[str, dict]:
    """A recipe's sections; the model section includes the fields left at their defaults."""
    return {**recipe.to_dict(), "model": VaswaniConfig(**recipe.model).to_dict()}


@pytest.mark.parametrize("name", KNOWN_SETTINGS)
def test_recipe_has_the_known_settings_of_its_system(name):
    settings, expected = settings_of(load_recipe(RECIPES[name])), KNOWN_SETTINGS[name]
    assert {section: {key: settings[section][key] for key in keys} for section, keys in expected.items()} == expected
    if name == "system_d_iwslt_en_fr":
        assert settings["training"]["weight_decay"] > 0


@pytest.mark.parametrize("name, most", [("multi30k_muon", 3_000_000), ("student", 1_000_000)])
def test_model_of_a_recipe_is_as_small_as_stated(name, most):
    recipe = load_recipe(RECIPES[name])
    model = VaswaniForConditionalGeneration(VaswaniConfig(**recipe.model, vocab_size=recipe.tokenizer.vocab_size))
    assert model.num_parameters() <= most


def test_model_of_multi30k_muon_is_that_of_multi30k_tiny():
    muon, tiny = (load_recipe(RECIPES[name]) for name in ("multi30k_muon", "multi30k_tiny"))
    assert settings_of(muon)["model"] == settings_of(tiny)["model"]
    assert settings_of(muon)["generation"] == settings_of(tiny)["generation"]
    assert settings_of(muon)["tokenizer"] == settings_of(tiny)["tokenizer"]
    for key in ("adam_epsilon", "learning_rate", "average_last"):
        assert getattr(muon.training, key) == getattr(tiny.training, key)
    assert muon.training.max_tokens * muon.training.gradient_accumulation_steps == 8192


def test_each_row_of_table_3_is_one_option():
    path = RECIPES["paper_table3"]
    listed = [line.strip("# (ABCDE)\n").split()[0] for line in path.open() if " table3_" in line and "--" not in line]
    assert listed == list(TABLE_3) == list(ROWS_OF_TABLE_3)
    base = settings_of(load_recipe(path))["model"]
    for row, changes in ROWS_OF_TABLE_3.items():
        model = settings_of(load_recipe(path, ["--preset", row]))["model"]
        assert {name: value for name, value in model.items() if value != base.get(name)} == changes


def in_both_stacks(name: str, value: int) -> dict[str, int]:
    return {f"encoder_{name}": value, f"decoder_{name}": value}


# What each row of Table 3 changes, without the numbers that follow from it, such as d_k = d_model / heads.
ROWS_OF_TABLE_3 = {
    "table3_a_1_head": in_both_stacks("attention_heads", 1),
    "table3_a_4_heads": in_both_stacks("attention_heads", 4),
    "table3_a_16_heads": in_both_stacks("attention_heads", 16),
    "table3_a_32_heads": in_both_stacks("attention_heads", 32),
    "table3_b_dk_16": {"d_k": 16},
    "table3_b_dk_32": {"d_k": 32},
    "table3_c_2_layers": in_both_stacks("layers", 2),
    "table3_c_4_layers": in_both_stacks("layers", 4),
    "table3_c_8_layers": in_both_stacks("layers", 8),
    "table3_c_dmodel_256": {"d_model": 256},
    "table3_c_dmodel_1024": {"d_model": 1024},
    "table3_c_dff_1024": in_both_stacks("ffn_dim", 1024),
    "table3_c_dff_4096": in_both_stacks("ffn_dim", 4096),
    "table3_d_dropout_0.0": {"dropout": 0.0},
    "table3_d_dropout_0.2": {"dropout": 0.2},
    "table3_d_smoothing_0.0": {"label_smoothing": 0.0},
    "table3_d_smoothing_0.2": {"label_smoothing": 0.2},
    "table3_e_learned": {"position_type": "learned"},
}


# Options with which each recipe trains in seconds.
CUT = [
    "--d_model=16", "--encoder_layers=1", "--decoder_layers=1", "--encoder_ffn_dim=16", "--decoder_ffn_dim=16",
    "--vocab_size=300", "--max_steps=3", "--max_tokens=300", "--eval_steps=3", "--eval_sentences=2",
    "--save_steps=2", "--cpu_threads=1", "--max_length_offset=2",
]  # fmt: skip
# Settings of the model that these options must not change.
KEPT_SETTINGS = {
    "norm_position", "position_type", "max_position_embeddings", "share_encoder_decoder_embeddings",
    "tie_word_embeddings", "output_bias", "dropout", "attention_dropout", "activation_dropout", "label_smoothing",
    "encoder_attention_heads", "decoder_attention_heads",
}  # fmt: skip
SIZES = {"train": 120, "validation": 6, "test": 4}
MODELS = {"bpe": "BPE", "wordpiece": "WordPiece", "word": "WordLevel"}


@pytest.fixture(scope="module")
def sentences():
    """Some pairs of the built-in corpus, by split."""
    corpus = {split: TextSource(dataset="built-in", split=split) for split in ("train", "validation", "test")}
    pairs = {split: iterate_pairs(source, ("de", "en")) for split, source in corpus.items()}
    return {split: [next(pairs[split]) for _ in range(size)] for split, size in SIZES.items()}


@pytest.fixture
def files(sentences, tmp_path):
    """Options for files whose columns are named after a recipe's languages."""

    def write(recipe: Recipe) -> list[str]:
        header = (recipe.data.source_language, recipe.data.target_language)
        options = []
        for split, pairs in sentences.items():
            if split == "train" or not getattr(recipe.data, f"{split}_share"):
                path = tmp_path / f"{split}.tsv"
                path.write_text("".join(f"{source}\t{target}\n" for source, target in [header, *pairs]))
                options.append(f"--{split}={path}")
        return options

    return write


# The figures of the others are blank.
DRAWN = {"quickstart"}
FAST = {"quickstart", "student", "system_b_ted_pt_en"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.draws_figures] * (name in DRAWN) + [pytest.mark.slow] * (name not in FAST)
        )
        for name in RECIPES
    ],
)
def test_recipe_runs_to_the_end(name, files, tmp_path):
    if "dataset:" in RECIPES[name].read_text():
        full = load_recipe(RECIPES[name])
    else:
        full = load_recipe(RECIPES[name], ["--train=x.tsv", "--validation=x.tsv"])
    options = [*CUT, *files(full), f"--output_dir={tmp_path / 'out'}"]
    if full.tokenizer.target_vocab_size:
        options.append("--target_vocab_size=280")
    if full.training.lr_scheduler_type == "linear":
        options.append("--warmup_steps=1")
    recipe = load_recipe(RECIPES[name], options)
    results = train(recipe)
    folder = tmp_path / "out"

    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    settings = settings_of(full)["model"]
    assert {key: getattr(model.config, key) for key in settings.keys() & KEPT_SETTINGS} == {
        key: settings[key] for key in settings.keys() & KEPT_SETTINGS
    }
    assert ("model.encoder.layer_norm.weight" in model.state_dict()) == (settings["norm_position"] == "pre")
    assert model.generation_config.num_beams == full.generation.num_beams

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(tokenizer, VaswaniTokenizer) and tokenizer.is_joint == full.tokenizer.joint
    for backend in side_backends(tokenizer).values():
        assert type(backend.model).__name__ == MODELS[full.tokenizer.type]
    names = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"} | full.tokenizer.special_tokens
    assert {role: getattr(tokenizer, f"{role}_token") for role in names} == names

    stored = json.loads((folder / "results.json").read_text())
    assert stored["steps"] == results.steps == 3
    assert stored["test_bleu"] >= 0 and stored["validation_loss"] > 0
    held_out = splits_of(recipe.data.model_copy(update={"text": None})).test
    assert len((folder / "test_translations.txt").read_text().splitlines()) == len(held_out) > 0
    assert ("greedy_bleu" in stored["tests"]["test"]) == full.evaluation.greedy
    card = ModelCard.load(folder / "README.md")
    [bleu] = [result for result in card.data.eval_results if result.metric_type == "bleu"]
    assert bleu.metric_value == pytest.approx(stored["test_bleu"], abs=0.01)
    assert stored["test_bleu_signature"] in card.text
    curves, *attentions = stored["figures"]
    assert curves == "pictures/curves.png" and f"]({curves})" in card.text
    # Encoder self-attention, decoder self-attention and cross-attention of one layer.
    assert len(attentions) == 3 * full.evaluation.attention
    assert all(("_layer_0" in picture) == (full.evaluation.attention_layers == "all") for picture in attentions)
    assert all((folder / picture).is_file() for picture in stored["figures"])


# Bad input


def error_of(function, *arguments) -> list[str]:
    with pytest.raises(InputError) as error:
        function(*arguments)
    return str(error.value).splitlines()


def test_unknown_keys_and_wrong_types_of_a_recipe_are_reported_together(tmp_path):
    path = tmp_path / "recipe.yaml"
    text = RECIPES["system_a_opus_books_de_en"].read_text()
    path.write_text(
        text.replace("num_train_epochs: 30", "num_train_epoch: 30").replace("max_sentences: 8", "max_sentences: few")
    )
    lines = error_of(load_recipe, path, ["--special_tokens=[UNK]", "--test_share=half"])
    assert len(lines) == 5
    for line, error in zip(
        lines,
        (
            "unknown key 'training.num_train_epoch'; did you mean 'num_train_epochs'?",
            "data.test_share must be a number or null, got 'half'",
            "tokenizer.special_tokens must be keys with values, got ['UNK']",
            "training.max_sentences must be a whole number or null, got 'few'",
            "nothing ends the run",
        ),
    ):
        assert error in line


def test_dataset_without_the_recipes_columns_is_one_clear_error(tmp_path):
    from datasets import Dataset

    folder = tmp_path / "set"
    folder.mkdir()
    Dataset.from_dict({"german": ["ein Hund"], "english": ["a dog"]}).to_parquet(folder / "train.parquet")
    name = "system_a_opus_books_de_en"
    [error] = source_errors_of(load_recipe(RECIPES[name], [f"--dataset={folder}"]).data)
    assert "no columns 'de' and 'en' or 'source' and 'target'. Available: 'german', 'english'" in error
    assert "source_column and target_column" in error
    [error] = source_errors_of(load_recipe(RECIPES["system_b_ted_pt_en"], [f"--dataset={folder}"]).data)
    assert "no columns 'pt' and 'en'" in error
    out = tmp_path / "out"
    assert (
        "no columns 'de' and 'en'"
        in error_of(
            train, load_recipe(RECIPES[name], [f"--dataset={folder}", f"--output_dir={out}", "--cpu_threads=1"])
        )[0]
    )
    assert not out.exists()


@pytest.mark.parametrize("name", ["system_a_opus_books_de_en", "system_d_iwslt_en_fr"])
def test_local_copy_of_the_dataset_is_read_like_the_one_on_the_hub(name, tmp_path):
    recipe = load_recipe(RECIPES[name])
    sides = recipe.data.source_language, recipe.data.target_language
    for split in ("train", "validation", "test"):
        rows = [{"translation": dict(zip(sides, (f"{split} {i}", f"t{i}")))} for i in range(40)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = splits_of(load_recipe(RECIPES[name], [f"--dataset={tmp_path}"]).data)
    if recipe.data.test_share:
        assert sorted([*texts.train, *texts.validation, *texts.test]) == sorted(
            (f"train {i}", f"t{i}") for i in range(40)
        )
    else:
        assert texts.test[0] == ("test 0", "t0") and texts.validation[0] == ("validation 0", "t0")
