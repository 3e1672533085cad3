"""Export to CTranslate2 and translation with it, against the model that was exported."""

import copy
import json
import shutil
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, pipeline

from hf_vaswani.cli import main
from hf_vaswani.engines import ctranslate2_spec
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.errors import InputError
from hf_vaswani.models.load import load

from ..conftest import save_tiny_model, slow_but, tiny_model
from ..core.test_modeling_vaswani import randomize
from .variants import MASK, SOURCES, VARIANTS, scores_of, texts_of, up_to_end

ctranslate2 = pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module")
def exported_once(tmp_path_factory):
    """The folder of an export of a tiny model, which no test changes."""
    folder = tmp_path_factory.mktemp("exported")
    saved = save_tiny_model(folder / "saved")
    assert main(["export", str(saved), str(folder / "ct2"), "--to", "ctranslate2"]) == 0
    return folder / "ct2"


@pytest.fixture
def exported(saved_model, exported_once, tmp_path):
    """The folders of a tiny model and of its export."""
    return saved_model, shutil.copytree(exported_once, tmp_path / "ct2")


@pytest.mark.parametrize("name", slow_but(VARIANTS, "paper"))
def test_engine_gives_the_models_own_tokens_and_log_probabilities(name, tokenizer, tmp_path):
    changes = VARIANTS[name]
    model = tiny_model(**changes)
    randomize(model)
    export_model(model, tokenizer, tmp_path / "ct2")
    # More threads would also change the setting of torch.
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    tokens = [tokenizer.convert_ids_to_tokens([i for i in ids if i]) for ids in SOURCES.tolist()]
    target = [5, 11, 17, 2]
    scored = translator.score_batch(tokens, [tokenizer.convert_ids_to_tokens(target[:-1])] * len(tokens))
    start = torch.tensor([[model.config.decoder_start_token_id, *target[:-1]]] * len(tokens))
    with torch.no_grad():
        logits = model(input_ids=SOURCES, attention_mask=MASK, decoder_input_ids=start).logits
    expected = logits.log_softmax(-1).gather(-1, torch.tensor([target] * len(tokens)).unsqueeze(-1)).squeeze(-1)
    got = torch.tensor([score.log_probs for score in scored])
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=0)
    engine = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ct2")
    settings = {"num_beams": 3, "max_new_tokens": 8, "early_stopping": True}
    expected, got = (m.generate(SOURCES, attention_mask=MASK, **settings) for m in (model, engine))
    assert up_to_end(got) == up_to_end(expected)


@pytest.mark.parametrize("early_stopping", [True, False])
def test_pipeline_translates_an_exported_folder_as_it_does_the_model(exported, early_stopping):
    texts = ["w1 w2 w3", "", "w9", "w4 w5 w6 w7 w8"]
    settings = [{"num_beams": 4}, {"num_beams": 1}]
    if early_stopping:  # otherwise, the ends of long lists may differ
        settings += [{"num_beams": 3, "n_best": 3}]
    for search in settings:
        own, engine = (
            pipeline("translation", model=str(folder), max_new_tokens=9, early_stopping=early_stopping)
            for folder in exported
        )
        expected, got = own(texts, return_scores=True, **search), engine(texts, return_scores=True, **search)
        assert texts_of(got) == texts_of(expected)
        torch.testing.assert_close(scores_of(got), scores_of(expected), atol=1e-4, rtol=0)


def test_exported_model_without_placeholders_keeps_spans(exported):
    translator = pipeline("translation", model=str(exported[1]), max_new_tokens=9)
    [text] = texts_of(translator("w1 https://example.com/a w2 {name}", keep=["url", "placeholder"]))
    assert text.count("https://example.com/a") == 1 and text.count("{name}") == 1


def test_hypotheses_are_ranked_by_the_length_penalty_of_the_paper(exported):
    own, engine = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in exported)
    settings = {
        "num_beams": 4,
        "length_penalty": 0.6,
        "length_penalty_type": "gnmt",
        "max_new_tokens": 6,
        "early_stopping": True,
    }
    settings |= {"return_dict_in_generate": True, "num_return_sequences": 2}
    expected, got = (model.generate(SOURCES, attention_mask=MASK, **settings) for model in (own, engine))
    assert up_to_end(got.sequences) == up_to_end(expected.sequences)
    torch.testing.assert_close(got.sequences_scores, expected.sequences_scores, atol=1e-4, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"length_penalty": 0.6, "length_penalty_type": "gnmt"}])
@pytest.mark.parametrize("num_beams", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_translations_begin_with_their_prefixes_which_their_scores_leave_out(exported, num_beams, settings):
    own, engine = (pipeline("translation", model=str(folder), max_new_tokens=5) for folder in exported)
    texts, prefixes = ["w1 w2", "w3"], ["w7 w8", "w9"]
    settings = {**settings, "prefixes": prefixes, "num_beams": num_beams, "return_scores": True}
    expected, got = own(texts, **settings), engine(texts, **settings)
    assert texts_of(got) == texts_of(expected)
    assert [text.startswith(prefix) for text, prefix in zip(texts_of(got), prefixes)] == [True, True]
    torch.testing.assert_close(scores_of(got), scores_of(expected), atol=1e-4, rtol=0)


def test_more_candidates_than_tokens_are_all_tokens(exported):
    _, engine = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in exported)
    assert engine.generate(SOURCES, attention_mask=MASK, do_sample=True, top_k=500, max_new_tokens=3).shape[1] <= 4


def test_minimum_length_beyond_the_maximum_is_the_maximum(exported):
    _, engine = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in exported)
    assert engine.generate(SOURCES, attention_mask=MASK, min_length=9, max_new_tokens=3).shape[1] == 4


def test_arguments_that_the_engine_cannot_take_are_named(exported):
    _, engine = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in exported)
    with pytest.raises(ValueError, match="num_return_sequences=2 exceeds num_beams=1"):
        engine.generate(SOURCES, num_return_sequences=2)
    with pytest.raises(ValueError, match="does not support inputs_embeds"):
        engine.generate(SOURCES, inputs_embeds=torch.zeros(2, 3, 4))


@pytest.mark.parametrize(
    "command",
    [["score", "--source", "TEXT", "--target", "TEXT"], ["attention", "--text", "w1", "--output", "figure.png"]],
)
def test_commands_that_need_the_model_itself_say_so(exported, write_lines, capsys, command):
    words = [write_lines("text", ["w1"]) if word == "TEXT" else word for word in command]
    assert main([words[0], str(exported[1]), *words[1:]]) == 2
    assert "was exported to an engine that can only translate" in capsys.readouterr().err


def test_export_in_a_subfolder_is_opened(exported):
    _, folder = exported
    model = AutoModelForSeq2SeqLM.from_pretrained(folder.parent, subfolder=folder.name)
    assert model.generate(SOURCES, attention_mask=MASK, max_new_tokens=3).shape[0] == len(SOURCES)


@pytest.mark.parametrize("name, length", [("max_new_tokens", 7), ("max_length", 6)])
def test_length_set_in_a_copy_of_the_models_config_overrides_its_offset(exported, name, length):
    _, engine = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in exported)
    engine.generation_config.max_length_offset = 40
    config = copy.deepcopy(engine.generation_config)
    setattr(config, name, 6)
    settings = {"attention_mask": MASK, "eos_token_id": 39, "suppress_tokens": [39], "generation_config": config}
    assert engine.generate(SOURCES, **settings).shape[1] == length


@pytest.mark.parametrize("name", ["suppress_tokens", "bad_words_ids"])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_tokens_that_the_model_may_not_write_are_left_out(exported, name, num_beams):
    own, engine = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in exported)
    settings = {"attention_mask": MASK, "num_beams": num_beams, "max_new_tokens": 6}
    before = own.generate(SOURCES, **settings)
    banned = before[0, 1].item()
    for model in (own, engine):
        setattr(model.generation_config, name, [banned] if name == "suppress_tokens" else [[banned]])
    got = engine.generate(SOURCES, **settings)
    assert banned in before and banned not in got
    if num_beams == 1:  # with beams, the engine's scores of the other tokens differ
        assert up_to_end(got) == up_to_end(own.generate(SOURCES, **settings))


def test_settings_of_the_model_that_the_engine_lacks_are_reported_before_anything_is_written(tokenizer, tmp_path):
    model = tiny_model(activation_function="mish")
    model.generation_config.begin_suppress_tokens = [5]
    model.generation_config.sequence_bias = [[[5], -1.0]]
    with pytest.raises(InputError) as error:
        export_model(model, tokenizer, tmp_path / "ct2")
    for expected in ("mish", "begin_suppress_tokens in the model's generation_config", "sequence_bias in"):
        assert expected in str(error.value)
    assert not (tmp_path / "ct2").exists()


@pytest.mark.parametrize("num_beams", [1, 3])
def test_output_at_its_length_limit_ends_with_the_forced_end_token(exported, num_beams):
    settings = {"num_beams": num_beams, "max_new_tokens": 4, "forced_eos_token_id": 2, "suppress_tokens": [0]}
    for folder in exported:
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        assert model.generate(SOURCES, attention_mask=MASK, **settings)[:, 1:].eq(2).any(1).all()


@pytest.mark.parametrize("to", ["ctranslate2", "marian", "onnx"])
def test_sample_with_a_sentence_beyond_the_positions_is_rejected(to, tokenizer, tmp_path):
    model = tiny_model(max_position_embeddings=10, position_type="learned" if to == "onnx" else "sinusoidal")
    texts = ["w1 w2", " ".join(["w3"] * 10), " ".join(["w4"] * 20)]
    with pytest.raises(InputError, match="at most 10 tokens with this model.*sentence 2 has 11, sentence 3 has 21"):
        export_model(model, tokenizer, tmp_path / "out", texts=texts, to=to)
    assert not (tmp_path / "out").exists()


def test_difference_is_reported_in_words_of_the_source(separate, tmp_path, monkeypatch):
    monkeypatch.setattr(ctranslate2_spec, "positions", lambda stack, config, least: torch.zeros(1024, config.d_model))
    model, tokenizer = load(str(separate))
    with pytest.raises(InputError, match=r"translates 's3 s5 </s>' as tokens"):
        export_model(model, tokenizer, tmp_path / "ct2", texts=["s3 s5"])


def test_note_says_that_samples_cannot_be_repeated(exported, write_lines, tmp_path, capsys):
    source = write_lines("source", ["w1 w2"])
    for folder, expected in zip(exported, (False, True)):
        command = ["translate", str(folder), "--input", source, "--output", str(tmp_path / f"{folder.name}.out")]
        assert main([*command, "--sample", "1", "--max_new_tokens", "3"]) == 0
        assert ("samples differ each time" in capsys.readouterr().err) == expected


def test_command_translates_and_resumes_with_an_exported_folder(exported, write_lines, tmp_path):
    source = write_lines("source", [f"w{i} w{i + 1}" for i in range(20)])
    outputs = [tmp_path / name for name in ("own", "engine")]
    for folder, output in zip(exported, outputs):
        command = ["translate", str(folder), "--input", source, "--output", str(output), "--max_new_tokens", "6"]
        assert main(command) == 0
    assert outputs[0].read_text() == outputs[1].read_text()
    assert main([*command, "--resume"]) == 0


def test_evaluate_accepts_an_exported_folder(exported, write_lines, tmp_path):
    source, reference = write_lines("source", ["w1 w2", "w3"]), write_lines("reference", ["w4", "w5"])
    output = tmp_path / "translations"
    files = ["--source", source, "--reference", reference, "--output", str(output), "--num_beams", "1"]
    assert main(["evaluate", str(exported[1]), *files]) == 0
    own = pipeline("translation", model=str(exported[0]), num_beams=1)
    assert output.read_text().splitlines() == [result["translation_text"] for result in own(["w1 w2", "w3"])]


def test_separate_vocabularies_are_kept_separate(separate, tmp_path):
    assert main(["export", str(separate), str(tmp_path / "ct2"), "--to", "ctranslate2"]) == 0
    own, engine = (pipeline("translation", model=str(path), max_new_tokens=5) for path in (separate, tmp_path / "ct2"))
    assert engine(["s1 s2", "s3"]) == own(["s1 s2", "s3"])


def test_int8_export_is_smaller_and_reports_unchanged_sentences(saved_model, tmp_path, capsys):
    for name in ("float32", "int8"):
        command = ["export", str(saved_model), str(tmp_path / name), "--to", "ctranslate2", "--quantization", name]
        assert main(command) == 0
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("float32", "int8")]
    assert sizes[1] < sizes[0] - 20_000  # the rest are positions, which stay in float32
    assert "of 24 random sequences" in capsys.readouterr().out


def test_everything_ctranslate2_cannot_express_is_reported_together(tokenizer, tmp_path):
    model = tiny_model(norm_position="post", final_norm=True, activation_function="mish", d_k=3, d_v=5)
    with pytest.raises(InputError) as error:
        export_model(model, tokenizer, tmp_path / "ct2")
    for expected in ("final_norm=True", "mish", "d_k=3 and d_v=5"):
        assert expected in str(error.value)
    assert not (tmp_path / "ct2").exists()


def test_engine_that_translates_differently_is_rejected_and_leaves_no_folder(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(ctranslate2_spec, "positions", lambda stack, config, least: torch.zeros(1024, config.d_model))
    with pytest.raises(InputError, match="log-probability per token"):
        export_model(tiny_model(), tokenizer, tmp_path / "ct2")
    assert not (tmp_path / "ct2").exists()


def test_export_leaves_the_model_unchanged(tokenizer, tmp_path):
    model = tiny_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export_model(model, tokenizer, tmp_path / "ct2")
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_missing_library_is_reported_with_the_extra_that_installs_it(saved_model, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert main(["export", str(saved_model), str(tmp_path / "ct2"), "--to", "ctranslate2"]) == 2
    assert 'pip install "hf-vaswani[ctranslate2]"' in capsys.readouterr().err


def test_settings_the_engine_lacks_are_rejected_by_name(exported):
    engine = AutoModelForSeq2SeqLM.from_pretrained(exported[1])
    with pytest.raises(ValueError, match="penalty_alpha"):
        engine.generate(SOURCES, attention_mask=MASK, penalty_alpha=0.6)
    with pytest.raises(ValueError, match="penalty_alpha"):
        engine.generate(SOURCES, GenerationConfig(penalty_alpha=0.6), attention_mask=MASK)
    assert engine.generate(SOURCES, engine.generation_config, attention_mask=MASK).shape[0] == len(SOURCES)


@pytest.mark.slow
def test_loading_leaves_torch_threads_unchanged(exported):
    code = (
        "import torch, hf_vaswani\n"
        "torch.set_num_threads(2)\n"
        "from transformers import AutoModelForSeq2SeqLM\n"
        f"model = AutoModelForSeq2SeqLM.from_pretrained({str(exported[1])!r})\n"
        "print(model.translator.num_translators, torch.get_num_threads())"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["2", "2"]


def test_options_of_another_format_are_rejected(saved_model, tmp_path, capsys):
    command = ["export", str(saved_model), str(tmp_path / "out"), "--quantization", "int8"]
    assert main(command) == 2
    assert "--quantization is for --to ctranslate2, onnx, transformers.js" in capsys.readouterr().err


def test_damaged_folder_is_reported_as_an_error(exported, capsys, write_lines):
    folder = exported[1]
    (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:2000])
    assert main(["translate", str(folder), "--input", write_lines("source", ["w1"])]) == 2
    assert "CTranslate2 cannot open" in capsys.readouterr().err


def test_folder_records_the_digest_of_the_weights_it_was_made_from(exported):
    config = json.loads((exported[1] / "config.json").read_text())
    assert config["model_type"] == "vaswani_ctranslate2"
    assert len(config["weights_digest"]) == 64


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"vocab_size": "x"}, "config.json: .*vocab_size"),
        ("config.json", {"add_source_bos": None}, "config.json: .*add_source_bos"),
    ],
)
def test_folder_with_a_wrong_value_is_one_error(exported, file, change, message):
    folder = exported[1]
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **change} if isinstance(content, dict) else change))
    with pytest.raises(InputError, match=message):
        load(str(folder))


def test_alignments_are_refused_with_the_name_of_the_option(exported, write_lines, capsys):
    options = ["--input", write_lines("source", ["w1"]), "--format", "jsonl", "--alignments"]
    assert main(["translate", str(exported[1]), *options]) == 2
    assert "error: --alignments needs attention weights, which CTranslate2 does not return" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--mbr=chrf", "CTranslate2 does not support --mbr. Use the original model."),
        (
            "--quantize=int8",
            "--quantize int8 is not for CTranslate2. Export the model with --quantization int8",
        ),
    ],
)
def test_options_that_the_engine_lacks_are_refused_by_name(option, message, exported, write_lines, capsys):
    assert main(["translate", str(exported[1]), "--input", write_lines("source", ["w1"]), option]) == 2
    assert message in capsys.readouterr().err


def test_incomplete_folder_is_refused_with_the_files_that_it_needs(exported, tmp_path):
    shutil.copytree(exported[1], tmp_path / "copy")
    (tmp_path / "copy" / "shared_vocabulary.json").unlink()
    with pytest.raises(InputError, match="incomplete export: it needs model.bin and shared_vocabulary.json"):
        load(str(tmp_path / "copy"))


@pytest.mark.parametrize("key", ["vocab_size", "decoder_vocab_size"])
def test_vocabulary_that_does_not_fit_the_config_is_an_error(exported, key):
    path = exported[1] / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, key: values[key] + 1}))
    with pytest.raises(InputError, match="vocabularies have .* config.json says"):
        load(str(exported[1]))
