"""The translation stage: which text it translates, which translations become pairs, and which models suit it."""

import gzip
import json
import random
from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU, CHRF
from transformers import GenerationConfig, pipeline

from hf_vaswani.errors import InputError, TrainingError
from hf_vaswani.training.recipe.arguments import DataArguments
from hf_vaswani.training.stages.arguments import TranslateArguments
from hf_vaswani.training.stages.teacher import languages_for, open_teacher, teacher_errors
from hf_vaswani.training.stages.translate_text import (
    TRANSLATIONS_FILE,
    greatest_length,
    make_pairs,
    texts_of,
    texts_with_translations,
    write_pairs,
)
from hf_vaswani.translation.mbr import translate_mbr
from hf_vaswani.translation.resumable_output import ResumableOutput

from ...conftest import tiny_config, tiny_model
from ...families import family

LINES = [" ".join(random.Random(i).choices([f"w{j}" for j in range(36)], k=4)) for i in range(12)]


@pytest.fixture
def data(write_lines):
    targets = [line.upper() for line in LINES]
    return DataArguments(train_source=write_lines("a.de", LINES), train_target=write_lines("a.en", targets),
                         source_language="de", target_language="en")  # fmt: skip


@pytest.fixture
def sampled(tmp_path):
    """The path of pairs that a stage has made."""
    path = tmp_path / "pairs.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for source, target in (("a", "x"), ("b", "x"), ("b", "y"), ("a", "y")):
            file.write(json.dumps({"source": source, "target": target, "score": -1.0}) + "\n")
    return path


def pairs_of(folder) -> list[dict]:
    with gzip.open(folder / "pairs.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_pairs_are_the_models_translations_of_the_requested_side(data, saved_model, tmp_path):
    translator = pipeline("translation", model=str(saved_model))
    for side, texts in (("source", LINES), ("target", [line.upper() for line in LINES])):
        arguments = TranslateArguments(model=str(saved_model), side=side, num_beams=3, n_best=2, max_new_tokens=60)
        folder = tmp_path / side
        make_pairs(folder, arguments, data)
        expected = set()
        for text, found in zip(texts, translator(texts, num_beams=3, n_best=2, max_new_tokens=60)):
            expected |= {(text, hypothesis["translation_text"]) for hypothesis in found}
        made = {(pair["source"], pair["target"]) for pair in pairs_of(folder)}
        made = made if side == "source" else {(text, translation) for translation, text in made}
        assert made and made <= expected


def test_input_files_are_translated_instead_of_the_training_text(data, saved_model, tmp_path, write_lines):
    texts = [write_lines("b.de", ["w1 w2", "", "w3"]), write_lines("c.de", ["w4 w5"])]
    arguments = TranslateArguments(model=str(saved_model), input=texts, sample=1.0, max_new_tokens=300)
    assert make_pairs(tmp_path / "made", arguments, data).lines == 3
    assert {pair["source"] for pair in pairs_of(tmp_path / "made")} <= {"w1 w2", "w3", "w4 w5"}


def test_own_text_pairs_of_a_stage_and_files_are_translated_in_the_given_order(data, sampled, write_lines):
    arguments = TranslateArguments(model="m", input=["own", str(sampled), write_lines("b.de", ["c"])])
    assert list(texts_of(arguments, data)) == [*LINES, "a", "b", "a", "c"]
    arguments = TranslateArguments(model="m", input=str(sampled), side="target")
    assert list(texts_of(arguments, data)) == ["x", "y"]


def test_unfinished_translation_with_different_settings_restarts_only_with_overwrite(
    data, saved_model, tmp_path, write_lines
):
    arguments = TranslateArguments(model=str(saved_model), max_new_tokens=60)
    make_pairs(tmp_path / "whole", arguments, data)
    made = tmp_path / "made"
    made.mkdir()
    output = ResumableOutput(made / TRANSLATIONS_FILE)
    output.begin({"model": "another"}, iter([]))
    output.close()
    with pytest.raises(InputError, match="was begun with other settings: model was 'another'.*--overwrite"):
        make_pairs(made, arguments, data)
    make_pairs(made, arguments, data, overwrite=True)
    assert (made / "pairs.jsonl.gz").read_bytes() == (tmp_path / "whole" / "pairs.jsonl.gz").read_bytes()


def test_messages_name_no_option_of_a_different_command(data, saved_model, tmp_path, write_lines, capsys):
    arguments = TranslateArguments(model=str(saved_model), input=write_lines("a.de", ["", "w1 " * 5000, *LINES]))
    make_pairs(tmp_path / "made", arguments, data)
    shown = capsys.readouterr().out
    assert "line 1, not counting blank" in shown and "--split_sentences" not in shown


def test_slice_of_a_split_is_translated(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(json.dumps({"de": f"d{i}", "en": f"e{i}"}) + "\n" for i in range(10)))
    data = DataArguments(dataset=str(folder), train_split="train[8:]", source_language="de", target_language="en")
    assert list(texts_of(TranslateArguments(model="m"), data)) == ["d8", "d9"]
    assert list(texts_of(TranslateArguments(model="m", side="target"), data)) == ["e8", "e9"]


def test_multilingual_teacher_tokenizes_targets_in_the_target_language(data, tmp_path):
    model, tokenizer = family("M2M100", tmp_path)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    arguments = TranslateArguments(model=str(tmp_path / "model"), src_lang="de", tgt_lang="en")
    ids = open_teacher(arguments, data).tokenizer(text_target="hund")["input_ids"]
    assert ids[0] == tokenizer.get_lang_id("en")


def test_greatest_length_is_the_limit_of_generation_wherever_it_is_set(tmp_path):
    def greatest(name, settings=None, **options):
        model, tokenizer = family(name, tmp_path)
        model.config.task_specific_params = settings
        model.generation_config = GenerationConfig(decoder_start_token_id=model.config.decoder_start_token_id)
        translator = pipeline("translation_de_to_en", model=model, tokenizer=tokenizer)
        return greatest_length(translator.engine(**options), "hund haus"), len(tokenizer("hund haus")["input_ids"])

    assert greatest("T5")[0] == 256
    assert greatest("T5", max_new_tokens=7)[0] == 7
    # The decoder start token is one of the 300.
    assert greatest("T5", {"translation_de_to_en": {"max_length": 300}})[0] == 299
    found, source = greatest("Vaswani")
    assert found == source + 50


@pytest.mark.parametrize("settings", [{}, {"max_new_tokens": 40}, {"max_length": 40}])
def test_greatest_length_is_within_the_positions(tokenizer, settings):
    model = tiny_model(position_type="learned", max_position_embeddings=10)
    engine = pipeline("translation", model=model, tokenizer=tokenizer).engine(**settings)
    assert greatest_length(engine, "w1 w2") == 9


def test_minimum_bayes_risk_chooses_the_candidates_of_highest_utility(data, saved_model, tmp_path):
    import zlib

    import torch

    arguments = TranslateArguments(model=str(saved_model), mbr="chrf", samples=4, seed=3, max_new_tokens=30)
    make_pairs(tmp_path / "made", arguments, data)
    torch.manual_seed(3 + zlib.crc32("\n".join(LINES).encode()))
    translator = pipeline("translation", model=str(saved_model))
    best = {text: ranking[0].text for text, ranking in
            zip(LINES, translate_mbr(translator, LINES, 4, "chrf", max_new_tokens=30))}  # fmt: skip
    made = pairs_of(tmp_path / "made")
    assert made and all(best[pair["source"]] == pair["target"] for pair in made)


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_translation_closest_to_the_texts_own_is_kept(data, saved_model, tmp_path, write_lines, metric):
    # Own translations that the model's are near to: its fourth best, with a word added.
    search = {"model": str(saved_model), "num_beams": 4, "n_best": 4, "max_new_tokens": 60}
    make_pairs(tmp_path / "all", TranslateArguments(**search), data)
    found: dict[str, list[str]] = {}
    for pair in pairs_of(tmp_path / "all"):
        found.setdefault(pair["source"], []).append(pair["target"])
    own = [f"{found[line][-1]} w7" if line in found else "w7" for line in LINES]
    data = data.model_copy(update={"train_target": write_lines("own.en", own)})
    counts = make_pairs(tmp_path / "closest", TranslateArguments(**search, keep_closest=metric), data)
    score = {"bleu": BLEU(effective_order=True), "chrf": CHRF()}[metric].sentence_score
    made = {pair["source"]: pair["target"] for pair in pairs_of(tmp_path / "closest")}
    assert made == {
        line: max(found[line], key=lambda text: score(text, [reference]).score)
        for line, reference in zip(LINES, own)
        if line in found
    }
    assert counts.pairs == len(found) and counts.farther == sum(len(texts) - 1 for texts in found.values()) > 0
    assert made != {line: texts[0] for line, texts in found.items()}


def test_texts_of_a_stage_have_all_translations_of_the_pairs_that_follow_each_other(data, sampled):
    arguments = TranslateArguments(model="m", input=[str(sampled), "own"])
    own = [(line, [line.upper()]) for line in LINES]
    assert list(texts_with_translations(arguments, data)) == [("a", ["x"]), ("b", ["x", "y"]), ("a", ["y"]), *own]
    arguments = TranslateArguments(model="m", input=str(sampled), side="target")
    assert list(texts_with_translations(arguments, data)) == [("x", ["a", "b"]), ("y", ["b", "a"])]


def test_keeping_the_closest_of_one_translation_is_an_error():
    errors = TranslateArguments(model="m", keep_closest="bleu").violations()
    assert errors == ["translate.keep_closest has nothing to choose from: raise translate.n_best"]


def test_useless_translations_are_left_out_and_counted(tmp_path):
    path, output = tmp_path / TRANSLATIONS_FILE, tmp_path / "pairs.jsonl.gz"
    records = [
        {"text": "a", "translations": [["A", -0.1, False], ["A", -0.2, False], ["", -0.3, False], ["B", -0.4, False]]},
        {"text": "b", "translations": [["C", -0.5, True], ["D", -2.0, False]]},
        {"text": "c", "translations": [["E", -1.0, False]]},
        {"text": "d", "translations": None},
    ]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))

    def kept(**filters) -> tuple[list[str], int]:
        counts = write_pairs(path, output, TranslateArguments(model="x", **filters))
        assert (counts.lines, counts.failed, counts.translations) == (4, 1, 7)
        assert (counts.repeated, counts.empty, counts.cut) == (1, 1, 1)
        assert counts.low + counts.pairs == 4 and counts.pairs == len(pairs_of(tmp_path))
        return [pair["target"] for pair in pairs_of(tmp_path)], counts.low

    assert kept() == (["A", "B", "D", "E"], 0)
    assert kept(min_score=-1.0) == (["A", "B", "E"], 1)
    assert kept(keep_share=0.5) == (["A", "B"], 2)
    assert kept(keep_share=0.75, min_score=-0.5) == (["A", "B"], 2)
    before = output.read_bytes()
    kept(keep_share=0.75, min_score=-0.5)
    assert output.read_bytes() == before


def test_no_remaining_pairs_is_an_error_that_says_why(data, saved_model, tmp_path):
    arguments = TranslateArguments(model=str(saved_model), max_new_tokens=1)
    with pytest.raises(
        TrainingError, match=r"no pairs are left of 12 lines \(0 pairs of 12 lines; left out: .* cut off"
    ):
        make_pairs(tmp_path / "made", arguments, data)


def test_model_of_the_wrong_languages_is_rejected_before_its_weights_are_read(data, tokenizer, tmp_path):
    folder = tmp_path / "fr_en"
    tiny_model(source_language="fr", target_language="en").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    arguments = TranslateArguments(model=str(folder))
    [error] = teacher_errors(arguments, data, arguments.models)
    assert error == (
        f"translate.model: {folder}: src_lang='de' and tgt_lang='en': this model translates fr to en. "
        "translate.side=source needs a model from de to en."
    )
    (folder / "model.safetensors").unlink()
    [error] = teacher_errors(TranslateArguments(model=str(folder)), DataArguments(), [str(folder)])
    assert "model.safetensors" in error


def test_ensemble_with_different_tokenizers_is_rejected_before_weights_are_read(data, saved_model, tmp_path):
    folder = tmp_path / "other"
    model, tokenizer = family("Vaswani", tmp_path)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    names = [str(saved_model), str(folder)]
    [error] = teacher_errors(TranslateArguments(model=names), data, names)
    assert error.startswith(f"translate.model: {folder} has a different tokenizer from {saved_model}, ")
    assert teacher_errors(TranslateArguments(model=names[:1] * 2), data, names[:1] * 2) == []


def test_model_of_the_reverse_direction_translates_only_the_target_side(tokenizer):
    config, data = tiny_config(source_language="en", target_language="de"), DataArguments(
        source_language="de", target_language="en")  # fmt: skip
    assert languages_for(config, GenerationConfig(), tokenizer, TranslateArguments(side="target"), data) == ({}, "")
    with pytest.raises(InputError, match="this model translates en to de"):
        languages_for(config, GenerationConfig(), tokenizer, TranslateArguments(side="source"), data)


def test_multilingual_model_requires_explicit_languages():
    multilingual = SimpleNamespace(
        _build_translation_inputs=None, lang_code_to_id={"deu_Latn": 1, "eng_Latn": 2}, get_added_vocab=dict
    )

    def languages(tokenizer=multilingual, **given):
        config = SimpleNamespace(task_specific_params=None, model_type="marian")
        return languages_for(config, GenerationConfig(), tokenizer, TranslateArguments(**given), DataArguments())

    with pytest.raises(InputError, match="src_lang is missing and tgt_lang is missing"):
        languages()
    with pytest.raises(InputError, match="tgt_lang='eng' is not a language of this tokenizer"):
        languages(src_lang="deu_Latn", tgt_lang="eng")
    assert languages(src_lang="deu_Latn", tgt_lang="eng_Latn") == (
        {"src_lang": "deu_Latn", "tgt_lang": "eng_Latn"}, ""
    )  # fmt: skip
    groups = SimpleNamespace(supported_language_codes=[">>fra<<", ">>ita<<"], source_lang="ROMANCE")
    with pytest.raises(InputError, match="translate.tgt_lang is missing: this model translates into several"):
        languages(groups)
    assert languages(groups, tgt_lang="ita") == ({}, ">>ita<< ")


def test_languages_given_to_a_multilingual_model_must_be_those_of_the_recipe():
    m2m = SimpleNamespace(
        _build_translation_inputs=None, lang_code_to_id={"de": 1, "en": 2, "fr": 3}, get_added_vocab=dict
    )
    groups = SimpleNamespace(supported_language_codes=[">>fr<<", ">>en<<", ">>eng<<"], source_lang="de")
    config, data = SimpleNamespace(task_specific_params=None, model_type="m2m_100"), DataArguments(
        source_language="de", target_language="en")  # fmt: skip

    def languages(tokenizer, **given):
        return languages_for(config, GenerationConfig(), tokenizer, TranslateArguments(**given), data)

    assert languages(m2m, src_lang="de", tgt_lang="en")[0] == {"src_lang": "de", "tgt_lang": "en"}
    assert languages(m2m, side="target", src_lang="en", tgt_lang="de")[0] == {"src_lang": "en", "tgt_lang": "de"}
    with pytest.raises(InputError) as error:
        languages(m2m, src_lang="en", tgt_lang="de")
    assert [line.partition(":")[0] for line in str(error.value).splitlines()] == [
        "translate.src_lang=en", "translate.tgt_lang=de"
    ]  # fmt: skip
    with pytest.raises(InputError, match="translate.tgt_lang=>>fr<<: .* the recipe's languages require en"):
        languages(groups, tgt_lang=">>fr<<")
    # Codes of other lengths, which may name a group of languages, are not compared.
    assert [languages(groups, tgt_lang=code)[1] for code in ("en", "eng")] == [">>en<< ", ">>eng<< "]
    with pytest.raises(InputError, match="this model translates de to any language"):
        languages(groups, side="target", tgt_lang="eng")


def test_number_of_candidates_without_minimum_bayes_risk_is_an_error():
    [error] = TranslateArguments(model="m", sample=0.8, samples=64).violations()
    assert error == "translate.samples=64: no effect without translate.mbr; remove it"
    assert TranslateArguments(model="m", mbr="bleu", samples=64).violations() == []
