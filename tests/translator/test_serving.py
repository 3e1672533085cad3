"""Who computes a call of the pipeline: PyTorch, or CTranslate2 with the same weights, converted once."""

import os
import shutil
import subprocess
import sys
import time

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig, LogitsProcessorList, pipeline

from hf_vaswani import backends
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.engines.ctranslate2_model import CTranslate2Model
from hf_vaswani.translator.backends import conversions, selection

from ..conftest import tiny_model
from ..families import FAMILIES, family, languages

pytest.importorskip("ctranslate2")

TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9", "w2 w2"]
SEARCH = {"num_beams": 3, "max_new_tokens": 8, "early_stopping": True}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ctranslate2"


@pytest.fixture
def searched(monkeypatch) -> list:
    """The number of sources in each search of CTranslate2."""
    sizes, search = [], CTranslate2Model.search
    monkeypatch.setattr(
        CTranslate2Model, "search", lambda self, rows, *args: sizes.append(len(rows)) or search(self, rows, *args)
    )
    return sizes


@pytest.fixture
def eager(monkeypatch) -> None:
    """Any text is worth a conversion."""
    monkeypatch.setattr(selection, "WORTH_CONVERTING", 1)
    monkeypatch.setattr(selection, "WORTH_OPENING", 1)


def texts_of(translator, texts=TEXTS, **options) -> list[str]:
    return [result["translation_text"] for result in translator(texts, **{**SEARCH, **options})]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("num_beams", [1, 3])
def test_every_family_gives_the_translations_and_scores_of_pytorch(name, num_beams, tmp_path, searched):
    model, tokenizer = family(name, tmp_path)
    options = {**languages(name), "return_scores": True, "num_beams": num_beams}
    if name == "Vaswani":
        options["length_penalty_type"] = "length"
    texts = ["ein hund läuft", "die katze schläft über die wiese", "haus"] if name != "Vaswani" else TEXTS
    expected, got = (
        pipeline("translation", model=model, tokenizer=tokenizer, engine=engine)(texts, **{**SEARCH, **options})
        for engine in ("torch", "ctranslate2")
    )
    assert searched == [len(texts)]
    assert [result["translation_text"] for result in got] == [result["translation_text"] for result in expected]
    assert [result["score"] for result in got] == pytest.approx([result["score"] for result in expected], abs=2e-3)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2", "onnx"])
@pytest.mark.parametrize("num_beams", [2, 3, 5])
def test_improbable_ends_do_not_end_the_search_of_a_sure_model(engine, num_beams, tokenizer, searched):
    if engine == "onnx":
        pytest.importorskip("onnxruntime")
    model = tiny_model(output_bias=True)
    end, [word] = model.config.eos_token_id, tokenizer.convert_tokens_to_ids(["w1"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        # The next word is always probable, and the end is next to it.
        bias = model.get_output_embeddings().bias
        bias.copy_(torch.linspace(-6, -5, len(bias)))
        bias[end], bias[word] = 2.5, 5
    translator = pipeline("translation", model=model, tokenizer=tokenizer, engine=engine)
    search = {"num_beams": num_beams, "max_new_tokens": 6, "length_penalty": 0.6, "length_penalty_type": "gnmt"}
    late, early = (translator("w5", **search, early_stopping=early)[0]["translation_text"] for early in (False, True))
    assert late == " ".join(["w1"] * 6) and len(early) < len(late)
    assert len(searched) == 2 * (engine == "ctranslate2")


def test_a_little_text_stays_with_pytorch_and_much_is_converted_once(saved_model, searched, monkeypatch, caplog):
    translator = pipeline("translation", model=saved_model)
    few = texts_of(translator)
    assert not searched and "Converting" not in caplog.text
    monkeypatch.setattr(selection, "WORTH_CONVERTING", 50)
    monkeypatch.setattr(selection, "WORTH_OPENING", 50)
    assert texts_of(translator) == few and len(searched) == 1
    assert texts_of(pipeline("translation", model=saved_model, engine="ctranslate2")) == few and len(searched) == 2
    assert sum("Converting the model to CTranslate2" in record.message for record in caplog.records) == 1


@pytest.mark.usefixtures("eager")
def test_changed_weights_are_noticed(tokenizer, searched):
    model = tiny_model()
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    before = texts_of(translator)
    with torch.no_grad():
        model.lm_head.weight.add_(torch.randn_like(model.lm_head.weight))
    after = texts_of(translator)
    assert len(searched) == 2 and after != before
    assert after == texts_of(pipeline("translation", model=model, tokenizer=tokenizer, engine="torch"))


@pytest.mark.usefixtures("eager")
def test_changed_settings_of_the_model_are_noticed(tokenizer, searched):
    model = tiny_model()
    auto, own = (pipeline("translation", model=model, tokenizer=tokenizer, engine=name) for name in ("auto", "torch"))
    outputs = []
    for length in (9, 4):
        search = {"num_beams": 3, "early_stopping": True, "max_length": length, "max_length_offset": None}
        model.generation_config = GenerationConfig(**{**model.generation_config.to_diff_dict(), **search})
        outputs.append(auto(TEXTS))
        assert outputs[-1] == own(TEXTS)
    assert len(searched) == 2 and outputs[0] != outputs[1]


def test_weights_are_hashed_once_while_there_is_too_little_text(saved_model, monkeypatch):
    calls, digest = [], conversions.weights_digest
    monkeypatch.setattr(conversions, "weights_digest", lambda model: calls.append(model) or digest(model))
    monkeypatch.setattr(selection, "WORTH_OPENING", 1)
    translator = pipeline("translation", model=saved_model)
    for _ in range(3):
        texts_of(translator)
    assert len(calls) == 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "options",
    [
        {"return_alignments": True},
        {"do_sample": True, "num_beams": 1, "early_stopping": None},
        {"logits_processor": LogitsProcessorList()},
        {"encoder_repetition_penalty": 1.5},
        {"decoder_start_token_id": 5},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_the_engine_lacks_stays_with_pytorch_or_is_refused_where_it_was_asked_for(saved_model, options, searched):
    auto = pipeline("translation", model=saved_model)
    if options.get("do_sample"):
        torch.manual_seed(0)
    got = auto(TEXTS, **{**SEARCH, **options})
    assert not searched and len(got) == len(TEXTS)
    with pytest.raises(ValueError, match="CTranslate2 cannot compute this: "):
        pipeline("translation", model=saved_model, engine="ctranslate2")(TEXTS, **{**SEARCH, **options})


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "setting",
    [{"no_repeat_ngram_size": 2}, {"suppress_tokens": [7]}, {"min_new_tokens": 4}, {"repetition_penalty": 2.0}],
)
def test_settings_that_change_scores_otherwise_stay_with_pytorch_unless_only_tokens_are_asked_for(
    saved_model, setting, searched
):
    auto, own = (pipeline("translation", model=saved_model, engine=engine) for engine in ("auto", "torch"))
    for options, served in (({}, False), ({"num_beams": 1}, True), ({"num_beams": 1, "return_scores": True}, False)):
        searched.clear()
        got, expected = (translator(TEXTS, **{**SEARCH, **setting, **options}) for translator in (auto, own))
        assert got == expected and bool(searched) == served


@pytest.mark.usefixtures("eager")
def test_hooks_and_models_in_training_see_all_batches(tokenizer, searched):
    model, seen = tiny_model(), []
    handle = model.lm_head.register_forward_hook(lambda *_: seen.append(1))
    texts_of(pipeline("translation", model=model, tokenizer=tokenizer))
    assert seen and not searched
    handle.remove()
    texts_of(pipeline("translation", model=model.train(), tokenizer=tokenizer))
    assert not searched and model.training


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("damage", ["truncated", "changed", "no config", "another version", "read-only", "a file"])
def test_cache_that_cannot_be_used_costs_no_translation(saved_model, cache, damage, searched, monkeypatch):
    expected = texts_of(pipeline("translation", model=saved_model, engine="torch"))
    if damage in ("read-only", "a file"):
        cache.parent.mkdir()
        if damage == "a file":
            cache.touch()
        elif os.geteuid() == 0:
            pytest.skip("root can write everywhere")
        else:
            cache.parent.chmod(0o500)
    else:
        texts_of(pipeline("translation", model=saved_model))
        [folder] = cache.iterdir()
        weights = folder / "model.bin"
        if damage == "truncated":
            os.truncate(weights, weights.stat().st_size // 2)
        elif damage == "changed":
            content = bytearray(weights.read_bytes())
            content[-400:-200] = bytes(200)
            weights.write_bytes(content)
        elif damage == "no config":
            (folder / "config.json").unlink()
        else:
            monkeypatch.setattr("hf_vaswani.translator.backends.conversions.version", lambda library: "0.0")
    searched.clear()
    assert texts_of(pipeline("translation", model=saved_model)) == expected
    assert len(searched) == (damage != "a file")


CONVERT = """
import sys
from transformers import pipeline
import hf_vaswani
translator = pipeline("translation", model=sys.argv[1], engine="ctranslate2")
print([result["translation_text"] for result in translator(["w1 w2 w3", "w4"], num_beams=3, max_new_tokens=8)])
"""


def start(model) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", CONVERT, str(model)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_two_processes_convert_the_same_model_at_once(saved_model, cache):
    both = [start(saved_model) for _ in range(2)]
    outputs = {process.communicate(timeout=300)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0] and len(outputs) == 1
    assert len([path for path in cache.iterdir() if not path.name.startswith(".")]) == 1


@pytest.mark.slow
def test_killed_conversion_is_made_again(saved_model, cache):
    process = start(saved_model)
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline and not (cache.exists() and list(cache.iterdir())):
        time.sleep(0.001)
    process.kill()
    process.communicate()
    again = start(saved_model)
    assert "w" in again.communicate(timeout=300)[0] and again.returncode == 0
    assert [path for path in cache.iterdir() if path.name.startswith(".")] == []


def test_engine_that_computes_something_else_is_not_used(saved_model, searched, eager, monkeypatch):
    from hf_vaswani.engines import ctranslate2_spec

    expected = texts_of(pipeline("translation", model=saved_model, engine="torch"))
    wrong = lambda stack, config, least: torch.zeros(4224, config.d_model)  # noqa: E731
    monkeypatch.setattr(ctranslate2_spec, "positions", wrong)
    assert texts_of(pipeline("translation", model=saved_model)) == expected and not searched
    with pytest.raises(ValueError, match="log-probabilities that differ from the model's"):
        texts_of(pipeline("translation", model=saved_model, engine="ctranslate2"))


def test_texts_beyond_the_engines_positions_stay_with_pytorch(tokenizer, searched, eager):
    model = tiny_model(position_type="learned", max_position_embeddings=12)
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    texts_of(translator)
    assert searched == [len(TEXTS)]


def test_eight_bits_are_close_and_need_the_engine(saved_model, searched, monkeypatch):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model)
    with torch.no_grad():  # products of random weights overflow in the 16-bit sums of processors without VNNI
        model.get_output_embeddings().weight *= 0.5
    model.save_pretrained(saved_model)
    scores = [
        [result["score"] for result in pipeline("translation", model=saved_model, quantize=bits)(
            TEXTS, **SEARCH, return_scores=True)]
        for bits in (None, "int8")
    ]  # fmt: skip
    assert searched == [len(TEXTS)]
    assert scores[1] == pytest.approx(scores[0], rel=0.1) and scores[1] != scores[0]
    with pytest.raises(ValueError, match='leave out engine="torch"'):
        pipeline("translation", model=saved_model, quantize="int8", engine="torch")
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'CTranslate2 is not installed. Install it with: pip install "hf-vaswani'):
        pipeline("translation", model=saved_model, quantize="int8")
    assert texts_of(pipeline("translation", model=saved_model)) and model is not None


@pytest.mark.parametrize("arguments", [{"engine": "tensorrt"}, {"quantize": "int4"}])
def test_unknown_values_name_the_known_ones(saved_model, arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be "):
        pipeline("translation", model=saved_model, **arguments)


def test_conversions_unused_for_a_month_are_removed(saved_model, cache):
    texts_of(pipeline("translation", model=saved_model, engine="ctranslate2"))
    [old] = cache.iterdir()
    os.utime(old, (0, 0))
    other = cache.parent.parent / "other"
    shutil.copytree(saved_model, other)
    model = AutoModelForSeq2SeqLM.from_pretrained(other)
    with torch.no_grad():
        model.lm_head.weight.mul_(1.5)
    model.save_pretrained(other)
    texts_of(pipeline("translation", model=str(other), engine="ctranslate2"))
    assert old not in cache.iterdir() and len(list(cache.iterdir())) == 1


class TestOnnxRuntime:
    @pytest.fixture(autouse=True)
    def installed(self):
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")

    @pytest.mark.parametrize(
        "options",
        [{}, {"num_beams": 1, "early_stopping": None}, {"no_repeat_ngram_size": 2}, {"num_beam_groups": 1}],
        ids=lambda options: next(iter(options), "beam"),
    )
    def test_it_computes_the_search_of_the_model(self, saved_model, options, cache):
        outputs = [
            pipeline("translation", model=saved_model, engine=engine)(
                TEXTS, return_scores=True, **{**SEARCH, **options}
            )
            for engine in ("torch", "onnx")
        ]
        [texts, scores] = [[[result[key] for result in output] for output in outputs]
                           for key in ("translation_text", "score")]  # fmt: skip
        assert texts[0] == texts[1] and scores[0] == pytest.approx(scores[1], abs=1e-4)
        assert len(list((cache.parent / "onnx").iterdir())) == 1 and not cache.exists()

    def test_a_model_is_converted_once_and_noticed_if_it_changes(self, tokenizer, caplog):
        model = tiny_model()
        translators = [pipeline("translation", model=model, tokenizer=tokenizer, engine="onnx") for _ in range(2)]
        outputs = [texts_of(translator) for translator in translators]
        assert outputs[0] == outputs[1] and caplog.text.count("Converting the model to ONNX Runtime") == 1
        with torch.no_grad():
            model.lm_head.weight.copy_(model.lm_head.weight.flip(0))
        after = texts_of(translators[0])
        assert after != outputs[0] and caplog.text.count("Converting the model to ONNX Runtime") == 2
        assert after == texts_of(pipeline("translation", model=model, tokenizer=tokenizer, engine="torch"))

    def test_eight_bits_are_those_of_onnx_runtime(self, saved_model, cache):
        scores = [
            [result["score"] for result in pipeline("translation", model=saved_model, engine="onnx", quantize=bits)(
                TEXTS, **SEARCH, return_scores=True)]
            for bits in (None, "int8")
        ]  # fmt: skip
        assert scores[1] == pytest.approx(scores[0], rel=0.1) and scores[1] != scores[0]
        assert len(list((cache.parent / "onnx").iterdir())) == 2 and not cache.exists()

    def test_alignments_need_the_model(self, saved_model):
        with pytest.raises(ValueError, match="ONNX Runtime cannot compute this: alignments need the attention"):
            pipeline("translation", model=saved_model, engine="onnx")(TEXTS, return_alignments=True)

    def test_models_of_other_families_are_refused_when_the_pipeline_is_made(self, tmp_path):
        model, tokenizer = family("Marian", tmp_path)
        with pytest.raises(ValueError, match="models of type marian, only models of this package"):
            pipeline("translation", model=model, tokenizer=tokenizer, engine="onnx")

    @pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
    def test_missing_library_names_the_extra(self, saved_model, library, monkeypatch):
        monkeypatch.setattr(backends, "find_spec", lambda name: None if name == library else name)
        with pytest.raises(ValueError, match=r'ONNX Runtime is not installed. .*pip install "hf-vaswani\[onnx'):
            pipeline("translation", model=saved_model, engine="onnx")


def test_exported_model_is_computed_by_its_own_engine(saved_model, tmp_path):
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(saved_model), AutoTokenizer.from_pretrained(saved_model)
    export_model(model, tokenizer, tmp_path / "exported")
    translator = pipeline("translation", model=str(tmp_path / "exported"), engine="ctranslate2")
    assert len(texts_of(translator)) == len(TEXTS) and translator.selection.used == {"ctranslate2"}
    for engine in ("torch", "onnx"):
        with pytest.raises(ValueError, match=f'was exported for CTranslate2. Leave out engine="{engine}"'):
            pipeline("translation", model=str(tmp_path / "exported"), engine=engine)


def test_progress_moves_with_each_text_that_the_engine_has_finished(saved_model):
    counts: list[int] = []
    translator = pipeline("translation", model=str(saved_model), engine="ctranslate2")
    texts_of(translator, [*TEXTS, ""], progress=counts.append)
    assert counts == [1, 1, 1, 1, 1]
    counts.clear()
    texts_of(translator, ["w1 w2. w3 w4.", "w5"], split_sentences=True, progress=counts.append)
    assert counts == [1, 1]
