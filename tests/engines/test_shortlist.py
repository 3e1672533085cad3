"""A shortlist of target tokens: learned, written next to a model, exported to CTranslate2, and used there."""

import pytest
from transformers import AutoModelForSeq2SeqLM, pipeline

from hf_vaswani.cli import main
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.engines.shortlist import learn_shortlist
from hf_vaswani.errors import InputError
from hf_vaswani.hub.push import files_to_push

from ..conftest import tiny_config, tiny_model

pytest.importorskip("ctranslate2")

TEXTS = ["w1 w2 w3", "w5 w6", "w9", "w4 w10 w11 w12"]
# In any sentence, these; next to w1, w20; next to w5, w21 and w22.
SHORTLIST = "\t<pad> <s> </s> <unk> w2\nw1\tw20\nw5\tw21 w22\n"


def parsed(shortlist):
    return {key: tokens.split(" ") for key, tokens in (line.split("\t") for line in shortlist.splitlines())}


def tokens_of(translations):
    return {word for each in translations for word in each["translation_text"].split()}


@pytest.fixture
def exported(tokenizer, tmp_path):
    """The folder of a tiny model that was exported with `SHORTLIST`."""
    export_model(tiny_model(), tokenizer, tmp_path / "ct2", shortlist=SHORTLIST)
    return tmp_path / "ct2"


def test_a_shortlist_has_special_and_frequent_tokens_best_translations_and_copies(tokenizer):
    pairs = [("w1 w2", "w11 w12"), ("w1", "w11"), ("w2 w3", "w12 w13"), ("w3 w1", "w13 w11")]
    learned = parsed(learn_shortlist(pairs, tokenizer, tiny_config(), frequent=1, translations=1))
    assert learned[""] == ["<pad>", "<s>", "</s>", "<unk>", "w11"]  # w11 three times, more often than others
    assert learned["w2"] == ["w2", "w12"]
    assert learned["w3"] == ["w3", "w13"]
    assert learned["w1"] == ["w1"]  # w11 is always allowed
    assert learned["w9"] == ["w9"]  # which was not in the text


def test_translations_have_only_tokens_of_the_shortlist(exported):
    translator = pipeline("translation", model=str(exported), max_new_tokens=8, num_beams=3)
    assert tokens_of(translator(["w1 w3", "w1"])) <= {"w2", "w20"}
    assert tokens_of(translator(["w5"])) <= {"w2", "w21", "w22"}
    translator.model.uses_shortlist = False
    assert not tokens_of(translator(["w1 w3", "w1", "w5"])) <= {"w2", "w20", "w21", "w22"}


@pytest.mark.slow
def test_a_prefix_and_forbidden_tokens_are_followed_without_the_shortlist(exported, tokenizer, tmp_path):
    export_model(tiny_model(), tokenizer, tmp_path / "whole")
    short, whole = (pipeline("translation", model=str(f), max_new_tokens=6) for f in (exported, tmp_path / "whole"))
    for settings in ({"prefixes": ["w7 w8"] * 4}, {"bad_words_ids": [[9], [10, 11]]}):
        assert short(TEXTS, **settings) == whole(TEXTS, **settings)


def test_export_learns_a_shortlist_and_reports_what_it_changes(saved_model, tmp_path, write_lines, capsys):
    source, target = write_lines("source", TEXTS), write_lines("target", ["w11 w12", "w15", "w19", "w14"])
    options = ["--to", "ctranslate2", "--shortlist", source, target]
    assert (
        main(["export", str(saved_model), str(tmp_path / "ct2"), *options, "--source", source, "--reference", target])
        == 0
    )
    folder = tmp_path / "ct2"
    assert "w11" in parsed((folder / "vmap.txt").read_text())[""]
    assert AutoModelForSeq2SeqLM.from_pretrained(folder).uses_shortlist
    assert "Without its shortlist of target tokens, it has BLEU" in capsys.readouterr().out
    assert "Without its shortlist of target tokens, it has BLEU" in (folder / "README.md").read_text()
    assert "vmap.txt" in list(files_to_push(folder))


@pytest.mark.slow
def test_export_takes_the_shortlist_of_the_model(saved_model, tmp_path):
    (saved_model / "vmap.txt").write_text(SHORTLIST)
    for to in ("ctranslate2", "onnx"):
        assert main(["export", str(saved_model), str(tmp_path / to), "--to", to]) == 0
    assert (tmp_path / "ctranslate2" / "vmap.txt").read_text() == SHORTLIST
    assert not (tmp_path / "onnx" / "vmap.txt").exists()


def test_errors_of_the_options_are_reported_together(saved_model, tmp_path, write_lines, capsys):
    files = [write_lines("source", TEXTS), write_lines("target", TEXTS[1:])]
    assert main(["export", str(saved_model), str(tmp_path / "out"), "--to", "onnx", "--shortlist", *files]) == 2
    error = capsys.readouterr().err
    assert "--shortlist is for --to ctranslate2." in error and "3 lines" in error and "4" in error
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_that_ctranslate2_cannot_shorten_is_an_error(tokenizer):
    tokenizer.add_tokens(["two words"])
    config = tiny_config(eos_token_id=2, decoder_start_token_id=5000, vocab_size=6000)
    with pytest.raises(InputError) as error:
        learn_shortlist([("w1", "w2")], tokenizer, config)
    assert "'two words'" in str(error.value) and "token 5,000" in str(error.value)
