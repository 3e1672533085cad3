"""FSMT models of transformers: fairseq's WMT19 models, post-norm, with fairseq's positions."""

from pathlib import Path

from transformers import FSMTForConditionalGeneration

from .conversion import Conversion, is_same, make_config
from .pretrained import common_fields, generation_settings, load_model, load_tokenizer


def read(source: str | Path | FSMTForConditionalGeneration) -> Conversion:
    """An FSMT model, its folder or its Hub id."""
    is_model = isinstance(source, FSMTForConditionalGeneration)
    name = str(source) if not is_model else source.name_or_path or "the FSMT model"
    model = source if is_model else load_model(FSMTForConditionalGeneration, str(source))
    config = model.config
    weights = {key: tensor for key, tensor in model.state_dict().items() if ".embed_positions." not in key}
    weights["lm_head.weight"] = weights.pop("model.decoder.output_projection.weight")
    source_embeddings = weights["model.encoder.embed_tokens.weight"]
    target_embeddings = weights["model.decoder.embed_tokens.weight"]
    # The config does not say what is one matrix; only the values do.
    share = is_same(source_embeddings, target_embeddings)
    if share:
        weights["model.shared.weight"] = source_embeddings
    vocabularies = {"source": len(source_embeddings), "target": len(target_embeddings)}
    return Conversion(
        source=name,
        config=make_config(
            name,
            vocab_size=vocabularies["source"],
            decoder_vocab_size=vocabularies["target"],
            share_encoder_decoder_embeddings=share,
            label_smoothing=0.0,
            tie_word_embeddings=is_same(target_embeddings, weights["lm_head.weight"]),
            sinusoid_layout="halves",
            sinusoid_exponent="tensor2tensor",
            sinusoid_offset=config.pad_token_id + 1,
            positions_skip_padding=True,
            **common_fields(config),
        ),
        weights=weights,
        generation_config=generation_settings(model),
        make_tokenizer=lambda: None if is_model else load_tokenizer(str(source), vocabularies, config),
    )
