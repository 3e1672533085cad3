"""Languages of multilingual models on the command line: their effect, and missing or unknown ones."""

import json

import pytest

from hf_vaswani.cli import main
from hf_vaswani.evaluation.attention import sentence_attention
from hf_vaswani.translator.pairs import score_pairs

from ..conftest import tiny_model
from ..families import family

TEXTS = ["ein hund läuft", "die katze schläft"]
GERMAN, ENGLISH = ["--source_language", "deu_Latn"], ["--target_language", "eng_Latn"]


@pytest.fixture
def nllb(tmp_path):
    """The folder, the model, and the tokenizer."""
    folder = tmp_path / "nllb"
    folder.mkdir()
    model, tokenizer = family("NLLB", tmp_path)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder), model, tokenizer


@pytest.fixture
def commands(nllb, write_lines, tmp_path):
    text = write_lines("text", TEXTS)
    return {
        "score": ["score", nllb[0], "--source", text, "--target", text],
        "evaluate": ["evaluate", nllb[0], "--source", text, "--reference", text, "--metrics", "chrf"],
        "attention": ["attention", nllb[0], "--text", TEXTS[0], "--output", str(tmp_path / "picture.png")],
    }


@pytest.mark.parametrize("name", ["score", "evaluate", "attention"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (GERMAN, "error: --target_language is missing. A multilingual model needs both"),
        ([*GERMAN, "--target_language", "xx"], "error: --target_language='xx' is not a language of this tokenizer"),
    ],
)
def test_missing_or_unknown_language_is_an_error(commands, name, given, message, capsys):
    capsys.readouterr()
    assert main([*commands[name], *given]) == 2
    out, error = capsys.readouterr()
    assert (out, error.startswith(message), error.count("\n")) == ("", True, 1)


def test_scores_are_computed_for_the_given_languages(commands, nllb, capsys):
    capsys.readouterr()
    assert main([*commands["score"], *GERMAN, *ENGLISH, "--format", "json"]) == 0
    scores = [json.loads(line)["log_probability"] for line in capsys.readouterr().out.splitlines()]
    expected = score_pairs(*nllb[1:], zip(TEXTS, TEXTS), src_lang="deu_Latn", tgt_lang="eng_Latn")
    assert scores == pytest.approx([score.log_probability for score in expected], abs=1e-4)


def test_multilingual_model_is_evaluated(commands, tmp_path, capsys):
    output = tmp_path / "translations"
    assert main([*commands["evaluate"], *GERMAN, *ENGLISH, "--output", str(output)]) == 0
    assert len(output.read_text().splitlines()) == 2
    assert "chrF2" in capsys.readouterr().out


def test_attention_is_computed_for_a_translation_into_the_given_language(commands, nllb, capsys):
    capsys.readouterr()
    assert main([*commands["attention"], *GERMAN, *ENGLISH, "--num_beams", "1"]) == 0
    _, model, tokenizer = nllb
    tokenizer.src_lang = "deu_Latn"
    forced = tokenizer.convert_tokens_to_ids("eng_Latn")
    expected = sentence_attention(model, tokenizer, TEXTS[0], num_beams=1, forced_bos_token_id=forced)
    assert expected.target_tokens[1] == "eng_Latn"
    assert f"target tokens  {' '.join(expected.target_words)}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["translate", "score", "evaluate", "attention"])
def test_language_outside_a_bilingual_models_pair_is_an_error(name, tokenizer, write_lines, tmp_path, capsys):
    folder = str(tmp_path / "model")
    tiny_model(source_language="de", target_language="en").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    text = write_lines("text", ["w1 w2"])
    options = {
        "translate": ["--input", text],
        "score": ["--source", text, "--target", text],
        "evaluate": ["--source", text, "--reference", text],
        "attention": ["--text", "w1", "--output", str(tmp_path / "picture.png")],
    }
    capsys.readouterr()
    assert main([name, folder, *options[name], "--source_language", "fr"]) == 2
    out, error = capsys.readouterr()
    message = "error: --source_language='fr': this model translates de to en. Use its own languages, or none.\n"
    assert (out, error) == ("", message)
