import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hf_vaswani.errors import InputError
from hf_vaswani.interop import import_model

from .foreign import randomized


def torch_transformer(**changes) -> nn.Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "nhead": 4, "num_encoder_layers": 2, "num_decoder_layers": 3, "dim_feedforward": 24}
    return randomized(nn.Transformer(**{**sizes, "batch_first": True, **changes}), seed=1)


def inputs():
    source, target = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    return source, target, mask


@torch.no_grad()
def torch_output(module, source, target, mask):
    causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
    padding = mask == 0
    return module(source, target, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu", F.silu], ids=["relu", "gelu", "silu"])
@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
def test_imported_stacks_give_the_modules_output(norm_first, activation, bias):
    module = torch_transformer(norm_first=norm_first, activation=activation, bias=bias)
    source, target, mask = inputs()
    model = import_model(module)
    with torch.no_grad():
        output = model.model(inputs_embeds=source, decoder_inputs_embeds=target, attention_mask=mask)
    expected = torch_output(module, source, target, mask)
    torch.testing.assert_close(output.last_hidden_state, expected, atol=1e-5, rtol=1e-5)


def test_module_without_final_norms_gives_the_same_output():
    module = torch_transformer(norm_first=True)
    module.encoder.norm = module.decoder.norm = None
    source, target, mask = inputs()
    with torch.no_grad():
        output = import_model(module).model(inputs_embeds=source, decoder_inputs_embeds=target, attention_mask=mask)
    expected = torch_output(module, source, target, mask)
    torch.testing.assert_close(output.last_hidden_state, expected, atol=1e-5, rtol=1e-5)


def test_embeddings_and_output_projection_around_the_module_are_imported():
    module = torch_transformer()
    source_embedding, target_embedding, projection = nn.Embedding(20, 16), nn.Embedding(30, 16), nn.Linear(16, 30)
    model = import_model(
        module, source_embedding=source_embedding, target_embedding=target_embedding, output_projection=projection
    )
    source, target = torch.randint(3, 20, (2, 7)), torch.randint(3, 30, (2, 5))
    mask = torch.ones(2, 7, dtype=torch.long)
    with torch.no_grad():
        expected = projection(torch_output(module, source_embedding(source), target_embedding(target), mask))
        logits = model(input_ids=source, decoder_input_ids=target).logits
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_shared_matrix_around_the_module_stays_shared():
    embedding, projection = nn.Embedding(30, 16), nn.Linear(16, 30, bias=False)
    projection.weight = embedding.weight
    model = import_model(
        torch_transformer(), source_embedding=embedding, target_embedding=embedding, output_projection=projection
    )
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    assert torch.equal(model.lm_head.weight, embedding.weight)


def test_config_fields_can_be_given():
    model = import_model(torch_transformer(), vocab_size=50, position_type="sinusoidal", scale_embedding=True)
    assert (model.config.vocab_size, model.config.position_type, model.config.scale_embedding) == (
        50,
        "sinusoidal",
        True,
    )


def test_dropout_of_the_module_is_imported():
    config = import_model(torch_transformer(dropout=0.2)).config
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.2, 0.2, 0.2)
    assert config.embedding_dropout == 0


def test_all_unsupported_features_are_reported_together():
    module = torch_transformer(activation=F.leaky_relu)
    module.decoder.norm = None
    module.encoder.layers[0].norm_first = True
    with pytest.raises(InputError) as error:
        import_model(module)
    for expected in ("an unknown activation", "final norm in only one stack", "layers that differ"):
        assert expected in str(error.value)


def test_custom_stack_is_rejected():
    with pytest.raises(InputError, match=r"custom encoder \(Identity\)"):
        import_model(torch_transformer(custom_encoder=nn.Identity()))


def test_import_leaves_the_module_unchanged():
    module = torch_transformer()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = import_model(module)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in before.items())


def test_padding_index_of_the_embedding_becomes_the_pad_token_id():
    embedding = nn.Embedding(20, 16, padding_idx=1)
    assert import_model(torch_transformer(), source_embedding=embedding).config.pad_token_id == 1


def own_forward():
    class Mine(nn.Transformer):
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs) * 2

    return Mine(16, 4, 1, 1, 24, batch_first=True)


def different_heads():
    module = torch_transformer()
    module.decoder.layers[1].multihead_attn.num_heads = 2
    return module


def no_norm():
    module = torch_transformer()
    module.encoder.layers[0].norm1 = nn.Identity()
    return module


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (own_forward, r"a forward pass of its own \(Mine\)"),
        (different_heads, "different numbers of heads in one stack"),
        (no_norm, "a norm other than LayerNorm"),
        (lambda: torch_transformer(num_encoder_layers=0), "no layers in its encoder"),
    ],
)
def test_module_that_computes_something_else_is_rejected(make, expected):
    with pytest.raises(InputError, match=expected):
        import_model(make())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"source_embedding": nn.Embedding(20, 16, max_norm=1.0)}, "an embedding with max_norm"),
        ({"source_embedding": nn.Linear(20, 16)}, "a Linear for .*embed_tokens, where a Embedding is expected"),
        ({"d_model": 32}, "has d_model=16; 32 was requested"),
        ({"num_hidden_layers": 7}, "has encoder_layers=2; 7 was requested"),
        (
            {
                "source_embedding": nn.Embedding(20, 16),
                "target_embedding": nn.Embedding(20, 16),
                "share_encoder_decoder_embeddings": True,
            },
            "has share_encoder_decoder_embeddings=False; True was requested",
        ),
        ({"vocab_size": "many"}, "its configuration is invalid"),
    ],
)
def test_incompatible_arguments_are_rejected(arguments, expected):
    with pytest.raises(InputError, match=expected):
        import_model(torch_transformer(), **arguments)


def test_misspelled_argument_is_rejected():
    with pytest.raises(InputError, match="sorce_embedding: not a field"):
        import_model(torch_transformer(), sorce_embedding=nn.Embedding(20, 16))
