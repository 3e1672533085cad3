"""Export to ONNX and translation with ONNX Runtime, against the model that was exported."""

import json
import shutil
import sys

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, LogitsProcessor, LogitsProcessorList, pipeline

from hf_vaswani.cli import main
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.engines.onnx import onnx_export
from hf_vaswani.errors import InputError
from hf_vaswani.models.load import load

from ..conftest import save_tiny_model, tiny_model
from ..core.test_modeling_vaswani import randomize
from .variants import MASK, SOURCES, VARIANTS, scores_of, texts_of

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

# Not supported by CTranslate2.
MORE_VARIANTS = {
    "post-norm with final norm": {"final_norm": True},
    "head widths": {"d_k": 3, "d_v": 5},
    "mish": {"activation_function": "mish"},
    "relu2": {"activation_function": "relu2"},
    "several end tokens": {"eos_token_id": [2, 9]},
}
# Two sentences are enough, since the tests themselves compare the outputs.
SAMPLE = ("w1 w2 w3 w4", "w5")
BATCH = {"input_ids": SOURCES, "attention_mask": MASK}


@pytest.fixture(scope="module")
def exported_once(tmp_path_factory):
    """The folder of an export of a tiny model, which no test changes."""
    folder = tmp_path_factory.mktemp("exported")
    saved, sample = save_tiny_model(folder / "saved"), folder / "sample"
    sample.write_text("".join(f"{line}\n" for line in SAMPLE), encoding="utf-8")
    assert main(["export", str(saved), str(folder / "onnx"), "--to", "onnx", "--sample", str(sample)]) == 0
    return folder / "onnx"


@pytest.fixture
def exported(saved_model, exported_once, tmp_path):
    """The folders of a tiny model and of its export."""
    return saved_model, shutil.copytree(exported_once, tmp_path / "onnx")


@pytest.fixture
def both(exported):
    """The tiny model and its export."""
    return [AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in exported]


@pytest.mark.parametrize("changes", [*VARIANTS.values(), *MORE_VARIANTS.values()], ids=[*VARIANTS, *MORE_VARIANTS])
def test_engine_gives_the_models_own_logits_and_tokens(changes, tokenizer, tmp_path):
    model = tiny_model(**changes)
    randomize(model)
    export_model(model, tokenizer, tmp_path / "onnx", texts=SAMPLE, to="onnx")
    engine = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "onnx")
    start = model.config.decoder_start_token_id
    target = torch.tensor([[start, 5, 11, 17], [start, 6, 30, 2], [start, 1, 8, 9]])
    # Padding on the left, too.
    for inputs in (BATCH, {name: tensor.flip(1) for name, tensor in BATCH.items()}):
        with torch.no_grad():
            expected = model(**inputs, decoder_input_ids=target).logits
        torch.testing.assert_close(engine(**inputs, decoder_input_ids=target).logits, expected, atol=1e-4, rtol=0)
    for settings in ({"num_beams": 3, "num_return_sequences": 2}, {"num_beams": 1}):
        expected, got = (m.generate(**BATCH, max_new_tokens=8, **settings) for m in (model, engine))
        assert torch.equal(got, expected)


def test_bf16_model_in_training_mode_is_exported_as_in_float32_evaluation(tokenizer, tmp_path):
    model = tiny_model().bfloat16().train()
    export_model(model, tokenizer, tmp_path / "onnx", texts=SAMPLE, to="onnx")
    assert model.training and model.dtype == torch.bfloat16
    engine = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "onnx")
    expected = model.float().eval().generate(**BATCH, num_beams=3, max_new_tokens=8)
    assert torch.equal(engine.generate(**BATCH, num_beams=3, max_new_tokens=8), expected)


def test_sinusoids_are_not_limited_to_a_table(tokenizer, tmp_path):
    model = tiny_model(max_position_embeddings=8)
    export_model(model, tokenizer, tmp_path / "onnx", texts=SAMPLE, to="onnx")
    engine = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "onnx")
    ids = torch.randint(4, 40, (1, 3000))
    target = torch.randint(4, 40, (1, 2000))
    with torch.no_grad():
        expected = model(input_ids=ids, decoder_input_ids=target).logits
    torch.testing.assert_close(engine(ids, decoder_input_ids=target).logits, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("to", ["ctranslate2", "onnx", "transformers.js"])
def test_verification_stays_within_few_learned_positions(to, tokenizer, tmp_path):
    model = tiny_model(position_type="learned", max_position_embeddings=8)
    result = export_model(model, tokenizer, tmp_path / "few", to=to)
    assert (result.sentences, result.different) == (24, 0)


def test_learned_positions_end_where_the_models_do(tokenizer, tmp_path):
    export_model(
        tiny_model(position_type="learned", max_position_embeddings=50),
        tokenizer,
        tmp_path / "onnx",
        texts=SAMPLE,
        to="onnx",
    )
    translator = pipeline("translation", model=str(tmp_path / "onnx"))
    with pytest.raises(ValueError, match="a text may have 50 at most"):
        translator("w1 " * 60)
    with pytest.raises(ValueError, match="learned positions end at max_position_embeddings=50"):
        translator.model.generate(SOURCES, num_beams=2, min_new_tokens=60, max_new_tokens=60)


def test_pipeline_translates_an_exported_folder_as_it_does_the_model(exported):
    texts = ["w1 w2 w3", "", "w9", "w4 w5 w6 w7 w8"]
    for settings in (
        {"num_beams": 4},
        {"num_beams": 1},
        {"num_beams": 3, "n_best": 3, "length_penalty": 0.6, "length_penalty_type": "gnmt"},
        {"num_beams": 2, "prefixes": ["w7 w8", "", "w9", "w1"]},
        {"num_beams": 2, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
    ):
        own, engine = (pipeline("translation", model=str(folder), max_new_tokens=9) for folder in exported)
        expected, got = own(texts, return_scores=True, **settings), engine(texts, return_scores=True, **settings)
        assert texts_of(got) == texts_of(expected)
        torch.testing.assert_close(scores_of(got), scores_of(expected), atol=1e-4, rtol=0)


class Ban(LogitsProcessor):
    """A custom processor, for which each hypothesis keeps a row of its own."""

    def __call__(self, input_ids, scores):
        scores[:, 7] = -torch.inf
        return scores


def test_transformers_searches_give_the_same_output_as_for_the_model(both):
    own, engine = both
    for settings in (
        {"num_beams": 3, "output_scores": True, "return_dict_in_generate": True},
        {"num_beams": 1, "output_logits": True, "return_dict_in_generate": True},
        {"do_sample": True, "num_beams": 1},
        {"num_beams": 2, "use_cache": False},
        {"num_beams": 3, "logits_processor": LogitsProcessorList([Ban()])},
    ):
        torch.manual_seed(1)
        expected = own.generate(**BATCH, max_new_tokens=7, **settings)
        torch.manual_seed(1)
        got = engine.generate(**BATCH, max_new_tokens=7, **settings)
        if not isinstance(got, torch.Tensor):
            expected, got = expected.sequences, got.sequences
        assert torch.equal(got, expected)


def test_worker_processes_give_the_same_translations(exported, monkeypatch):
    texts = [f"w{i % 36} w{i * 7 % 36} w{i * 5 % 36}" for i in range(60)]
    engine = pipeline("translation", model=str(exported[1]), max_new_tokens=6, batch_size=8)
    processes = []
    monkeypatch.setattr(
        "hf_vaswani.translator.search.side_by_side", recorded(processes, "hf_vaswani.translator.workers")
    )
    assert engine(texts, num_workers=2) == engine(texts, num_workers=1)
    assert processes == [2]


def recorded(processes, module):
    original = sys.modules[module].side_by_side

    def side_by_side(work, items, workers):
        processes.append(workers)
        return original(work, items, workers)

    return side_by_side


def test_more_threads_give_the_same_output(both):
    own, engine = both
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        got = engine.generate(**BATCH, num_beams=3, max_new_tokens=6)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(got, own.generate(**BATCH, num_beams=3, max_new_tokens=6))


def test_commands_accept_an_exported_folder(exported, write_lines, tmp_path, capsys):
    source = write_lines("source", [f"w{i} w{i + 1}" for i in range(20)])
    target = write_lines("target", [f"w{i} w{i + 2}" for i in range(20)])
    outputs = [tmp_path / name for name in ("own", "engine")]
    for folder, output in zip(exported, outputs):
        command = ["translate", str(folder), "--input", source, "--output", str(output), "--max_new_tokens", "6"]
        assert main(command) == 0
    assert outputs[0].read_text() == outputs[1].read_text()
    assert main([*command, "--resume"]) == 0
    printed = []
    for folder in exported:
        capsys.readouterr()
        assert main(["score", str(folder), "--source", source, "--target", target]) == 0
        printed.append(torch.tensor([float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]))
    assert len(printed[0]) == 20
    torch.testing.assert_close(*printed, atol=1e-3, rtol=0)


@pytest.mark.slow
def test_separate_vocabularies_are_kept_separate(separate, tmp_path):
    assert main(["export", str(separate), str(tmp_path / "onnx"), "--to", "onnx"]) == 0
    own, engine = (
        pipeline("translation", model=str(path), max_new_tokens=5) for path in (separate, tmp_path / "onnx")
    )
    assert engine(["s1 s2", "s3"]) == own(["s1 s2", "s3"])


@pytest.mark.slow
def test_int8_export_takes_one_byte_per_weight_and_reports_unchanged_sentences(tokenizer, tmp_path, capsys):
    folder = tmp_path / "model"
    model = tiny_model(d_model=128, vocab_size=40, encoder_ffn_dim=512, decoder_ffn_dim=512)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    command = ["export", str(folder), str(tmp_path / "int8"), "--to", "onnx", "--quantization", "int8"]
    assert main(command) == 0
    assert "of 24 random sequences" in capsys.readouterr().out
    data = tmp_path / "int8" / "onnx" / "model_quantized.onnx_data"
    assert data.stat().st_size < 1.1 * model.num_parameters()


def test_int8_output_of_a_sentence_does_not_depend_on_its_batch(tokenizer, tmp_path):
    model = tiny_model()
    randomize(model)
    export_model(model, tokenizer, tmp_path / "int8", "int8", to="onnx")
    engine = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8")
    target = torch.tensor([[1, 5, 11, 17]] * 3)
    together = engine(**BATCH, decoder_input_ids=target).logits
    alone = engine(SOURCES[2:, :2], MASK[2:, :2], target[2:]).logits
    torch.testing.assert_close(together[2:], alone, atol=1e-5, rtol=0)


def test_weights_shared_by_encoder_and_decoder_are_stored_once(exported):
    model = AutoModelForSeq2SeqLM.from_pretrained(exported[0])
    data = exported[1] / "onnx" / "model.onnx_data"
    # Small weights are stored in the graphs.
    assert data.stat().st_size < 4 * model.num_parameters() + 64 * len(model.state_dict())


def test_everything_onnx_cannot_express_is_reported_together(tokenizer, tmp_path):
    model = tiny_model(activation_function="laplace")
    model.config.decoder_start_token_id = None
    with pytest.raises(InputError) as error:
        export_model(model, tokenizer, tmp_path / "onnx", texts=SAMPLE, to="onnx")
    for expected in ("laplace", "no decoder_start_token_id"):
        assert expected in str(error.value)
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_engine_that_computes_differently_is_rejected_and_leaves_no_folder(part, tokenizer, tmp_path, monkeypatch):
    name = f"make_{part}"
    make = getattr(onnx_export, name)
    other = tiny_model(layer_norm_eps=1e-2)
    monkeypatch.setattr(onnx_export, name, lambda model, quantization: make(other, quantization))
    with pytest.raises(InputError, match="logits that differ from the model's by up to") as error:
        export_model(tiny_model(), tokenizer, tmp_path / "onnx", texts=SAMPLE, to="onnx")
    assert "ONNX Runtime" in str(error.value)
    assert not (tmp_path / "onnx").exists()


def test_missing_library_is_reported_with_the_extra_that_installs_it(saved_model, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main(["export", str(saved_model), str(tmp_path / "onnx"), "--to", "onnx"]) == 2
    assert 'pip install "hf-vaswani[onnx]"' in capsys.readouterr().err


def test_quantization_of_another_engine_is_rejected(saved_model, tmp_path, capsys):
    command = ["export", str(saved_model), str(tmp_path / "out"), "--to", "onnx", "--quantization", "bfloat16"]
    assert main(command) == 2
    assert "--quantization bfloat16 is for --to ctranslate2" in capsys.readouterr().err


@pytest.mark.parametrize("to", ["onnx", "transformers.js"])
def test_unknown_quantization_is_rejected_with_the_known_ones(to, tokenizer, tmp_path):
    with pytest.raises(InputError, match=r"quantization must be one of float32, int8, got 'int4'\."):
        export_model(tiny_model(), tokenizer, tmp_path / "out", "int4", to=to)
    assert not (tmp_path / "out").exists()


def test_damaged_folder_is_reported_as_an_error(exported, capsys, write_lines):
    file = exported[1] / "onnx" / "encoder_model.onnx"
    file.write_bytes(file.read_bytes()[:2000])
    assert main(["translate", str(exported[1]), "--input", write_lines("source", ["w1"])]) == 2
    assert "ONNX Runtime cannot open" in capsys.readouterr().err


def test_arguments_that_the_engine_would_ignore_are_rejected(both):
    for module in (both[1], both[1].get_encoder()):
        with pytest.raises(TypeError, match="unexpected keyword argument 'position_ids'"):
            module(**BATCH, position_ids=torch.zeros(1, 3))


def test_output_attentions_is_rejected_by_name(both):
    with pytest.raises(ValueError, match="do not support output_attentions"):
        both[1](**BATCH, decoder_input_ids=torch.tensor([[1]] * 3), output_attentions=True)


def test_incomplete_folder_is_refused_with_the_files_that_it_needs(exported):
    (exported[1] / "onnx" / "encoder_model.onnx").unlink()
    with pytest.raises(
        InputError, match="incomplete export: it needs encoder_model.onnx and decoder_model_merged.onnx"
    ):
        load(str(exported[1]))


def test_folder_records_what_it_was_made_from(exported):
    config = json.loads((exported[1] / "config.json").read_text())
    assert config["model_type"] == "vaswani_onnx"
    assert len(config["weights_digest"]) == 64
    assert "auto_map" not in config and "custom_pipelines" not in config
    model, tokenizer = load(str(exported[1]))
    assert model.num_parameters() == AutoModelForSeq2SeqLM.from_pretrained(exported[0]).num_parameters()
    assert len(tokenizer) == 40


def test_dtype_other_than_float32_is_an_error(exported):
    assert load(str(exported[1]), "float32")[0].dtype == torch.float32
    with pytest.raises(InputError, match="float32 here, not in float16"):
        load(str(exported[1]), "float16")
