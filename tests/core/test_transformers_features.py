"""What transformers expects of a first-class model beyond a forward pass: caches, compilation, devices, resizing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate import dispatch_model, infer_auto_device_map
from torch.nn.parallel import scatter_gather
from transformers import (
    AutoModelForSeq2SeqLM,
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    QuantizedCache,
    WatermarkingConfig,
)
from transformers.integrations.neftune import activate_neftune, deactivate_neftune
from transformers.utils.output_capturing import OutputRecorder

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.core.configuration_vaswani import VaswaniConfig
from hf_vaswani.core.modeling_cache import CACHE_NAME

from ..conftest import tiny_model
from .test_modeling_vaswani import VARIANTS, batch, variants

# Those that differ in computation rather than size, since compiling takes seconds each.
few_variants = pytest.mark.parametrize(
    "name",
    [
        "paper",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("fairseq", "pre-norm", "learned positions", "no positions", "zero start")
        ),
    ],
)


def source(**changes):
    inputs = batch(**changes)
    return {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}


# Caches.


@variants
@pytest.mark.parametrize("num_beams", [1, 3])
def test_static_cache_gives_the_same_tokens(changes, num_beams):
    model = tiny_model(**changes)
    expected = model.generate(**source(), max_new_tokens=12, num_beams=num_beams, use_cache=False)
    tokens = model.generate(
        **source(), max_new_tokens=12, num_beams=num_beams, cache_implementation="static", disable_compile=True
    )
    assert torch.equal(tokens, expected)


def test_static_cache_beyond_learned_positions_raises_a_clear_error():
    model = tiny_model(position_type="learned", max_position_embeddings=10)
    with pytest.raises(ValueError, match="static cache for 21 tokens .* end at max_position_embeddings=10"):
        model.generate(**source(), max_new_tokens=20, cache_implementation="static")


@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(1, 3), (3, 1)])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_caches_follow_the_number_of_decoder_layers(encoder_layers, decoder_layers, cache):
    model = tiny_model(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    expected = model.generate(**source(), max_new_tokens=8, use_cache=False)
    tokens = model.generate(**source(), max_new_tokens=8, cache_implementation=cache, disable_compile=True)
    assert torch.equal(tokens, expected)


# Slow, since Quanto compiles its kernels.
@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [1, 3])
def test_quantized_cache_is_used_and_gives_nearly_the_same_scores(monkeypatch, num_beams):
    pytest.importorskip("optimum.quanto")
    model = tiny_model()
    caches, forward = [], model.forward
    monkeypatch.setattr(
        model, "forward", lambda *args, **kwargs: caches.append(kwargs[CACHE_NAME]) or forward(*args, **kwargs)
    )
    options = {"backend": "quanto", "nbits": 4, "q_group_size": 4, "residual_length": 4}
    search = {"max_new_tokens": 12, "num_beams": num_beams, "return_dict_in_generate": True, "output_logits": True}
    exact = model.generate(**source(), **search)
    quantized = model.generate(**source(), **search, cache_implementation="quantized", cache_config=options)
    assert isinstance(caches[-1], EncoderDecoderCache)
    assert isinstance(caches[-1].self_attention_cache, QuantizedCache)
    # The first step has nothing quantized yet; at the second the rounding shows, and is small.
    assert torch.equal(quantized.logits[0], exact.logits[0])
    assert 0 < (quantized.logits[1] - exact.logits[1]).abs().max() < 0.2


# Compilation and export.


@pytest.mark.slow
@few_variants
def test_forward_compiles_without_graph_breaks(name):
    torch.compiler.reset()
    model = tiny_model(**VARIANTS[name])
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        expected = model(**batch()).logits
        torch.testing.assert_close(compiled(**batch()).logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_training_step_compiles_without_graph_breaks():
    torch.compiler.reset()
    model = tiny_model().train()
    inputs = batch()
    inputs["labels"] = inputs.pop("decoder_input_ids")
    torch.compile(model, fullgraph=True, backend="eager")(**inputs).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.slow
@few_variants
def test_exported_program_accepts_other_sizes(name):
    model = tiny_model(**VARIANTS[name])
    sizes = {name: torch.export.Dim(name, min=2, max=60) for name in ("batch", "source", "target")}
    by_source = {0: sizes["batch"], 1: sizes["source"]}
    shapes = {
        "input_ids": by_source,
        "attention_mask": by_source,
        "decoder_input_ids": {0: sizes["batch"], 1: sizes["target"]},
    }
    with torch.no_grad():
        program = torch.export.export(model, (), kwargs=batch(), dynamic_shapes=shapes)
        other = batch(lengths=(9, 3, 5), target_length=7)
        expected = model(**other).logits
        torch.testing.assert_close(program.module()(**other).logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_forward_passes_of_generate_can_be_captured(num_beams):
    utils = pytest.importorskip("transformers.exporters.utils")
    model = tiny_model()
    settings = GenerationConfig(num_beams=num_beams)
    parts = utils.decompose_for_generation(model, source(), generation_config=settings)
    for name in ("prefill", "decode"):
        module, inputs = parts[name]
        assert inputs["decoder_input_ids"].shape == (2 * num_beams, 1)
        assert module(**inputs).logits.shape == (2 * num_beams, 1, 40)


@pytest.mark.slow
def test_programs_exported_for_generation_give_the_tokens_of_generate():
    exporters = pytest.importorskip("transformers.exporters")
    model = tiny_model(share_encoder_decoder_embeddings=False, tie_word_embeddings=False)
    # With more than one token, since torch.export would treat a size of 1 as fixed.
    inputs = {**source(), "decoder_input_ids": torch.tensor([[1, 5], [1, 5]])}
    exporter = exporters.DynamoExporter()
    exported = exporter.export_for_generation(model, inputs, exporters.DynamoConfig(dynamic=True))
    if isinstance(exported, dict):  # transformers up to 5.20
        programs = exported
    else:
        programs = {name: component.program for name, component in exported.components.items()}
    prefill, decode = (programs[name].module() for name in ("prefill", "decode"))

    expected = model.generate(**inputs, max_new_tokens=8, eos_token_id=None)
    tokens, given = inputs["decoder_input_ids"], {"attention_mask": inputs["attention_mask"]}
    with torch.no_grad():
        given["encoder_outputs"] = model.get_encoder()(inputs["input_ids"], **given)
        empty_cache = EncoderDecoderCache(*(DynamicCache(config=model.config) for _ in range(2)))
        output = prefill(**given, decoder_input_ids=tokens, **{CACHE_NAME: empty_cache})
        while tokens.shape[1] < expected.shape[1]:
            new = output.logits[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, new], dim=1)
            output = decode(**given, decoder_input_ids=new, **{CACHE_NAME: getattr(output, CACHE_NAME)})
    assert torch.equal(tokens, expected)
    assert len(tokens[0].unique()) > 3


# Hooks on embeddings, through which transformers adds noise and adapters get their gradients.


@pytest.mark.parametrize("share", [True, False])
def test_get_input_embeddings_returns_the_modules_that_are_called(share):
    model = tiny_model(share_encoder_decoder_embeddings=share)
    called = []
    for part in (model, model.model, model.get_encoder(), model.get_decoder()):
        part.get_input_embeddings().register_forward_hook(lambda *_, part=part: called.append(type(part).__name__))
    model(**batch())
    models = ["VaswaniForConditionalGeneration", "VaswaniModel"]
    assert sorted(called) == sorted([*models, "VaswaniEncoder", "VaswaniDecoder"])


@pytest.mark.parametrize("share", [True, False])
def test_neftune_adds_noise_to_the_source_embeddings_in_training(share):
    model = tiny_model(share_encoder_decoder_embeddings=share, dropout=0.0).train()
    plain = model(**batch()).logits
    handle = activate_neftune(model, neftune_noise_alpha=5.0)
    noisy = model(**batch()).logits
    assert (noisy - plain).abs().max() > 1e-3
    assert torch.equal(model.eval()(**batch()).logits, plain)
    deactivate_neftune(model.train(), handle)
    assert torch.equal(model(**batch()).logits, plain)


# Vocabularies that grow or shrink.


def test_resized_embeddings_stay_tied_but_separate_modules():
    model = tiny_model()
    names = {name for name, _ in model.named_modules()}
    model.resize_token_embeddings(50)
    assert {name for name, _ in model.named_modules()} == names
    weights = [model.get_submodule(name).weight for name in names if name.endswith(("shared", "embed_tokens"))]
    assert len(weights) == 3
    assert all(weight is model.lm_head.weight for weight in weights)
    assert weights[0].shape == (50, 16)


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("size", [21, 37])
def test_separate_vocabularies_are_resized_independently(tie, size):
    model = tiny_model(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=30, tie_word_embeddings=tie, output_bias=True
    )
    inputs = batch(vocab_size=20)
    before = model(**inputs).logits
    model.resize_token_embeddings(size + 10)
    model.resize_decoder_token_embeddings(size)
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (size + 10, size)
    assert (model.lm_head.weight is model.model.decoder.embed_tokens.weight) == tie
    after = model(**inputs).logits
    assert after.shape[-1] == model.lm_head.bias.numel() == size
    kept = min(size, 30)
    torch.testing.assert_close(after[..., :kept], before[..., :kept])


def test_resized_separate_vocabularies_survive_saving(tmp_path):
    model = tiny_model(share_encoder_decoder_embeddings=False, decoder_vocab_size=30)
    model.resize_decoder_token_embeddings(33, pad_to_multiple_of=8)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert loaded.config.decoder_vocab_size == 40
    assert torch.equal(loaded(**batch()).logits, model(**batch()).logits)


def test_frozen_embeddings_stay_frozen_when_resized():
    model = tiny_model(share_encoder_decoder_embeddings=False, decoder_vocab_size=30)
    model.model.encoder.embed_tokens.weight.requires_grad_(False)
    model.resize_token_embeddings(50)
    model.resize_decoder_token_embeddings(50)
    assert not model.model.encoder.embed_tokens.weight.requires_grad
    assert model.model.decoder.embed_tokens.weight.requires_grad


def test_joint_vocabulary_cannot_be_resized_for_the_target_alone():
    with pytest.raises(ValueError, match="resize both with resize_token_embeddings"):
        tiny_model().resize_decoder_token_embeddings(50)


# Devices, types and processes.


@variants
def test_model_spread_over_memory_and_disk_gives_the_same_logits(tmp_path, changes):
    model = tiny_model(**changes)
    expected = model(**batch()).logits
    model.save_pretrained(tmp_path)
    parts = [f"model.{name}" for name, _ in model.model.named_children() if name == "shared"]
    for stack in ("encoder", "decoder"):
        parts += [f"model.{stack}.{name}" for name, _ in model.get_submodule(f"model.{stack}").named_children()]
    device_map = {part: "disk" if part.endswith("layers") else "cpu" for part in [*parts, "lm_head"]}
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, device_map=device_map, offload_folder=tmp_path / "disk")
    assert torch.equal(loaded.eval()(**batch()).logits, expected)


def test_automatic_device_map_never_splits_a_layer(tmp_path):
    model = tiny_model()
    device_map = infer_auto_device_map(
        model, max_memory={"cpu": 40_000, "disk": 10**9}, no_split_module_classes=list(model._no_split_modules)
    )
    assert {"cpu", "disk"} <= set(device_map.values())
    assert not [name for name in device_map if ".layers." in name and name.count(".") > 3]
    expected = model(**batch()).logits
    dispatched = dispatch_model(model, device_map, main_device="cpu", offload_dir=tmp_path)
    assert torch.equal(dispatched(**batch()).logits, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@variants
def test_model_loads_and_runs_in_half_precision(tmp_path, dtype, changes):
    model = tiny_model(**changes)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=dtype).eval()
    assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
    logits = loaded(**batch()).logits
    assert logits.dtype == dtype
    torch.testing.assert_close(logits.float(), model(**batch()).logits, atol=0.1, rtol=0.1)
    assert loaded.generate(**source(), max_new_tokens=4).shape[0] == 2


def test_meta_device_needs_no_memory():
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(VaswaniConfig())
    assert all(tensor.is_meta for tensor in model.state_dict().values())
    inputs = batch()
    logits = model(inputs["input_ids"].to("meta"), decoder_input_ids=inputs["decoder_input_ids"].to("meta")).logits
    assert logits.shape == (2, 5, 37000)


@pytest.mark.parametrize("with_labels", [True, False])
def test_outputs_of_replicas_can_be_gathered(monkeypatch, with_labels):
    """What `nn.DataParallel` does after its replicas; only the copying between GPUs is replaced."""

    class Gather:
        @staticmethod
        def apply(device, dim, *tensors):
            return torch.cat([tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in tensors], dim)

    monkeypatch.setattr(scatter_gather, "Gather", Gather)
    model = tiny_model("eager")
    inputs = batch()
    if with_labels:
        inputs["labels"] = inputs["decoder_input_ids"]
    halves = [{name: tensor[row : row + 1] for name, tensor in inputs.items()} for row in (0, 1)]
    every = {"output_attentions": True, "output_hidden_states": True}
    gathered = scatter_gather.gather([model(**half, **every) for half in halves], 0)
    torch.testing.assert_close(gathered.logits, model(**inputs).logits, atol=1e-5, rtol=1e-5)
    assert gathered.cross_attentions[0].shape[0] == 2
    assert with_labels == (gathered.loss is not None)


def test_classes_that_fsdp_wraps_exist():
    model = tiny_model()
    classes = {type(module).__name__ for module in model.modules()}
    assert set(model._no_split_modules) == {"VaswaniEncoderLayer", "VaswaniDecoderLayer"} <= classes


@pytest.mark.parametrize("share", [True, False])
def test_tensor_parallel_plan_covers_all_matrices(share):
    model = tiny_model(share_encoder_decoder_embeddings=share)
    covered = set()
    for name, parameter in model.named_parameters():
        pattern = ".".join("*" if part.isdigit() else part for part in name.split(".")[:-1])
        if pattern in model.tp_plan:
            covered.add(pattern)
        else:
            assert parameter.dim() == 1, f"{name} is in no plan"
    absent = {"encoder.embed_tokens", "decoder.embed_tokens"} if share else {"shared"}
    plan = {name for name in VaswaniConfig.base_model_tp_plan if name.startswith(("encoder.", "decoder.", "shared"))}
    assert covered >= {f"model.{name}" for name in plan - absent}


@pytest.mark.slow
def test_two_tensor_parallel_processes_give_the_logits_of_one(tmp_path):
    tiny_model().save_pretrained(tmp_path / "model")
    script = tmp_path / "parallel.py"
    script.write_text(
        "import sys, torch\n"
        "from torch.distributed.tensor import DTensor\n"
        "from hf_vaswani import VaswaniForConditionalGeneration as Model\n"
        "from tests.core.test_modeling_vaswani import batch\n"
        "whole = Model.from_pretrained(sys.argv[1]).eval()\n"
        "part = Model.from_pretrained(sys.argv[1], tp_plan='auto').eval()\n"
        "weight = part.model.encoder.layers[0].fc1.weight\n"
        "assert isinstance(weight, DTensor) and weight.to_local().shape == (12, 16)\n"
        "with torch.no_grad():\n"
        "    torch.testing.assert_close(part(**batch()).logits, whole(**batch()).logits, atol=1e-5, rtol=1e-5)\n"
        "search = dict(input_ids=batch()['input_ids'], attention_mask=batch()['attention_mask'], num_beams=2)\n"
        "assert torch.equal(part.generate(**search, max_new_tokens=8), whole.generate(**search, max_new_tokens=8))\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    finished = subprocess.run(
        [*command, str(script), str(tmp_path / "model")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]


# LayerDrop.


def test_layerdrop_is_off_by_default_and_does_not_affect_evaluation():
    config = VaswaniConfig()
    assert (config.encoder_layerdrop, config.decoder_layerdrop) == (0, 0)
    inputs = batch()
    expected = tiny_model()(**inputs).logits
    assert torch.equal(tiny_model(encoder_layerdrop=0.9, decoder_layerdrop=0.9)(**inputs).logits, expected)


def test_layerdrop_drops_the_given_share_of_layers_in_training():
    model = tiny_model(encoder_layers=40, encoder_layerdrop=0.25).train()
    torch.manual_seed(0)
    kept = sum(len(list(model.model.encoder.kept_layers())) for _ in range(50))
    assert kept / (40 * 50) == pytest.approx(0.75, abs=0.03)
    inputs = batch()
    inputs["labels"] = inputs.pop("decoder_input_ids")
    model(**inputs).loss.backward()
    without_gradient = [layer for layer in model.model.encoder.layers if layer.fc1.weight.grad is None]
    assert 0 < len(without_gradient) < 40


# Options of generate() that read the vocabulary or the number of layers.


@pytest.mark.parametrize("sizes", [(40, 30), (30, 40)], ids=["smaller target", "larger target"])
def test_prompt_lookup_and_watermarking_use_the_target_vocabulary(sizes):
    model = tiny_model(share_encoder_decoder_embeddings=False, vocab_size=sizes[0], decoder_vocab_size=sizes[1])
    search = {**source(), "do_sample": False, "max_new_tokens": 30, "eos_token_id": -1}
    one = {**search, "input_ids": search["input_ids"][:1], "attention_mask": search["attention_mask"][:1]}
    assert torch.equal(model.generate(**one, prompt_lookup_num_tokens=3), model.generate(**one))
    marked = model.generate(**search, watermarking_config=WatermarkingConfig(bias=50.0, seeding_scheme="lefthash"))
    assert marked.max() < sizes[1]


def test_no_quantized_cache_is_created_without_use_cache():
    pytest.importorskip("optimum.quanto")
    model = tiny_model()
    options = {"backend": "quanto", "nbits": 4, "q_group_size": 4, "residual_length": 4}
    tokens = model.generate(
        **source(), max_new_tokens=12, use_cache=False, cache_implementation="quantized", cache_config=options
    )
    assert torch.equal(tokens, model.generate(**source(), max_new_tokens=12))


@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(1, 3), (3, 1)])
def test_last_hidden_state_can_be_requested_alone(encoder_layers, decoder_layers):
    if not hasattr(OutputRecorder(torch.nn.Module), "num_hidden_layers_key"):
        pytest.skip("this version of transformers records all hidden states or none")
    model = tiny_model(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    every = model(**batch(), output_hidden_states=True)
    last = model(**batch(), output_hidden_states=[-1])
    assert torch.equal(last.decoder_hidden_states[-1], every.decoder_hidden_states[-1])
    assert torch.equal(last.encoder_hidden_states[-1], every.encoder_hidden_states[-1])
