"""Checkpoints written here with OpenNMT-py's names and shapes, against its formulas in float64."""

import functools
import math
import sys
import types
from argparse import Namespace

import numpy as np
import pytest
import torch

from hf_vaswani.errors import InputError
from hf_vaswani.interop import import_model, import_tokenizer

from .. import reference

D, HEADS, FFN = 16, 4, 24
SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]
SOURCE = [*SPECIAL, *(f"s{i}" for i in range(17))]
TARGET = [*SPECIAL, *(f"t{i}" for i in range(25))]
OPTIONS = {
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "position_encoding": True,
    "heads": HEADS,
    "pos_ffn_activation_fn": "relu",
    "max_relative_positions": 0,
    "self_attn_type": "scaled-dot",
    "copy_attn": False,
    "dropout": [0.1],
    "attention_dropout": [0.2],
    "label_smoothing": 0.1,
}


def linear(name, outputs, inputs, bias=True):
    weights = {f"{name}.weight": torch.randn(outputs, inputs) / math.sqrt(inputs)}
    return weights | ({f"{name}.bias": torch.randn(outputs) / 5} if bias else {})


def norm(name):
    return {f"{name}.weight": 1 + torch.randn(D) / 5, f"{name}.bias": torch.randn(D) / 5}


def random_state(attention_bias=True, position_encoding=True, layout=("interleaved", "paper")):
    torch.manual_seed(0)
    state = {}
    for stack, layers, attentions, vocabulary in (
        ("encoder", "encoder.transformer", ["self_attn"], SOURCE),
        ("decoder", "decoder.transformer_layers", ["self_attn", "context_attn"], TARGET),
    ):
        embeddings = f"{stack}.embeddings.make_embedding"
        state[f"{embeddings}.emb_luts.0.weight"] = torch.randn(len(vocabulary), D) / 4
        if position_encoding:
            table = reference.positions(range(50), D, *layout)
            state[f"{embeddings}.pe.pe"] = torch.tensor(table, dtype=torch.float32)[:, None]
        for number in range(2):
            layer = f"{layers}.{number}"
            for attention in attentions:
                for part in ("linear_keys", "linear_values", "linear_query", "final_linear"):
                    state |= linear(f"{layer}.{attention}.{part}", D, D, attention_bias)
            state |= linear(f"{layer}.feed_forward.w_1", FFN, D) | linear(f"{layer}.feed_forward.w_2", D, FFN)
            for name in ["feed_forward.layer_norm"] + (
                ["layer_norm"] if stack == "encoder" else ["layer_norm_1", "layer_norm_2"]
            ):
                state |= norm(f"{layer}.{name}")
        state |= norm(f"{stack}.layer_norm")
    return state


def write_checkpoint(folder, options=None, state=None, generator=None, vocab=None, name="model_step_100.pt"):
    contents = {
        "model": state or random_state(),
        "generator": generator or linear("0", len(TARGET), D),
        "vocab": vocab or {"src": SOURCE, "tgt": TARGET, "data_task": "seq2seq"},
        "opt": Namespace(**{**OPTIONS, **(options or {})}),
        "optim": None,
    }
    torch.save(contents, folder / name)
    return folder / name, contents


def expected_logits(contents, source, target, layout="interleaved", exponent="paper", positions=True):
    """OpenNMT is pre-norm, whatever its names suggest; the map of names shows which norm is where."""
    names = {
        "encoder.transformer": "encoder.layers",
        "decoder.transformer_layers": "decoder.layers",
        "context_attn": "encoder_attn",
        "linear_keys": "k_proj",
        "linear_values": "v_proj",
        "linear_query": "q_proj",
        "final_linear": "out_proj",
        "feed_forward.layer_norm": "final_layer_norm",
        "feed_forward.w_1": "fc1",
        "feed_forward.w_2": "fc2",
        "layer_norm_1": "self_attn_layer_norm",
        "layer_norm_2": "encoder_attn_layer_norm",
    }
    weights = {}
    for name, array in reference.to_numpy(contents["model"]).items():
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        if ".layers." in name:
            name = name.replace(".layer_norm.", ".self_attn_layer_norm.")
        weights[name] = array
    transformer = reference.Transformer(weights, HEADS, HEADS, pre_norm=True, eps=1e-6)

    def embed(stack, ids):
        x = weights[f"{stack}.embeddings.make_embedding.emb_luts.0.weight"][ids]
        if not positions:
            return x
        return x * math.sqrt(D) + reference.positions(range(len(ids)), D, layout, exponent)

    output = transformer.decode(transformer.encode(embed("encoder", source)), embed("decoder", target))
    head = {name.removeprefix("0."): array for name, array in reference.to_numpy(contents["generator"]).items()}
    return output @ head["weight"].T + head["bias"]


def assert_same_logits(model, contents, **positions):
    sources = [[5, 9, 4, 7, 12], [8, 6]]
    ids = torch.tensor([[5, 9, 4, 7, 12], [8, 6, 1, 1, 1]])
    target = torch.tensor([[2, 9, 14, 5], [2, 4, 4, 20]])
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=ids.ne(1).long(), decoder_input_ids=target).logits
    for row, source in enumerate(sources):
        expected = expected_logits(contents, source, target[row].tolist(), **positions)
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)


def test_version_3_checkpoint_matches_the_formulas(tmp_path):
    path, contents = write_checkpoint(tmp_path)
    model = import_model(path)
    assert_same_logits(model, contents)
    config = model.config
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (1, 2, 3)
    assert config.decoder_start_token_id == 2
    assert (config.dropout, config.activation_dropout, config.attention_dropout) == (0.1, 0.1, 0.2)


def test_generator_of_later_versions_is_read(tmp_path):
    path, contents = write_checkpoint(tmp_path, generator=linear("", len(TARGET), D))
    contents["generator"] = {name.strip("."): tensor for name, tensor in contents["generator"].items()}
    torch.save(contents, path)
    assert_same_logits(import_model(path), contents)


def test_layers_without_attention_biases_are_read(tmp_path):
    path, contents = write_checkpoint(tmp_path, state=random_state(attention_bias=False))
    model = import_model(path)
    assert not model.config.attention_bias
    assert_same_logits(model, contents)


def test_concatenated_sinusoids_are_read(tmp_path):
    state = random_state(layout=("halves", "tensor2tensor"))
    path, contents = write_checkpoint(tmp_path, {"position_encoding_type": "SinusoidalConcat"}, state)
    assert_same_logits(import_model(path), contents, layout="halves", exponent="tensor2tensor")


def test_without_positions_embeddings_are_not_scaled(tmp_path):
    state = random_state(position_encoding=False)
    path, contents = write_checkpoint(tmp_path, {"position_encoding": False}, state)
    assert_same_logits(import_model(path), contents, positions=False)


def test_shared_decoder_embeddings_stay_one_matrix(tmp_path):
    state = random_state()
    embeddings = state["decoder.embeddings.make_embedding.emb_luts.0.weight"]
    generator = {"0.weight": embeddings, "0.bias": torch.randn(len(TARGET))}
    path, contents = write_checkpoint(tmp_path, state=state, generator=generator)
    model = import_model(path)
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight
    assert_same_logits(model, contents)


def test_space_separated_tokens_are_converted_to_ids(tmp_path):
    path, _ = write_checkpoint(tmp_path)
    tokenizer = import_tokenizer(path)
    # OpenNMT-py appends nothing to the source.
    assert tokenizer("s0 s3 unknown").input_ids == [4, 7, 0]
    assert tokenizer(text_target="t0 t3").input_ids == [4, 7, 3]
    assert tokenizer.decode([2, 4, 7, 3, 1], skip_special_tokens=True) == "t0 t3"


@pytest.fixture
def torchtext(monkeypatch):
    """Stand-ins for the classes that versions 1 and 2 pickled, under their original names."""

    def module(name, *classes):
        created = types.ModuleType(name)
        for class_name in classes:
            setattr(created, class_name, type(class_name, (), {"__module__": name, "__qualname__": class_name}))
        monkeypatch.setitem(sys.modules, name, created)
        return created

    for package in ("torchtext", "torchtext.data", "onmt", "onmt.inputters"):
        module(package)
    return (
        module("torchtext.vocab", "Vocab").Vocab,
        module("torchtext.data.field", "Field").Field,
        module("onmt.inputters.text_dataset", "TextMultiField", "_feature_tokenize").TextMultiField,
    )


def test_vocabularies_of_versions_1_and_2_are_read_without_torchtext(tmp_path, torchtext, monkeypatch):
    vocab_class, field_class, multi_field_class = torchtext

    def field(tokens):
        vocab, inner, outer = vocab_class(), field_class(), multi_field_class()
        vocab.itos, vocab.stoi = tokens, {token: i for i, token in enumerate(tokens)}
        inner.vocab = vocab
        inner.tokenize = functools.partial(sys.modules["onmt.inputters.text_dataset"]._feature_tokenize, layer=0)
        outer.fields = [("src", inner)]
        return outer

    # In these versions the source vocabulary has neither <s> nor </s>.
    source = ["<unk>", "<blank>", *(f"s{i}" for i in range(19))]
    path, contents = write_checkpoint(tmp_path, vocab={"src": field(source), "tgt": field(TARGET)})
    for name in [name for name in sys.modules if name.split(".")[0] in ("torchtext", "onmt")]:
        monkeypatch.delitem(sys.modules, name)
    assert_same_logits(import_model(path), contents)
    tokenizer = import_tokenizer(path)
    assert tokenizer("s0 s3").input_ids == [2, 5]
    assert tokenizer(text_target="t0 t3").input_ids == [4, 7, 3]
    assert tokenizer.decode([2, 4, 7, 3, 1], skip_special_tokens=True) == "t0 t3"


def test_all_unsupported_options_are_reported_together(tmp_path):
    options = {"copy_attn": True, "max_relative_positions": -1, "pos_ffn_activation_fn": "silu", "layer_norm": "rms"}
    path, _ = write_checkpoint(tmp_path, options)
    with pytest.raises(InputError) as error:
        import_model(path)
    for part in ("copy_attn=True", "max_relative_positions=-1", "pos_ffn_activation_fn='silu'", "layer_norm='rms'"):
        assert part in str(error.value)


def test_vocabulary_that_does_not_match_the_weights_is_rejected(tmp_path):
    path, _ = write_checkpoint(tmp_path, vocab={"src": SOURCE[:-2], "tgt": [*TARGET, "more"]})
    with pytest.raises(InputError) as error:
        import_model(path)
    assert "src vocabulary has 19 tokens, but the weights have 21 embeddings" in str(error.value)
    assert "tgt vocabulary has 30 tokens, but the weights have 29 embeddings" in str(error.value)


def test_start_token_and_eps_are_read_from_the_checkpoint(tmp_path):
    vocab = {"src": SOURCE, "tgt": TARGET, "decoder_start_token": "t3"}
    config = import_model(write_checkpoint(tmp_path, {"norm_eps": 1e-4}, vocab=vocab)[0]).config
    assert (config.decoder_start_token_id, config.layer_norm_eps) == (TARGET.index("t3"), 1e-4)


def test_norm_names_before_version_0_7_are_read(tmp_path):
    old = {
        name.replace("norm.weight", "norm.a_2").replace("norm.bias", "norm.b_2"): tensor
        for name, tensor in random_state().items()
    }
    assert any(name.endswith("layer_norm.a_2") for name in old)
    path, contents = write_checkpoint(tmp_path, state=old)
    contents["model"] = random_state()
    assert_same_logits(import_model(path), contents)


def test_stored_position_table_overrides_the_options(tmp_path):
    path, contents = write_checkpoint(tmp_path, state=random_state(layout=("halves", "tensor2tensor")))
    assert_same_logits(import_model(path), contents, layout="halves", exponent="tensor2tensor")


def test_unknown_position_table_is_rejected(tmp_path):
    state = random_state()
    state["encoder.embeddings.make_embedding.pe.pe"] = torch.randn(50, 1, D)
    with pytest.raises(InputError, match="contains unsupported sinusoids"):
        import_model(write_checkpoint(tmp_path, state=state)[0])


@pytest.mark.parametrize(
    "change",
    [
        {"opt": {"heads": None}},
        {"opt": "transformer"},
        {"vocab": [SOURCE, TARGET]},
        {"vocab": {"src": SOURCE}},
        {"vocab": {"src": [1, 2], "tgt": TARGET}},
        {"vocab": {"src": SOURCE, "tgt": TARGET, "decoder_start_token": "nowhere"}},
        {"model": [1]},
        {"model": None},
        {"generator": None},
        {"generator": {"0.weight": "text"}},
    ],
    ids=str,
)
def test_contents_that_are_not_a_checkpoint_raise_one_clear_error(tmp_path, change):
    path, contents = write_checkpoint(tmp_path)
    torch.save({**contents, **change}, path)
    with pytest.raises(InputError, match=r"model_step_100\.pt"):
        import_model(path)


def test_missing_first_layer_is_reported(tmp_path):
    state = {name: tensor for name, tensor in random_state().items() if "encoder.transformer.0.feed" not in name}
    with pytest.raises(InputError, match=r"lacks weights.*model\.encoder\.layers\.0\.fc1\.bias"):
        import_model(write_checkpoint(tmp_path, state=state)[0])
