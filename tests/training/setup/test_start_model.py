"""A model of another class as a start: how its texts are encoded, which keys it supports, whether it fits."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_vaswani.data.encoding import plain_encoder
from hf_vaswani.errors import InputError
from hf_vaswani.generation.settings import GenerateArguments
from hf_vaswani.models import model_files
from hf_vaswani.training.recipe.recipe import Recipe
from hf_vaswani.training.setup import memory
from hf_vaswani.training.setup.inputs import open_model
from hf_vaswani.training.setup.start_model import load_start_model, set_direction
from hf_vaswani.training.setup.tokenizer_and_model import existing_tokenizer
from hf_vaswani.translator.encoder import translation_task

from ...families import LANGUAGES, family


@pytest.fixture
def opened(tmp_path):
    """A model's folder and tokenizer, and a recipe that starts from it."""

    def open_recipe(name, languages=(None, None), sections=None, **changes):
        for part in family(name, tmp_path, **changes):
            part.save_pretrained(tmp_path / "start")
        recipe = Recipe()
        recipe.training.start_from = str(tmp_path / "start")
        recipe.data.source_language, recipe.data.target_language = languages
        recipe.data.max_length, recipe.data.train = 40, "text.tsv"
        for section, keys in (sections or {}).items():
            for key, value in keys.items():
                setattr(getattr(recipe, section), key, value)
        return recipe

    return open_recipe


@pytest.mark.parametrize("name", LANGUAGES)
def test_pairs_are_encoded_with_the_recipes_languages(opened, name, tmp_path):
    recipe = opened(name, LANGUAGES[name])
    encode = plain_encoder(existing_tokenizer(recipe))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "start")
    tokenizer.src_lang, tokenizer.tgt_lang = LANGUAGES[name]
    expected = tokenizer(["ein hund"], text_target=["die katze"])
    assert encode(["ein hund"], ["die katze"]) == (expected["input_ids"], expected["labels"])
    recipe.data.reversed = True
    tokenizer.src_lang, tokenizer.tgt_lang = LANGUAGES[name][::-1]
    expected = tokenizer(["die katze"], text_target=["ein hund"])
    encode = plain_encoder(existing_tokenizer(recipe))
    assert encode(["die katze"], ["ein hund"]) == (expected["input_ids"], expected["labels"])


def test_saved_tokenizer_keeps_the_languages(opened, tmp_path):
    tokenizer = existing_tokenizer(opened("NLLB", LANGUAGES["NLLB"]))
    tokenizer.save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert (again.src_lang, again.tgt_lang) == LANGUAGES["NLLB"]


@pytest.mark.parametrize(
    ("name", "languages"), [("mBART", ("de", "en")), ("mBART-50", ("de", "en")), ("NLLB", ("deu", "eng"))]
)
def test_code_without_script_or_region_is_the_tokenizers_own_if_only_one_fits(opened, name, languages):
    tokenizer = existing_tokenizer(opened(name, languages))
    assert (tokenizer.src_lang, tokenizer.tgt_lang) == LANGUAGES[name]


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (("deu_Latn", "xx"), "data.target_language='xx' is not a language of this tokenizer.* knows 202.* such as"),
        (("deu_Latn", None), "data.target_language is missing"),
        (("zho", "deu_Latn"), "'zho' may be zho_Hans or zho_Hant: choose one"),
    ],
)
def test_unknown_missing_or_ambiguous_language_is_an_error(opened, languages, message):
    with pytest.raises(InputError, match=message):
        existing_tokenizer(opened("NLLB", languages))


TASKS = {
    "summarization": {"prefix": "summarize: "},
    "translation_en_to_de": {"prefix": "to German: "},
    "translation_en_to_fr": {"prefix": "to French: "},
}


def test_sources_begin_with_t5s_name_of_the_task(opened):
    recipe = opened("T5", ("en", "fr"), task_specific_params=TASKS)
    tokenizer = existing_tokenizer(recipe)
    [found], _ = plain_encoder(tokenizer)(["ein hund"], ["katze"])
    assert found == tokenizer("to French: ein hund")["input_ids"]


@pytest.mark.parametrize("languages", [("en", None), ("es", None), (None, None)])
def test_t5_whose_languages_leave_a_choice_of_tasks_is_an_error_that_names_them(opened, languages):
    with pytest.raises(InputError, match="this model translates en to de or en to fr. Choose one pair."):
        existing_tokenizer(opened("T5", languages, task_specific_params=TASKS))


def test_pair_without_a_task_of_t5_becomes_a_new_one_with_which_the_model_translates(opened, tmp_path):
    recipe = opened("T5", ("es", "gn"), task_specific_params=TASKS)
    tokenizer = existing_tokenizer(recipe)
    prefix = "translate es to gn: "
    [found], _ = plain_encoder(tokenizer)(["ein hund"], ["katze"])
    assert found == tokenizer(f"{prefix}ein hund")["input_ids"]
    load_start_model(recipe, tokenizer).save_pretrained(tmp_path / "tuned")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned")
    assert model.config.task_specific_params == {**TASKS, "translation_es_to_gn": {"prefix": prefix}}
    assert translation_task(model, src_lang="es", tgt_lang="gn") == ("translation_es_to_gn", {"prefix": prefix})


def test_search_of_the_recipe_replaces_that_of_t5s_task_and_its_other_settings_survive(opened):
    task = {"prefix": "to French: ", "num_beams": 4, "early_stopping": True, "length_penalty": 3.0, "max_length": 300}
    tasks = {"summarization": task, "translation_en_to_fr": task}
    recipe = opened("T5", ("en", "fr"), {"generation": {"num_beams": 2}}, task_specific_params=tasks)
    model = load_start_model(recipe, existing_tokenizer(recipe))
    arguments = GenerateArguments(model, {}, translation_task(model)[1])
    assert {name: arguments.get(name) for name in ("num_beams", "max_length")} == {"num_beams": 2, "max_length": 300}
    assert arguments.get("early_stopping") == recipe.generation.early_stopping
    assert model.config.task_specific_params["summarization"] == task


def test_sources_begin_with_marians_mark_of_the_target_language(opened, tmp_path):
    recipe = opened("Marian", ("de", "fr"))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "start")
    tokenizer.supported_language_codes = [">>es<<", ">>fr<<"]
    set_direction(tokenizer, str(tmp_path / "start"), recipe.data)
    [found], _ = plain_encoder(tokenizer)(["ein hund"], ["katze"])
    assert found == tokenizer(">>fr<< ein hund")["input_ids"]


def test_keys_that_need_a_model_of_this_package_are_named_in_one_error(opened):
    recipe = opened("Bart", sections={"training": {"guided_alignment": 0.1}, "evaluation": {"confidence": True}})
    recipe.model |= {"encoder_word_dropout": 0.1, "d_model": 32, "dropout": 0.3, "encoder_layers": 2}
    with pytest.raises(InputError) as error:
        load_start_model(recipe, existing_tokenizer(recipe))
    lines = str(error.value).splitlines()
    keys = [line.removeprefix("error: ").partition("=")[0] for line in lines]
    assert keys == [
        "training.guided_alignment",
        "evaluation.confidence",
        "model.encoder_word_dropout",
        "model.d_model",
    ]
    assert lines[2].endswith("which has no such field; remove it") and lines[3].endswith("which has 16; remove it")


@pytest.mark.parametrize(("name", "field"), [("T5", "dropout_rate"), ("NLLB", "dropout")])
def test_dropout_and_label_smoothing_of_the_recipe_replace_the_models_own(opened, name, field):
    recipe = opened(name, LANGUAGES.get(name, (None, None)))
    recipe.model |= {"dropout": 0.3, "label_smoothing": 0.2}
    model = load_start_model(recipe, existing_tokenizer(recipe))
    assert (getattr(model.config, field), model.config.label_smoothing) == (0.3, 0.2)
    assert 0.3 in {getattr(module, "p", getattr(module, "dropout", None)) for module in model.modules()}


def test_search_begins_as_targets_do_and_other_settings_survive(opened, tmp_path):
    for name, start, forced in (("NLLB", "</s>", "eng_Latn"), ("mBART", "en_XX", None)):
        recipe = opened(name, LANGUAGES[name])
        tokenizer = existing_tokenizer(recipe)
        model, _ = family(name, tmp_path)
        model.generation_config.max_length, model.generation_config.no_repeat_ngram_size = 33, 3
        model.save_pretrained(tmp_path / "start")
        found = load_start_model(recipe, tokenizer).generation_config
        names = [found.decoder_start_token_id, found.forced_bos_token_id]
        assert [token and tokenizer.convert_ids_to_tokens(token) for token in names] == [start, forced]
        assert (found.max_length, found.no_repeat_ngram_size, found.num_beams) == (33, 3, 4)


def test_what_does_not_fit_into_memory_is_said_before_it_starts(opened, monkeypatch):
    recipe = opened("NLLB", LANGUAGES["NLLB"])
    tokenizer = existing_tokenizer(recipe)
    model = load_start_model(recipe, tokenizer)
    size = model.num_parameters()
    recipe.training.max_tokens = 10
    # Gradients, two moments, and the logits with their gradient.
    need = 4 * (3 * size + 2 * 10 * 239)
    for free, is_enough in ((need, True), (need - 1, False)):
        monkeypatch.setattr(memory, "free_memory", lambda free=free: free)
        errors = memory.training_memory_errors(recipe, model, torch.device("cpu"), is_mixed=False)
        assert errors == [] if is_enough else "train an adapter (peft.r: 8)" in errors[0]
    monkeypatch.setattr(model_files, "free_memory", lambda: 4 * size - 1)
    with pytest.raises(InputError, match=f"the model has {size:,} parameters and needs 0 GB for its weights"):
        open_model(recipe, tokenizer)


@pytest.mark.parametrize(("name", "like"), [("NLLB", "spa_Latn"), ("mBART", "es_XX")])
def test_added_language_begins_as_its_relative_and_changes_nothing_else(opened, name, like, tmp_path):
    known = LANGUAGES[name][0]
    recipe = opened(name, (known, "gn"), {"training": {"add_language": "gn", "like": like}})
    tokenizer = existing_tokenizer(recipe)
    model = load_start_model(recipe, tokenizer)
    before, size = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "start").eval(), len(tokenizer) - 1
    texts = tokenizer(["ein hund", "katze"], text_target=["die katze", "haus"], return_tensors="pt", padding=True)
    new, old = tokenizer.convert_tokens_to_ids(["gn", like])
    assert new == size and new in texts["labels"]
    found = model(input_ids=texts["input_ids"], labels=texts["labels"]).logits
    assert torch.equal(found[..., new], found[..., old])
    # In another language, all is as it was, the new token apart.
    tokenizer.tgt_lang = like
    other = tokenizer(text_target=["die katze", "haus"], return_tensors="pt", padding=True)["input_ids"]
    after = model(input_ids=texts["input_ids"], labels=other).logits[..., :size]
    torch.testing.assert_close(after, before(input_ids=texts["input_ids"], labels=other).logits[..., :size])


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("NLLB", ("spa_Latn", "eng_Latn"), "add_language='spa_Latn': .* has this language already"),
        ("mBART", ("es", "de_DE"), "add_language='es': .* has this language already"),
        ("NLLB", ("a", "spa_Latn"), "add_language='a': in the vocabulary of .*, this is an ordinary token"),
        ("NLLB", ("gn", "spa_Latn"), "add_language='gn' is not a language of the text"),
        ("NLLB", ("xx", "yy"), "training.like='yy' is not a language of this tokenizer"),
        ("M2M100", ("xx", "es"), "the languages of a M2M100Tokenizer cannot be changed"),
        ("mBART-50", ("xx", "es_XX"), "the languages of a MBart50Tokenizer cannot be changed"),
        ("T5", ("xx", "es"), "the T5Tokenizer of .* has no tokens of languages"),
    ],
)
def test_language_that_cannot_be_added_is_an_error(opened, name, keys, message):
    languages = (LANGUAGES.get(name, (None,))[0], keys[0] if keys[0] == "xx" else None)
    recipe = opened(name, languages, {"training": dict(zip(("add_language", "like"), keys))})
    with pytest.raises(InputError, match=message):
        existing_tokenizer(recipe)
