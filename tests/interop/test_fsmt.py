import pytest
import torch

from hf_vaswani.interop import import_model

from .foreign import assert_same_model, random_batch, random_fsmt


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("seed", range(6))
def test_imported_model_gives_fsmts_logits_and_translations(seed, side):
    fsmt = random_fsmt(seed)
    assert_same_model(fsmt, import_model(fsmt), random_batch(1, 2, 35, side))


def test_matrices_that_are_equal_become_one():
    fsmt = random_fsmt(0, tgt_vocab_size=35)
    decoder = fsmt.model.decoder
    with torch.no_grad():
        decoder.output_projection.weight.copy_(decoder.embed_tokens.weight)
    model = import_model(fsmt)
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight
    assert not model.config.share_encoder_decoder_embeddings
    with torch.no_grad():
        fsmt.model.encoder.embed_tokens.weight.copy_(decoder.embed_tokens.weight)
    model = import_model(fsmt)
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    assert_same_model(fsmt, model, random_batch(1, 2, 35))
