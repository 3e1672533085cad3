import functools
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.core.modeling_cache import CACHE_NAME
from hf_vaswani.core.modeling_layers import (
    layer_norm,
    scaled_dot_product_attention,
    sinusoidal_positions,
)
from hf_vaswani.fast import label_smoothing as smoothing_module
from hf_vaswani.fast.label_smoothing import CACHED_LOGITS, DeviceCrossEntropy, FusedLoss, sequence_loss
from hf_vaswani.fast.layers import VaswaniAttention, VaswaniDropout, attention_weights, without_cudnn

from .. import reference
from ..conftest import tiny_config, tiny_model

# FlexAttention's masks are compiled, which takes minutes.
ATTENTIONS = ["eager", "sdpa", pytest.param("flex_attention", marks=pytest.mark.slow)]
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm_position": "pre"},
    "learned positions": {"position_type": "learned", "max_position_embeddings": 64},
    "untied": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    "two vocabularies": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 30},
    "biases": {"attention_bias": False, "ffn_bias": False, "output_bias": True},
    "fairseq": {
        "sinusoid_layout": "halves",
        "sinusoid_exponent": "tensor2tensor",
        "sinusoid_offset": 1,
        "positions_skip_padding": True,
    },
    "learned positions without padding": {
        "position_type": "learned",
        "max_position_embeddings": 64,
        "positions_skip_padding": True,
    },
    "no positions": {"position_type": "none", "scale_embedding": False},
    "head widths": {"d_k": 3, "d_v": 5, "decoder_attention_heads": 3},
    "post-norm with final norms": {"final_norm": True},
    "pre-norm without final norms": {"norm_position": "pre", "final_norm": False, "layer_norm_eps": 1e-3},
    "zero start": {"decoder_start_embedding": "zero", "activation_function": "swish"},
}
variants = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())


@functools.cache
def compiles() -> bool:
    """Whether torch can compile here: FlexAttention needs it, and thus a C++ compiler and a path without spaces."""
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    except Exception:
        return False
    return True


@pytest.fixture(params=ATTENTIONS)
def attention(request) -> str:
    if request.param == "flex_attention" and not compiles():
        pytest.skip("torch cannot compile FlexAttention here")
    return request.param


def batch(lengths=(7, 4), target_length=5, vocab_size=30, seed=0):
    """Random source padded on the right, its mask, and random target tokens."""
    generator = torch.Generator().manual_seed(seed)
    input_ids = torch.randint(3, vocab_size, (len(lengths), max(lengths)), generator=generator)
    attention_mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    decoder_input_ids = torch.randint(3, vocab_size, (len(lengths), target_length), generator=generator)
    return {
        "input_ids": input_ids * attention_mask,
        "attention_mask": attention_mask,
        "decoder_input_ids": decoder_input_ids,
    }


# Values stated by the paper and other implementations.


def test_positional_encoding_of_width_4_at_position_2():
    expected = [0.9093, -0.4161, 0.0200, 0.9998]
    np.testing.assert_allclose(sinusoidal_positions(torch.tensor([2]), 4)[0], expected, atol=5e-5)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("exponent", ["paper", "tensor2tensor"])
def test_positions_equal_the_formula_in_float64(layout, exponent):
    numbers = [0, 1, 17, 500, 9000]
    got = sinusoidal_positions(torch.tensor(numbers), 12, layout, exponent)
    np.testing.assert_allclose(got.numpy(), reference.positions(numbers, 12, layout, exponent), atol=1e-9)


def test_attention_of_the_worked_example():
    query = torch.tensor([[[[1.0, 0.0]]]])
    key = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    value = torch.tensor([[[[2.0, 1.0], [0.0, 3.0]]]])
    attended, weights = scaled_dot_product_attention(nn.Module().eval(), query, key, value, None)
    e = math.exp(1 / math.sqrt(2))
    np.testing.assert_allclose(weights.flatten(), [e / (e + 1), 1 / (e + 1)], atol=1e-6)
    # The published figures were rounded along the way; the exact values are 1.33952 and 1.66048.
    np.testing.assert_allclose(attended.flatten(), [1.33886, 1.66114], atol=1e-3)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_attention_equals_equation_1_in_float64(implementation):
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 3, 5, 4, generator=generator), torch.randn(2, 3, 7, 4, generator=generator)
    value, lengths = torch.randn(2, 3, 7, 6, generator=generator), [7, 4]
    mask = torch.zeros(2, 1, 5, 7)
    mask[1, ..., 4:] = torch.finfo(torch.float32).min
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, scaled_dot_product_attention)
    module = nn.Module().eval()
    module.is_causal = False
    attended = attend(module, query, key, value, mask)[0]
    for row, length in enumerate(lengths):
        for head in range(3):
            q, k, v = (tensor[row, head].double().numpy() for tensor in (query, key, value))
            weights = np.exp(q @ k[:length].T / math.sqrt(4))
            expected = weights / weights.sum(-1, keepdims=True) @ v[:length]
            np.testing.assert_allclose(attended[row, :, head], expected, atol=1e-6)


@pytest.mark.parametrize("keys", [1, 7, 15, 16, 17])
def test_attention_weights_and_their_gradients_equal_softmax_in_float64(keys):
    generator = torch.Generator().manual_seed(0)
    scores = 30 * torch.randn(3, 2, 4, keys, generator=generator)
    # A row of only masked scores, the lowest floats, must still be shared among its own keys.
    scores[0, ..., -1] = scores[1] = torch.finfo(torch.float32).min
    scores.requires_grad_()
    upstream = torch.randn(scores.shape, generator=generator)
    weights = attention_weights(scores)
    weights.backward(upstream)
    exact = np.exp(scores.detach().double().numpy() - scores.detach().double().amax(-1, keepdim=True).numpy())
    exact /= exact.sum(-1, keepdims=True)
    np.testing.assert_allclose(weights.detach(), exact, atol=1e-6)
    upstream = upstream.double().numpy()
    gradient = exact * (upstream - (exact * upstream).sum(-1, keepdims=True))
    np.testing.assert_allclose(scores.grad, gradient, atol=1e-6)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_causal_attention_without_a_mask_ignores_later_positions(implementation):
    query, key, value = torch.randn(3, 2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, scaled_dot_product_attention)
    module = nn.Module().eval()
    module.is_causal = True
    attended = attend(module, query, key, value, None)[0]
    for end in range(1, 6):
        no_mask = torch.zeros(2, 1, 1, end)
        last = attend(module, query[:, :, end - 1 : end], key[:, :, :end], value[:, :, :end], no_mask)[0]
        torch.testing.assert_close(attended[:, end - 1 : end], last)


@pytest.mark.parametrize("padding", [False, True])
def test_bf16_gradients_on_a_cpu_equal_those_of_eager_attention(padding):
    def gradients(implementation: str) -> list[torch.Tensor]:
        model, inputs = tiny_model(implementation, dropout=0.0).train(), batch(target_length=12)
        if padding:
            inputs["decoder_attention_mask"] = torch.ones(2, 12, dtype=torch.long)
            inputs["decoder_attention_mask"][0, 8:] = 0
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**inputs, labels=inputs["decoder_input_ids"]).loss
        loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    for eager, sdpa in zip(gradients("eager"), gradients("sdpa"), strict=True):
        assert torch.equal(eager, sdpa)


@pytest.mark.parametrize("eps", [1e-5, 1e-3])
def test_layer_norm_equals_the_formula_in_float64(eps):
    norm = layer_norm(tiny_config(layer_norm_eps=eps))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(16, generator=generator))
        norm.bias.copy_(torch.randn(16, generator=generator))
    x = torch.randn(3, 5, 16, generator=generator) / 100  # small enough for eps to matter
    exact = x.double().numpy()
    deviation = exact - exact.mean(-1, keepdims=True)
    variance = (deviation**2).mean(-1, keepdims=True)
    weight, bias = norm.weight.detach().double().numpy(), norm.bias.detach().double().numpy()
    expected = deviation / np.sqrt(variance + eps) * weight + bias
    np.testing.assert_allclose(norm(x).detach(), expected, atol=1e-5)


def test_causal_mask_of_size_4_is_lower_triangular():
    model = tiny_model("eager")
    inputs = batch(target_length=4)
    weights = model(**inputs, output_attentions=True).decoder_attentions[0]
    assert torch.equal(weights[0, 0] > 0, torch.ones(4, 4).tril().bool())


def test_label_smoothing_gives_the_correct_word_nine_tenths_plus_a_uniform_share():
    vocabulary, right = 7, 2
    logits = torch.randn(1, 1, vocabulary, generator=torch.Generator().manual_seed(0))
    target = np.full(vocabulary, 0.1 / vocabulary)
    target[right] = 0.9 + 0.1 / vocabulary
    log_probabilities = logits[0, 0].double().numpy()
    log_probabilities = log_probabilities - np.log(np.exp(log_probabilities).sum())
    loss = sequence_loss(logits, torch.tensor([[right]]), label_smoothing=0.1)
    assert loss.item() == pytest.approx(-(target * log_probabilities).sum(), abs=1e-6)


# One embedding matrix.


def embedding_matrices(model) -> list[torch.Tensor]:
    source, target = model.model.encoder.embed_tokens, model.model.decoder.embed_tokens
    return [source.weight, target.weight, model.lm_head.weight]


def test_embeddings_and_output_projection_are_one_tensor_before_and_after_saving(tmp_path):
    model = tiny_model()
    assert len({matrix.data_ptr() for matrix in embedding_matrices(model)}) == 1
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert len({matrix.data_ptr() for matrix in embedding_matrices(loaded)}) == 1
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)


@pytest.mark.parametrize(
    ("share", "tie", "matrices"), [(True, True, 1), (True, False, 2), (False, True, 2), (False, False, 3)]
)
def test_embeddings_are_shared_as_the_config_says(tmp_path, share, tie, matrices):
    model = tiny_model(share_encoder_decoder_embeddings=share, tie_word_embeddings=tie)
    assert len({matrix.data_ptr() for matrix in embedding_matrices(model)}) == matrices
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert len({matrix.data_ptr() for matrix in embedding_matrices(loaded)}) == matrices
    for before, after in zip(embedding_matrices(model), embedding_matrices(loaded)):
        assert torch.equal(before, after)


@variants
def test_saved_model_gives_the_same_logits(tmp_path, changes):
    model = tiny_model(**changes)
    model.save_pretrained(tmp_path)
    loaded, report = VaswaniForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(loaded.eval()(**batch()).logits, model(**batch()).logits)


# Initialization (section 3.4 and Xavier uniform).


def test_initialization_is_xavier_uniform_with_scaled_normal_embeddings():
    model = tiny_model(vocab_size=4000, d_model=64)
    projection = model.model.encoder.layers[0].fc1.weight
    limit = math.sqrt(6 / sum(projection.shape))
    assert projection.abs().max().item() == pytest.approx(limit, rel=0.02)
    assert projection.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.05)
    embeddings = model.model.shared.weight
    assert embeddings[1:].std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert embeddings[0].abs().sum() == 0
    assert not model.model.decoder.layers[1].encoder_attn.q_proj.bias.any()


def test_only_query_key_and_value_projections_are_initialized_with_their_gain():
    model = tiny_model(d_model=64, qkv_init_gain=0.5)
    limit = math.sqrt(6 / (64 + 64))
    for attention in (model.model.encoder.layers[0].self_attn, model.model.decoder.layers[1].encoder_attn):
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            assert projection.weight.abs().max().item() == pytest.approx(limit / 2, rel=0.02)
        assert attention.out_proj.weight.abs().max().item() == pytest.approx(limit, rel=0.02)


def test_untied_output_projection_is_initialized_as_an_embedding():
    model = tiny_model(vocab_size=4000, d_model=64, tie_word_embeddings=False)
    assert model.lm_head.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


# Masks.


@variants
@torch.no_grad()  # FlexAttention has no backward pass on the CPU
def test_sentence_gives_the_same_logits_alone_and_padded_in_a_batch(attention, changes):
    model = tiny_model(attention, **changes)
    inputs = batch(lengths=(9, 4))
    together = model(**inputs).logits[1]
    alone = model(
        input_ids=inputs["input_ids"][1:, :4],
        attention_mask=inputs["attention_mask"][1:, :4],
        decoder_input_ids=inputs["decoder_input_ids"][1:],
    ).logits[0]
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@variants
@torch.no_grad()  # FlexAttention has no backward pass on the CPU
def test_later_target_token_does_not_change_earlier_logits(attention, changes):
    model = tiny_model(attention, **changes)
    inputs = batch()
    before = model(**inputs).logits
    inputs["decoder_input_ids"] = inputs["decoder_input_ids"].clone()
    inputs["decoder_input_ids"][:, 3] = (inputs["decoder_input_ids"][:, 3] + 1) % 30
    after = model(**inputs).logits
    torch.testing.assert_close(after[:, :3], before[:, :3], atol=1e-6, rtol=0)
    assert (after[:, 3:] - before[:, 3:]).abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@torch.no_grad()  # FlexAttention has no backward pass on the CPU
def test_row_of_only_padding_gives_no_nan(attention, dtype):
    model = tiny_model(attention).to(dtype)
    inputs = batch(lengths=(7, 0))
    inputs["decoder_input_ids"][1] = 0
    for decoder_attention_mask in (None, inputs["decoder_input_ids"].ne(0).long()):
        logits = model(**inputs, decoder_attention_mask=decoder_attention_mask).logits
        assert logits.isfinite().all()


def test_training_step_with_a_row_of_only_padding_gives_finite_gradients():
    model = tiny_model().train()
    inputs = batch(lengths=(7, 0))
    labels = inputs.pop("decoder_input_ids").clone()
    labels[1] = -100
    model(**inputs, labels=labels).loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@variants
@pytest.mark.parametrize("attention", ATTENTIONS[1:], indirect=True)
@torch.no_grad()
def test_attention_implementations_agree(attention, changes):
    logits, expected = (tiny_model(name, **changes)(**batch()).logits for name in (attention, "eager"))
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)


# Positions.


def test_source_beyond_max_position_embeddings_works_with_sinusoids():
    model = tiny_model(max_position_embeddings=8)
    logits = model(**batch(lengths=(30, 12), target_length=20)).logits
    assert logits.shape == (2, 20, 40)
    assert logits.isfinite().all()


def test_source_beyond_learned_positions_raises_a_clear_error():
    model = tiny_model(position_type="learned", max_position_embeddings=8)
    with pytest.raises(ValueError, match=r"9 tokens.*max_position_embeddings=8"):
        model(**batch(lengths=(9,)))


# The layers against an independent implementation of the formulas.


def randomize(model, scale=0.2, seed=1):
    """Move norms and biases away from their initial ones and zeros."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)


def embedded(model, stack, ids):
    """Scaled embeddings plus positions of one sentence without padding, in float64."""
    config = model.config
    x = stack.embed_tokens.weight.detach().double().numpy()[ids]
    if config.decoder_start_embedding == "zero" and stack is model.model.decoder:
        x = x * (ids != config.decoder_start_token_id)[:, None]
    if config.scale_embedding:
        x = x * math.sqrt(config.d_model)
    if config.position_type == "learned":
        x = x + stack.embed_positions.weight.detach().double().numpy()[: len(ids)]
    if config.position_type == "sinusoidal":
        numbers = [config.sinusoid_offset + i for i in range(len(ids))]
        x = x + reference.positions(numbers, config.d_model, config.sinusoid_layout, config.sinusoid_exponent)
    return x


def reference_logits(model, source, target):
    config = model.config
    transformer = reference.Transformer(
        reference.to_numpy(model.model.state_dict()),
        config.encoder_attention_heads,
        config.decoder_attention_heads,
        pre_norm=config.norm_position == "pre",
        final_norm=config.final_norm,
        eps=config.layer_norm_eps,
        activation=reference.ACTIVATIONS[config.activation_function],
    )
    memory = transformer.encode(embedded(model, model.model.encoder, source))
    output = transformer.decode(memory, embedded(model, model.model.decoder, target))
    head = reference.to_numpy(model.lm_head.state_dict())
    return output @ head["weight"].T + head.get("bias", 0)


@variants
def test_logits_equal_the_formulas_in_float64(changes):
    model = tiny_model(**changes)
    randomize(model)
    inputs = batch(lengths=(7, 4))
    inputs["decoder_input_ids"][:, 0] = model.config.decoder_start_token_id
    logits = model(**inputs).logits.detach()
    for row, length in enumerate((7, 4)):
        source, target = inputs["input_ids"][row, :length].numpy(), inputs["decoder_input_ids"][row].numpy()
        np.testing.assert_allclose(logits[row], reference_logits(model, source, target), atol=2e-5)


# The loss.


def test_loss_in_evaluation_is_the_plain_negative_log_likelihood():
    model = tiny_model(label_smoothing=0.1)
    inputs = batch()
    labels = inputs.pop("decoder_input_ids")
    output = model(**inputs, labels=labels)
    expected = -output.logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).mean()
    torch.testing.assert_close(output.loss, expected)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
def test_dropout_zeros_the_given_share_and_scales_the_rest(p):
    torch.manual_seed(0)
    output = VaswaniDropout(p)(torch.ones(1000, 1001))
    kept = output[output != 0]
    assert 1 - kept.numel() / output.numel() == pytest.approx(p, abs=2e-3)
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)), rtol=2e-4, atol=0)


def test_dropout_treats_each_element_independently():
    torch.manual_seed(0)
    zeros = VaswaniDropout(0.5)(torch.ones(200_000, 4)).eq(0).double()
    correlations = torch.corrcoef(torch.cat([zeros.T, zeros.roll(1, 0).T]))
    torch.testing.assert_close(correlations, torch.eye(8, dtype=torch.float64), atol=0.01, rtol=0)


def test_dropout_masks_the_gradient_like_the_states():
    torch.manual_seed(0)
    states = torch.ones(7, 3, requires_grad=True)
    output = VaswaniDropout(0.5)(states)
    output.sum().backward()
    assert 0 < output.eq(0).sum() < 21
    torch.testing.assert_close(states.grad, output.detach())


@pytest.mark.parametrize(("p", "training"), [(0.5, False), (0.0, True), (1e-9, True)])
def test_states_are_unchanged_without_dropout(p, training):
    states = torch.randn(50, 50)
    assert torch.equal(VaswaniDropout(p).train(training)(states), states)


@pytest.mark.parametrize("p", [1.0, 1 - 1e-9])
def test_dropout_of_everything_leaves_zeros(p):
    assert not VaswaniDropout(p)(torch.ones(10, 10)).any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dropout_keeps_the_dtype(dtype):
    assert VaswaniDropout(0.5)(torch.ones(3, 5, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_word_dropout_zeros_the_given_share_of_tokens_but_keeps_their_positions(stack):
    model = tiny_model(dropout=0.0, **{f"{stack}_word_dropout": 0.2}).train()
    token_ids = torch.randint(3, 30, (100, 50), generator=torch.Generator().manual_seed(0))
    stacks = {"encoder": model.model.encoder, "decoder": model.model.decoder}
    dropping = stacks.pop(stack)
    (other,) = stacks.values()
    width = model.config.d_model
    words = model.get_input_embeddings().weight[token_ids].detach() * width**0.5
    positions = sinusoidal_positions(torch.arange(50), width).float()
    torch.manual_seed(0)
    states = (dropping.embed(token_ids, None) - positions).detach()
    dropped = states.abs().amax(dim=-1) < 1e-5
    assert dropped.double().mean() == pytest.approx(0.2, abs=0.02)
    torch.testing.assert_close(states[~dropped], words[~dropped] / 0.8)
    torch.testing.assert_close(other.embed(token_ids, None), words + positions)
    torch.testing.assert_close(dropping.eval().embed(token_ids, None), words + positions)


def test_loss_in_training_is_smoothed():
    model = tiny_model(label_smoothing=0.3, dropout=0.0).train()
    inputs = batch()
    labels = inputs.pop("decoder_input_ids")
    output = model(**inputs, labels=labels)
    log_probabilities = output.logits.double().log_softmax(-1)
    nll = -log_probabilities.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    expected = (0.7 * nll - 0.3 * log_probabilities.mean(-1)).mean()
    assert output.loss.item() == pytest.approx(expected.item(), abs=1e-5)


@pytest.mark.parametrize("padding", [-100, 0])
def test_loss_ignores_padding(padding):
    model = tiny_model()
    inputs = batch(target_length=5)
    labels = inputs.pop("decoder_input_ids")
    padded = torch.cat([labels, torch.full((2, 4), padding)], dim=1)
    torch.testing.assert_close(model(**inputs, labels=padded).loss, model(**inputs, labels=labels).loss)


@pytest.mark.parametrize("eos_token_id", [2, [3, 2]])
def test_end_token_that_is_also_padding_is_learned(eos_token_id):
    model = tiny_model(pad_token_id=2, eos_token_id=eos_token_id)
    labels = torch.tensor([[5, 6, 2]])
    output = model(input_ids=torch.tensor([[5, 7, 2]]), labels=labels)
    expected = -output.logits[0].log_softmax(-1)[range(3), labels[0]].mean()
    torch.testing.assert_close(output.loss, expected)


def test_loss_of_labels_that_are_all_padding_is_zero():
    model = tiny_model()
    inputs = batch()
    inputs.pop("decoder_input_ids")
    assert model(**inputs, labels=torch.full((2, 5), -100)).loss.item() == 0


@pytest.mark.parametrize("as_tensor", [False, True])
def test_loss_is_divided_by_num_items_in_batch(as_tensor):
    model = tiny_model()
    inputs = batch()
    labels = inputs.pop("decoder_input_ids")
    items = torch.tensor(40) if as_tensor else 40
    mean = model(**inputs, labels=labels).loss
    torch.testing.assert_close(model(**inputs, labels=labels, num_items_in_batch=items).loss, mean * 10 / 40)


def test_labels_are_shifted_right_after_the_start_token():
    model = tiny_model(decoder_start_token_id=1)
    shifted = model.prepare_decoder_input_ids_from_labels(torch.tensor([[5, 6, 2, -100], [7, 2, -100, -100]]))
    assert shifted.tolist() == [[1, 5, 6, 2], [1, 7, 2, 0]]


# The cache.


@variants
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_incremental_decoding_gives_the_logits_of_the_full_forward_pass(attention, changes):
    model = tiny_model(attention, **changes)
    inputs = batch(target_length=8)
    full = model(**inputs).logits
    encoder_outputs = model.model.encoder(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    cache, steps = None, []
    for step in range(8):
        output = model(
            encoder_outputs=encoder_outputs,
            attention_mask=inputs["attention_mask"],
            decoder_input_ids=inputs["decoder_input_ids"][:, step : step + 1],
            cache=cache,
            use_cache=True,
        )
        cache = getattr(output, CACHE_NAME)
        steps.append(output.logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), full, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_a_forward_pass_continues_the_cache_under_either_of_its_names(name):
    model, inputs = tiny_model(), batch(target_length=4)
    full = model(**inputs).logits
    tokens = inputs.pop("decoder_input_ids")
    cache = getattr(model(**inputs, decoder_input_ids=tokens[:, :3], use_cache=True), CACHE_NAME)
    last = model(**inputs, decoder_input_ids=tokens[:, 3:], **{name: cache}).logits
    torch.testing.assert_close(last, full[:, 3:], atol=1e-5, rtol=1e-5)


def test_two_caches_at_once_are_rejected():
    model, inputs = tiny_model(), batch()
    caches = [getattr(model(**inputs, use_cache=True), CACHE_NAME) for _ in range(2)]
    with pytest.raises(TypeError, match="two names of one argument"):
        model(**inputs, cache=caches[0], past_key_values=caches[1])


@pytest.mark.parametrize("argument", ["mems", "position_ids", "cache_params", "head_mask"])
def test_arguments_that_a_forward_pass_would_ignore_are_rejected(argument):
    model, inputs = tiny_model(), batch()
    source = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    for module, given in ((model, inputs), (model.model, inputs), (model.get_encoder(), source)):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{argument}'"):
            module(**given, **{argument: torch.zeros(2, 7)})


def test_cache_is_rejected_where_layers_are_run_again_for_the_gradient():
    model, inputs = tiny_model(), batch()
    cache = getattr(model(**inputs, use_cache=True), CACHE_NAME)
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    with pytest.raises(ValueError, match="Gradient checkpointing"):
        model.train()(**inputs, cache=cache)


# What users of transformers expect of a model.


def test_attentions_and_hidden_states_have_one_tensor_per_layer():
    model = tiny_model("eager")
    output = model(**batch(), output_attentions=True, output_hidden_states=True)
    assert [a.shape for a in output.encoder_attentions] == [(2, 2, 7, 7)] * 2
    assert [a.shape for a in output.decoder_attentions] == [(2, 4, 5, 5)] * 2
    assert [a.shape for a in output.cross_attentions] == [(2, 4, 5, 7)] * 2
    assert [h.shape for h in output.encoder_hidden_states] == [(2, 7, 16)] * 3
    assert [h.shape for h in output.decoder_hidden_states] == [(2, 5, 16)] * 3
    torch.testing.assert_close(output.cross_attentions[0].sum(-1), torch.ones(2, 4, 5))


def test_embeddings_instead_of_ids_give_the_same_logits():
    model = tiny_model()
    inputs = batch()
    embed = model.get_input_embeddings()
    by_embeddings = model(
        inputs_embeds=embed(inputs["input_ids"]),
        decoder_inputs_embeds=embed(inputs["decoder_input_ids"]),
        attention_mask=inputs["attention_mask"],
    )
    torch.testing.assert_close(by_embeddings.logits, model(**inputs).logits)


def test_gradient_checkpointing_gives_the_same_gradients():
    gradients = []
    for checkpointing in (False, True):
        model = tiny_model().train()
        if checkpointing:
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        inputs = batch()
        torch.manual_seed(1)
        model(**inputs, labels=inputs.pop("decoder_input_ids")).loss.backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, checkpointed in zip(*gradients):
        torch.testing.assert_close(checkpointed, plain)


def test_logits_to_keep_gives_the_last_logits():
    model = tiny_model()
    torch.testing.assert_close(model(**batch(), logits_to_keep=2).logits, model(**batch()).logits[:, -2:])


def test_token_ids_outside_the_vocabulary_raise_a_clear_error():
    inputs = batch()
    inputs["input_ids"][0, 0] = 40
    with pytest.raises(ValueError, match="to 40 were given, but the vocabulary goes from 0 to 39"):
        tiny_model()(**inputs)


def test_labels_outside_the_vocabulary_raise_a_clear_error():
    inputs = batch()
    inputs.pop("decoder_input_ids")
    with pytest.raises(ValueError, match="to 41 were given, but the vocabulary goes from 0 to 39"):
        tiny_model()(**inputs, labels=torch.tensor([[5, 41], [5, 2]]))


def test_missing_target_raises_a_clear_error():
    inputs = batch()
    inputs.pop("decoder_input_ids")
    with pytest.raises(ValueError, match="decoder_input_ids, decoder_inputs_embeds or labels"):
        tiny_model()(**inputs)


@pytest.mark.parametrize("name", ["labels", "decoder_input_ids"])
def test_batches_of_different_sizes_are_rejected_rather_than_broadcast(name):
    sources = torch.tensor([[5, 6, 2]])
    with pytest.raises(ValueError, match="1 source.s. and 2 target.s."):
        tiny_model()(input_ids=sources, **{name: torch.tensor([[5, 2], [6, 2]])})


def test_labels_of_another_shape_than_the_decoder_input_are_rejected():
    labels, decoder_input_ids = torch.full((3, 2), 5), torch.full((2, 3), 5)
    with pytest.raises(ValueError, match=r"labels has the shape \(3, 2\), but .* leave \(2, 3\)"):
        tiny_model()(input_ids=torch.full((2, 4), 5), decoder_input_ids=decoder_input_ids, labels=labels)


def test_joint_vocabulary_can_be_resized():
    model = tiny_model()
    before = model(**batch()).logits
    model.resize_token_embeddings(45)
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (45, 45)
    assert len({matrix.data_ptr() for matrix in embedding_matrices(model)}) == 1
    torch.testing.assert_close(model(**batch()).logits[..., :40], before)


def test_resized_bare_model_can_be_saved(tmp_path):
    model = tiny_model().model
    model.resize_token_embeddings(45)
    model.save_pretrained(tmp_path)
    assert type(model).from_pretrained(tmp_path).get_input_embeddings().num_embeddings == 45


@pytest.mark.parametrize("form", [tuple, dict])
def test_given_encoder_outputs_replace_the_encoder(form):
    model, inputs = tiny_model(), batch()
    expected = model(**inputs).logits
    outputs = model.model.encoder(inputs.pop("input_ids"), attention_mask=inputs["attention_mask"])
    given = outputs.to_tuple() if form is tuple else dict(outputs)
    torch.testing.assert_close(model(encoder_outputs=given, **inputs).logits, expected)


def test_pushing_while_saving_includes_the_code(tmp_path):
    # transformers then pushes the files that this does not list and those that are newer.
    model = tiny_model()
    model.save_pretrained(tmp_path)
    (tmp_path / "notes.txt").touch()
    known = model._get_files_timestamps(tmp_path)
    assert "notes.txt" in known
    assert not [name for name in known if name.endswith(".py")]


def test_model_has_the_configured_number_of_layers():
    model = tiny_model(encoder_layers=3, decoder_layers=1)
    assert (len(model.model.encoder.layers), len(model.model.decoder.layers)) == (3, 1)
    assert tiny_config(encoder_layers=3).num_hidden_layers == 3


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_gradient_of_the_loss_is_softmax_minus_smoothed_labels_across_chunks(label_smoothing):
    vocab_size = CACHED_LOGITS // 3  # three rows at once
    logits = torch.randn(2, 4, vocab_size, requires_grad=True)
    labels = torch.randint(vocab_size, (2, 4))
    labels[0, 2] = labels[1, 3] = -100
    (3 * sequence_loss(logits, labels, label_smoothing, num_items_in_batch=5)).backward()
    smoothed = torch.full_like(logits, label_smoothing / vocab_size)
    smoothed.scatter_add_(2, labels.clamp(min=0).unsqueeze(2), torch.full((2, 4, 1), 1 - label_smoothing))
    expected = 3 / 5 * (logits.detach().softmax(-1) - smoothed) * (labels != -100).unsqueeze(2)
    torch.testing.assert_close(logits.grad, expected, atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_loss_of_bf16_logits_is_computed_in_fp32_and_only_its_gradient_is_rounded(label_smoothing):
    vocab_size = CACHED_LOGITS // 3
    logits = torch.randn(2, 4, vocab_size).bfloat16()
    labels = torch.randint(vocab_size, (2, 4))
    labels[1, 2] = -100
    values, gradients = [], []
    for dtype in (torch.bfloat16, torch.float32):
        leaf = logits.to(dtype).requires_grad_()
        values.append(sequence_loss(leaf, labels, label_smoothing, num_items_in_batch=5))
        gradients += torch.autograd.grad(values[-1], leaf)
    assert values[0].dtype == torch.float32 and torch.equal(*values)
    assert gradients[0].dtype == torch.bfloat16 and torch.equal(gradients[0], gradients[1].bfloat16())


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_on_a_gpu_equals_cross_entropy_in_float64(dtype, label_smoothing, monkeypatch):
    monkeypatch.setattr(smoothing_module, "DEVICE_LOGITS", 150)  # three rows at once
    logits = torch.randn(11, 50).mul_(3).to(dtype).requires_grad_()
    labels = torch.randint(50, (11,))
    labels[[2, 10]] = -100
    loss = FusedLoss.apply(logits, labels, torch.tensor(9.0), DeviceCrossEntropy(label_smoothing))
    (2 * loss).backward()
    exact = logits.detach().double().requires_grad_()
    expected = F.cross_entropy(exact, labels, label_smoothing=label_smoothing)
    (2 * expected).backward()
    assert loss.dtype == torch.float32 and logits.grad.dtype == dtype
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    tolerance = {"rtol": 1e-4, "atol": 1e-7} if dtype == torch.float32 else {"rtol": 2**-7, "atol": 1e-6}
    torch.testing.assert_close(logits.grad.double(), exact.grad, **tolerance)


def test_impossible_tokens_leave_the_loss_on_a_gpu_finite():
    logits = torch.tensor([[1.0, 2.0, -torch.inf]], requires_grad=True)
    loss = FusedLoss.apply(logits, torch.tensor([0]), 1.0, DeviceCrossEntropy(0.0))
    loss.backward()
    torch.testing.assert_close(loss, torch.tensor(1.0).exp().add(1).log())
    torch.testing.assert_close(logits.grad, torch.tensor([[-0.731059, 0.731059, 0.0]]))


def test_loss_on_a_gpu_reads_no_value_from_the_device_and_copies_no_more_than_a_part(monkeypatch):
    monkeypatch.setattr(smoothing_module, "DEVICE_LOGITS", 150)
    sizes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **kwargs or {})
            sizes.append(result.numel() if torch.is_tensor(result) and result.dtype == torch.float32 else 0)
            return result

    # The meta device has no values to read.
    logits = torch.zeros(11, 50, dtype=torch.bfloat16, device="meta", requires_grad=True)
    with Watch():
        labels = torch.zeros(11, dtype=torch.long, device="meta")
        FusedLoss.apply(logits, labels, 9.0, DeviceCrossEntropy(0.1)).backward()
    assert logits.grad.is_meta and max(sizes) == 150


def test_gradients_of_fp16_logits_that_fp16_cannot_hold_survive_a_loss_scale():
    logits = torch.zeros(1, 1, 1000, dtype=torch.float16, requires_grad=True)
    loss = sequence_loss(logits, torch.tensor([[3]]), num_items_in_batch=1e6)
    (gradient,) = torch.autograd.grad(2.0**16 * loss, logits)
    # Each wrong token's share is 1 / 1000 / 1e6, below fp16's smallest number until it is scaled.
    torch.testing.assert_close(gradient[0, 0, 0].item(), 2.0**16 / 1e9, rtol=1e-3, atol=0)


def test_loss_of_bf16_logits_is_summed_in_fp32_whatever_the_default_dtype():
    logits, labels = torch.randn(1, 500, 40).bfloat16().requires_grad_(), torch.randint(40, (1, 500))
    expected = sequence_loss(logits, labels, 0.1, num_items_in_batch=1)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(sequence_loss(logits, labels, 0.1, num_items_in_batch=1), expected)
    finally:
        torch.set_default_dtype(default)


@pytest.fixture
def cudnn_of_attention():
    """Whether torch may choose cuDNN's attention, which is its default; a function."""
    backends = torch.backends.cuda
    before = backends.cudnn_sdp_enabled(), backends.mem_efficient_sdp_enabled()
    backends.enable_cudnn_sdp(True)
    backends.enable_mem_efficient_sdp(True)
    yield backends.cudnn_sdp_enabled
    backends.enable_cudnn_sdp(before[0])
    backends.enable_mem_efficient_sdp(before[1])


def test_attention_on_a_gpu_does_without_cudnn(cudnn_of_attention, monkeypatch):
    attention = tiny_model(attn_implementation="sdpa").model.encoder.layers[0].self_attn
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", lambda *args, **kwargs: (cudnn_of_attention(), args, kwargs))
    query = SimpleNamespace(device=torch.device("cuda"))
    attend = VaswaniAttention.functions["sdpa"]
    assert attend(attention, query, 1, dropout=0.5) == (False, (attention, query, 1), {"dropout": 0.5})
    assert cudnn_of_attention()


def test_cudnn_is_allowed_again_after_an_error(cudnn_of_attention):
    def fail():
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        without_cudnn(fail)
    assert cudnn_of_attention()


def test_cudnn_remains_where_it_is_the_only_choice(cudnn_of_attention):
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    assert without_cudnn(cudnn_of_attention)


def test_cudnn_remains_off_where_it_was_off(cudnn_of_attention):
    torch.backends.cuda.enable_cudnn_sdp(False)
    assert not without_cudnn(cudnn_of_attention)
    assert not cudnn_of_attention()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_training_in_16_bits_on_a_gpu_calls_no_attention_of_cudnn():
    model = tiny_model(attn_implementation="sdpa", d_model=64).to("cuda", torch.bfloat16).train()
    ids = torch.randint(4, 20, (3, 7), device="cuda")
    with torch.profiler.profile() as profile:
        model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss.backward()
    names = {event.key for event in profile.key_averages()}
    assert any("efficient_attention" in name or "flash_attention" in name for name in names)
    assert not any("cudnn_attention" in name for name in names)


# What the config and arguments request besides the last states.


@pytest.mark.parametrize("is_base", [True, False], ids=["VaswaniModel", "VaswaniForConditionalGeneration"])
def test_config_requests_attentions_and_hidden_states(is_base):
    model = tiny_model("eager", encoder_layers=2, decoder_layers=3)
    model.config.output_attentions = model.config.output_hidden_states = True
    output = (model.model if is_base else model)(**batch())
    assert [len(output.encoder_attentions), len(output.encoder_hidden_states)] == [2, 3]
    assert [len(output.decoder_attentions), len(output.cross_attentions)] == [3, 3]
    assert len(output.decoder_hidden_states) == 4
    without = (model.model if is_base else model)(**batch(), output_attentions=False, output_hidden_states=False)
    assert (without.encoder_attentions, without.cross_attentions, without.decoder_hidden_states) == (None, None, None)


def test_config_requests_outputs_of_the_encoder_alone():
    model = tiny_model("eager", encoder_layers=2)
    model.config.output_attentions = model.config.output_hidden_states = True
    output = model.get_encoder()(batch()["input_ids"], output_attentions=None)
    assert [len(output.attentions), len(output.hidden_states)] == [2, 3]


def test_config_requests_tuples():
    model = tiny_model()
    expected = model(**batch()).logits
    model.config.return_dict = False
    assert torch.equal(model(**batch())[0], expected)
    assert type(model(**batch())) is type(model.model(**batch())) is tuple
    assert type(model.get_encoder()(batch()["input_ids"], return_dict=None)) is tuple
    assert torch.equal(model(**batch(), return_dict=True).logits, expected)


def test_config_requests_no_cache():
    model = tiny_model()
    model.config.use_cache = False
    assert getattr(model(**batch()), CACHE_NAME) is None
    assert getattr(model(**batch(), use_cache=True), CACHE_NAME) is not None


def test_old_name_of_the_cache_is_deprecated_as_in_transformers():
    model = tiny_model()
    cache = getattr(model(**batch()), CACHE_NAME)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(**batch(), past_key_values=cache)
    messages = [str(warning.message) for warning in caught if warning.category is FutureWarning]
    assert len(messages) == (CACHE_NAME == "cache")
    assert all(message.startswith("`past_key_values` is deprecated") for message in messages)
