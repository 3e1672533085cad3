import json

import pytest
from transformers import AutoConfig

from hf_vaswani import VaswaniConfig

from ..conftest import tiny_config


def test_defaults_are_the_base_model_of_the_paper():
    config = VaswaniConfig()
    assert (config.encoder_layers, config.decoder_layers) == (6, 6)
    assert (config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim) == (512, 8, 2048)
    assert (config.dropout, config.label_smoothing, config.activation_function) == (0.1, 0.1, "relu")
    assert config.norm_position == "post"
    assert config.position_type == "sinusoidal"


def test_common_config_names_are_mapped():
    config = tiny_config()
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (16, 2, 2)


def test_decoder_vocab_size_and_start_token_have_derived_defaults():
    config = tiny_config(bos_token_id=7)
    assert config.decoder_vocab_size == config.vocab_size
    assert config.decoder_start_token_id == 7


def test_all_violations_are_reported_together():
    with pytest.raises(ValueError) as error:
        tiny_config(d_model=15, decoder_vocab_size=30, dropout=1.5, activation_function="rleu", encoder_layers=0)
    message = str(error.value)
    for expected in (
        "encoder_attention_heads=2 does not divide d_model=15",
        "decoder_attention_heads=4 does not divide d_model=15",
        "even d_model",
        "separate vocabularies need share_encoder_decoder_embeddings=False",
        "dropout must be in [0, 1), got 1.5",
        "'rleu'",
        "encoder_layers must be at least 1",
    ):
        assert expected in message


def test_padding_token_outside_the_vocabulary_is_rejected():
    with pytest.raises(ValueError, match="pad_token_id=99 is outside the vocabulary, vocab_size=40"):
        tiny_config(pad_token_id=99)


def test_all_errors_in_the_variant_options_are_reported_together():
    with pytest.raises(ValueError) as error:
        tiny_config(
            norm_position="middle",
            position_type="rotary",
            sinusoid_layout="thirds",
            sinusoid_exponent="mine",
            sinusoid_offset=-1,
            decoder_start_embedding="one",
            embedding_dropout=1.0,
            encoder_layerdrop=-0.1,
            decoder_word_dropout=1.5,
            layer_norm_eps=0.0,
            qkv_init_gain=0.0,
            d_k=0,
            eos_token_id=40,
            decoder_start_token_id=-1,
        )
    for expected in (
        "norm_position must be one of post, pre, got 'middle'",
        "position_type must be one of sinusoidal, learned, none, got 'rotary'",
        "sinusoid_layout must be one of interleaved, halves, got 'thirds'",
        "sinusoid_exponent must be one of paper, tensor2tensor, got 'mine'",
        "sinusoid_offset must be at least 0, got -1",
        "decoder_start_embedding must be one of token, zero, got 'one'",
        "embedding_dropout must be in [0, 1), got 1.0",
        "encoder_layerdrop must be in [0, 1), got -0.1",
        "decoder_word_dropout must be in [0, 1), got 1.5",
        "layer_norm_eps must be above 0 and at most 1, got 0.0",
        "qkv_init_gain must be above 0 and at most 1000, got 0.0",
        "d_k must be at least 1, got 0",
        "eos_token_id=40 is outside the vocabulary, decoder_vocab_size=40",
        "decoder_start_token_id=-1 is outside the vocabulary, decoder_vocab_size=40",
    ):
        assert expected in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions_skip_padding": True, "decoder_start_token_id": 0}, "the decoder's first token has no position"),
        ({"positions_skip_padding": True, "pad_token_id": None}, "positions_skip_padding needs a pad_token_id"),
        ({"decoder_start_embedding": "zero", "bos_token_id": None}, "needs a decoder_start_token_id"),
        ({"d_model": 18, "d_k": 4}, "d_k and d_v are not both given"),
    ],
)
def test_inconsistent_combination_is_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(**changes)


def test_heads_need_not_divide_d_model_when_d_k_and_d_v_are_given():
    config = tiny_config(d_model=18, decoder_attention_heads=4, d_k=4, d_v=5)
    assert (config.d_k, config.d_v) == (4, 5)


@pytest.mark.parametrize("typo", ["norm_positions", "dropouts", "layernorm_eps", "encoder_layer", "vocab_sise"])
def test_misspelled_field_is_rejected_with_a_suggestion(typo):
    with pytest.raises(ValueError, match=f"{typo} is not a field; use "):
        tiny_config(**{typo: 1})


def test_unknown_attributes_are_kept():
    assert tiny_config(my_note="mine").my_note == "mine"


def test_config_of_a_newer_version_raises_one_clear_error(tmp_path):
    tiny_config().save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    content.update(format_version=99, position_type="rotary", rotary_base=10000)
    (tmp_path / "config.json").write_text(json.dumps(content))
    for load in (VaswaniConfig.from_pretrained, AutoConfig.from_pretrained):
        with pytest.raises(ValueError, match="written by a newer hf_vaswani.*pip install --upgrade"):
            load(tmp_path)


def test_options_derived_from_others_stay_none_in_the_config():
    config = tiny_config(dropout=0.3)
    assert config.embedding_dropout is None
    assert config.final_norm is None


def test_loaded_config_equals_the_saved_one(tmp_path):
    config = tiny_config(norm_position="pre", position_type="learned", dropout=0.3)
    config.save_pretrained(tmp_path)
    loaded = VaswaniConfig.from_pretrained(tmp_path)
    assert loaded.to_dict() == config.to_dict()
    assert (loaded.norm_position, loaded.position_type, loaded.dropout) == ("pre", "learned", 0.3)


def test_custom_pipeline_is_saved_but_hidden_when_the_package_is_installed(tmp_path):
    config = tiny_config()
    config.save_pretrained(tmp_path)
    assert '"pipeline_translation.TranslationPipeline"' in (tmp_path / "config.json").read_text()
    assert not hasattr(VaswaniConfig.from_pretrained(tmp_path), "custom_pipelines")


def test_unknown_fields_in_the_file_do_not_prevent_loading(tmp_path):
    config = tiny_config()
    config.num_heads, config.dropouts = 7, 0.3
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert (loaded.num_heads, loaded.dropouts, loaded.dropout) == (7, 0.3, 0.1)


@pytest.mark.parametrize("name", ["base_model_tp_plan", "base_model_pp_plan", "base_model_fsdp_plan", "attribute_map"])
def test_plan_of_a_wrong_type_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be a dict, got 1"):
        VaswaniConfig.from_dict({"model_type": "vaswani", name: 1})
