"""Marian models for several target languages, which read the one to use at the beginning of the text: `>>fra<<`."""

import pytest
from transformers import MarianConfig, MarianMTModel, MarianTokenizer, pipeline

from hf_vaswani.cli import main
from hf_vaswani.translator.batch_translator import BatchTranslator
from hf_vaswani.translator.pairs import score_pairs

from ..families import _sentencepiece, _vocabulary_file

MARKS = [">>fra<<", ">>ita<<"]
SIZES = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    pieces = _sentencepiece(folder)
    vocabulary = _vocabulary_file(folder, ["</s>", "<unk>", *MARKS], ["<pad>"])
    tokenizer = MarianTokenizer(pieces, pieces, vocabulary, source_lang="en", target_lang="ROMANCE")
    pad = tokenizer.pad_token_id
    config = MarianConfig(
        vocab_size=len(tokenizer), pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, **SIZES
    )
    model = MarianMTModel(config)
    model.generation_config.max_length = 12
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return folder / "model"


@pytest.fixture(params=["Marian", "imported"])
def model(folder, request):
    if request.param == "Marian":
        return str(folder)
    imported = folder.parent / "imported"
    assert imported.exists() or main(["import", str(folder), str(imported)]) == 0
    return str(imported)


def first_ids(translator, texts, **options):
    return [row["input_ids"][0] for row in translator.translator(**options).encoder.rows(texts)]


def test_given_target_language_is_put_before_each_text(model):
    translator = pipeline("translation", model)
    marks = translator.tokenizer.convert_tokens_to_ids(MARKS)
    assert first_ids(translator, ["die katze", ">>fra<< die katze"], tgt_lang="ita") == [marks[1], marks[0]]
    assert first_ids(pipeline("translation_en_to_fra", model), ["die katze"]) == marks[:1]
    assert translator("die katze", tgt_lang="ita") == translator(">>ita<< die katze")


def test_each_sentence_of_a_marked_text_has_the_mark(model):
    translator = pipeline("translation", model)
    [result] = translator.translator(split_sentences=True, return_tensors=True).translate(
        [">>ita<< die katze.\ndie katze."]
    )
    [expected] = translator.translator(return_tensors=True).translate([">>ita<< die katze."])
    assert result[0]["translation_token_ids"].tolist() == 2 * expected[0]["translation_token_ids"].tolist()


def test_unknown_or_missing_target_language_is_reported_with_those_that_are_known(model, caplog, monkeypatch):
    translator = pipeline("translation", model)
    with pytest.raises(ValueError, match="tgt_lang='de' is unknown: this model translates into fra, ita"):
        translator("die katze", tgt_lang="de")
    warnings = []
    monkeypatch.setattr("hf_vaswani.translator.translator.logger.warning_once", warnings.append)
    translator([">>fra<< die katze", ""])
    assert warnings == []
    translator([">>fra<< die katze", "die katze"])
    assert "translates into several languages: fra, ita. Choose one with tgt_lang" in warnings[0]


def test_batches_commands_and_scores_read_the_language_too(model, write_lines, capsys):
    (marked,) = BatchTranslator(model)({"text": [">>ita<< die katze"]})["translation"]
    assert BatchTranslator(model, tgt_lang="ita")({"text": ["die katze"]})["translation"] == [marked]
    source = write_lines("source", ["die katze"])
    assert main(["translate", model, "--input", source, "--target_language", "ita"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{marked}\n" and "several languages" not in captured.err
    assert main(["translate", model, "--input", source, "--target_language", "de"]) == 2
    assert "--target_language='de' is unknown: this model translates into fra, ita" in capsys.readouterr().err
    assert main(["translate", model, "--input", source]) == 0
    assert "several languages: fra, ita. Choose one with --target_language" in capsys.readouterr().err
    translator = pipeline("translation", model)
    parts = translator.model, translator.tokenizer
    [given] = score_pairs(*parts, [("die katze", "katze")], tgt_lang="ita")
    assert [given] == list(score_pairs(*parts, [(">>ita<< die katze", "katze")]))
