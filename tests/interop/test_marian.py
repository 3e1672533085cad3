import json

import pytest
import torch
from transformers import MarianMTModel

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.interop import export_marian, import_model
from hf_vaswani.text.languages import own_languages

from ..conftest import tiny_model
from ..core.test_modeling_vaswani import batch, randomize
from .foreign import assert_same_model, random_batch, random_marian


@pytest.mark.parametrize("seed", range(15))
def test_imported_model_gives_marians_logits_and_translations(seed):
    marian = random_marian(seed)
    config = marian.config
    smaller = min(config.vocab_size, config.decoder_vocab_size)
    inputs = random_batch(config.pad_token_id, config.decoder_start_token_id, smaller)
    assert_same_model(marian, import_model(marian), inputs)


def test_random_configs_cover_what_differs_between_marian_models():
    configs = [random_marian(seed).config for seed in range(15)]
    assert {config.activation_function for config in configs} == {"relu", "gelu", "swish"}
    embeddings = {(config.share_encoder_decoder_embeddings, config.tie_word_embeddings) for config in configs}
    assert len(embeddings) == 4
    assert any(config.encoder_layers != config.decoder_layers for config in configs)
    assert any(config.vocab_size != config.decoder_vocab_size for config in configs)


@pytest.mark.parametrize("seed", range(15))
def test_round_trip_returns_the_same_tensors(seed):
    marian = random_marian(seed)
    before, after = marian.state_dict(), export_marian(import_model(marian)).state_dict()
    if marian.config.share_encoder_decoder_embeddings and not marian.config.tie_word_embeddings:
        # transformers then ties nothing: the shared matrix exists, but nothing reads it.
        before.pop("model.shared.weight")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_shared_embeddings_and_tied_output_projection_stay_one_matrix():
    marian = random_marian(0, share_encoder_decoder_embeddings=True, tie_word_embeddings=True, decoder_vocab_size=None)
    model = import_model(marian)
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight


def test_imported_folder_generates_as_the_source_does(tmp_path):
    marian = random_marian(4)
    marian.generation_config.max_length = 12
    marian.generation_config.num_beams = 3
    marian.save_pretrained(tmp_path)
    source = random_batch(marian.config.pad_token_id, 0, 30)["input_ids"]
    assert torch.equal(import_model(tmp_path).generate(source), marian.generate(source))


def test_source_without_a_length_limit_ends_where_transformers_does():
    marian = random_marian(4)
    source = random_batch(marian.config.pad_token_id, 0, 30)["input_ids"]
    assert torch.equal(import_model(marian).generate(source), marian.generate(source))


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("tie", [True, False])
def test_exported_model_gives_the_same_logits(tmp_path, layout, share, tie):
    model = tiny_model(sinusoid_layout=layout, share_encoder_decoder_embeddings=share, tie_word_embeddings=tie)
    randomize(model)
    export_marian(model).save_pretrained(tmp_path)
    marian = MarianMTModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        torch.testing.assert_close(marian(**batch()).logits, model(**batch()).logits, atol=1e-5, rtol=1e-5)


def test_exported_model_without_biases_gives_the_same_logits():
    model = tiny_model(attention_bias=False, ffn_bias=False, output_bias=True)
    randomize(model)
    with torch.no_grad():
        expected = model(**batch()).logits
        torch.testing.assert_close(export_marian(model)(**batch()).logits, expected, atol=1e-5, rtol=1e-5)


def test_everything_marian_cannot_express_is_reported_together():
    model = tiny_model(
        norm_position="pre", position_type="learned", layer_norm_eps=1e-6, decoder_start_embedding="zero", d_k=3
    )
    with pytest.raises(InputError) as error:
        export_marian(model)
    for expected in ('norm_position="pre"', 'position_type="learned"', "layer_norm_eps=1e-06", "zero", "d_k=3"):
        assert expected in str(error.value)


def test_marian_decoder_without_an_encoder_is_rejected():
    marian = random_marian(0)
    marian.config.is_decoder = True
    with pytest.raises(InputError, match="without an encoder"):
        import_model(marian)


def test_import_leaves_the_source_unchanged():
    marian = random_marian(0)
    before = {name: tensor.clone() for name, tensor in marian.state_dict().items()}
    model = import_model(marian)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert all(torch.equal(marian.state_dict()[name], tensor) for name, tensor in before.items())


def test_imported_config_trains_on_marians_loss():
    config = import_model(random_marian(0)).config
    assert (config.label_smoothing, config.dropout, config.embedding_dropout) == (0, 0.1, None)


def test_exported_model_translates_long_sentences_to_their_end():
    model = tiny_model(max_position_embeddings=100)
    source = torch.randint(3, 30, (1, 40))
    expected = model.generate(source)
    assert expected.shape[1] > 30
    assert torch.equal(export_marian(model).generate(source, max_length=expected.shape[1]), expected)
    assert export_marian(model).generation_config.max_length == 100


def test_position_table_other_than_marians_is_rejected():
    marian = random_marian(0)
    with torch.no_grad():
        marian.model.encoder.embed_positions.weight.normal_()
    with pytest.raises(InputError, match="position table that does not hold Marian's"):
        import_model(marian)


@pytest.mark.slow
def test_search_settings_that_marian_lacks_are_left_out_and_named(saved_model, tmp_path, capsys):
    config = json.loads((saved_model / "generation_config.json").read_text())
    config |= {"length_penalty": 0.6, "length_penalty_type": "gnmt", "max_length_offset": 9, "num_beams": 4}
    (saved_model / "generation_config.json").write_text(json.dumps(config))
    assert main(["export", str(saved_model), str(tmp_path / "marian")]) == 0
    assert "lacks length_penalty_type=gnmt and max_length_offset=9" in capsys.readouterr().out
    written = json.loads((tmp_path / "marian" / "generation_config.json").read_text())
    assert not {"length_penalty_type", "max_length_offset"} & written.keys()


def test_languages_of_a_model_are_known_after_export_and_import():
    exported = export_marian(tiny_model(source_language="de", target_language="en"))
    assert own_languages(exported.config) == ("de", "en")
    config = import_model(exported).config
    assert (config.source_language, config.target_language) == ("de", "en")
