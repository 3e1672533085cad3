import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
import transformers
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    MarianMTModel,
    PreTrainedTokenizerFast,
    pipeline,
)

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTokenizer
from hf_vaswani.cli import main
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.errors import InputError
from hf_vaswani.interop import export_marian, sources
from hf_vaswani.interop.vocabulary import word_backend

from ..conftest import tiny_model
from ..core.test_modeling_vaswani import randomize
from .foreign import random_fsmt, random_marian
from .test_fairseq import SOURCE, TARGET, write_checkpoint, write_dictionary
from .test_opennmt import write_checkpoint as opennmt_checkpoint

SIDES = ("source", "target")
two_vocabularies = pytest.mark.skipif(
    transformers.__version__.startswith("5.17."), reason="transformers 5.17 has no search over a second vocabulary"
)

TEXT = ["der Hund sieht die Katze .", "eine Katze schläft ."]


@pytest.fixture(scope="module")
def opus(tmp_path_factory):
    """A folder like that of an OPUS-MT model: weights, two SentencePiece models and their joint vocabulary."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("opus")
    (folder / "text").write_text("\n".join(TEXT * 30), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "pieces"), vocab_size=24, minloglevel=2
    )
    (folder / "pieces.model").rename(folder / "source.spm")
    shutil.copy(folder / "source.spm", folder / "target.spm")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    pieces = sorted(processor.id_to_piece(number) for number in range(3, processor.get_piece_size()))
    vocabulary = {token: number for number, token in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "de", "target_lang": "en"}))
    size = len(vocabulary)
    marian = random_marian(
        0,
        vocab_size=size,
        decoder_vocab_size=size,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
    )
    marian.generation_config.max_length = 20
    marian.save_pretrained(folder)
    return folder


def test_imported_opus_folder_translates_as_marian_does(opus, tmp_path):
    assert main(["import", str(opus), str(tmp_path / "imported")]) == 0
    marian, tokenizer = MarianMTModel.from_pretrained(opus), AutoTokenizer.from_pretrained(opus)
    inputs = tokenizer(TEXT, return_tensors="pt", padding=True)
    expected = tokenizer.batch_decode(marian.generate(**inputs, num_beams=4), skip_special_tokens=True)
    translator = pipeline("translation", model=str(tmp_path / "imported"), batch_size=2, num_beams=4)
    assert [output["translation_text"] for output in translator(TEXT)] == expected
    assert any(expected)


@pytest.mark.slow
def test_reexported_opus_model_converts_with_ctranslate2s_own_converter(opus, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    assert main(["import", str(opus), str(tmp_path / "imported")]) == 0
    assert main(["export", str(tmp_path / "imported"), str(tmp_path / "marian")]) == 0
    ctranslate2.converters.TransformersConverter(str(tmp_path / "marian")).convert(str(tmp_path / "ct2"))
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    marian, tokenizer = MarianMTModel.from_pretrained(opus), AutoTokenizer.from_pretrained(opus)
    marian.generation_config.forced_eos_token_id = None  # which the engine does not support
    for text in TEXT:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        # The converter removes padding from the vocabulary, so that it cannot be generated.
        expected = marian.generate(ids, num_beams=1, max_new_tokens=10, bad_words_ids=[[tokenizer.pad_token_id]])
        [result] = translator.translate_batch(
            [tokenizer.convert_ids_to_tokens(ids[0])], beam_size=1, max_decoding_length=10, return_end_token=True
        )
        assert result.hypotheses[0] == tokenizer.convert_ids_to_tokens(expected[0, 1:])


def test_import_without_a_tokenizer_says_so(tmp_path, capsys):
    random_marian(0).save_pretrained(tmp_path / "marian")
    assert main(["import", str(tmp_path / "marian"), str(tmp_path / "imported")]) == 0
    assert "has no tokenizer, or does not name the languages" in capsys.readouterr().err
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "imported").config.model_type == "vaswani"


@pytest.mark.parametrize("subwords", ["none", "codes"])
def test_imported_fairseq_folder_keeps_its_tokenizer(tmp_path, subwords):
    path, *_ = write_checkpoint(tmp_path, {})
    dictionaries = tmp_path / "data"
    dictionaries.mkdir()
    write_dictionary(dictionaries, "de", ["Hund", "Hu@@", "n@@", "d", "."], SOURCE)
    write_dictionary(dictionaries, "en", ["d@@", "og", "."], TARGET)
    if subwords == "codes":
        pytest.importorskip("sacremoses")
        (dictionaries / "bpecodes").write_text("H u\nn d</w>\nHu nd</w>\no g</w>\n", encoding="utf-8")
    command = ["import", str(path), str(tmp_path / "imported"), "--vocabularies", str(dictionaries)]
    assert main(command) == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "imported")
    assert tokenizer("Hund .").input_ids == [4, 8, 2]
    assert tokenizer.decode([2, 4, 5, 6, 2], skip_special_tokens=True).replace(" ", "") == "dog."
    translator = pipeline("translation", model=str(tmp_path / "imported"), max_new_tokens=5)
    assert "translation_text" in translator("Hund .")[0]


@pytest.mark.slow
def test_exported_folder_loads_as_a_marian_model(saved_model, tmp_path):
    assert main(["export", str(saved_model), str(tmp_path / "marian")]) == 0
    marian = MarianMTModel.from_pretrained(tmp_path / "marian").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "marian")
    inputs = tokenizer(["w1 w2 w3"], return_tensors="pt")
    decoder_input_ids = torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        expected = tiny_model()(**inputs, decoder_input_ids=decoder_input_ids).logits
        logits = marian(**inputs, decoder_input_ids=decoder_input_ids).logits
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_nonempty_output_folder_is_left_unchanged(tmp_path, capsys):
    random_marian(0).save_pretrained(tmp_path / "marian")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert main(["import", str(tmp_path / "marian"), str(tmp_path / "out")]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_output_below_a_file_is_rejected_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["import", "/absent/source", str(tmp_path / "file" / "out")]) == 2
    assert "out cannot be created in" in capsys.readouterr().err
    assert main(["corpus", str(tmp_path / "file" / "out")]) == 2
    assert (tmp_path / "file").read_text() == "mine"
    assert main(["corpus", "/"]) == 2


def test_failed_import_leaves_no_folder(tmp_path, capsys):
    path, *_ = write_checkpoint(tmp_path, {"layernorm_embedding": True})
    before = sorted(tmp_path.iterdir())
    assert main(["import", str(path), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert sorted(tmp_path.iterdir()) == before


def test_full_disk_leaves_no_folder(tmp_path, monkeypatch):
    random_marian(0).save_pretrained(tmp_path / "marian")

    def full(self, folder, *args, **kwargs):
        (folder / "config.json").write_text("{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sources.VaswaniForConditionalGeneration, "save_pretrained", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match="out cannot be written: No space left on device"):
        sources.import_checkpoint(tmp_path / "marian", tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_vocabulary_that_does_not_match_leaves_no_folder(opus, tmp_path, capsys):
    broken = shutil.copytree(opus, tmp_path / "broken")
    vocabulary = json.loads((broken / "vocab.json").read_text())
    vocabulary["too-many"] = len(vocabulary)
    (broken / "vocab.json").write_text(json.dumps(vocabulary))
    assert main(["import", str(broken), str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert f"ids up to {len(vocabulary) - 1}, but the weights have {len(vocabulary) - 1} embeddings" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("output", ["file/out", "nul\0", "file"])
def test_unwritable_output_is_reported_as_one_clear_error(tmp_path, capsys, output):
    random_marian(0).save_pretrained(tmp_path / "marian")
    (tmp_path / "file").write_text("no folder")
    assert main(["import", str(tmp_path / "marian"), str(tmp_path / output)]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert (tmp_path / "file").read_text() == "no folder"


def test_output_may_be_a_link_to_an_empty_folder(tmp_path):
    random_marian(0).save_pretrained(tmp_path / "marian")
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert main(["import", str(tmp_path / "marian"), str(tmp_path / "link")]) == 0
    assert (tmp_path / "disk" / "model.safetensors").exists()
    assert (tmp_path / "link").is_symlink()


def test_vocabulary_of_another_model_is_rejected(opus, tmp_path, capsys):
    broken = shutil.copytree(opus, tmp_path / "broken")
    vocabulary = json.loads((broken / "vocab.json").read_text())
    pieces = [token for token in vocabulary if token != "<pad>"][:-3]
    (broken / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate([*pieces, "<pad>"])}))
    assert main(["import", str(broken), str(tmp_path / "out")]) == 2
    assert f"pad_token_id is {len(pieces)} in the vocabulary and {len(vocabulary) - 1}" in capsys.readouterr().err


@pytest.fixture
def separate(tmp_path):
    """A folder with a model with two vocabularies and its tokenizer."""
    model = tiny_model(share_encoder_decoder_embeddings=False, decoder_vocab_size=30)
    source, target = ["<pad>", "<s>", "</s>", "<unk>"], ["<pad>", "<s>", "</s>", "<unk>"]
    source += [f"s{i}" for i in range(36)]
    target += [f"t{i}" for i in range(26)]
    tokenizer = VaswaniTokenizer.from_backends(
        *(word_backend(tokens, "<unk>", "</s>") for tokens in (source, target)),
        split_special_tokens=True,
        **SPECIAL_TOKENS,
    )
    randomize(model)
    model.save_pretrained(tmp_path / "separate")
    tokenizer.save_pretrained(tmp_path / "separate")
    return tmp_path / "separate"


@pytest.mark.slow
@two_vocabularies
def test_exported_vocabularies_are_two_plain_tokenizers(separate, tmp_path, capsys):
    assert main(["export", str(separate), str(tmp_path / "marian")]) == 0
    assert "source_tokenizer and target_tokenizer" in capsys.readouterr().out
    assert not (tmp_path / "marian" / "tokenizer.json").exists()
    sides = [PreTrainedTokenizerFast.from_pretrained(tmp_path / "marian" / f"{side}_tokenizer") for side in SIDES]
    assert sides[0]("s3 s5").input_ids == [7, 9, 2]
    assert sides[1].decode([7, 9, 2], skip_special_tokens=True) == "t3 t5"


@pytest.mark.slow
@two_vocabularies
def test_exported_model_with_two_vocabularies_translates_and_reimports(separate, tmp_path, write_lines):
    folders = [separate, tmp_path / "marian", tmp_path / "imported"]
    texts = ["s3 s5 s6 s1", "s9", "<unk> s30"]
    assert main(["export", str(folders[0]), str(folders[1])]) == 0
    assert main(["import", str(folders[1]), str(folders[2])]) == 0
    translations = []
    for folder in folders:
        output = tmp_path / f"{folder.name}.txt"
        options = ["--input", write_lines("in", texts), "--num_beams", "3", "--max_new_tokens", "8"]
        assert main(["translate", str(folder), *options, "--output", str(output)]) == 0
        translations.append(output.read_text().splitlines())
        results = pipeline("translation", model=str(folder))(texts, num_beams=3, max_new_tokens=8)
        assert [result["translation_text"] for result in results] == translations[-1]
    assert translations[0] == translations[1] == translations[2]
    assert len(set(translations[0])) == 3
    tokenizers = [AutoTokenizer.from_pretrained(folder) for folder in folders]
    for tokenizer in tokenizers[1:]:
        assert tokenizer.special_tokens_map == tokenizers[0].special_tokens_map
        assert tokenizer.split_special_tokens
        for side in SIDES:
            assert tokenizer.backends[side].to_str() == tokenizers[0].backends[side].to_str()
    marian = MarianMTModel.from_pretrained(folders[1]).state_dict()
    again = export_marian(VaswaniForConditionalGeneration.from_pretrained(folders[2])).state_dict()
    assert marian.keys() == again.keys()
    assert all(torch.equal(marian[name], again[name]) for name in marian)


@pytest.mark.slow
@two_vocabularies
def test_exported_vocabularies_are_not_mistaken_for_a_joint_one_without_this_package(separate, tmp_path):
    assert main(["export", str(separate), str(tmp_path / "marian")]) == 0
    script = (
        "import sys; from transformers import AutoTokenizer\n"
        "load = lambda **kwargs: AutoTokenizer.from_pretrained(sys.argv[1], **kwargs)\n"
        "tokenizer = load(trust_remote_code=True)\n"
        "assert 'hf_vaswani' not in sys.modules\n"
        "print(tokenizer('s3 s5').input_ids, tokenizer.decode([7, 9, 2], skip_special_tokens=True))\n"
        "try:\n    load(trust_remote_code=False)\n"
        "except Exception as error:\n    print(type(error).__name__)"
    )
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "PYTHONPATH": ""}
    command = [sys.executable, "-c", script, str(tmp_path / "marian")]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)
    assert finished.returncode == 0, finished.stderr
    found, failed = finished.stdout.splitlines()
    assert found == "[7, 9, 2] t3 t5"
    assert failed.endswith("Error")


def test_tokenizers_end_token_may_be_one_of_several(opus, tmp_path):
    folder = shutil.copytree(opus, tmp_path / "marian")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": [0, 5]}))
    assert main(["import", str(folder), str(tmp_path / "imported")]) == 0


def test_import_says_how_text_is_split(tmp_path, capsys):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "de", ["Hund"], SOURCE)
    write_dictionary(tmp_path, "en", ["dog"], TARGET)
    assert main(["import", str(path), str(tmp_path / "imported")]) == 0
    assert "separated by spaces, since" in capsys.readouterr().out


def test_empty_texts_have_empty_translations(tmp_path):
    path, _ = opennmt_checkpoint(tmp_path)
    main(["import", str(path), str(tmp_path / "imported")])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "imported")
    assert tokenizer.decode([], skip_special_tokens=True) == ""
    assert tokenizer.decode([tokenizer.pad_token_id], skip_special_tokens=True) == ""
    translator = pipeline("translation", model=str(tmp_path / "imported"), batch_size=3)
    assert translator("") == [{"translation_text": ""}]
    texts = [output["translation_text"] for output in translator(["", "t9 s3", ""], num_beams=2)]
    assert texts[0] == texts[2] == ""
    assert texts[1] == translator("t9 s3", num_beams=2)[0]["translation_text"]
    (tmp_path / "in.txt").write_text("s1 s2\n\ns3\n")
    assert main(["translate", str(tmp_path / "imported"), "--input", str(tmp_path / "in.txt")]) == 0


def test_translating_with_an_imported_folder_reports_its_missing_tokenizer(tmp_path, capsys):
    random_marian(0).save_pretrained(tmp_path / "marian")
    main(["import", str(tmp_path / "marian"), str(tmp_path / "imported")])
    (tmp_path / "in.txt").write_text("text\n")
    assert main(["translate", str(tmp_path / "imported"), "--input", str(tmp_path / "in.txt")]) == 2
    assert "imported has no tokenizer" in capsys.readouterr().err


def test_imported_model_knows_the_languages_of_its_source(opus, tmp_path):
    write_checkpoint(tmp_path, {})
    fsmt = tmp_path / "fsmt"
    random_fsmt(0, langs=["ru", "en"]).save_pretrained(fsmt)
    for source, languages in (
        (opus, ("de", "en")),
        (tmp_path / "checkpoint_best.pt", ("de", "en")),
        (fsmt, ("ru", "en")),
    ):
        output = tmp_path / f"imported_{source.name}"
        assert main(["import", str(source), str(output)]) == 0
        config = VaswaniConfig.from_pretrained(output)
        assert (config.source_language, config.target_language) == languages
