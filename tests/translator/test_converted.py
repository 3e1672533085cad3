"""Commands open a converted model in place of the model, where that gives the same translations."""

import copy
import json
import multiprocessing
import os
import pickle

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, pipeline

from hf_vaswani.cli import main
from hf_vaswani.translator import translator_settings
from hf_vaswani.translator.backends import selection
from hf_vaswani.translator.batch_translator import BatchTranslator
from hf_vaswani.translator.lines import Line

pytest.importorskip("ctranslate2")

LINES = ["w1 w2 w3", "", "w4", "w5 w6 w7 w8 w9"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(selection, "WORTH_CONVERTING", 1)
    monkeypatch.setattr(selection, "WORTH_OPENING", 1)
    return tmp_path / "cache" / "ctranslate2"


@pytest.fixture(autouse=True)
def exact_search(saved_model):
    """The end of the search that is the same in both engines."""
    settings = GenerationConfig.from_pretrained(saved_model)
    settings.update(early_stopping=True, num_beams=3)
    settings.save_pretrained(saved_model)


@pytest.fixture
def translated(saved_model, write_lines, tmp_path):
    """Translates with options of the command, and returns the output."""
    source = write_lines("source", LINES)

    def translate(*options: str) -> str:
        output = tmp_path / "output"
        command = ["translate", str(saved_model), "--input", source, "--output", str(output), "--overwrite"]
        assert main([*command, "--max_new_tokens", "8", "--num_beams", "3", *options]) == 0
        return output.read_text()

    return translate


@pytest.fixture
def loads(monkeypatch) -> list:
    """The models whose weights were loaded for PyTorch."""
    names, load = [], translator_settings.load_ensemble
    monkeypatch.setattr(translator_settings, "load_ensemble", lambda *args: names.append(args[0]) or load(*args))
    return names


@pytest.mark.parametrize("options", [(), ("--quantize", "int8")], ids=["float32", "int8"])
def test_second_command_does_not_load_the_weights_for_pytorch(translated, loads, cache, options):
    first = translated(*options)
    assert len(loads) == 1 and len(list(cache.iterdir())) == 1
    assert translated(*options) == first and len(loads) == 1
    if not options:
        assert translated("--engine", "torch") == first and len(loads) == 2


def test_new_weights_in_the_folder_are_converted_again(translated, saved_model, loads):
    before = translated()
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model)
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.flip(0))
    model.save_pretrained(saved_model)
    after = translated()
    assert after != before and len(loads) == 2
    assert translated("--engine", "torch") == after


@pytest.mark.parametrize("content", ["", "{", "key", '"key"', '{"files": 1}', "swapped"])
def test_note_that_is_damaged_or_another_models_is_not_used(
    translated, saved_model, loads, cache, backward, write_lines, tmp_path, content
):
    before = translated()
    [note] = (cache.parent / "weights").iterdir()
    if content == "swapped":
        known = note.read_text()
        backward.save_pretrained(saved_model)
        other = translated()
        [second] = {*note.parent.iterdir()} - {note}
        note.write_text(second.read_text())
        second.write_text(known)
        assert other != before and translated() == other
    else:
        note.write_text(content)
        assert translated() == before
    assert translated("--engine", "torch") == (other if content == "swapped" else before)


def test_conversions_in_each_others_place_are_made_again(translated, saved_model, cache, backward):
    before = translated()
    backward.save_pretrained(saved_model)
    after = translated()
    assert after != before
    one, other = cache.iterdir()
    one.rename(cache / "aside")
    other.rename(one)
    (cache / "aside").rename(other)
    assert [translated(), translated()] == [after] * 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("pattern", ["weights/*", "ctranslate2/*", "ctranslate2/*/model.bin"])
def test_note_and_conversion_of_another_user_are_not_used(translated, cache, loads, pattern):
    before = translated()
    [path] = cache.parent.glob(pattern)
    os.chown(path, 12345, -1)
    assert translated() == before and len(loads) == 2
    assert path.stat().st_uid == 0 and translated() == before and len(loads) == 2


def test_options_that_need_the_model_load_it(translated, loads):
    translated()
    translated("--format", "jsonl", "--alignments")
    translated("--keep", "number")
    assert len(loads) == 3


@pytest.mark.parametrize("setting", [{"encoder_repetition_penalty": 1.5}, {"no_repeat_ngram_size": 2}])
def test_settings_of_the_model_that_the_engine_lacks_load_it(translated, loads, saved_model, setting):
    """Also if the conversion is in the cache, from a call with other settings."""
    settings = GenerationConfig.from_pretrained(saved_model)
    settings.update(**setting)
    settings.save_pretrained(saved_model)
    expected = translated("--engine", "torch")
    assert [translated(), translated()] == [expected] * 2 and len(loads) == 3


def test_option_that_the_engine_lacks_is_refused_where_it_was_asked_for(saved_model, write_lines, capsys):
    command = ["translate", str(saved_model), "--input", write_lines("source", LINES), "--engine", "ctranslate2"]
    assert main([*command, "--sample", "1"]) == 2
    assert "CTranslate2 cannot compute this: its samples would not follow the seed." in capsys.readouterr().err


def test_batches_are_translated_with_the_same_engine(saved_model, loads):
    options = {"num_beams": 3, "max_new_tokens": 8}
    expected = BatchTranslator(saved_model, engine="torch", **options)({"text": LINES})["translation"]
    for _ in range(2):
        assert BatchTranslator(saved_model, **options)({"text": LINES})["translation"] == expected
    assert len(loads) == 2


def test_all_ways_to_translate_share_one_conversion(translated, saved_model, loads, cache, write_lines, capsys):
    files = ["--source", write_lines("texts", LINES), "--reference", write_lines("references", LINES)]
    assert main(["evaluate", str(saved_model), *files, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["systems"][0]["engine"] == "ctranslate2"
    [converted] = cache.iterdir()
    made = converted.stat().st_ctime_ns, (converted / "model.bin").stat().st_mtime_ns
    outputs = [translated(), translated()]
    assert outputs[0] == outputs[1] and len(loads) == 1
    translator = pipeline("translation", model=str(saved_model))
    assert translator(LINES, num_beams=3, max_new_tokens=8) == [
        {"translation_text": line} for line in outputs[0].splitlines()
    ]
    assert list(cache.iterdir()) == [converted] and (converted / "model.bin").stat().st_mtime_ns == made[1]


def test_onnx_runtime_is_opened_from_its_cache_too(translated, loads, cache):
    pytest.importorskip("onnxruntime")
    outputs = [translated("--engine", "onnx") for _ in range(2)]
    assert outputs[0] == outputs[1] == translated("--engine", "torch") and len(loads) == 2
    assert len(list((cache.parent / "onnx").iterdir())) == 1


@pytest.fixture
def converted(saved_model):
    """A pipeline that CTranslate2 has taken over, and its translations."""
    translator = pipeline("translation", model=str(saved_model), max_new_tokens=8)
    expected = translator(LINES)
    assert translator.selection.used == {"ctranslate2"}
    return translator, expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_translate_with_a_converted_model(converted):
    translator, expected = converted
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(translator(LINES)))
    process.start()
    try:
        assert receiver.poll(60) and receiver.recv() == expected
        assert translator(LINES) == expected
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda translator: pickle.loads(pickle.dumps(translator))])
def test_pipeline_with_a_converted_model_can_be_copied(converted, copied):
    translator, expected = converted
    assert copied(translator)(LINES) == expected


@pytest.mark.slow
def test_files_of_16_bits_stay_with_pytorch_even_if_they_are_converted(translated, saved_model, loads):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model, dtype=torch.bfloat16)
    model.save_pretrained(saved_model)
    for options in (("--engine", "ctranslate2"), ("--dtype", "float32"), ()):
        translated(*options)
    assert len(loads) == 3
    expected = translated("--engine", "torch")
    assert translated() == expected


def test_note_of_weights_that_were_changed_after_loading_is_not_made(saved_model, cache):
    settings = translator_settings.TranslatorSettings((str(saved_model),), engine="ctranslate2")
    translate = settings.open()
    assert len(list((cache.parent / "weights").iterdir())) == 1
    (cache.parent / "weights").rename(cache.parent / "before")
    model = translate.translator.model
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.flip(0))
    translate([Line("w1 w2")])
    assert len(list(cache.iterdir())) == 2 and not (cache.parent / "weights").exists()
