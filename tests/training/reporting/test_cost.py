import pytest

from hf_vaswani.training.reporting.report import training_flops

from ...conftest import tiny_model


def test_cost_is_six_operations_per_weight_and_token():
    # 2 + 2 layers of d_model 16, feed-forward networks of 24 and 32, 40 tokens in the vocabulary.
    encoder = 2 * (4 * 16 * 16 + 2 * 16 * 24)
    cross_keys_and_values = 2 * 2 * 16 * 16
    decoder = 2 * (4 * 16 * 16 + 2 * 16 * 16 + 2 * 16 * 32)
    output_projection = 40 * 16
    expected = 6 * ((encoder + cross_keys_and_values) * 1000 + (decoder + output_projection) * 700)
    assert training_flops(tiny_model(), 1000, 700) == expected
    assert training_flops(tiny_model(), 1000, 700, passes=2) == 2 * expected


def test_untied_output_projection_costs_the_same_as_a_tied_one():
    tied, untied = tiny_model(), tiny_model(tie_word_embeddings=False)
    assert training_flops(untied, 1000, 700) == training_flops(tied, 1000, 700)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_cost_with_layerdrop_is_not_estimated(stack):
    assert training_flops(tiny_model(**{f"{stack}_layerdrop": 0.5}), 1000, 700) is None
