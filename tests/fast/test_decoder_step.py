import pytest
import torch

from hf_vaswani.fast.decoder_step import DecoderStep
from tests.conftest import tiny_model

VARIANTS = {
    "paper": {},
    "pre-norm": {"norm_position": "pre"},
    "post-norm with a final norm": {"final_norm": True},
    "without biases": {"attention_bias": False, "ffn_bias": False},
    "with an output bias": {"output_bias": True},
    "d_k and d_v": {"d_k": 6, "d_v": 10},
    "learned positions": {"position_type": "learned", "max_position_embeddings": 64},
    "no positions": {"position_type": "none"},
    "positions that skip padding": {"positions_skip_padding": True},
    "gelu": {"activation_function": "gelu"},
    "zero start": {"decoder_start_embedding": "zero"},
    "untied": {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 40},
    "large enough to be packed": {"d_model": 512, "encoder_ffn_dim": 512, "decoder_ffn_dim": 1024},
}


def search(model, **options):
    torch.manual_seed(2)
    source = torch.randint(4, 30, (5, 7))
    mask = torch.ones_like(source)
    mask[1, 4:] = mask[3, 2:] = 0
    source = source.masked_fill(mask == 0, model.config.pad_token_id)
    options = {"num_beams": 3, "max_new_tokens": 9, "return_dict_in_generate": True, **options}
    return model.generate(source, attention_mask=mask, num_return_sequences=options["num_beams"], **options)


def with_modules(model, monkeypatch):
    """The same model, but its search goes through its modules."""
    monkeypatch.setattr(type(model), "decoder_step", lambda model: None)
    return model


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS.keys())
def test_search_by_decoder_steps_matches_search_through_modules(fields, monkeypatch):
    model = tiny_model(**fields)
    assert model.decoder_step() is not None
    output = search(model)
    expected = search(with_modules(model, monkeypatch))
    assert torch.equal(output.sequences, expected.sequences)
    torch.testing.assert_close(output.sequences_scores, expected.sequences_scores, atol=1e-5, rtol=1e-5)


def test_prompt_of_several_tokens_is_read_from_left_to_right(monkeypatch):
    model, prompt = tiny_model(), torch.randint(4, 30, (5, 4))
    output = search(model, decoder_input_ids=prompt)
    expected = search(with_modules(model, monkeypatch), decoder_input_ids=prompt)
    assert torch.equal(output.sequences, expected.sequences)
    torch.testing.assert_close(output.sequences_scores, expected.sequences_scores, atol=1e-5, rtol=1e-5)


def test_step_in_bf16_gives_the_logits_of_the_modules_but_for_rounding(monkeypatch):
    model = tiny_model(d_model=64).to(torch.bfloat16)
    options = {"decoder_input_ids": torch.randint(4, 30, (5, 6)), "max_new_tokens": 1, "output_logits": True}
    [logits] = search(model, num_beams=1, **options).logits
    [expected] = search(with_modules(model, monkeypatch), num_beams=1, **options).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(logits, expected, atol=0.03, rtol=0.03)


def test_search_bypasses_the_modules(monkeypatch):
    calls = []
    states = DecoderStep.states
    monkeypatch.setattr(DecoderStep, "states", lambda self, *args: calls.append(1) or states(self, *args))
    search(tiny_model())
    assert calls


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.train(),
        lambda model: model.model.decoder.layers[1].fc1.register_forward_hook(lambda *args: None),
        lambda model: setattr(model.model.decoder.layers[0], "fc2", torch.nn.Identity()),
        lambda model: setattr(model, "lm_head", torch.nn.Sequential(model.lm_head)),
    ],
    ids=["training", "hook", "different layer", "different output projection"],
)
def test_model_in_training_or_with_modified_modules_has_no_decoder_step(change):
    model = tiny_model()
    change(model)
    assert model.decoder_step() is None


def test_changed_weights_take_effect_in_the_next_search():
    model = tiny_model()
    before = search(model).sequences_scores
    model.model.decoder.layers[0].fc1.weight.data.mul_(-2)
    assert not torch.equal(search(model).sequences_scores, before)
