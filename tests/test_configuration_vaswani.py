import pytest

from hf_vaswani import VaswaniConfig

from .conftest import tiny_config


def test_defaults_are_the_base_model_of_the_paper():
    config = VaswaniConfig()
    assert (config.encoder_layers, config.decoder_layers) == (6, 6)
    assert (config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim) == (512, 8, 2048)
    assert (config.dropout, config.label_smoothing, config.activation_function) == (0.1, 0.1, "relu")
    assert config.norm_position == "post"
    assert config.position_type == "sinusoidal"


def test_names_common_to_all_models_are_mapped():
    config = tiny_config()
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (16, 2, 2)


def test_decoder_vocabulary_and_start_token_follow_from_the_others():
    config = tiny_config(bos_token_id=7)
    assert config.decoder_vocab_size == config.vocab_size
    assert config.decoder_start_token_id == 7


def test_all_contradictions_are_named_at_once():
    with pytest.raises(ValueError) as error:
        tiny_config(d_model=15, decoder_vocab_size=30, dropout=1.5, activation_function="rleu", encoder_layers=0)
    message = str(error.value)
    for fault in (
        "encoder_attention_heads=2 does not divide d_model=15",
        "decoder_attention_heads=4 does not divide d_model=15",
        "even d_model",
        "separate vocabularies need share_encoder_decoder_embeddings=False",
        "dropout must be in [0, 1), got 1.5",
        "'rleu'",
        "encoder_layers must be at least 1",
    ):
        assert fault in message


def test_padding_token_outside_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="pad_token_id=99 is outside a vocabulary of 40"):
        tiny_config(pad_token_id=99)


def test_values_of_the_wrong_kind_are_refused():
    with pytest.raises(Exception, match="norm_position"):
        tiny_config(norm_position="middle")


def test_saved_config_equals_the_loaded_one(tmp_path):
    config = tiny_config(norm_position="pre", position_type="learned", dropout=0.3)
    config.save_pretrained(tmp_path)
    loaded = VaswaniConfig.from_pretrained(tmp_path)
    assert loaded.to_dict() == config.to_dict()
    assert (loaded.norm_position, loaded.position_type, loaded.dropout) == ("pre", "learned", 0.3)


def test_pipeline_entry_is_saved_but_not_shown_where_the_package_is_installed(tmp_path):
    config = tiny_config()
    config.save_pretrained(tmp_path)
    assert '"pipeline_translation.TranslationPipeline"' in (tmp_path / "config.json").read_text()
    assert not hasattr(VaswaniConfig.from_pretrained(tmp_path), "custom_pipelines")
